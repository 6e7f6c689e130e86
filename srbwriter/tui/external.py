"""The writer's own editor, for a while in place of the workbench.

Knows files and processes; the app only as something that can step aside.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from textual.app import App


class NoEditor(ValueError):
    """There is no editor to run."""


def editor() -> list[str]:
    """The command of ``$VISUAL`` or ``$EDITOR``, or the first usual one. Raises NoEditor."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if named:
        return shlex.split(named)
    for name in ("nano", "vim", "vi"):
        if found := shutil.which(name):
            return [found]
    raise NoEditor("no editor is set; set VISUAL or EDITOR, for example EDITOR=nano")


def edit(app: App[None], text: str) -> str:
    """Let the writer edit ``text`` in his own editor; returns what he left.

    Raises:
        NoEditor: none is set or found.
        OSError: the editor cannot be run.
    """
    command = editor()
    with tempfile.TemporaryDirectory(prefix="srbwriter-") as folder:
        file = Path(folder) / "story.md"
        file.write_text(text, "utf-8")
        with app.suspend():
            # Descriptor 2 is the log; the editor talks to the terminal.
            done = subprocess.run([*command, str(file)], stderr=sys.__stderr__, check=False)
        if done.returncode != 0:
            raise OSError(f"{command[0]} ended with {done.returncode}; the story is as it was")
        return _without_added_newline(file.read_text("utf-8"), text)


def _without_added_newline(now: str, before: str) -> str:
    """Editors end a file with a newline; a story does not end with one unless the writer meant it."""
    return now[:-1] if now.endswith("\n") and not before.endswith("\n") else now
