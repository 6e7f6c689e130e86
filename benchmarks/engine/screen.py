"""How much of the shown panes stays in the cache, and how many rows a pick of each evaluates."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from srbwriter.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineStats

from .asking import ask, rest
from .report import heading, table
from .setting import Setting, part_setting, story_ids

GRIDS = ((16, 256), (12, 400), (32, 128), (32, 512))
"""Panes, and tokens of each."""
ROUNDS = 5  # rounds between the first and the last, for going back
NEXT = 4  # branches of a pick


def grids(setting: Setting, sizes: Iterable[tuple[int, int]] = GRIDS) -> Iterator[list[str]]:
    """One grid of panes each, in an engine of its own with its default sizes, and a pick of every pane."""
    for n, tokens in sizes:
        with Engine.load(setting.model, setting.options()) as engine:
            written = [ask(engine, setting, story_ids(engine, setting.prompt), n, tokens, 1).wait()]
            yield _screen(f"{n} × {tokens}", engine, setting, written, written)


def going_back(setting: Setting, n: int, tokens: int, rounds: int = ROUNDS) -> list[str]:
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
) -> list[str]:
    rest(engine)
    used = engine.stats()
    paths = [[_path(generation, branch) for branch in generation.branches] for generation in all_]
    whole = sum(engine.resident(path) == len(path) for path in chain(*paths))
    rows = [_pick(engine, setting, path) for path in chain(*paths[: len(picked)])]
    panes, dearest = sum(map(len, paths)), max(rows) / NEXT
    return [
        name, f"{whole} of {panes}", f"{dearest:.2f}", f"{used.used_cells} / {used.total_cells}",
        f"{used.host_bytes / 2**20:.0f}",
    ]  # fmt: skip


def _pick(engine: Engine, setting: Setting, path: list[int]) -> int:
    before = _rows(engine.stats())
    ask(engine, setting, path, NEXT, 1, 1).wait()
    rows = _rows(engine.stats()) - before
    rest(engine)
    return rows


def run(args: argparse.Namespace) -> None:
    setting = replace(part_setting(args, "bundled", cells=0), prompt=args.prompt or 512)
    own = [(n, args.tokens) for n in args.counts] if args.counts and args.tokens else []
    rows = [*grids(setting, own or GRIDS), going_back(setting, *(own[0] if own else (8, 200)))]
    head = [
        "panes × tokens", "whole (all)", "rows of the dearest pick, per new branch (≤ 1)", "cells in use",
        "MiB in memory",
    ]  # fmt: skip
    print(heading(setting))
    print(table(head, rows))


def _rows(stats: EngineStats) -> int:
    return stats.prompt_rows + stats.branch_rows


def _path(generation: Generation, branch: Branch) -> list[int]:
    return [*generation.prompt_ids, *branch.ids]
