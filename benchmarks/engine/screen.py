"""How much of the shown panes stays in the cache, and how many rows a pick of each evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from srbwriter.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineStats

from .asking import ask, rest
from .setting import Setting, story_ids

GRIDS = ((16, 256), (12, 400), (32, 128), (32, 512))
"""Panes, and tokens of each."""
ROUNDS = 5  # rounds between the first and the last, for going back
NEXT = 4  # branches of a pick


@dataclass(frozen=True, slots=True)
class Screen:
    """``rows`` were evaluated by the dearest pick of one of ``panes``, for each of its new branches."""

    name: str
    whole: int
    panes: int
    rows: float
    cells: int
    used: int
    saved: int  # bytes in memory


def grids(setting: Setting, sizes: Iterable[tuple[int, int]] = GRIDS) -> Iterator[Screen]:
    """One grid of panes each, in an engine of its own with its default sizes, and a pick of every pane."""
    for n, tokens in sizes:
        with Engine.load(setting.model, setting.options()) as engine:
            written = [ask(engine, setting, story_ids(engine, setting.prompt), n, tokens, 1).wait()]
            yield _screen(f"{n} × {tokens}", engine, setting, written, written)


def going_back(setting: Setting, n: int, tokens: int, rounds: int = ROUNDS) -> Screen:
    """Rounds that each pick a branch of the one before; then every branch of the first two is picked."""
    with Engine.load(setting.model, setting.options()) as engine:
        prompt = story_ids(engine, setting.prompt)
        written: list[Generation] = []
        for k in range(rounds + 1):
            written.append(ask(engine, setting, prompt, n, tokens, k).wait())
            rest(engine)
            prompt = _path(written[-1], written[-1].branches[k % n])
        name = f"{n} × {tokens}, {rounds} rounds on: the first two"
        return _screen(name, engine, setting, written, written[:2])


def _screen(
    name: str, engine: Engine, setting: Setting, all_: Sequence[Generation], picked: Sequence[Generation]
) -> Screen:
    rest(engine)
    used = engine.stats()
    paths = [[_path(generation, branch) for branch in generation.branches] for generation in all_]
    whole = sum(engine.resident(path) == len(path) for path in chain(*paths))
    rows = [_pick(engine, setting, path) for path in chain(*paths[: len(picked)])]
    return Screen(
        name,
        whole,
        sum(map(len, paths)),
        max(rows) / NEXT,
        used.total_cells,
        used.used_cells,
        used.host_bytes,
    )


def _pick(engine: Engine, setting: Setting, path: list[int]) -> int:
    before = _rows(engine.stats())
    ask(engine, setting, path, NEXT, 1, 1).wait()
    rows = _rows(engine.stats()) - before
    rest(engine)
    return rows


def _rows(stats: EngineStats) -> int:
    return stats.prompt_rows + stats.branch_rows


def _path(generation: Generation, branch: Branch) -> list[int]:
    return [*generation.prompt_ids, *branch.ids]
