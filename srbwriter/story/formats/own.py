"""The program's own JSON: all of a story but its undo history, which belongs to the story file.

Version 2 has what was done on which day, what faces keep, and the numbers of nodes; version 1 is read too.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.cursor import top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.errors import FormatError
from srbwriter.story.model import DraftError, StoryDraft, check_draft

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

NAME = "srbwriter"
VERSION = 2
WITHOUT = ("the undo history",)
"""What is not in such a file; the file says so too."""

_MOST = 2**53  # what every reader of JSON can count to
_NAMES = {"spans": "runs", "ids": "tokens", "vocab": "vocabulary"}
"""What is called otherwise in the file."""


@dataclass(slots=True)
class _File:
    __pydantic_config__: ClassVar[ConfigDict] = {"alias_generator": lambda name: _NAMES.get(name, name)}
    format: str
    version: int
    without: list[str] = field(default_factory=list[str])
    story: StoryDraft = field(kw_only=True)


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
        _check_progress(story, document.name)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"]) or "the top level"
        raise FormatError(document.name, place, f"what the format says ({first['msg']})") from error
    except DraftError as error:
        raise FormatError(document.name, "story.nodes", f"a tree ({error})") from error
    return story


def _check_progress(story: StoryDraft, name: str) -> None:
    """Raise :class:`FormatError` for days that no calendar has, and for numbers that no story can keep."""
    for day, done in story.days.items():
        try:
            date.fromisoformat(day)
        except ValueError:
            raise FormatError(name, f"story.days.{day}", "a day such as 2024-05-06") from None
        if not all(map(_sane, astuple(done))):
            raise FormatError(name, f"story.days.{day}", "numbers of a sane size")
    for place, sitting in enumerate(story.sittings):
        if not all(map(_sane, astuple(sitting))):
            raise FormatError(name, f"story.sittings.{place}", "numbers of a sane size")


def _sane(number: float) -> bool:
    return math.isfinite(number) and abs(number) < _MOST


def write(draft: StoryDraft) -> bytes:
    file = _File(NAME, VERSION, list(WITHOUT), story=draft)
    return _adapter().dump_json(file, exclude_defaults=True, by_alias=True)


FORMAT = Format(
    NAME, "srbwriter JSON (all but the undo history)", ".json", matches, read, write, keeps_bin=True
)
