"""Steering a branch: how soon it acts, how much less a text repeats itself, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean

from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop
from srbwriter.engine.generation import Branch
from srbwriter.session.steering import CONTRAST_STEP, with_note

from .bans import OPENINGS

BEFORE, AFTER, AT_ONCE = 150, 100, 8
STRENGTHS = (0.0, CONTRAST_STEP, 2 * CONTRAST_STEP, 4 * CONTRAST_STEP)
NOTE = "It is night, and the wolf is near."
_OPTIONS = EngineOptions(n_ctx=8192, gpu_layers=0, seed=1, threads=1, max_branches=AT_ONCE)
_ENDLESS = Stop(max_tokens=2000, ignore_eog=True)


def run(model: Path) -> list[str]:
    with Engine.load(model, _OPTIONS, thread=False) as engine:
        lines = _delays(engine)
        print("\n".join(lines), end="\n\n", flush=True)
        repeats, costs = list[float](), list[float]()
        print("| contrast | own 3-grams again, of 100 tokens | old words, of 100 | ms a step |")
        print("|--:|--:|--:|--:|", flush=True)
        for strength in STRENGTHS:
            found = [_continued(engine, opening, strength, seed) for seed, opening in enumerate(OPENINGS)]
            again, old, step = (mean(column) for column in zip(*found, strict=True))
            repeats.append(again)
            costs.append(step)
            print(f"| {strength:g} | {again:.1f} | {old:.0f} | {step * 1000:.2f} |", flush=True)
    share, cost = repeats[1] / repeats[0], 1e6 * (costs[1] - costs[0]) / AT_ONCE
    return [
        "",
        f"steering: at most {max(_STEPS)} steps until it acts; a contrast of {CONTRAST_STEP:g} leaves "
        f"{share:.0%} of the repeated 3-grams; {cost:.0f} µs a branch and step",
    ]


_STEPS: list[int] = []


def _delays(engine: Engine) -> list[str]:
    """Return a table of the steps between a wish and the first token that follows it."""
    kinds: dict[str, tuple[Callable[[Branch], None], bool]] = {
        "less like this": (lambda b: b.set_sampling(replace(b.sampling, contrast=CONTRAST_STEP)), False),
        "end of the sentence": (lambda b: b.extend(replace(b.stop_rule, boundary="sentence")), False),
        "words more": (lambda b: b.extend(replace(b.stop_rule, boundary="sentence", min_tokens=200)), False),
        "note": (
            lambda b: b.set_prompt(with_note(engine, b.generation.prompt_ids, NOTE)), True,
        ),
    }  # fmt: skip
    lines = ["| wish | steps without it | tokens evaluated again |", "|---|--:|--:|"]
    for name, (wish, _) in kinds.items():
        [branch] = _begun(engine, OPENINGS[0], 1, 0)
        before, rows = len(branch.ids), engine.stats()
        wish(branch)
        steps = 0
        engine.process()
        while len(branch.ids) == before:
            engine.process()
            steps += 1
        now = engine.stats()
        read = now.prompt_rows + now.branch_rows - rows.prompt_rows - rows.branch_rows - 1 - steps
        _STEPS.append(steps)
        lines.append(f"| {name} | {steps} | {max(read, 0)} |")
        branch.generation.cancel()
        engine.process()
    return lines


def _begun(engine: Engine, opening: str, n: int, seed: int) -> list[Branch]:
    """Return branches with ``BEFORE`` tokens each."""
    engine.reset()
    generation = engine.submit(Request(opening, n=n, sampling=Sampling(seed=seed), stop=_ENDLESS))
    while not all(len(branch.ids) >= BEFORE for branch in generation.branches):
        engine.process()
    return generation.branches


def _continued(engine: Engine, opening: str, strength: float, seed: int) -> tuple[float, float, float]:
    """Return how the next tokens repeat those before, and the seconds of the processor for a step."""
    branches = _begun(engine, opening, AT_ONCE, seed)
    begun = [len(branch.ids) for branch in branches]
    for branch in branches:
        branch.set_sampling(replace(branch.sampling, contrast=strength, seed=None))
    at = time.process_time()
    for _ in range(AFTER):
        engine.process()
    seconds = (time.process_time() - at) / AFTER
    again, old = list[float](), list[float]()
    for branch, place in zip(branches, begun, strict=True):
        ids = branch.ids[: place + AFTER]
        seen, repeated = set(zip(ids[:place], ids[1:place], ids[2:place], strict=False)), 0
        for k in range(place, len(ids)):
            triple = ids[k - 2], ids[k - 1], ids[k]
            repeated += triple in seen
            seen.add(triple)
        again.append(100 * repeated / AFTER)
        words = branch.text.lower().split()
        half = len(words) * place // len(ids)
        old.append(100 * mean(word in set(words[:half]) for word in words[half:]))
    branches[0].generation.cancel()
    engine.process()
    return mean(again), mean(old), seconds
