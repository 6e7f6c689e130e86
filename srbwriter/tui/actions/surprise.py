"""Commands that show how unexpected words are: sentences of the story, and curves of branches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from srbwriter.session.surprise import LEAST_TOKENS, Surprise, flattest, most_unexpected
from srbwriter.tui.commands import INSTRUMENTS, command
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.session.surprise import Reading, ScoredSentence
    from srbwriter.tui.program import Writer

_MOST = 12  # sentences in each half of the list
_FIRST_WORDS = 60  # characters of a sentence in the list
_LOOKS, _PATIENCE = 0.1, 3.0  # seconds between two looks, and until the writer may have begun something else

_AUTHORS = {
    frozenset({"writer"}): "yours",
    frozenset({"model"}): "the model's",
    frozenset({"imported"}): "imported",
}


@command(INSTRUMENTS, "Surprise in the story")
def surprise(screen: Writer) -> None:
    """List the story's flattest and its most unexpected sentences, and go to one."""
    scores = Surprise.of(screen.session)
    if scores.progress:
        screen.notify("The story is being scored. esc stops it.")
    else:
        _show_when_done(screen, scores.read(), screen.app.focused, time.monotonic())


def _show_when_done(screen: Writer, reading: Reading, focused: object, begun: float) -> None:
    """List the sentences once all are scored, unless the writer has gone elsewhere meanwhile."""
    if reading.stopped:
        screen.notify("Scoring stopped. Scores that were found stay.")
    elif not reading.done:
        screen.editor.set_timer(_LOOKS, lambda: _show_when_done(screen, reading, focused, begun))
    elif reading.error is not None:
        screen.notify(f"The story could not be scored: {reading.error}", severity="error")
    elif not reading.passages:
        screen.notify(f"No sentence has {LEAST_TOKENS} tokens yet. Write some more, and try again.")
    elif _waits_for_it(screen, reading, focused, begun):
        _list_passages(screen, reading)
    else:
        screen.notify("The story is scored. “Surprise in the story” in the menu lists its sentences.")


def _waits_for_it(screen: Writer, reading: Reading, focused: object, begun: float) -> bool:
    soon = time.monotonic() - begun < _PATIENCE or screen.app.writer_rests
    same = screen.on_top and screen.app.focused is focused and screen.editor.whole == reading.text
    return soon and same


def _list_passages(screen: Writer, reading: Reading) -> None:
    groups = (
        ("Flattest", flattest(reading.passages, _MOST)),
        ("Most unexpected", most_unexpected(reading.passages, _MOST)),
    )
    choices = [choice for name, found in groups for choice in _choices(reading.text, name, found)]

    def chosen(start: int) -> None:
        screen.go_to_story()
        screen.editor.go(start)

    picker = Picker(
        "Bits of surprise, for each token of a sentence",
        choices,
        at=screen.editor.place,
        foot="enter goes there · esc goes back · type to narrow",
    )
    screen.ask(picker, chosen)


def _choices(text: str, group: str, found: Sequence[ScoredSentence]) -> list[Choice]:
    choices: list[Choice] = []
    for one in found:
        sentence = text[one.start : one.end]
        beginning = " ".join(sentence.split())[:_FIRST_WORDS]
        preview = f"{sentence}\n\nThe words are {_AUTHORS.get(one.authors, 'by you and the model')}."
        choices.append(Choice(one.start, f"{one.bits:5.1f}  {beginning}", preview=preview, group=group))
    return choices


@command(INSTRUMENTS, "Surprise curves")
def curves(screen: Writer) -> None:
    """Draw in each branch's head how unexpected its words are, from ▁ to █; again to stop."""
    on = not screen.arrangement.curves
    why = screen.session.capabilities.reason_for("logprobs") if on else ""
    if why:
        screen.notify(why, severity="warning")
        return
    screen.rearrange(curves=on)
    screen.notify(
        "Curves show surprise: ▁ is under 1 bit a token, █ is 7 and more." if on else "Curves are off."
    )
