"""Plain values of a story: spans, settings, progress, reports and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

JsonValue = Any
"""Any JSON value."""

JsonObject = dict[str, JsonValue]

Author = Literal["writer", "model", "edited", "imported"]
"""The origin of a text; ``edited`` is model text that a person changed."""

NodeId: TypeAlias = int
"""Nodes are numbered in order of creation; a number is never used twice in one story."""

ROOT: NodeId = 1
"""The root holds no text, has no siblings and cannot be deleted."""

TokenSizes: TypeAlias = "Callable[[str, Sequence[int]], Sequence[int] | None]"
"""(vocabulary fingerprint, token ids) → how many characters each token adds to the text.

Bytes of an unfinished character count for the token that finishes it. ``None``: not that vocabulary.
"""


class State(IntEnum):
    """Whether a node is in the tree, in the bin, or a version that was undone."""

    LIVING = 0
    BINNED = 1  # deleted or undone by the writer; restorable
    ABSORBED = 2  # another node has its text; only undo and redo bring it back


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text of one origin.

    ``ids`` are the tokens the model wrote, in the vocabulary whose fingerprint is ``vocab``; empty for text
    that was typed. Their text is ``lead + text``, where ``lead`` is already the end of the text before (token
    healing, or a cut inside a token). ``logprobs`` (natural logarithm, None where unknown) are as many as
    ``ids``, or none.
    """

    text: str
    author: Author
    ids: tuple[int, ...] = ()
    vocab: str = ""
    logprobs: tuple[float | None, ...] = ()
    lead: str = ""


@dataclass(slots=True)
class LoreEntry:
    """One lorebook (world info) entry.

    A key written ``/pattern/flags`` is a regular expression, any other key is plain text.
    ``depth`` counts newline-ended lines back from the end of the story; ``None`` puts the entry
    into the stable block beside the memory.  ``scan_depth`` is in characters back from the end,
    ``None`` means the story's default; ``token_budget`` cuts the entry's own text.
    """

    id: str
    name: str = ""
    text: str = ""
    keys: list[str] = field(default_factory=list[str])
    enabled: bool = True
    constant: bool = False
    case_sensitive: bool = False
    whole_words: bool = False
    depth: int | None = None
    scan_depth: int | None = None
    token_budget: int | None = None
    order: int = 0
    """Entries of a higher order come later in the text and are kept first when the budget is short."""


@dataclass(slots=True)
class Template:
    """Text an instruction-tuned model needs around the parts of a prompt.

    Layout: ``before`` memory ``request`` ``between`` story ``after``. The request is plain text: names of
    special tokens in it mean nothing.
    """

    name: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    request: str = ""


@dataclass(slots=True)
class StorySettings:
    """Settings of a node for its subtree; ``None`` (or an empty list or mapping) is unset.

    ``sampling`` holds sampling parameters by their own names; nearer nodes win key by key.
    Lore entries merge by id, so a nearer entry replaces an inherited one.
    """

    memory: str | None = None
    author_note: str | None = None
    author_note_depth: int | None = None
    lore: list[LoreEntry] = field(default_factory=list[LoreEntry])
    lore_budget: int | None = None
    scan_depth: int | None = None
    template: Template | None = None
    outline: str | None = None
    """A line for each chapter, of which the model reads two."""
    so_far: str | None = None
    """What the prompt tells of the story before its window; put in for a prompt, and never kept."""
    request: str | None = None
    """The request to an instruction model, in the user's turn; None for the default."""
    framed: bool | None = None
    """Whether the model's chat template frames the story; None for yes with instruction models only."""
    sampling: JsonObject = field(default_factory=dict[str, JsonValue])

    def inherit(self, above: StorySettings) -> StorySettings:
        """Return these settings, with unset ones from ``above`` (the parent's effective settings)."""
        values = {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None
        }
        own_ids = {entry.id for entry in self.lore}
        values["lore"] = [*(entry for entry in above.lore if entry.id not in own_ids), *self.lore]
        values["sampling"] = {**above.sampling, **self.sampling}
        return replace(above, **values)


def settings_json(settings: StorySettings) -> JsonObject | None:
    """Return the set fields of ``settings`` as JSON; None if there are none."""
    values = msgspec.to_builtins(settings)
    return {key: value for key, value in values.items() if value not in (None, [], {})} or None


def settings_from(values: JsonObject | None) -> StorySettings:
    """The inverse of :func:`settings_json`; fields of older programs are ignored."""
    return msgspec.convert(values or {}, StorySettings)


class Progress(NamedTuple):
    """Words that a story grew by, less those cut (so below 0 after much cutting), and seconds of writing."""

    words: int = 0
    seconds: float = 0.0


def as_object(value: JsonValue) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value if it is a JSON list, else an empty one."""
    return cast(list[JsonValue], value) if isinstance(value, list) else []


class ReadOnly(NamedTuple):
    """Why a story is read-only: a reason and a message."""

    reason: Literal["asked", "in use", "closed", "damaged"]
    message: str


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, whose plural ends in s: ``1 word``, ``2 words``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class StoryError(Exception):
    """Base of the story's errors; ``str()`` is a message for the writer."""


class Refused(StoryError):
    """The verb cannot apply; the message says why."""


class FileError(StoryError):
    """A story's file is not as it should be; ``problem`` says how, without its name."""

    words = "{}"

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {self.words.format(problem)}")


class NotAStory(FileError):
    """The file is not a story, or missing."""


class DamagedStory(FileError):
    """Part of the file cannot be read. Opening it again recovers the rest."""

    words = "the file is damaged ({}) — open it in the app: `r` there continues in a copy with what is left"


class NotSaved(FileError):
    """The disk did not take the words; ``problem`` says why, and the cure behind a dash."""

    words = "not saved, {}"
