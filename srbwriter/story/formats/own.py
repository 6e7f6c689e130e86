"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, astuple, dataclass, field, fields, is_dataclass
from datetime import date
from functools import cache
from typing import Any, cast

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.cursor import top
from srbwriter.story.model import DraftError, DraftNode, Span, StoryDraft, check_draft

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


def matches(document: Document) -> bool:
    return document.object.get("format") == NAME


def read(document: Document) -> StoryDraft:
    import msgspec  # carries this format alone; imported when one is read

    version = top(document).integer("version")
    if version is None or not 1 <= version <= VERSION:
        raise FormatError(
            document.name, "version", f"a number from 1 to {VERSION}; a newer program wrote this"
        )
    try:
        story = msgspec.convert(_with_our_names(msgspec.json.decode(document.text)), _File).story
        check_draft(story)
        _check_numbers(story, document.name)
        _check_progress(story, document.name)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem, _, place = str(error).partition(" - at ")
        for ours, theirs in ((o, t) for names in _NAMES.values() for o, t in names.items()):
            place = re.sub(rf"\b{ours}\b", theirs, place)
        place = re.sub(r"\[(.+?)\]", r".\1", place.replace("...", "…").strip("`$.")) or "the top level"
        raise FormatError(document.name, place, f"what the format says ({problem})") from error
    except DraftError as error:
        raise FormatError(document.name, "story.nodes", f"a tree ({error})") from error
    return story


def _with_our_names(file: dict[str, Any]) -> dict[str, Any]:
    """The file's top level, its nodes and their spans with the names that the records' fields have."""

    def spans_renamed(node: Any) -> Any:
        node = _renamed(node, DraftNode)
        return _changed(node, "spans", lambda span: _renamed(span, Span))

    story: Any = file.get("story")
    return file if story is None else {**file, "story": _changed(story, "nodes", spans_renamed)}


def _changed(record: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """``record`` with each item of its list ``name`` changed; as it is, if it has none."""
    if not isinstance(record, dict):
        return record
    fields = cast("dict[str, Any]", record)
    items = fields.get(name)
    if not isinstance(items, list):
        return fields
    return {**fields, name: [change(item) for item in cast("list[Any]", items)]}


def _renamed(value: Any, record: type) -> Any:
    if not isinstance(value, dict):
        return value
    back = {theirs: ours for ours, theirs in _NAMES[record].items()}
    return {back.get(key, key): held for key, held in cast("dict[str, Any]", value).items()}


def _check_numbers(story: StoryDraft, name: str) -> None:
    """Raise :class:`FormatError` for numbers of a node that no story can keep."""
    for at, node in enumerate(story.nodes):
        seed = node.generation.seed if node.generation else None
        for place, number, low, high in (
            ("order", node.order, -_MOST, _MOST),
            ("number", node.number, 1, 2**31 - 1),
            ("generation.seed", seed, -(2**63), 2**64 - 1),
        ):
            if number is not None and not low <= number <= high:
                raise FormatError(name, f"story.nodes.{at}.{place}", f"a number from {low} to {high}")


def _check_progress(story: StoryDraft, name: str) -> None:
    """Raise :class:`FormatError` for days that no calendar has, and for numbers that no story can keep."""
    for day, done in story.days.items():
        try:
            date.fromisoformat(day)
        except ValueError:
            raise FormatError(name, f"story.days.{day}", "a day such as 2024-05-06") from None
        if not all(map(_sane, astuple(done))):
            raise FormatError(name, f"story.days.{day}", "numbers of a sane size")


def _sane(number: float) -> bool:
    return abs(number) < _MOST


def write(draft: StoryDraft) -> bytes:
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
    """The fields of a record with what they hold unless something is said; MISSING where it must be."""
    return [
        (each.name, each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(record)
    ]


FORMAT = Format(
    NAME, "srbwriter JSON (all but the undo history)", ".json", matches, read, write, keeps_bin=True
)
