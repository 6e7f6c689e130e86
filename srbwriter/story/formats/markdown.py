"""Markdown: the active path with front matter; headings start chapters on the way in."""

from __future__ import annotations

from srbwriter.story.formats import frontmatter
from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower, notice, read_time, write_time
from srbwriter.story.formats.encoding import unix_lines
from srbwriter.story.formats.frontmatter import FrontMatter, NotYaml, words_of
from srbwriter.story.formats.inline import plain
from srbwriter.story.formats.prose import heading_at, heading_starts, path_text, text_with_headings
from srbwriter.story.model import (
    DraftNode,
    JsonObject,
    JsonValue,
    Marks,
    StoryDraft,
    foreign,
    keep_foreign,
)

NAME = "markdown"

_LINES = "front matter"
"""Where the lines of the front matter are kept among a draft's foreign fields."""

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


def _take(draft: StoryDraft, front: FrontMatter) -> None:
    """What the front matter says; what means nothing here is kept, and so are the lines it all came in."""
    rest = {key: value for key, value in front.values.items() if key != "words"}  # counted again
    properties = {name: words_of(rest.pop(key)) for key, name in _meanings(front.values).items()}
    draft.title, draft.byline, draft.language = (
        properties.get(name, "") for name in ("title", "author", "lang")
    )
    draft.modified = read_time(properties.get("date"))
    keep_foreign(draft.meta, NAME, rest)
    keep_foreign(draft.meta, _LINES, {"lines": front.lines})


def _meanings(values: JsonObject) -> dict[str, str]:
    """The keys of ``values`` that say something of the story, and what: at most one key for each thing."""
    found: dict[str, str] = {}
    for name, keys in _NAMES.items():
        usable = (key for key in keys if _usable(name, values.get(key)))
        if (key := next(usable, None)) is not None:
            found[key] = name
    return found


def _usable(name: str, value: JsonValue) -> bool:
    words = words_of(value)
    return read_time(words) is not None if name == "date" else bool(words) or value == ""


def write(draft: StoryDraft) -> bytes:
    words = len(path_text(draft).split())
    text = text_with_headings(draft, markdown=True)
    return f"---\n{_front(draft, words)}---\n{text}".encode("utf-8", "replace")


def _front(draft: StoryDraft, words: int) -> str:
    """Return the story's front matter, with unchanged values as the lines they were read from."""
    date = write_time(draft.modified) if draft.modified is not None else ""
    unsaid = {"title": draft.title, "author": draft.byline, "lang": draft.language, "date": date}
    unsaid["words"] = str(words)
    front = _kept(draft)
    meanings = {**_meanings(front.values), "words": "words"}
    lines: list[str] = []
    for key, value in front.values.items():
        now = unsaid.pop(meanings.get(key, ""), None)
        if now is None or _same(value, now):
            lines.append(front.source(key))
        elif now:
            lines.append(_line(key, now))
    lines += [front.after, *(_line(name, now) for name, now in unsaid.items() if now)]
    return "".join(lines)


def _same(value: JsonValue, now: str) -> bool:
    words = words_of(value)
    return words == now or (bool(now) and read_time(words) == read_time(now) is not None)


def _line(key: str, words: str) -> str:
    return frontmatter.dump({key: int(words) if key == "words" else words})


def _kept(draft: StoryDraft) -> FrontMatter:
    """The front matter that the story came with."""
    lines, rest = foreign(draft.meta, _LINES).get("lines"), foreign(draft.meta, NAME)
    try:
        return frontmatter.parse(str(lines)) if lines else FrontMatter("", rest, {})
    except NotYaml:
        return FrontMatter("", rest, {})


FORMAT = Format(NAME, "Markdown (active path)", ".md", matches, read, write, of_text=True)
