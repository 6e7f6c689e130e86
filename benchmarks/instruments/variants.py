"""Variants side by side: rows evaluated for each, against one request after another that share nothing."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from srbwriter.engine import Engine, EngineOptions, Stop
from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.session.variants import Variants
from srbwriter.story import Story

COUNTS = (2, 4, 8)
STORY = "Once upon a time, there was a little fox who lived in the wood.\n" * 118 + "One day"
"""Before the branches: some 2000 tokens, in lines of 17."""
NOTES = (
    "sad",
    "funny",
    "full of rain",
    "set in winter",
    "told slowly",
    "told by the fox",
    "strange",
    "short",
)
_LENGTH = Stop(max_tokens=32, ignore_eog=True)
_OPTIONS = EngineOptions(n_ctx=24576, gpu_layers=0, seed=1, max_branches=max(COUNTS))


def run(model: Path) -> list[str]:
    print("| variants | tokens of a prompt | rows a variant | seconds | rows a variant, serially | seconds |")
    print("|--:|--:|--:|--:|--:|--:|")
    figure: list[str] = []
    for count in COUNTS:
        tokens, rows, seconds = _side_by_side(model, count)
        serial_rows, serial_seconds = _serially(model, count)
        print(
            f"| {count} | {tokens} | {rows:.0f} | {seconds:.2f} | {serial_rows:.0f} | {serial_seconds:.2f} |",
            flush=True,
        )
        figure.append(f"{count}: {rows:.0f} rows each (serially {serial_rows:.0f})")
    return ["", "variants with notes after a story that has been read: " + "; ".join(figure)]


def _opened(model: Path, folder: Path, count: int) -> Session:
    story = Story.create(folder / "story.srbw")
    story.append(STORY)
    session = Session(story, EngineLoader(model, _OPTIONS), n=1, stop=_LENGTH, options=_OPTIONS)
    session.loader.wait()
    current = session.generate()
    while current.generation is None:  # the session hears of its model on a thread of its own
        session.keep()
    current.generation.wait()  # the story has been read
    session.n = count
    lines = (f"{number}: note = This part is {note}." for number, note in enumerate(NOTES[:count], 1))
    Variants.of(session).put_sheet("\n".join(lines))
    return session


def _side_by_side(model: Path, count: int) -> tuple[int, float, float]:
    """Tokens of a prompt, prompt rows for each variant, and the seconds of the round."""
    with tempfile.TemporaryDirectory() as folder:
        session = _opened(model, Path(folder), count)
        engine = session.engine
        assert engine is not None
        before, begun = engine.stats().prompt_rows, time.perf_counter()
        current = Variants.of(session).begin()
        assert current.generation is not None
        current.generation.wait()
        seconds = time.perf_counter() - begun
        rows = engine.stats().prompt_rows - before
        tokens = len(current.branches[0].generation.prompt_ids)
        session.close()
    return tokens, rows / count, seconds


def _serially(model: Path, count: int) -> tuple[float, float]:
    """The same requests one after another, each of which evaluates its whole prompt."""
    with tempfile.TemporaryDirectory() as folder:
        session = _opened(model, Path(folder), count)
        current = Variants.of(session).begin()
        assert current.generation is not None
        current.generation.wait()
        requests = [branch.generation.request for branch in current.branches]
        session.close()
    with Engine.load(model, _OPTIONS) as engine:
        begun = time.perf_counter()
        for request in requests:
            engine.submit(replace(request, cache_prompt=False)).wait()
        return engine.stats().prompt_rows / count, time.perf_counter() - begun
