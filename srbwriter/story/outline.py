"""Chapters and scenes: lines of the text that begin with ``#``, and scene breaks."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from srbwriter.story.model import Refused
from srbwriter.story.spans import Edit
from srbwriter.story.words import words_of

SCENE_BREAK = "* * *"
"""The text of a scene break."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(\S(?:[^\n]*\S)?)")
_BREAK = re.compile(r"[ \t]*(?:([*_~=•·⁂-])(?:[ \t]*\1){2,}|[#*⁂❦❧☙⁑])[ \t]*")
_MARKED = re.compile(r"^```.*?(?:^```|\Z)|^[ \t]*[#*_~=•·⁂❦❧☙⁑-][^\n]*", re.MULTILINE | re.DOTALL)
"""Fenced code, and lines that may begin a chapter or a scene."""


def heading_line(line: str) -> tuple[int, str] | None:
    """Return level and title of the Markdown heading with which ``line`` begins; None without one."""
    found = _HEADING.match(line)
    return found and (len(found[1]), re.sub(r"[ \t]+#+$", "", found[2]))  # such signs may close a heading


def is_scene_break(line: str) -> bool:
    """Return whether a line is stars, dashes or the like and nothing else."""
    return _BREAK.fullmatch(line) is not None


class Chapter(NamedTuple):
    """A chapter, or a scene without a ``title``: the line that begins it, and the words until the next one.

    Words of a chapter are those of its scenes too. ``level`` is the number of signs; 0 for a scene. ``end``
    is the end of its line.
    """

    title: str
    begin: int
    end: int
    level: int
    words: int = 0


def outline(text: str) -> list[Chapter]:
    """Return the chapters and scenes of ``text``; a line inside fenced code begins none."""
    found: list[Chapter] = []
    for line in _MARKED.finditer(text):
        begin, bare = line.start(), line[0].rstrip()
        level, title = heading_line(bare) or (0, "")
        if level or is_scene_break(bare):
            found.append(Chapter(title, begin, begin + len(bare), level))
    next_one = next_chapter = len(text)
    for place, one in reversed([*enumerate(found)]):
        words = words_of(text[one.end : next_chapter if one.title else next_one])
        found[place] = one._replace(words=words)
        next_one = one.begin
        next_chapter = one.begin if one.title else next_chapter
    return found


def heading_of(title: str, level: int = 1) -> str:
    """Return the line that begins a chapter called ``title``, or a scene."""
    words = " ".join(title.split())
    return f"{'#' * level} {words}" if words else SCENE_BREAK


def heading_at(text: str, at: int, title: str) -> Edit:
    """Return the edit that puts a new heading, with its empty lines, before the paragraph at ``at``.

    At the end of the text it follows the last paragraph.
    """
    at = text.rfind("\n", 0, at) + 1 if text[at:].strip() else len(text)
    before = text[:at]
    missing = "" if not before.strip() else "\n\n"[min(2, len(before) - len(before.rstrip("\n"))) :]
    return Edit(at, at, f"{missing}{heading_of(title)}\n\n")


def heading_edit(text: str, place: int, title: str) -> Edit:
    """Return the edit that gives the chapter whose line holds character ``place`` a title, or begins one.

    Without a ``title`` that is a scene. It begins before the paragraph there, or behind the last one.
    """
    for here in outline(text):
        if here.begin <= place <= here.end:
            return Edit(here.begin, here.end, heading_of(title, here.level or 1))
    return heading_at(text, place, title)


def neighbours(text: str, place: int, later: bool) -> list[int]:
    """Return where the chapter that holds ``place``, and the next or previous one, begin, and where both end.

    A chapter has its scenes; in a text without titles, scenes are meant. Raises Refused without such two.
    """
    found = outline(text)
    starts = [chapter.begin for chapter in found if chapter.title] or [chapter.begin for chapter in found]
    index = bisect_right(starts, place) - 1
    if index < 0:
        raise Refused("no chapter starts before the cursor; put the cursor into a chapter")
    if not 0 < index + later < len(starts):
        raise Refused(f"this is the {'last' if later else 'first'} chapter already")
    return [*starts, len(text)][index + later - 1 :][:3]
