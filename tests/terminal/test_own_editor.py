"""The writer's own editor ends badly, or leaves something odd: what was written in it is kept.

Kept means: taken into the story, or left in a file that the screen names.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal.support import OPENING, make_story, shows_question, text_of
from tests.terminal.terminal import CTRL_Q, CTRL_Z, ESC, F4, PASTE_MODE, Terminal

# Does with the file what the file "mood" says, and notes which file it was.
_EDITOR = """
import os, pathlib, signal, sys
here, file = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[-1])
mood, words = (here / "mood").read_text().split("\\n")
text = file.read_text("utf-8") + words
if mood == "deletes it":
    file.unlink()
elif mood == "empties it":
    file.write_bytes(b"")
elif mood == "writes Latin-1":
    file.write_bytes(text.encode("latin-1"))
else:
    file.write_text(text, "utf-8")
with (here / "edited").open("a") as edited:
    edited.write(f"{file}\\n")
if mood == "is killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(mood == "ends with 1")
"""


class Editor:
    """An editor that does as it is told."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self._folder, self._terminal = folder, terminal
        folder.mkdir()
        self._script = folder / "editor.py"
        self._script.write_text(_EDITOR, "utf-8")

    @property
    def environment(self) -> dict[str, str]:
        return {"EDITOR": shlex.join([sys.executable, "-IS", str(self._script)])}

    def run(self, mood: str, words: str = "") -> None:
        """Open the story in it; it adds ``words``, unless its mood is another."""
        (self._folder / "mood").write_text(f"{mood}\n{words}", "utf-8")
        (self._folder / "edited").unlink(missing_ok=True)
        self._terminal.press(F4)

    def edited(self) -> Path | None:
        """The file it was given; None while it has not ended."""
        note = self._folder / "edited"
        return Path(note.read_text().strip()) if note.exists() else None


def named(screen: str, file: Path) -> bool:
    """Whether a file's path, perhaps broken over lines, stands on the screen."""
    return file.name in re.sub(r"[\s▌│]+", "", screen)


def outlives(terminal: Terminal, editor: Editor, words: bytes) -> Callable[[str], bool]:
    """Whether a file that holds ``words`` is named on the screen."""

    def check(screen: str) -> bool:
        below = [terminal.folder, *([file.parent] if (file := editor.edited()) else [])]
        files = [f for folder in below if folder.exists() for f in folder.rglob("*") if f.is_file()]
        return any(named(screen, f) and words in f.read_bytes() for f in files if f.suffix != ".srbw")

    return check


@pytest.mark.full
def test_what_was_written_in_it_is_kept(terminal: Terminal, tmp_path: Path) -> None:
    file = make_story(terminal.folder)
    editor = Editor(tmp_path / "editor", terminal)
    terminal.start(file, env=editor.environment)
    terminal.wait_for(OPENING.strip())
    wrong: list[str] = []

    def kept(mood: str, words: str, also: bytes = b"") -> None:
        editor.run(mood, words)
        saved = outlives(terminal, editor, also or words.encode())
        done = lambda screen: editor.edited() and (words in text_of(file) or saved(screen))  # noqa: E731
        try:
            terminal.wait(done, f"keeping {words!r} when the editor {mood}")
        except AssertionError as error:
            wrong.append(str(error))
        answered()

    def answered() -> None:
        """Go back to the story, whatever was asked."""
        if shows_question(terminal.screen):
            terminal.press(ESC)
        terminal.wait(lambda screen: not shows_question(screen), "going back to the story")

    kept("ends well", "Alpha.")
    kept("ends with 1", "Bravo.")
    kept("is killed", "Charlie.")
    kept("writes Latin-1", "Café.", "Café.".encode("latin-1"))

    before = text_of(file)
    for mood in ("deletes it", "empties it"):
        modes = len(terminal.log)
        editor.run(mood)
        terminal.wait(lambda _, at=modes: PASTE_MODE in terminal.log[at:], "the editor's end")
        answered()
        terminal.type("x")  # whether or not it reaches a story that is empty now
        terminal.wait(lambda _: text_of(file).endswith("x"), "going on in the story")
        for _ in range(3):  # what was typed since may be a change of its own
            if before not in (now := text_of(file)):
                terminal.press(CTRL_Z)
                terminal.wait(lambda _, now=now: text_of(file) != now, "undo")
        if before not in text_of(file):
            wrong.append(f"what an editor that {mood} did cannot be undone: {text_of(file)!r}")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert not wrong, "\n".join(wrong)
