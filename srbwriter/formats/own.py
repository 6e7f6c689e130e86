"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
In files of versions before 0.6 a chapter may be a mark on a node; it becomes a line of the text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import MISSING, astuple, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, cast

from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.headings import heading_line, is_scene_break
from srbwriter.story.model import DraftNode, JsonObject, Span, StoryDraft, as_list, as_object
from srbwriter.story.outline import heading_of

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
    nodes = [as_object(node) for node in as_list(as_object(document.object.get("story")).get("nodes"))]
    _write_chapters(nodes)
    spans = [as_object(run) for node in nodes for run in as_list(node.get("runs"))]
    for record, values in ((DraftNode, nodes), (Span, spans)):
        for ours, theirs in _NAMES[record].items():
            for value in values:
                if theirs in value:
                    value[ours] = value.pop(theirs)
    try:
        story = msgspec.convert(document.object, _File).story
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem, _, place = str(error).partition(" - at ")
        place = place.strip("`$.") or "the top level"
        raise FormatError(document.name, place, f"a story ({problem})") from error
    numbers = {f"story.nodes.{at}": (node.order,) for at, node in enumerate(story.nodes)}
    numbers |= {f"story.days.{day}": astuple(done) for day, done in story.days.items()}
    for place, values in numbers.items():
        if not all(abs(value) < _MOST for value in values):
            raise FormatError(document.name, place, "numbers of a sane size")
    for day in story.days:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise FormatError(document.name, f"story.days.{day}", "a day such as 2024-05-06")
    return story


def _write_chapters(nodes: list[JsonObject]) -> None:
    """Write the heading of each node that is marked as a chapter, unless its words begin with one."""
    endings: dict[str, str] = {}  # the last characters of the text up to each node
    for node in nodes:
        marks, text = as_object(node.get("marks")), str(node.get("text", ""))
        ending = endings.get(str(node.get("parent_id")), "")
        if marks.get("chapter"):
            title, bare = str(marks.pop("title", "")), text.lstrip("\n")
            said = heading_line(bare) is not None or (not title and is_scene_break(bare.split("\n")[0]))
            if not said and (title or ending.strip()):
                blank = "\n\n"[len(ending) - len(ending.rstrip("\n")) :] if ending else ""
                head = f"{blank}{heading_of(title)}\n\n"
                if runs := as_list(node.get("runs")):
                    runs.insert(0, {"text": head, "author": "imported"})
                node["text"] = text = head + text
        endings[str(node.get("id"))] = (ending + text)[-2:]


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
