"""The words the tree speaks: nodes, runs, reports and typed errors.

Frozen values only. Knows no file, no SQL, no engine and no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TypeAlias

from srbwriter.story.draft import Author, JsonValue

NodeId: TypeAlias = int
"""Nodes are numbered in order of creation; a number is never used twice in one story."""

ROOT: NodeId = 1
"""The root holds no text, has no siblings and cannot be deleted."""

TokenSizes: TypeAlias = "Callable[[str, Sequence[int]], Sequence[int] | None]"
"""(vocabulary fingerprint, token ids) → how many characters each token adds to the text.

Bytes of an unfinished character count for the token that finishes it. ``None``: not that vocabulary.
"""

Progress: TypeAlias = "Callable[[float], object]"
"""Told the share of a long work that is done, from 0 to 1; breaks the work off by raising."""


def untold(share: float) -> None:
    """The progress that nobody follows."""


def within(progress: Progress, start: float, end: float) -> Progress:
    """The progress of a part of the work, which goes from ``start`` to ``end`` of the whole."""
    return lambda share: progress(start + (end - start) * share)


class State(IntEnum):
    """Where a node is."""

    LIVING = 0
    BINNED = 1  # deleted or undone by the writer; restorable
    ABSORBED = 2  # its text is part of another node now; only undo and redo bring it back


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text of one origin.

    ``ids`` are the tokens the model wrote, in ``vocab``; the text of the ids is ``lead + text``, where
    ``lead`` already stands at the end of the text before (token healing, or a cut inside a token).
    ``logprobs`` (natural log, None where unknown) is None or as long as ``ids``.
    """

    text: str
    author: Author
    ids: tuple[int, ...] | None = None
    vocab: str = ""
    logprobs: tuple[float | None, ...] | None = None
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """What the writer hung on a node; ``title`` names the node, and the chapter if ``chapter`` is set."""

    bookmark: bool = False
    tags: tuple[str, ...] = ()
    rating: int = 0
    note: str = ""
    chapter: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Properties:
    """What a story is called, who writes it, and the tag (BCP 47) of the language it is written in."""

    title: str = ""
    author: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it was when asked for. Times are Unix seconds, UTC."""

    id: NodeId
    parent: NodeId | None
    state: State
    author: Author
    runs: tuple[Run, ...]
    marks: Marks
    visited: bool
    created: float
    model: str = ""
    seed: int | None = None
    sampling: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    finish_reason: str = ""
    streaming: bool = False
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: best first; the snippet has matches between ``\\x02`` and ``\\x03``."""

    node: NodeId
    snippet: str
    score: float
    binned: bool = False


class Blocked(StrEnum):
    """Why a story cannot be written to."""

    ASKED = "asked"  # the caller wanted a read-only view
    IN_USE = "in_use"
    NO_PERMISSION = "no_permission"
    DAMAGED = "damaged"
    NO_COPY = "no_copy"  # it is of an older version, and would be brought up to date only after a copy


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """Why this view is read-only, in a word and in a sentence."""

    reason: Blocked
    message: str


@dataclass(frozen=True, slots=True)
class Damage:
    """What could not be read from a damaged file. Nodes whose place was lost hang below the root.

    ``doubtful`` are nodes that were read, but may not be as they were written: in text, marks or settings.
    """

    problem: str
    read: int
    missing_nodes: tuple[NodeId, ...] = ()
    missing_text: tuple[NodeId, ...] = ()
    missing_characters: int = 0
    displaced: tuple[NodeId, ...] = ()
    doubtful: tuple[NodeId, ...] = ()
    other: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.problem}; {counted(self.read, 'node')} read"]
        if self.missing_nodes:
            parts.append(f"nodes lost: {numbers(self.missing_nodes)}")
        if self.missing_text:
            characters = counted(self.missing_characters, "character")
            parts.append(f"text of nodes {numbers(self.missing_text)} lost ({characters})")
        if self.displaced:
            parts.append(f"nodes {numbers(self.displaced)} lost their place and hang below the root")
        if self.doubtful:
            parts.append(f"nodes {numbers(self.doubtful)} may not be as they were written — read them over")
        return "; ".join([*parts, *self.other])


def counted(number: int, noun: str) -> str:
    """``number`` of a thing whose plural ends in s: ``1 word``, ``2 words``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def numbers(ids: Sequence[NodeId], most: int = 20) -> str:
    """``ids`` in words, at most ``most`` of them."""
    shown = ", ".join(map(str, ids[:most]))
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"


class StoryError(Exception):
    """Base of everything the story raises on purpose; ``str()`` is fit for a person."""


class NotAStory(StoryError):
    """The file is something else, missing, or already there."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class TooNew(NotAStory):
    """The story was written by a later version; it is left untouched."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        self.version, self.known = version, known
        super().__init__(
            path,
            f"is of story version {version}, {known} is the newest known here — install a newer srbwriter",
        )


class DamagedStory(StoryError):
    """Part of the file cannot be read. Open it again to get everything that can."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: the file is damaged ({problem}) — open it again to read what is left")


class NoSuchNode(StoryError):
    """There is no node of that number, or it is not part of the readable tree."""

    def __init__(self, node: NodeId, problem: str = "is not in this story") -> None:
        self.node = node
        super().__init__(f"node {node} {problem}")


class Refused(StoryError):
    """The verb cannot apply to this node; the message says why."""


class ReadOnlyStory(StoryError):
    """A verb that writes was called on a read-only view."""

    def __init__(self, why: ReadOnly) -> None:
        self.why = why
        super().__init__(why.message)


class NotSaved(StoryError):
    """The disk did not take the words; nothing of the verb has happened."""

    def __init__(self, path: Path, problem: str, full: bool) -> None:
        self.path, self.full = path, full
        self.short = "the disk is full" if full else problem
        cure = "free some space and try again" if full else "check the folder, or save a copy elsewhere"
        super().__init__(f"{path}: not saved, {problem} — {cure}; nothing is lost while the program runs")
