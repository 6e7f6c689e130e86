"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
In files of versions before 0.6 a chapter may be a mark on a node; it becomes a line of the text.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, TypeVar

from srbwriter.formats.draft import Fields
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.headings import heading_line, is_scene_break
from srbwriter.story.model import ROOT, JsonObject, Settings, Span, State, as_list, as_object
from srbwriter.story.node import Node
from srbwriter.story.outline import heading_of
from srbwriter.story.spans import fit, text_of, tidy

NAME = "srbwriter"
VERSION = 2
WITHOUT = ("the undo history",)
"""Parts of a story that such a file lacks; its field ``without`` lists them."""

_T = TypeVar("_T")
_MADE = ("seed", "sampling", "model", "finish_reason")
_MARKS = ("bookmark", "note", "title", "visited")


def is_own(document: Document) -> bool:
    return document.object.get("format") == NAME


def read_own(document: Document) -> StoryDraft:
    name, version = document.name, document.object.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise FormatError(name, "version", f"a number from 1 to {VERSION}; a newer program wrote this")
    story = as_object(document.object.get("story"))
    nodes = [as_object(node) for node in as_list(story.get("nodes"))]
    if not nodes:
        raise FormatError(name, "story.nodes", "a story with at least a root node")
    _write_chapters(nodes)
    ids = [str(node.get("id")) for node in nodes]
    own_root = bool(nodes[0].get("text"))  # it hangs below an empty one
    numbers = [int(i) if i.isascii() and i.isdigit() and len(i) < 10 else 0 for i in ids]
    if own_root or numbers[0] != ROOT or len(set(numbers)) < len(numbers) or min(numbers) < ROOT:
        numbers = list(range(ROOT + own_root, ROOT + own_root + len(ids)))
    given = {key: value for key, value in story.items() if key not in ("nodes", "current", "notices")}
    draft = _converted(given, StoryDraft, name, "story")
    known: dict[str, int | None] = {}
    for place, (key, number, fields) in enumerate(zip(ids, numbers, nodes, strict=True)):
        parent = fields.get("parent_id")
        problem = ""
        if key in known:
            problem = f"a node with an id of its own; {key!r} occurs twice"
        elif (parent is None) != (not known):
            problem = "a tree; the first node, and only the first, has no parent"
        elif parent is not None and parent not in known:
            problem = f"a tree; its parent {parent!r} does not come before it"
        if problem:
            raise FormatError(name, f"story.nodes.{place}", problem)
        above = (ROOT if own_root else None) if parent is None else known[parent]
        draft.nodes[number] = _read_node(fields, number, above, name, f"story.nodes.{place}")
        known[key] = number
    if (current := known.get(str(story.get("current_id")))) is None:
        raise FormatError(name, "story.current_id", "the id of the current node")
    draft.current = current
    for day in draft.days:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise FormatError(name, f"story.days.{day}", "a day such as 2024-05-06")
    return draft


def _read_node(fields: JsonObject, number: int, parent: int | None, name: str, place: str) -> Node:
    made, marks = as_object(fields.get("generation")), as_object(fields.get("marks"))
    values: JsonObject = {"author": "imported", "id": number, "parent": parent}
    for source, keys in ((made, _MADE), (marks, _MARKS), (fields, ("text", "author", "meta", "created"))):
        values |= {key: source[key] for key in keys if source.get(key) is not None}
    node = _converted(values, Node, name, place)
    node.place = Fields(fields).integer("order") or 0
    node.state = State.BINNED if marks.get("deleted") and parent is not None else State.LIVING
    node.tags = Fields(marks).tags()
    if settings := fields.get("settings"):
        node.settings = _converted(settings, Settings, name, f"{place}.settings")
    if runs := as_list(fields.get("runs")):
        names = {"tokens": "ids", "vocabulary": "vocab"}
        runs = [{names.get(key, key): value for key, value in as_object(run).items()} for run in runs]
        spans = _converted(runs, list[Span], name, f"{place}.runs")
        if text_of(spans) != node.text:
            raise FormatError(name, place, "its text in runs; its runs do not join to its text")
        sound = [fit(span.ids) and len(span.logprobs) in (0, len(span.ids)) for span in spans]
        node.spans = tidy(s if good else Span(s.text, s.author) for s, good in zip(spans, sound, strict=True))
    return node


def _converted(value: Any, kind: type[_T], name: str, place: str) -> _T:
    """Return JSON as a value of a type. Raises FormatError with the place in the file."""
    import msgspec  # carries this format alone; imported when a file is read or written

    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem, _, inner = str(error).partition(" - at ")
        raise FormatError(name, place + inner.strip("`$"), f"a story ({problem})") from error


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
    import msgspec

    story = _filled({
        "nodes": [_node_json(node) for node in draft.nodes.values()], "current_id": str(draft.current),
        "title": draft.title, "byline": draft.byline, "language": draft.language, "created": draft.created,
        "modified": draft.modified, "id": draft.id, "values": draft.values,
        "days": {day: {k: v for k, v in asdict(done).items() if v} for day, done in draft.days.items()},
    })  # fmt: skip
    file = {"format": NAME, "version": VERSION, "without": WITHOUT, "story": story}
    return msgspec.json.encode(file)


def _node_json(node: Node) -> JsonObject:
    marks = {
        "bookmark": node.bookmark or None, "tags": node.tags, "note": node.note, "title": node.title,
        "visited": None if node.visited else False, "deleted": node.state != State.LIVING or None,
    }  # fmt: skip
    runs = [
        _filled({
            "text": span.text, "author": span.author, "tokens": span.ids, "vocabulary": span.vocab,
            "logprobs": span.logprobs, "lead": span.lead,
        })
        for span in (node.spans if node.runs is not None else ())
    ]  # fmt: skip
    return _filled({
        "id": str(node.id), "parent_id": str(node.parent) if node.parent else None,
        "order": node.place or None, "text": node.text, "author": node.author, "runs": runs,
        "generation": _filled({name: getattr(node, name) for name in _MADE}), "marks": _filled(marks),
        "settings": node.own_settings, "created": node.created or None, "meta": node.meta,
    })  # fmt: skip


def _filled(values: JsonObject) -> JsonObject:
    """Return ``values`` without those that say nothing."""
    return {key: value for key, value in values.items() if value not in (None, "", (), [], {})}
