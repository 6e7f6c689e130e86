"""External programs: the writer's own editor, and the clipboard of the desktop.

The file for the editor is in the state folder and is deleted only when its text has been taken into the
story, so no text is lost, whatever the editor does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from srbwriter import paths
from srbwriter.story import Edit
from srbwriter.story.diff import apply_edits
from srbwriter.tui.dialogs.ask import Confirm

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


_OTHER_ENCODING = "cp1252"  # the most common encoding of editors that do not write UTF-8


class NoEditor(ValueError):
    """No editor was found."""


def editor() -> list[str]:
    """Return the command in ``$VISUAL`` or ``$EDITOR``, or the first common editor. Raises NoEditor."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if named:
        return shlex.split(named)
    for name in ("nano", "vim", "vi"):
        if found := shutil.which(name):
            return [found]
    raise NoEditor("no editor is set; set VISUAL or EDITOR, for example EDITOR=nano")


def edit(screen: Writer) -> None:
    """Edit the story in the writer's own editor and take the result into the story.

    If the editor fails, the writer is asked, and the file stays.

    Raises:
        NoEditor: none is set or found.
        OSError: the editor cannot be run, or its file cannot be written.
        StoryError: the text cannot be saved; it stays in the file and in the unsaved state.
    """
    command = editor()
    screen.session.keep()
    before = screen.session.text()
    stem = f"{screen.session.story.file.stem}-{time.strftime('%Y-%m-%d-%H%M%S')}"
    file = paths.state_dir() / "editor" / f"{stem}.md"
    paths.write_atomic(file, before.encode())
    try:
        with screen.app.suspend():
            # Descriptor 2 goes to the log; the editor needs the terminal.
            code = subprocess.run([*command, str(file)], stderr=sys.__stderr__, check=False).returncode
    except OSError:
        file.unlink(missing_ok=True)
        raise
    _take_in(screen, command[0], code, file, before)


def rewrite(screen: Writer, text: str, edits: Sequence[Edit] = ()) -> None:
    """Replace the story's text by ``text``, as one edit by the writer. Raises StoryError if it is not saved.

    ``edits`` produce ``text`` from the current text, and the view stays where it is; without them, the two
    are compared.
    """
    session, editor = screen.session, screen.editor
    known = bool(edits) and apply_edits(editor.whole, edits) == text
    view = editor.view.after(edits) if known else None
    session.keep()
    session.story.end_typing()
    editor.show(text, view.end if view is not None else None)
    if view is not None:
        editor.show_view(view)
        session.typing.edit(*edits)
        session.keep()
    else:
        session.set_text(text)
    session.story.end_typing()
    screen.show_story(where_changed=True)


def _take_in(screen: Writer, name: str, code: int, file: Path, before: str) -> None:
    ended = f"{name} {_end(code)}"
    try:
        text, note = _words(file, before)
    except FileNotFoundError:
        screen.notify(f"{ended} and left no file; the story is as it was.", severity="error")
        return

    def take() -> None:
        rewrite(screen, text)
        file.unlink(missing_ok=True)
        if note:
            screen.notify(note)

    if text == before:
        file.unlink(missing_ok=True)
        if code:
            screen.notify(f"{ended}; the story is as it was.")
    elif code == 0 and text.strip():
        take()
    else:
        left = f"Its text is in {file}." if text.strip() else f"It left an empty file, {file}."
        answers = {"t": "puts it into the story", "escape": "leaves it there"}
        screen.ask(Confirm(f"{ended}. {left}", answers), lambda _: take())


def _end(code: int) -> str:
    """Return how a process with this exit code ended, in words."""
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _words(file: Path, before: str) -> tuple[str, str]:
    """Return the file's text, and a note for the writer about its encoding. Raises FileNotFoundError."""
    data, note = file.read_bytes(), ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode(_OTHER_ENCODING, "replace")
        note = f"The editor did not write UTF-8; its words were read as {_OTHER_ENCODING}."
    return _without_added_newline(text.replace("\r\n", "\n").replace("\r", "\n"), before), note


def _without_added_newline(now: str, before: str) -> str:
    """Remove the final newline that editors add, unless the story already ended with one."""
    return now[:-1] if now.endswith("\n") and not before.endswith("\n") else now


_TOOLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", "wl-copy", ()),
    ("DISPLAY", "xclip", ("-selection", "clipboard")),
    ("DISPLAY", "xsel", ("--clipboard", "--input")),
)
"""(environment variable of the desktop, tool, arguments)."""


def native_tool() -> list[str] | None:
    """Return the command that copies standard input to the desktop's clipboard, if there is one."""
    if sys.platform == "darwin":
        return ["pbcopy"]
    for variable, tool, arguments in _TOOLS:
        if os.environ.get(variable) and (found := shutil.which(tool)):
            return [found, *arguments]
    return None


def copy(app: App[None], text: str) -> None:
    """Copy ``text`` to the clipboard, through the terminal and through the desktop's tool."""
    app.copy_to_clipboard(text)
    tool = native_tool()
    if tool is not None:
        # A session of its own: the tool keeps running to serve the clipboard, and ctrl+c must not end it.
        subprocess.Popen(
            tool,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        ).communicate(text, timeout=2)
