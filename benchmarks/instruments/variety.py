"""How much branches differ by each way of drawing them, and whether they stay as likely as plain samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import BranchView, EngineOptions, Request, Sampling, Stop, Together

N = 8
TOKENS = 24
PROMPTS = 200
SETTINGS = {
    "as srbwriter begins (temperature 0.8, top k 40, top p 0.95, min p 0.05)": Sampling(),
    "temperature 1, no filters": Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
}
WAYS: tuple[tuple[Together, float], ...] = (
    ("independent", 0.0), ("independent", 0.0), ("distinct", 0.0), ("stratified", 0.0),
    ("independent", 2.0), ("stratified", 2.0), ("distinct", 2.0),
)  # fmt: skip
"""Plain sampling twice: how far it is from itself is the noise."""
_SAMPLES = Path(__file__).parent.parent.parent / "sample_prompts"


@dataclass
class Counted:
    """What one way came to; one number a prompt."""

    openings: list[float] = field(default_factory=list[float])  # first words, of N
    parted: list[float] = field(default_factory=list[float])  # first three words
    alike: list[float] = field(default_factory=list[float])
    twins: list[float] = field(default_factory=list[float])
    plain: list[float] = field(default_factory=list[float])  # nats a token
    at_temperature: list[float] = field(default_factory=list[float])
    rest: list[float] = field(default_factory=list[float])  # nats a token, without the first of each branch


def openings() -> list[str]:
    """Beginnings of the sample prompts, cut at as many places of each: after sentences and amid them."""
    texts = [file.read_text("utf-8") for file in sorted(_SAMPLES.glob("*.txt"))]
    each = -(-PROMPTS // len(texts))
    found: list[str] = []
    for text in texts:
        words = text.split(" ")
        found += [" ".join(words[: len(words) * (k + 1) // each]) for k in range(each)]
    return [text.rstrip() for text in found[:PROMPTS]]


class Logits:
    """Hears of each row of logits what it takes to know a token's probability at a temperature."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self.found: dict[tuple[int, int], tuple[float, float]] = {}

    def __call__(self, logits: Any, view: BranchView) -> None:
        row = np.asarray(logits, np.float64)
        self.found[view.index, len(view.ids)] = _total(row), _total(row / self._temperature)


def _total(row: Any) -> float:
    peak = float(row.max())
    return peak + math.log(float(np.exp(row - peak).sum()))


def shingles(text: str) -> set[tuple[str, ...]]:
    """Pairs of neighbouring words."""
    words = text.lower().split()
    return set(zip(words, words[1:], strict=False))


def similarity(texts: list[str]) -> Iterator[float]:
    """Of each pair of texts the share of pairs of words that both have."""
    for one, other in combinations(map(shingles, texts), 2):
        yield len(one & other) / max(1, len(one | other))


def measure(engine: Engine, prompts: list[str], sampling: Sampling, seed: int, **way: Any) -> Counted:
    counted = Counted()
    for place, prompt in enumerate(prompts):
        logits = Logits(sampling.temperature)
        own = tuple(replace(sampling, seed=100_000 * seed + N * place + k) for k in range(N))
        stop = Stop(max_tokens=TOKENS, ignore_eog=True)
        request = Request(
            prompt,
            n=N,
            sampling=own,
            stop=stop,
            logprobs=0,
            logits_callback=logits,
            overflow="truncate",
            **way,
        )
        count(counted, engine.submit(request).wait(), logits, sampling.temperature)
    return counted


def count(counted: Counted, generation: Generation, logits: Logits, temperature: float) -> None:
    texts = [branch.text for branch in generation.branches]
    plain, warm, rest = list[float](), list[float](), list[float]()
    for branch in generation.branches:
        for place, entry in enumerate(branch.logprobs):
            total, at_temperature = logits.found[branch.index, place]
            plain.append(-entry.logprob)
            rest += [-entry.logprob] if place else []
            warm.append(at_temperature - (entry.logprob + total) / temperature)
    alike = list(similarity(texts))
    counted.openings.append(len({branch.ids[0] for branch in generation.branches}))
    counted.parted.append(len({tuple(text.split()[:3]) for text in texts}))
    counted.alike.append(fmean(alike))
    counted.twins.append(sum(one > 0.5 for one in alike))
    counted.plain.append(fmean(plain))
    counted.at_temperature.append(fmean(warm))
    counted.rest.append(fmean(rest))


def run(model: Path) -> list[str]:
    prompts = openings()
    lines = [
        f"{len(prompts)} prompts, n = {N}, {TOKENS} tokens a branch. Perplexities with how much they differ "
        "from plain sampling, prompt by prompt, and the standard error of that.", "",
    ]  # fmt: skip
    figure = ""
    with Engine.load(model, EngineOptions(n_ctx=2048)) as engine:
        for title, sampling in SETTINGS.items():
            lines += [
                f"### {title}", "",
                "| siblings | repulsion | first tokens of 8 | first three words of 8 | alike % | "
                "twins a round | perplexity | at the temperature | after the first token |",
                "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
            ]  # fmt: skip
            results: list[Counted] = []
            for seed, (siblings, repulsion) in enumerate(WAYS):
                if results and figure and (repulsion or siblings == "independent"):
                    continue  # the first settings tell of these
                counted = measure(engine, prompts, sampling, seed, siblings=siblings, repulsion=repulsion)
                results.append(counted)
                lines.append(row(siblings + (" again" if seed == 1 else ""), repulsion, counted, results[0]))
            lines.append("")
            if not figure:
                figure = summary(results)
    return [*lines, figure]


def row(name: str, repulsion: float, counted: Counted, plain: Counted) -> str:
    likely = perplexity(counted.plain, plain.plain)
    rest = perplexity(counted.rest, plain.rest)
    warm = perplexity(counted.at_temperature, plain.at_temperature)
    return (
        f"| {name} | {repulsion:g} | {fmean(counted.openings):.2f} | {fmean(counted.parted):.2f} | "
        f"{100 * fmean(counted.alike):.1f} | {fmean(counted.twins):.2f} | "
        f"{likely} | {warm} | {rest} |"
    )


def perplexity(nats: list[float], plain: list[float]) -> str:
    """With how many percent it differs from the plain one, and the standard error of that."""
    differences = [one - other for one, other in zip(nats, plain, strict=True)]
    if nats is plain:
        return f"{math.exp(fmean(nats)):.2f}"
    error = stdev(differences) / math.sqrt(len(differences))
    return f"{math.exp(fmean(nats)):.2f} ({100 * fmean(differences):+.1f} ± {100 * error:.1f} %)"


def summary(results: list[Counted]) -> str:
    """Plain, distinct and stratified in one line."""
    plain, _, *drawn = results[:4]
    firsts, alike = ([fmean(one) for one in column] for column in zip(
        *((counted.openings, counted.alike) for counted in (plain, *drawn)), strict=True
    ))  # fmt: skip
    likely = ", ".join(perplexity(counted.plain, plain.plain) for counted in (plain, *drawn))
    rest = ", ".join(perplexity(counted.rest, plain.rest) for counted in (plain, *drawn))
    return (
        "independent, distinct, stratified: "
        f"first tokens of 8: {', '.join(f'{one:.2f}' for one in firsts)}; "
        f"alike: {', '.join(f'{100 * one:.1f} %' for one in alike)}; perplexity: {likely}; "
        f"after the first token: {rest}"
    )
