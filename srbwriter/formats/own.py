"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
In files of versions before 0.6 a chapter may be a mark on a node; it becomes a line of the text.
"""

from __future__ import annotations

import re
from datetime import date

from srbwriter.formats.draft import Fields
from srbwriter.formats.opening import Document, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import ROOT, JsonObject, Span, State, StorySettings, as_list, as_object
from srbwriter.story.node import Node
from srbwriter.story.spans import fit, text_of, tidy
from srbwriter.story.upgrade import place_headings

NAME = "srbwriter"
VERSION = 2
_MADE = ("seed", "sampling", "model", "finish_reason")
_MARKS = ("bookmark", "note", "title", "visited")


def is_own(document: Document) -> bool:
    return document.object.get("format") == NAME


def read_own(document: Document) -> StoryDraft:
    import msgspec  # imported when a file is read or written

    version = document.object.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        expected = f"a number from 1 to {VERSION}; a newer program wrote this"
        raise FormatError(document.name, "version", expected)
    story = Fields(document.object.get("story")).all
    nodes = [as_object(node) for node in as_list(story.get("nodes"))]
    if not nodes:
        raise FormatError(document.name, "story.nodes", "a story with at least a root node")
    ids = [str(node.get("id")) for node in nodes]
    first = ROOT + bool(nodes[0].get("text"))  # a root with words hangs below an empty one
    numbers = dict(zip(ids, range(first, first + len(ids)), strict=True))
    if first == ROOT and ids[0] == str(ROOT) and all(re.fullmatch("[1-9][0-9]{0,8}", key) for key in ids):
        numbers = {key: int(key) for key in ids}
    given = {key: value for key, value in story.items() if key not in ("nodes", "current", "notices")}
    for day, done in as_object(given.get("days")).items():  # files before 0.6 part typed words and others
        read = Fields(done)
        words = (read.integer("typed") or 0) + (read.integer("picked") or 0)
        given["days"][day] = [words, read.raw("seconds") or 0.0]
    draft = msgspec.convert(given, StoryDraft)
    for place, (key, fields) in enumerate(zip(ids, nodes, strict=True)):
        parent = fields.get("parent_id")
        above = None if parent is None else numbers.get(parent)
        if (parent is None) != (place == 0) or (place and above not in draft.nodes):
            raise ValueError(f"of node {key!r}, the parent {parent!r} does not come before it")
        if place and numbers[key] in draft.nodes:
            raise ValueError(f"the id {key!r} occurs twice")
        above = ROOT if place == 0 and first != ROOT else above
        draft.nodes[numbers[key]] = _read_node(fields, numbers[key], above)
    marked = [as_object(fields.get("marks")) for fields in nodes]
    chapters = {numbers[key]: marks for key, marks in zip(ids, marked, strict=True) if marks.get("chapter")}
    for number in chapters:
        draft.nodes[number].title = ""
    place_headings(draft.nodes, {number: str(marks.get("title", "")) for number, marks in chapters.items()})
    draft.current = numbers.get(str(story.get("current_id")), 0)
    if draft.current not in draft.nodes:
        raise ValueError("the current node is not in it")
    for day in draft.days:
        date.fromisoformat(day)
    return draft


def _read_node(fields: JsonObject, number: int, parent: int | None) -> Node:
    import msgspec

    made, marks = as_object(fields.get("generation")), as_object(fields.get("marks"))
    values: JsonObject = {"author": "imported", "id": number, "parent": parent}
    for source, keys in ((made, _MADE), (marks, _MARKS), (fields, ("text", "author", "meta", "created"))):
        values |= {key: source[key] for key in keys if source.get(key) is not None}
    node = msgspec.convert(msgspec.structs.astuple(Node(**values)), Node)
    node.place = Fields(fields).integer("order") or 0
    node.state = State.BINNED if marks.get("deleted") and parent is not None else State.LIVING
    node.tags = Fields(marks).tags()
    if settings := fields.get("settings"):
        node.settings = msgspec.convert(settings, StorySettings)
    if runs := as_list(fields.get("runs")):
        names = {"tokens": "ids", "vocabulary": "vocab"}
        runs = [{names.get(key, key): value for key, value in as_object(run).items()} for run in runs]
        spans = msgspec.convert(runs, list[Span])
        if text_of(spans) != node.text:
            raise ValueError("of a node, the runs do not join to its text")
        sound = [fit(span.ids) and len(span.logprobs) in (0, len(span.ids)) for span in spans]
        node.spans = tidy(s if good else Span(s.text, s.author) for s, good in zip(spans, sound, strict=True))
    return node


def write_own(draft: StoryDraft) -> bytes:
    import msgspec

    story = _filled({
        "nodes": [_node_json(node) for node in draft.nodes.values()], "current_id": str(draft.current),
        "title": draft.title, "byline": draft.byline, "language": draft.language, "id": draft.id,
        "values": draft.values,
        "days": {day: {"typed": done.words, "seconds": done.seconds} for day, done in draft.days.items()},
    })  # fmt: skip
    file = {"format": NAME, "version": VERSION, "without": ["the undo history"], "story": story}
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
