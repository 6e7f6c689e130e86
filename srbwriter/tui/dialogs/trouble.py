"""Dialogs for failures: a model that does not load, a damaged story file, a crash."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter import logs
from srbwriter.story import Damage
from srbwriter.story.model import counted
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import Dialog

RECOVER, RESTORE = "recover", "restore"
_SHOWN = 40  # characters shown of each doubtful passage


class DamagedNote(Dialog[str]):
    """Shown for a damaged story. Dismissed with RECOVER to continue with what is left, with RESTORE to
    open the newest copy that is whole, or None to only read."""

    KEYS = "When a story is damaged"

    DEFAULT_CSS = """
    DamagedNote > .box { border: heavy $error; padding: 1 2; }
    DamagedNote VerticalScroll { height: auto; max-height: 100%; }
    DamagedNote Static { height: auto; }
    """

    def __init__(
        self, file: Path, damage: Damage, words: int, copies: int, doubtful: Sequence[str] = (),
        good: str = "",
    ) -> None:  # fmt: skip
        """``doubtful``: texts that may have changed; ``good``: the time of the newest copy that is whole."""
        super().__init__()
        self._file, self._damage, self._words, self._copies = file, damage, words, copies
        self._doubtful, self._good = doubtful, good

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Content.assemble(*self._parts()))

    def _parts(self) -> list[tuple[str, str]]:
        strong, sign = "bold", "bold $text-accent"
        named = shlex.quote(str(self._file))
        parts = [
            ("This story's file is damaged\n\n", "bold $text-error"),
            (f"{self._file}\n\n", ""),
            ("What is left: ", strong),
            (f"{left_words(self._words, self._damage)}\n", ""),
            ("What is lost: ", strong),
            (f"{lost_words(self._damage)}\n", ""),
            *self._doubtful_passages(strong),
            ("\n", ""),
            ("The story is open for reading only, and its file is not changed.\n\n", ""),
            ("Copies: ", strong),
            (f"{self._copies or 'none'} known\n", ""),
            (f"  srbwriter backup list {named}\n", ""),
        ]
        if self._copies:
            parts.append((f"  srbwriter backup restore {named} 1\n", ""))
        else:
            parts.append(("  srbwriter backup list   (copies of all stories)\n", ""))
        parts += [(f"  srbwriter check {named}   (all that was found)\n\n", "")]
        if self._good:
            parts += [("c", sign), (f" opens the copy of {self._good}, which is whole\n", "")]
        if self._words:
            parts += [("r", sign), (" continues in a copy beside it, with what is left\n", "")]
        return [*parts, ("esc", sign), (" or ", ""), ("⏎", sign), (" reads what is left", "")]

    def _doubtful_passages(self, strong: str) -> list[tuple[str, str]]:
        if not self._damage.doubtful:
            return []
        texts = [" ".join(text.split()) for text in self._doubtful]
        shown = ", ".join(f"“{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}”" for text in texts if text)
        passages = counted(len(self._damage.doubtful), "passage")
        words = f"{passages} that may not be as written{': ' if shown else ''}{shown}\n"
        return [("Please check: ", strong), (words, "")]

    @action("r", "copies what is left")
    def action_copy(self) -> None:
        """Continue in a copy beside the file, made from the readable parts."""
        if self._words:
            self.close(RECOVER)

    @action("c", "opens the newest whole copy")
    def action_restore(self) -> None:
        """Open the newest copy that is whole, as a new story."""
        if self._good:
            self.close(RESTORE)

    @action("enter,q", "reads what is left")
    def action_read(self) -> None:
        """Read the parts that are readable."""
        self.close()


def left_words(words: int, damage: Damage) -> str:
    """Describe the part of the story that is readable."""
    if not words:
        return "no word of it can be read"
    return f"{counted(words, 'word')} in {counted(damage.read, 'passage')} of the tree"


def lost_words(damage: Damage) -> str:
    """Describe the part of the story that is lost, as far as that is known."""
    parts: list[str] = []
    if damage.missing:
        parts.append(counted(len(damage.missing), "whole passage"))
    if damage.displaced:
        passages = counted(len(damage.displaced), "passage")
        parts.append(f"the position of {passages}, now at the beginning of the tree")
    return "; ".join(parts) or ("no whole passage" if damage.doubtful else "nothing that can be counted")


def crash_words(error: BaseException) -> str:
    """Write a crash report; return a message with the error and the report's path."""
    report = logs.write_crash_report(error)
    where = f"A report with the details is in {report}." if report else "No report could be written."
    return (
        f"srbwriter has a defect: {type(error).__name__}: {error}\n"
        f"Your story is safe: every word is saved as it is written.\n{where}"
    )
