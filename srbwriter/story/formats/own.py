"""The program's own JSON: everything a story has, without loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from srbwriter.story.draft import DraftError, StoryDraft, check_draft
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.cursor import top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.errors import FormatError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NAME = "srbwriter"
VERSION = 1


@dataclass(slots=True)
class _File:
    format: str
    version: int
    story: StoryDraft


@cache
def _adapter() -> TypeAdapter[_File]:
    from pydantic import TypeAdapter  # slow to import, and only needed here

    return TypeAdapter(_File)


def matches(document: Document) -> bool:
    return document.object.get("format") == NAME


def read(document: Document) -> StoryDraft:
    from pydantic import ValidationError

    version = top(document).integer("version")
    if version is None or not 1 <= version <= VERSION:
        raise FormatError(
            document.name, "version", f"a number from 1 to {VERSION}; a newer program wrote this"
        )
    try:
        story = _adapter().validate_json(document.text, strict=True).story
        check_draft(story)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"]) or "the top level"
        raise FormatError(document.name, place, f"what the format says ({first['msg']})") from error
    except DraftError as error:
        raise FormatError(document.name, "story.nodes", f"a tree ({error})") from error
    return story


def write(draft: StoryDraft) -> bytes:
    return _adapter().dump_json(_File(NAME, VERSION, draft), exclude_defaults=True)


FORMAT = Format(NAME, "srbwriter JSON (everything)", ".json", matches, read, write, keeps_bin=True)
