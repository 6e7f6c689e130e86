"""Lines of the text that are headings of chapters or scene breaks."""

from __future__ import annotations

import re

SCENE_BREAK = "* * *"
"""The text of a scene break."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(\S[^\n]*)")
_BREAK = re.compile(r"[ \t]*(?:([*_~=•·⁂-])(?:[ \t]*\1){2,}|[#*⁂❦❧☙⁑])[ \t]*")


def heading_line(text: str, start: int = 0) -> tuple[int, str, int] | None:
    """Level and title of the Markdown heading that the line at ``start`` is, and where that line ends."""
    found = _HEADING.match(text, start)
    if found is None:
        return None
    title = found[2].rstrip(" \t")
    words = title.rstrip("#")  # a heading may be closed by such signs
    return len(found[1]), words.rstrip(" \t") if words.endswith((" ", "\t")) else title, found.end()


def is_scene_break(line: str) -> bool:
    """Return whether a line is stars, dashes or the like and nothing else."""
    return _BREAK.fullmatch(line) is not None
