"""Notes of Tapestry Loom's Obsidian plugin: the tree is a JavaScript expression in their front matter."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.build import Loose, arrange, time_of, with_foreign
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.document import mend, parse_json
from srbwriter.story.model import (
    DraftNode,
    Generation,
    JsonObject,
    JsonValue,
    Marks,
    StoryDraft,
    as_list,
    as_object,
    children_by_parent,
    foreign,
    keep_foreign,
    path_to,
)

NAME = "tapestry"

_ULID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_PLAIN, _COMPRESSED = "TapestryLoomWeave", "TapestryLoomWeaveCompressed"
_KEY = re.compile(rf"^{_PLAIN}(?:Compressed)?:", re.MULTILINE)
_SCRIPT = re.compile(r'("(?:[^"\\]|\\.)*")|new (?:Map|Set)\(|\)|\bundefined\b', re.DOTALL)
_Read = TypeVar("_Read")

_LARGEST = 1 << 28
"""Bytes that a compressed weave may come to."""


def matches(document: Document) -> bool:
    return document.kind == "text" and _front_matter(document) is not None


@dataclass(frozen=True, slots=True)
class _Item:
    """What a node says about itself, and its text."""

    about: JsonObject
    text: str


def _draft(weave: JsonObject, items: list[_Item], document: Document) -> StoryDraft:
    whole = Cursor(weave, document.name, faults=document.faults)
    active, bookmarks = whole.ident("active"), whole.texts("bookmarks")
    loose: list[Loose] = []
    for item in items:
        cursor = Cursor(item.about, document.name, f"node {item.about['id']}", whole)
        node = _node(cursor, active, bookmarks)
        node.text = item.text
        loose.append(Loose(node, cursor))
    order = [*whole.texts("roots"), *(child for item in items for child in as_list(item.about["children"]))]
    place = {node_id: index for index, node_id in enumerate(order)}
    loose.sort(key=lambda item: place.get(item.node.id, len(place)))
    draft = arrange(loose, active)
    rest = whole.rest()
    if len(bookmarks) > 1:
        rest["bookmarks"] = bookmarks  # in their order
    if active not in (None, draft.current_id):
        rest["active"] = active
    if (about := whole.object("metadata")) is not None:
        draft.title = about.text("title")
        draft.created = time_of(about, "created")
        draft.root.mark(note=about.text("notes"))
        rest["metadata"] = about.rest()
    keep_foreign(draft.meta, NAME, {key: value for key, value in rest.items() if value})
    return draft


def _node(cursor: Cursor, active: str | None, bookmarks: list[str]) -> DraftNode:
    node_id = cursor.ident("id") or ""
    parent_id = cursor.ident("parent")
    cursor.skip("parent", "children")  # the parents say the same
    for key, expected in (("active", node_id == active), ("bookmarked", node_id in bookmarks)):
        if cursor.peek(key) == expected:
            cursor.skip(key)  # the weave says the same
    about, model = cursor.object("metadata"), cursor.object("model")
    generation = None
    if model is not None:
        finish = about.text("finish_reason") if about else ""
        generation = Generation(model=model.text("label"), finish_reason=finish)
    node = DraftNode(
        node_id,
        parent_id,
        author="writer" if model is None else "model",
        generation=generation,
        marks=Marks(bookmark=node_id in bookmarks or cursor.peek("bookmarked") is True),
        created=_ulid_time(node_id),
    )
    inner = {
        key: part.rest() for key, part in (("metadata", about), ("model", model)) if part and part.rest()
    }
    return with_foreign(node, NAME, {**cursor.rest(), **inner})


def _ulid_time(text: str) -> float | None:
    digits = text[:10]
    if len(text) != 26 or not set(digits) <= set(_ULID_DIGITS):
        return None
    milliseconds = 0
    for digit in digits:
        milliseconds = milliseconds << 5 | _ULID_DIGITS.index(digit)
    return milliseconds / 1000


def _front_matter(document: Document) -> tuple[str, str] | None:
    """The front matter of the plugin's note, and the text below it."""
    front = _FRONT_MATTER.match(document.text)
    if front is None or not _KEY.search(front[1]):
        return None
    return front[1], document.text[front.end() :]


def read(document: Document) -> StoryDraft:
    import yaml  # only needed here

    found = _front_matter(document)
    assert found is not None  # it matched
    front, text = found
    try:
        fields = as_object(cast(Any, yaml).load(front, Loader=cast(Any, yaml).BaseLoader))
    except yaml.YAMLError as error:
        raise FormatError(document.name, "the front matter", f"YAML ({error})") from error
    if _COMPRESSED in fields:
        script = _decompressed(str(fields.pop(_COMPRESSED)), document)
        fields.pop(_PLAIN, None)
    else:
        script = str(fields.pop(_PLAIN, ""))
    weave = Cursor(parse_json(_as_json(script), document.name, _PLAIN), document.name, faults=document.faults)
    draft = _draft(*_of_plugin(weave), document)
    _go_on(draft, text)
    rest = {**foreign(draft.meta, NAME), **weave.rest(), **({"frontMatter": fields} if fields else {})}
    keep_foreign(draft.meta, NAME, rest)
    return draft


def _decompressed(text: str, document: Document) -> str:
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), _LARGEST)
        if not inflate.eof:
            raise ValueError(
                "it is cut off" if not inflate.unconsumed_tail else f"more than {_LARGEST} bytes"
            )
        return data.decode("utf-8")
    except (binascii.Error, zlib.error, ValueError) as error:
        raise FormatError(document.name, _COMPRESSED, f"a compressed weave in base64 ({error})") from error


def _as_json(script: str) -> str:
    """A JavaScript literal with maps and sets as JSON, in which they are lists."""
    return _SCRIPT.sub(lambda match: match[1] or ("null" if match[0] == "undefined" else ""), script)


def _of_plugin(weave: Cursor) -> tuple[JsonObject, list[_Item]]:
    models, children = _map(weave.raw("models")), _map(weave.raw("nodeChildren"))
    nodes = Cursor({"nodes": _map(weave.raw("nodes"))}, weave.file, above=weave).good_entries("nodes")
    used: set[str] = set()
    items: list[_Item] = []
    for key, cursor in nodes:
        content, model = cursor.peek("content"), cursor.peek("model")
        about: JsonObject = {
            "id": cursor.ident("identifier") or key,
            **({"key": key} if cursor.peek("identifier") != key else {}),
            "parent": cursor.ident("parentNode"),
            "children": as_list(children.get(key)),
        }
        if isinstance(model, str) and model in models:
            used.add(model)
            about["model"] = {"id": model, **as_object(models[model])}
            cursor.skip("model")
        if isinstance(cursor.peek("parameters"), dict):
            about["metadata"] = cursor.raw("parameters")
        if isinstance(content, list):
            cursor.skip("content")
            tokens = [as_list(token) for token in as_list(content)]
            about["tokens"] = [
                {"probability": token[0], "text": str(token[1])} for token in tokens if len(token) > 1
            ]
            text = "".join(token["text"] for token in about["tokens"])
        else:
            text = cursor.good_text("content")
        items.append(_Item({**cursor.rest(), **about}, mend(text)))
    weave.skip("modelNodes")  # the nodes say the same
    unused = {model: label for model, label in models.items() if model not in used}
    return {
        "roots": as_list(weave.raw("rootNodes")),
        "active": weave.raw("currentNode"),
        "bookmarks": as_list(weave.raw("bookmarks")),
        "models": unused,
    }, items


def _map(pairs: JsonValue) -> JsonObject:
    """A JavaScript map, which is a list of pairs."""
    lists = [as_list(pair) for pair in as_list(pairs)]
    return {str(pair[0]): pair[1] for pair in lists if len(pair) == 2}


def _go_on(draft: StoryDraft, text: str) -> None:
    """The text of a note is that of the active path; where it goes another way, so does a new branch."""
    if text == "".join(node.text for node in path_to(draft, draft.current_id)):
        return
    here = draft.root
    for node in path_to(draft, draft.current_id):
        if not text.startswith(node.text):
            break
        here, text = node, text[len(node.text) :]
    if text:
        order = len(children_by_parent(draft)[here.id])
        draft.nodes.append(DraftNode("note", here.id, order, text, "writer"))
        here = draft.nodes[-1]
    draft.current_id = here.id


FORMAT = Format(NAME, "Tapestry Loom note (Obsidian)", ".md", matches, read)
