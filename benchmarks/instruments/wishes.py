"""Wishes: rows that a round with a wish evaluates, against one without, in a long story."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from srbwriter.engine import Engine, EngineOptions, Stop
from srbwriter.engine.loader import EngineLoader
from srbwriter.session import Session
from srbwriter.session.wishes import Wishes
from srbwriter.story import Story

TOKENS, BRANCHES = 4000, 4
WISH, OTHER = "slower, and with more rain", "from the view of the fox"
_SENTENCE = "Once upon a time, there was a little fox who lived in the wood, and {}.{}"
_RULE = Stop(max_tokens=1, ignore_eog=True)  # so that nearly all rows are of the prompt
_OPTIONS = EngineOptions(n_ctx=8192, gpu_layers=0, seed=1, max_branches=2 * BRANCHES)


def run(model: Path) -> list[str]:
    """A story of paragraphs, and one of a single paragraph."""
    lines = [
        f"a story of {TOKENS} tokens, {BRANCHES} branches of {_RULE.max_tokens} token",
        "", "| story | first round | again | with a wish | one branch with a wish | after a pick, without |",
        "|---|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    figure = ""
    for name, ending in (("paragraphs", "\n\n"), ("one paragraph", " ")):
        rows = _rows_of_rounds(model, ending)
        lines.append(f"| {name} | " + " | ".join(str(count) for count in rows) + " |")
        figure = (
            figure or f"wishes: {rows[2]} rows for a round with a wish, {rows[1]} without; anew {rows[0]}"
        )
    return [*lines, "", figure]


def _rows_of_rounds(model: Path, ending: str) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        loader = EngineLoader(model, _OPTIONS)
        story = Story.create(Path(folder) / "story.srbw")
        session = Session(story, loader, n=BRANCHES, stop=_RULE, options=_OPTIONS)
        engine = loader.wait()
        assert isinstance(engine, Engine)
        session.set_text(_long_text(engine, ending))
        wishes = Wishes.of(session)
        rounds: list[Callable[[], object]] = [
            session.generate, session.generate, lambda: wishes.ask(WISH), lambda: wishes.ask(OTHER, 1),
            lambda: session.pick(0, go_on=True),
        ]  # fmt: skip
        rows = [_rows_of(session, engine, act) for act in rounds]
        session.close()
        return rows


def _rows_of(session: Session, engine: Engine, act: Callable[[], object]) -> int:
    before = engine.stats()
    act()
    assert session.round is not None
    while session.round.generation is None:  # the session hears of its model on a thread of its own
        session.keep()
    for generation in session.round.generations:
        generation.wait()
    now = engine.stats()
    return now.prompt_rows + now.branch_rows - before.prompt_rows - before.branch_rows


def _long_text(engine: Engine, ending: str) -> str:
    """Return sentences of about as many tokens as wanted, no two alike."""
    text, number = "", 0
    while len(engine.tokenize(text)) < TOKENS:
        text += "".join(_SENTENCE.format(f"had {n} apples", ending) for n in range(number, number + 20))
        number += 20
    return text
