"""Replay: how many branches their seeds give again, alone and in an engine of their own."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from srbwriter.engine import Engine, EngineOptions, Stop
from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.session.replay import Replayed, Replayer, written_nodes
from srbwriter.session.sampling import Variety
from srbwriter.story import ROOT, Story
from srbwriter.story.model import counted

from .bans import OPENINGS

TOKENS = 64
ROUNDS = {1: 16, 8: 2}
"""Branches at once, and rounds of them, so that as many branches are written."""
_OPTIONS = EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)


def run(model: Path) -> list[str]:
    lines = [
        f"{TOKENS} tokens a branch, drawn together (distinct), replayed alone in another engine with as many "
        "threads",
        "",
        "| threads | branches at once | replayed | the same | median token of the first difference |",
        "|--:|--:|--:|--:|--:|",
    ]
    figures: list[str] = []
    for threads in (1, 2):
        for n in ROUNDS:
            found = _replay(model, replace(_OPTIONS, threads=threads), n)
            same = sum(one.verdict == "same" for one in found) / len(found)
            places = sorted(one.first for one in found if one.verdict == "differs")
            place = str(places[len(places) // 2]) if places else ""
            lines.append(f"| {threads} | {n} | {len(found)} | {same:.2f} | {place} |")
            print(lines[-1], flush=True)
            figures.append(f"{same:.2f} ({counted(threads, 'thread')}, n = {n})")
    return [*lines, "", f"replay, branches that come out the same: {', '.join(figures)}"]


def _replay(model: Path, options: EngineOptions, n: int) -> list[Replayed]:
    """Write rounds of ``n`` branches in one engine, and replay all of them in another."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story.create(Path(folder) / "story.srbw")
        stop = Stop(max_tokens=TOKENS, ignore_eog=True)
        loader = EngineLoader(model, options)
        with closing(
            Session(story, loader, n=n, options=options, stop=stop, variety=Variety("distinct"))
        ) as session:
            loader.wait()
            for number in range(ROUNDS[n]):
                story.add(ROOT, [OPENINGS[number % len(OPENINGS)]], stand=True)
                current = session.generate()
                while current.generation is None:  # the session hears of its model on a thread of its own
                    session.keep()
                current.generation.wait()
                session.keep()
        with (
            Story.open(Path(folder) / "story.srbw", readonly=True) as story,
            Engine.load(model, options) as engine,
        ):
            replayer = Replayer(story, engine)
            return [replayer.replay(node) for node in written_nodes(story)]
