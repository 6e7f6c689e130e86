"""Surprise: rows and seconds to score a story, nothing of it cached or all of it, and after changes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from srbwriter.engine import EngineOptions, Stop
from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.session.surprise import Reading, Surprise
from srbwriter.session.tokens import Tokens
from srbwriter.story import Story

TOKENS = 4000
_SAMPLES = Path(__file__).parent.parent.parent / "sample_prompts"
_TYPED = " Nobody had seen the ferry leave, and nobody saw it come back that night."
_STOP = Stop(max_tokens=8, ignore_eog=True)


def run(model: Path) -> list[str]:
    lines = [f"a story of {TOKENS} tokens, typed", "", "| | rows | seconds |", "|---|--:|--:|"]

    def measure(name: str, session: Session, act: Callable[[], object]) -> tuple[int, float]:
        before, begun = _rows(session), time.perf_counter()
        act()
        seconds = time.perf_counter() - begun
        rows = _rows(session) - before
        print(f"{name}: {rows} rows, {seconds:.2f} s", flush=True)
        lines.append(f"| {name} | {rows} | {seconds:.2f} |")
        return rows, seconds

    with tempfile.TemporaryDirectory() as folder:
        session = _open(Path(folder) / "cold.srbw", model, 8192)
        cold = measure("nothing cached", session, lambda: _read(session))
        measure("once more", session, lambda: _read(session))
        text = session.text()
        middle = text.index(". ", len(text) // 2)
        session.set_text(text[:middle] + " at last" + text[middle:])
        edited = measure("two words more in the middle", session, lambda: _read(session))
        session.close()

        session = _open(Path(folder) / "cached.srbw", model, 8192)
        session.generate(1).generation.wait()  # type: ignore[union-attr]
        cached = measure("all cached", session, lambda: _read(session))
        for name, gather in (("a round after a typed sentence", False), ("the same with curves", True)):
            Tokens.of(session).gather = gather
            session.set_text(session.text() + _TYPED)
            measure(name, session, lambda: session.generate(1).generation.wait())  # type: ignore[union-attr]
            _read(session)
        session.close()

        session = _open(Path(folder) / "long.srbw", model, 2048)
        measure("in a context of 2048", session, lambda: _read(session))
        session.close()
    figure = (
        f"{TOKENS} tokens: {cold[0]} rows, {cold[1]:.1f} s; cached {cached[0]} rows, {cached[1]:.1f} s; "
        f"after an edit {edited[0]} rows, {edited[1]:.1f} s"
    )
    return [*lines, "", f"surprise: {figure}"]


def _open(file: Path, model: Path, n_ctx: int) -> Session:
    """Return a session on a new story of :data:`TOKENS` tokens."""
    options = EngineOptions(n_ctx=n_ctx, gpu_layers=0, seed=1, threads=1)
    session = Session(Story.create(file), EngineLoader(model, options), options=options, stop=_STOP)
    engine = session.loader.wait()
    ids = engine.tokenize("\n\n".join(file.read_text("utf-8") for file in sorted(_SAMPLES.glob("*.txt"))))
    ids *= -(-TOKENS // len(ids))
    session.set_text(b"".join(engine.pieces(ids[:TOKENS])).decode("utf-8", "ignore"))
    while not session.context().total:  # the session is told of its model on a thread of its own
        time.sleep(0.01)
    return session


def _read(session: Session) -> Reading:
    reading = Surprise.of(session).read()
    Surprise.of(session).later(lambda: None).result()
    if reading.error is not None:
        raise reading.error
    return reading


def _rows(session: Session) -> int:
    session.engine.flush()  # type: ignore[union-attr]
    stats = session.engine.stats()  # type: ignore[union-attr]
    return stats.prompt_rows + stats.branch_rows
