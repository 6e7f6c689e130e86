"""Plain text: a whole file as one node in, the active path out; also of Fountain screenplays."""

from __future__ import annotations

import re
from contextlib import suppress

from srbwriter.story.formats import frontmatter
from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.encoding import unix_lines
from srbwriter.story.formats.prose import text_with_headings
from srbwriter.story.model import DraftNode, StoryDraft

NAME = "text"


def matches(document: Document) -> bool:
    return document.kind == "text"


def read(document: Document) -> StoryDraft:
    grower = Grower()
    node = grower.add(grower.root, DraftNode("", text=unix_lines(document.text)))
    return grower.draft(node)


def write(draft: StoryDraft) -> bytes:
    return text_with_headings(draft, markdown=False).encode("utf-8", "replace")


FORMAT = Format(
    NAME, "Plain text (active path)", ".txt", matches, read, write, of_text=True, takes_the_rest=True
)


FOUNTAIN_NAME = "fountain"

_SCENE = re.compile(r"^(?:INT|EXT|EST|INT\.?/EXT|I/E)[. ][^a-z\n]*[A-Z][^a-z\n]*$", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z][A-Za-z ]{0,30}):[ \t]*(.*(?:\n(?:[ ]{3,}|\t).*)*)\n?")
_KEYS = frozenset(("title", "credit", "author", "authors", "source", "draft date", "date", "contact"))


def matches_fountain(document: Document) -> bool:
    if document.kind != "text":
        return False
    script = unix_lines(document.text)
    if _has_front_matter(script):  # a screenplay that was exported as Markdown
        return False
    scenes = sum(1 for _ in _SCENE.finditer(script))
    return scenes > 1 or (scenes == 1 and "title" in _title_page(script))


def read_fountain(document: Document) -> StoryDraft:
    draft = read(document)
    page = _title_page(unix_lines(document.text))
    draft.title = page.get("title", "")
    draft.byline = page.get("author", page.get("authors", ""))
    return draft


def _has_front_matter(script: str) -> bool:
    with suppress(frontmatter.NotYaml):
        return frontmatter.split(script)[0] is not None
    return False


def _title_page(script: str) -> dict[str, str]:
    """Return the title page before the first blank line, if there is one; lines of one entry are joined."""
    page: dict[str, str] = {}
    at = 0
    while (entry := _ENTRY.match(script, at)) is not None and entry[1].casefold() in _KEYS:
        page[entry[1].casefold()] = re.sub(r"[*_]", "", " ".join(entry[2].split()))
        at = entry.end()
    return page


FOUNTAIN = Format(
    FOUNTAIN_NAME,
    "Fountain screenplay (as text)",
    ".fountain",
    matches_fountain,
    read_fountain,
    of_text=True,
)
