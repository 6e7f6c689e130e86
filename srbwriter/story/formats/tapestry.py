"""Notes of Tapestry Loom's Obsidian plugin: the tree is a JavaScript expression in their front matter."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import Any, TypeVar, cast

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.build import Loose, arrange
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
    draft = _draft(weave)
    _go_on(draft, text)
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


def _draft(weave: Cursor) -> StoryDraft:
    models, children = _map(weave.raw("models")), _map(weave.raw("nodeChildren"))
    bookmarks = weave.texts("bookmarks")
    nodes = Cursor({"nodes": _map(weave.raw("nodes"))}, weave.file, above=weave).good_entries("nodes")
    loose = [Loose(_node(key, cursor, models, bookmarks), cursor) for key, cursor in nodes]
    order = [*weave.texts("rootNodes"), *(child for key, _ in nodes for child in as_list(children.get(key)))]
    place = {str(node_id): index for index, node_id in enumerate(order)}
    loose.sort(key=lambda item: place.get(item.node.id, len(place)))
    return arrange(loose, weave.ident("currentNode"))


def _node(key: str, cursor: Cursor, models: JsonObject, bookmarks: list[str]) -> DraftNode:
    node_id = cursor.ident("identifier") or key
    content, model = cursor.raw("content"), models.get(str(cursor.raw("model")))
    if isinstance(content, list):  # probability and text of each token
        text = "".join(str(as_list(token)[1]) for token in as_list(content) if len(as_list(token)) > 1)
    else:
        text = cursor.good_text("content")
    finish = cursor.inner("parameters").text("finish_reason")
    label = as_object(model).get("label")
    return DraftNode(
        node_id,
        cursor.ident("parentNode"),
        text=mend(text),
        author="writer" if model is None else "model",
        generation=None if model is None else Generation(model=str(label or ""), finish_reason=finish),
        marks=Marks(bookmark=node_id in bookmarks),
        created=_ulid_time(node_id),
    )


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
