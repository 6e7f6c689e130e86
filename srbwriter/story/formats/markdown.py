"""Markdown: the active path with front matter; headings start chapters on the way in."""

from __future__ import annotations

from srbwriter.story.formats import frontmatter
from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower, notice, read_time, write_time
from srbwriter.story.formats.encoding import unix_lines
from srbwriter.story.formats.frontmatter import NotYaml, words_of
from srbwriter.story.formats.inline import plain
from srbwriter.story.formats.prose import heading_at, heading_starts, path_text, text_with_headings
from srbwriter.story.model import (
    DraftNode,
    JsonObject,
    JsonValue,
    Marks,
    StoryDraft,
)

NAME = "markdown"

_NAMES = {
    "title": ("title",),
    "author": ("author", "authors", "byline", "creator"),
    "lang": ("lang", "language", "locale"),
    "date": ("date",),
}
"""What the front matter says of a story, and the keys under which other programs say it; ours are first."""


def matches(document: Document) -> bool:
    if document.kind != "text":
        return False
    text = unix_lines(document.text)
    try:
        front, _ = frontmatter.split(text)
    except NotYaml:
        return True
    return front is not None or bool(heading_starts(text))


def read(document: Document) -> StoryDraft:
    text = unix_lines(document.text)
    front, problem = None, ""
    try:
        front, text = frontmatter.split(text)
    except NotYaml as error:
        problem = f"what stands between the first dashes is not YAML and became part of the text ({error})"
    draft = _tree(text)
    if front is not None:
        _take(draft, front)
    if problem:
        notice(draft, problem)
    return draft


def _tree(text: str) -> StoryDraft:
    """A node for the text before the first heading, and one for each heading with what follows it."""
    grower = Grower()
    here = grower.root
    edges = [0, *heading_starts(text), len(text)]
    for low, high in zip(edges, edges[1:], strict=False):
        if high > low:
            heading = heading_at(text, low)
            marks = Marks(chapter=heading is not None, title=plain(heading[0].title) if heading else "")
            here = grower.add(here, DraftNode("", text=text[low:high], marks=marks))
    return grower.draft(here)


def _take(draft: StoryDraft, front: JsonObject) -> None:
    """Set what the front matter says of the story."""
    said = {
        name: next((words_of(front[key]) for key in keys if _usable(name, front.get(key))), "")
        for name, keys in _NAMES.items()
    }
    draft.title, draft.byline, draft.language = said["title"], said["author"], said["lang"]
    draft.modified = read_time(said["date"])


def _usable(name: str, value: JsonValue) -> bool:
    words = words_of(value)
    return read_time(words) is not None if name == "date" else bool(words) or value == ""


def write(draft: StoryDraft) -> bytes:
    date = write_time(draft.modified) if draft.modified is not None else ""
    front = {"title": draft.title, "author": draft.byline, "lang": draft.language, "date": date}
    fields: JsonObject = {name: words for name, words in front.items() if words}
    fields["words"] = len(path_text(draft).split())
    text = text_with_headings(draft, markdown=True)
    return f"---\n{frontmatter.dump(fields)}---\n{text}".encode("utf-8", "replace")


FORMAT = Format(NAME, "Markdown (active path)", ".md", matches, read, write, of_text=True)
