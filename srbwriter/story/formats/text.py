"""Plain text: a whole file as one node in, the active path out."""

from __future__ import annotations

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.document import Document
from srbwriter.story.model import DraftNode, StoryDraft, path_to

NAME = "text"


def matches(document: Document) -> bool:
    return document.kind == "text"


def read(document: Document) -> StoryDraft:
    grower = Grower()
    node = grower.add(grower.root, DraftNode("", text=unix_lines(document.text)))
    return grower.draft(node)


def write(draft: StoryDraft) -> bytes:
    return path_text(draft).encode("utf-8", "replace")


def unix_lines(text: str) -> str:
    """Line ends of other systems as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def path_text(draft: StoryDraft) -> str:
    """The story from the root to the current node."""
    return "".join(node.text for node in path_to(draft, draft.current_id))


FORMAT = Format(NAME, "Plain text (active path)", ".txt", matches, read, write)
