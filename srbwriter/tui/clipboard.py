"""Copying: through the terminal (OSC 52), which also works over a network, and the desktop's own tool.

Knows the app only as something that can write OSC 52.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from textual.app import App

_TOOLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", "wl-copy", ()),
    ("DISPLAY", "xclip", ("-selection", "clipboard")),
    ("DISPLAY", "xsel", ("--clipboard", "--input")),
)
"""(variable that says the desktop is there, tool, its arguments)."""


def native_tool() -> list[str] | None:
    """The command that takes text for the desktop's clipboard on its standard input, if there is one."""
    if sys.platform == "darwin":
        return ["pbcopy"]
    for variable, tool, arguments in _TOOLS:
        if os.environ.get(variable) and (found := shutil.which(tool)):
            return [found, *arguments]
    return None


def copy(app: App[None], text: str) -> None:
    """Put ``text`` on the clipboard in every way there is."""
    app.copy_to_clipboard(text)
    tool = native_tool()
    if tool is not None:
        # Its own session, so that the tool, which stays to serve the clipboard, outlives no keypress of ours.
        subprocess.Popen(
            tool,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        ).communicate(text, timeout=2)
