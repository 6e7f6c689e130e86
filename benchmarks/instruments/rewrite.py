"""Rewrite here: how well the text after a passage follows its variants, and rows evaluated for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from srbwriter.engine import Engine, EngineOptions, Priority, Request, Sampling, Stop
from srbwriter.engine.generation import Generation
from srbwriter.prose import sentence_ends
from srbwriter.session.rewriting import (
    PRESENT,
    fills_gap,
    fit_of,
    fit_requests,
    gap_prompt,
    gap_requests,
    variants_request,
)

VARIANTS, SEEDS = 8, 2
STORIES = (
    "Once upon a time, there was a little fox who lived in the wood. One morning he saw a red bird in a "
    "tree. The bird had hurt her wing and could not fly. The fox ran home and came back with a soft "
    "cloth. He put it around the wing, and the bird thanked him with a song.",
    "Lily went to the park with her mother. She wanted to fly her new kite, but there was no wind. They "
    "sat down on the grass and ate bread and cheese. Then the leaves began to move. Lily took the kite "
    "and ran as fast as she could, and it went up into the sky.",
    "Tom and Ben found an old boat by the river. It had a big hole in its side. Ben said that his father "
    "had wood and nails. They worked every day after school until the hole was closed. On Sunday they "
    "rowed to the other side, and not a drop of water came in.",
    "There was once a king who could not sleep. He called for doctors from every land, but none of them "
    "could help him. At last a poor girl came to the castle. She sat by his bed and told him about the "
    "sheep on the hill. Before she had counted ten of them, the king was asleep.",
)
_OPTIONS = EngineOptions(n_ctx=2048, gpu_layers=0, seed=1, threads=1, max_branches=2 * VARIANTS)


@dataclass
class Fits:
    """Mean log-probabilities of the texts that follow: of all, and of the best of each round."""

    all: list[float] = field(default_factory=list[float])
    best: list[float] = field(default_factory=list[float])

    def add(self, fits: Sequence[float]) -> None:
        self.all += fits
        self.best.append(max(fits))

    def row(self, name: str) -> str:
        return f"| {name} | {fmean(self.all):.3f} | {fmean(self.best):.3f} |"


def run(model: Path) -> list[str]:
    filled, continued, plain, others, present = (Fits() for _ in range(5))
    gaps_filled = 0
    rows, places = list[tuple[float, float]](), gaps()
    with Engine.load(model, _OPTIONS) as engine:
        for number, (before, passage, after) in enumerate(places):
            length = Stop(max_tokens=len(engine.tokenize(passage)), ignore_eog=True)
            start = tuple(engine.tokenize(before, add_bos=True))
            gap = gap_prompt(engine, before, after) or engine.tokenize(before, add_bos=True)
            checks = gap_requests(engine, start, gap, passage, Priority.NORMAL)
            gaps_filled += fills_gap([engine.submit(check).wait() for check in checks])
            elsewhere = places[number - 4][2]
            for seed in range(SEEDS):
                sampling = tuple(Sampling(seed=100 * seed + k) for k in range(VARIANTS))
                counted = _rows(engine)
                asked = variants_request(engine, gap, passage, VARIANTS, sampling)
                written = engine.submit(asked).wait()
                writing = _rows(engine) - counted
                fits = _fits(engine, written, start, passage, after)
                rows.append((writing / VARIANTS, (_rows(engine) - counted - writing) / (VARIANTS + 1)))
                present.add([fits.pop(PRESENT)])
                filled.add(list(fits.values()))
                for found, request in (
                    (continued, variants_request(engine, before, passage, VARIANTS, sampling)),
                    (plain, Request(before, n=VARIANTS, sampling=sampling, stop=length)),
                ):
                    fits = _fits(engine, engine.submit(request).wait(), start, passage, after)
                    found.add([fit for index, fit in fits.items() if index != PRESENT])
                fits = _fits(engine, written, start, passage, elsewhere)
                others.add([fit for index, fit in fits.items() if index != PRESENT])
    writing, ranking = (fmean(column) for column in zip(*rows, strict=True))
    return [
        f"{len(places)} sentences inside {len(STORIES)} stories, {VARIANTS} variants of each, {SEEDS} times; "
        "the mean log-probability of a token of the text after it (64 at most)",
        "", "| text in its place | all | the best of 8 |", "|---|--:|--:|",
        filled.row("variants that fill the gap"),
        continued.row("variants that continue the text before, to the end of a sentence"),
        plain.row("plain continuations, as long as the passage"),
        others.row("variants before the text after another passage"),
        present.row("the passage itself"),
        "",
        f"The model finds {gaps_filled} of the {len(places)} sentences likelier between both texts than "
        "after the first alone: the program fills those gaps, and continues the text before the others.",
        "",
        f"rewrite: fit {fmean(filled.all):.2f} filled (best of 8 {fmean(filled.best):.2f}), "
        f"{fmean(continued.all):.2f} continued ({fmean(continued.best):.2f}); plain continuations "
        f"{fmean(plain.all):.2f}, of another passage {fmean(others.all):.2f}, the passage itself "
        f"{fmean(present.all):.2f}; rows a variant {writing:.0f}, to rank it {ranking:.0f}",
    ]  # fmt: skip


def gaps() -> list[tuple[str, str, str]]:
    """Return the sentences inside the stories, each with the text before and after it."""
    found: list[tuple[str, str, str]] = []
    for story in STORIES:
        ends = sentence_ends(story)
        found += [(story[:a], story[a:b], story[b:]) for a, b in zip(ends[:-2], ends[1:-1], strict=True)]
    return found


def _fits(
    engine: Engine, written: Generation, before: Sequence[int], passage: str, after: str
) -> dict[int, float]:
    asked = fit_requests(engine, written, before, passage, after)
    scored = {index: engine.submit(request) for index, request in asked.items()}
    fits = {index: fit_of(one.wait()) for index, one in scored.items()}
    return {index: fit for index, fit in fits.items() if fit is not None}


def _rows(engine: Engine) -> int:
    stats = engine.stats()
    return stats.prompt_rows + stats.branch_rows
