"""Fountain, screenplays in plain text: the text as it stands, with what its title page says."""

from __future__ import annotations

import re
from contextlib import suppress

from srbwriter.story.formats import frontmatter, text
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import notice
from srbwriter.story.formats.document import Document
from srbwriter.story.model import StoryDraft

NAME = "fountain"

_SCENE = re.compile(r"^(?:INT|EXT|EST|INT\.?/EXT|I/E)[. ][^a-z\n]*[A-Z][^a-z\n]*$", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z][A-Za-z ]{0,30}):[ \t]*(.*(?:\n(?:[ ]{3,}|\t).*)*)\n?")
_KEYS = frozenset(("title", "credit", "author", "authors", "source", "draft date", "date", "contact"))


def matches(document: Document) -> bool:
    if document.kind != "text":
        return False
    script = text.unix_lines(document.text)
    if _has_front_matter(script):  # a screenplay that was exported as Markdown
        return False
    scenes = sum(1 for _ in _SCENE.finditer(script))
    return scenes > 1 or (scenes == 1 and "title" in _title_page(script))


def read(document: Document) -> StoryDraft:
    draft = text.read(document)
    page = _title_page(text.unix_lines(document.text))
    draft.title = page.get("title", "")
    draft.byline = page.get("author", page.get("authors", ""))
    notice(draft, "this looks like a screenplay in Fountain, and came in as the plain text that it is")
    return draft


def _has_front_matter(script: str) -> bool:
    with suppress(frontmatter.NotYaml):
        return frontmatter.split(script)[0] is not None
    return False


def _title_page(script: str) -> dict[str, str]:
    """What stands before the first blank line, if it is a title page; lines of one entry are joined."""
    page: dict[str, str] = {}
    at = 0
    while (entry := _ENTRY.match(script, at)) is not None and entry[1].casefold() in _KEYS:
        page[entry[1].casefold()] = re.sub(r"[*_]", "", " ".join(entry[2].split()))
        at = entry.end()
    return page


FORMAT = Format(NAME, "Fountain screenplay (as text)", ".fountain", matches, read)
