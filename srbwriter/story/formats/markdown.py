"""Markdown: the active path with a little front matter; headings start chapters on the way in."""

from __future__ import annotations

import json
import re

from srbwriter.story.draft import DraftNode, Marks, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, read_time, write_time
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.text import path_text, unix_lines

NAME = "markdown"

HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_FENCE_OR_HEADING = re.compile(r"^(?:(```|~~~)|#{1,6}[ \t]+\S)", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n((?:[A-Za-z_][\w-]*:(?:[ \t].*)?\n)+)---\n")


def matches(document: Document) -> bool:
    if document.kind != "text":
        return False
    text = unix_lines(document.text)
    return bool(_FRONT_MATTER.match(text) or HEADING.search(text))


def read(document: Document) -> StoryDraft:
    text = unix_lines(document.text)
    fields: dict[str, str] = {}
    if front := _FRONT_MATTER.match(text):
        fields = _front_matter(front.group(1))
        text = text[front.end() :]
    grower = Grower()
    here = grower.root
    for section in _sections(text):
        heading = HEADING.match(section)
        marks = Marks(chapter=heading is not None, title=heading.group(1) if heading else "")
        here = grower.add(here, DraftNode("", text=section, marks=marks))
    draft = grower.draft(here, fields.pop("title", ""))
    draft.byline = fields.pop("author", "")
    draft.language = fields.pop("lang", "en")
    draft.modified = read_time(fields.pop("date", None))
    fields.pop("words", None)
    keep_foreign(draft.meta, NAME, dict(fields))
    return draft


def _front_matter(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in block.rstrip("\n").split("\n"):
        key, _, value = line.partition(":")
        fields[key] = _unquote(value.strip())
    return fields


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value
    return value[1:-1].replace("''", "'") if len(value) >= 2 and value[0] == value[-1] == "'" else value


def _sections(text: str) -> list[str]:
    """The text before the first heading, and from each heading to the next, as far as there is any."""
    edges = [0, *_headings(text), len(text)]
    return [text[low:high] for low, high in zip(edges, edges[1:], strict=False) if high > low]


def _headings(text: str) -> list[int]:
    """Where headings start; a line inside fenced code is none."""
    starts: list[int] = []
    fenced = False
    for match in _FENCE_OR_HEADING.finditer(text):
        if match.group(1):
            fenced = not fenced
        elif not fenced:
            starts.append(match.start())
    return starts


def write(draft: StoryDraft) -> bytes:
    text = path_text(draft)
    fields = {"title": draft.title, "author": draft.byline, "lang": draft.language}
    fields = {key: json.dumps(value, ensure_ascii=False) for key, value in fields.items()}
    if draft.modified is not None:
        fields["date"] = write_time(draft.modified)
    fields["words"] = str(len(text.split()))
    front = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\n{front}---\n{text}".encode("utf-8", "replace")


FORMAT = Format(NAME, "Markdown (active path)", ".md", matches, read, write)
