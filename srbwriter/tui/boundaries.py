"""Where words, sentences and paragraphs of a text end: the steps of the taking cursor.

Pure functions on text. Knows no widget and no branch.
"""

from __future__ import annotations

import re
from typing import Literal

Unit = Literal["word", "sentence", "paragraph"]

_ENDS: dict[Unit, re.Pattern[str]] = {
    "word": re.compile(r"\s*\S+"),
    # Closing quotes and brackets belong to the sentence they close; so does a run of dots.
    "sentence": re.compile(r"\s*(?:.+?[.!?…。！？]+[\"'”’»)\]]*(?=\s|$)|.+?(?=\n|$))", re.DOTALL),
    "paragraph": re.compile(r"\s*.+?(?=\n\s*\n|\n|$)", re.DOTALL),
}


def ends(text: str, unit: Unit) -> list[int]:
    """The offsets at which units of ``text`` end, ascending; the last is the end of the last unit."""
    return [match.end() for match in _ENDS[unit].finditer(text)]


def step(text: str, offset: int, unit: Unit, direction: int) -> int:
    """The unit end next to ``offset``, after it (``direction`` 1) or before it (-1); 0 is the start."""
    if direction > 0:
        return next((end for end in ends(text, unit) if end > offset), len(text.rstrip()))
    return next((end for end in reversed(ends(text, unit)) if end < offset), 0)
