"""The thoughts that some models write before their text: found, counted and folded away.

Pure functions on text. Knows no widget.
"""

from __future__ import annotations

from typing import NamedTuple

_MARKS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<|channel>thought", "<channel|>"))


class Thoughts(NamedTuple):
    """``end`` is where the text behind the thoughts begins; None while the model is still thinking."""

    words: int
    end: int | None


NONE = Thoughts(0, 0)


def find(text: str) -> Thoughts:
    """The thoughts at the beginning of a branch's text; none if it begins with something else."""
    begun = text.lstrip()
    for opening, closing in _MARKS:
        if begun.startswith(opening):
            start = text.index(opening) + len(opening)
            end = text.find(closing, start)
            if end < 0:
                return Thoughts(len(text[start:].split()), None)
            behind = end + len(closing)
            behind += len(text[behind:]) - len(text[behind:].lstrip())
            return Thoughts(len(text[start:end].split()), behind)
    return NONE
