"""The desktop's clipboard, beside the terminal's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_TOOLS = (("WAYLAND_DISPLAY", "wl-copy"), ("DISPLAY", "xclip -selection clipboard"))
"""(environment variable of the desktop, tool with its arguments)."""


def native_tool() -> list[str] | None:
    """Return the command that copies standard input to the desktop's clipboard, if there is one."""
    if sys.platform == "darwin":
        return ["pbcopy"]
    for variable, tool in _TOOLS:
        if os.environ.get(variable) and (found := shutil.which(tool.split()[0])):
            return [found, *tool.split()[1:]]
    return None


def copy_to_desktop(text: str) -> None:
    """Copy ``text`` with the desktop's tool, if there is one."""
    if (tool := native_tool()) is not None:
        # A session of its own: the tool keeps running to serve the clipboard, and ctrl+c must not end it.
        subprocess.Popen(
            tool, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, text=True,
        ).communicate(text, timeout=2)  # fmt: skip
