"""Markdown and plain text: the current path, in Markdown below front matter; headings start chapters.

Front matter is YAML between two lines of dashes, of which every plain value is text.
"""

from __future__ import annotations

import re
from typing import Any, cast

import yaml

from srbwriter.formats.blocks import heading_starts
from srbwriter.formats.draft import Grower
from srbwriter.formats.opening import Document, unix_lines
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import JsonObject, JsonValue, as_list, as_object
from srbwriter.story.words import well_formed, words_of

_yaml = cast(Any, yaml)  # its types are half known
_KEY = r"(?:#[^\n]*\n|[ \t]*\n)*[\"']?[^\W\d][\w .-]{0,60}[\"']?[ \t]{0,9}:[ \t\n]"
_FENCED = re.compile(rf"\A---[ \t]*\n({_KEY}.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_NAMES = (
    ("title",),
    ("author", "authors", "byline", "creator"),
    ("lang", "language", "locale"),
)
"""What the front matter says of a story, and the keys under which other programs say it; ours are first."""


def is_text(document: Document) -> bool:
    return document.kind == "text"


def read_text(document: Document) -> StoryDraft:
    grower = Grower()
    return grower.draft(grower.add(grower.root, unix_lines(document.text)))


def write_text(draft: StoryDraft) -> bytes:
    return draft.text.encode("utf-8", "replace")


def is_markdown(document: Document) -> bool:
    text = unix_lines(document.text)
    return document.kind == "text" and bool(_FENCED.match(text) or heading_starts(text))


def read_markdown(document: Document) -> StoryDraft:
    """A node for the text before the first heading, and one for each heading with what follows it."""
    front, text = split_front_matter(unix_lines(document.text))
    if _FENCED.match(text) and not front:
        document.tell("what stands between the first dashes is not YAML and became part of the text")
    grower = Grower()
    here = grower.root
    edges = [0, *heading_starts(text), len(text)]
    for low, high in zip(edges, edges[1:], strict=False):
        if high > low:
            here = grower.add(here, text[low:high])
    draft = grower.draft(here)
    said = [next(filter(None, (_words_of(front.get(key)) for key in keys)), "") for keys in _NAMES]
    draft.title, draft.byline, draft.language = said
    return draft


def write_markdown(draft: StoryDraft) -> bytes:
    front = {"title": draft.title, "author": draft.byline, "lang": draft.language}
    fields: JsonObject = {name: words for name, words in front.items() if words}
    text = draft.text
    fields["words"] = words_of(text)
    layout: dict[str, Any] = {"allow_unicode": True, "sort_keys": False, "width": float("inf")}
    head = cast(str, _yaml.safe_dump(fields, **layout))
    return f"---\n{head}---\n{text}".encode("utf-8", "replace")


def split_front_matter(text: str) -> tuple[JsonObject, str]:
    """Return the front matter of a text and what follows it; nothing and all where it begins with none."""
    found = _FENCED.match(text)
    if found is None:
        return {}, text
    try:  # every plain value is text
        front = as_object(_yaml.load(found[1], _yaml.BaseLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        front = {}
    return front, text[found.end() :] if front else text


def _words_of(value: JsonValue) -> str:
    """Return a value as text: of a list its texts, of a mapping what it calls its name."""
    names = [as_object(each).get("name", each) for each in (as_list(value) or [value])]
    words = (well_formed(name) for name in names if isinstance(name, str))
    return ", ".join(name for name in words if name not in ("", "null", "~"))
