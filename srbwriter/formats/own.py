"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import MISSING, astuple, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, cast

from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.model import DraftNode, Span, StoryDraft, as_list, as_object

NAME = "srbwriter"
VERSION = 2
WITHOUT = ("the undo history",)
"""Parts of a story that such a file lacks; its field ``without`` lists them."""

_MOST = 2**53  # what every reader of JSON can count to
_NAMES: dict[type, dict[str, str]] = {
    DraftNode: {"spans": "runs"}, Span: {"ids": "tokens", "vocab": "vocabulary"}
}  # fmt: skip
"""Fields that are called otherwise in the file."""


@dataclass(slots=True)
class _File:
    format: str
    version: int
    without: list[str] = field(default_factory=list[str])
    story: StoryDraft = field(kw_only=True)


def is_own(document: Document) -> bool:
    return document.object.get("format") == NAME


def read_own(document: Document) -> StoryDraft:
    import msgspec  # carries this format alone; imported when one is read

    version = document.object.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        expected = f"a number from 1 to {VERSION}; a newer program wrote this"
        raise FormatError(document.name, "version", expected)
    for node in map(as_object, as_list(as_object(document.object.get("story")).get("nodes"))):
        for record, renamed in (
            (DraftNode, [node]),
            (Span, [as_object(run) for run in as_list(node.get("runs"))]),
        ):
            for ours, theirs in _NAMES[record].items():
                for each in renamed:
                    if theirs in each:
                        each[ours] = each.pop(theirs)
    try:
        story = msgspec.convert(document.object, _File).story
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem, _, place = str(error).partition(" - at ")
        place = place.strip("`$.") or "the top level"
        raise FormatError(document.name, place, f"a story ({problem})") from error
    numbers = {f"story.nodes.{at}": (node.order, node.number or 1) for at, node in enumerate(story.nodes)}
    numbers |= {f"story.days.{day}": astuple(done) for day, done in story.days.items()}
    for place, values in numbers.items():
        if not all(abs(value) < _MOST for value in values):
            raise FormatError(document.name, place, "numbers of a sane size")
    for day in story.days:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise FormatError(document.name, f"story.days.{day}", "a day such as 2024-05-06")
    return story


def write_own(draft: StoryDraft) -> bytes:
    file = _said(_File(NAME, VERSION, list(WITHOUT), story=draft))
    return json.dumps(file, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _said(value: Any) -> Any:
    """Return ``value`` as JSON: a record without its default values, and null for NaN."""
    if isinstance(value, (list, tuple)):
        return [_said(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _said(item) for key, item in cast("dict[str, Any]", value).items()}
    if is_dataclass(value):
        given = ((name, getattr(value, name), usual) for name, usual in _defaults(type(value)))
        names = _NAMES.get(type(value), {})
        return {names.get(name, name): _said(item) for name, item, usual in given if item != usual}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _defaults(record: type) -> list[tuple[str, Any]]:
    """Return the fields of a record with what they hold by default; MISSING for none."""
    return [
        (each.name, each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(record)
    ]
