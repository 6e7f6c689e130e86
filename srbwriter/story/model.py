"""A story as plain values: nodes, spans, marks, settings and reports.

Formats turn file bytes into a :class:`StoryDraft` and back; :mod:`.convert` turns a draft into an open story
and back. A draft is data: only :func:`check_draft` checks it. Conventions for every draft:

* There is exactly one root (``parent_id is None``) and it is ``nodes[0]``; parents come before
  their children. An importer that finds several top-level nodes hangs them below an empty root.
* The text of a node is exact: concatenating root → node gives the story, nothing is trimmed.
* Story-wide settings sit on the root node and are inherited down the tree like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from operator import add
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

JsonValue = Any
"""Any JSON value."""

JsonObject = dict[str, JsonValue]

Author = Literal["writer", "model", "edited", "imported"]
"""The origin of a text; ``edited`` is model text that a person changed."""

AUTHORS: tuple[str, ...] = get_args(Author)

NodeId: TypeAlias = int
"""Nodes are numbered in order of creation; a number is never used twice in one story."""

ROOT: NodeId = 1
"""The root holds no text, has no siblings and cannot be deleted."""

TokenSizes: TypeAlias = "Callable[[str, Sequence[int]], Sequence[int] | None]"
"""(vocabulary fingerprint, token ids) → how many characters each token adds to the text.

Bytes of an unfinished character count for the token that finishes it. ``None``: not that vocabulary.
"""

OnProgress: TypeAlias = "Callable[[float], object]"
"""Called with the finished share of a long task, from 0 to 1; cancels the task by raising."""


def no_progress(share: float) -> None:
    """Ignore the progress."""


def within(progress: OnProgress, start: float, end: float) -> OnProgress:
    """Return a callback for a part of the task, from ``start`` to ``end`` of the whole."""
    return lambda share: progress(start + (end - start) * share)


class State(IntEnum):
    """Whether a node is in the tree, in the bin, or joined to another node."""

    LIVING = 0
    BINNED = 1  # deleted or undone by the writer; restorable
    ABSORBED = 2  # its text is part of another node now; only undo and redo bring it back


# -- what a node holds -------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Marks:
    """The writer's marks on a node; ``title`` names it.

    A ``deleted`` node is in the bin: kept, but neither it nor its descendants are
    part of the readable tree.
    """

    bookmark: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""
    title: str = ""
    visited: bool = True
    deleted: bool = False


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
    meta: JsonObject = field(default_factory=dict[str, JsonValue])


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
class Settings:
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

    def inherit(self, above: Settings) -> Settings:
        """Return these settings, with unset ones from ``above`` (the parent's effective settings)."""
        values = {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None
        }
        own_ids = {entry.id for entry in self.lore}
        values["lore"] = [*(entry for entry in above.lore if entry.id not in own_ids), *self.lore]
        values["sampling"] = {**above.sampling, **self.sampling}
        return replace(above, **values)


def settings_json(settings: Settings) -> JsonObject | None:
    """Return the set fields of ``settings`` as JSON; None if there are none."""
    values = {key: value for key, value in asdict(settings).items() if value not in (None, [], {})}
    return values or None


def settings_from(values: JsonObject | None) -> Settings:
    """The inverse of :func:`settings_json`."""
    values = deepcopy(values or {})
    lore = cast(list[dict[str, Any]], values.get("lore", []))
    values["lore"] = [LoreEntry(**entry) for entry in lore]
    if values.get("template"):
        values["template"] = Template(**values["template"])
    return Settings(**values)


@dataclass(slots=True)
class Generation:
    """The origin of model text. ``sampling`` holds the parameters by their own names."""

    seed: int | None = None
    sampling: JsonObject = field(default_factory=dict[str, JsonValue])
    model: str = ""
    finish_reason: str = ""


@dataclass(frozen=True, slots=True)
class Properties:
    """Title and author of a story, and the tag (BCP 47) of its language."""

    title: str = ""
    author: str = ""
    language: str = ""


# -- a story on its way ------------------------------------------------------------------------------


@dataclass(slots=True)
class DraftNode:
    """A node of a draft: ``id`` is its name in the file; all fields are mutable.

    ``order`` is its place among its siblings (ascending); ``created`` is in Unix seconds, UTC. ``spans`` give
    author and tokens of each part of the text; joined, their texts are ``text``. No spans means one, by
    ``author``, without tokens.
    """

    id: str
    parent_id: str | None = None
    order: int = 0
    text: str = ""
    author: Author = "imported"
    spans: list[Span] = field(default_factory=list[Span])
    generation: Generation | None = None
    marks: Marks = field(default_factory=Marks)
    settings: Settings = field(default_factory=Settings)
    created: float | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])

    def mark(self, **marks: Any) -> None:
        """Change marks, by the field names of :class:`Marks`."""
        self.marks = replace(self.marks, **marks)


@dataclass(frozen=True, slots=True)
class Progress:
    """Words typed and picked, less those cut (so below 0 after much cutting); words the model wrote; seconds
    spent writing."""

    typed: int = 0
    picked: int = 0
    generated: int = 0
    seconds: float = 0.0

    @property
    def words(self) -> int:
        """Words the story grew by, at least 0."""
        return max(0, self.typed + self.picked)

    def __add__(self, other: Progress) -> Progress:
        return Progress(*map(add, astuple(self), astuple(other)))


@dataclass(slots=True)
class StoryDraft:
    """A story: its nodes, the current node, its properties, and the progress by day."""

    nodes: list[DraftNode]
    current_id: str
    title: str = ""
    byline: str = ""
    language: str = ""
    """A language tag (BCP 47) such as ``en`` or ``pt-BR``; empty if unknown."""
    created: float | None = None
    modified: float | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    id: str = ""
    """A UUID that is the same in every export of the story; empty if there is none."""
    values: JsonObject = field(default_factory=dict[str, JsonValue])
    """Values that interfaces store with a story, such as settings and drafts of open dialogs."""
    days: dict[str, Progress] = field(default_factory=dict[str, Progress])
    """By calendar day (ISO 8601)."""
    notices: list[str] = field(default_factory=list[str])
    """What the writer should know of an import: what was left out, and what was changed."""

    @property
    def root(self) -> DraftNode:
        return self.nodes[0]

    @property
    def text(self) -> str:
        """The story from the root to the current node."""
        return "".join(node.text for node in path_to(self, self.current_id))


class DraftError(ValueError):
    """The nodes of a draft do not form a tree; the message names the node."""


def check_draft(draft: StoryDraft) -> None:
    """Check the invariants of a draft.

    Raises :class:`DraftError` unless the nodes form one tree, parents first, with a known current
    node, and every node's spans join to its text.
    """
    if not draft.nodes:
        raise DraftError("a story needs at least a root node")
    seen: set[str] = set()
    for index, node in enumerate(draft.nodes):
        if node.id in seen:
            raise DraftError(f"node id {node.id!r} occurs twice")
        if (node.parent_id is None) != (index == 0):
            raise DraftError(f"node {node.id!r}: the first node, and only the first, has no parent")
        if node.spans and "".join(span.text for span in node.spans) != node.text:
            raise DraftError(f"node {node.id!r}: its runs do not join to its text")
        if node.parent_id is not None and node.parent_id not in seen:
            raise DraftError(f"node {node.id!r}: its parent {node.parent_id!r} does not come before it")
        seen.add(node.id)
    if draft.current_id not in seen:
        raise DraftError(f"the current node {draft.current_id!r} is not in the story")


def children_by_parent(draft: StoryDraft) -> dict[str, list[DraftNode]]:
    """Return the children of every node in sibling order; the list of a leaf is empty."""
    children: dict[str, list[DraftNode]] = {node.id: [] for node in draft.nodes}
    for node in draft.nodes:
        if node.parent_id is not None:
            children[node.parent_id].append(node)
    for siblings in children.values():
        siblings.sort(key=lambda node: node.order)
    return children


def path_to(draft: StoryDraft, node_id: str) -> list[DraftNode]:
    """The nodes root → ``node_id``.  Raises :class:`KeyError` for an unknown id."""
    by_id = {node.id: node for node in draft.nodes}
    path = [by_id[node_id]]
    while (parent_id := path[-1].parent_id) is not None:
        path.append(by_id[parent_id])
    return path[::-1]


def without_deleted(draft: StoryDraft) -> StoryDraft:
    """Return the draft without the bin; the current node becomes its nearest living ancestor."""
    kept: dict[str | None, DraftNode] = {}
    for node in draft.nodes:
        if not kept or (node.parent_id in kept and not node.marks.deleted):
            kept[node.id] = node
    here = next(node.id for node in reversed(path_to(draft, draft.current_id)) if node.id in kept)
    return replace(draft, nodes=list(kept.values()), current_id=here)


def as_object(value: JsonValue) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value if it is a JSON list, else an empty one."""
    return cast(list[JsonValue], value) if isinstance(value, list) else []


# -- reports of a story ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """A node that was found, and its text around the first match."""

    node: NodeId
    snippet: str


class Blocked(StrEnum):
    """Why a story cannot be written to."""

    ASKED = "asked"  # the caller requested a read-only view
    IN_USE = "in_use"
    NO_PERMISSION = "no_permission"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """Why a story is read-only: a reason and a message."""

    reason: Blocked
    message: str


@dataclass(frozen=True, slots=True)
class SecondFile:
    """Where both versions of a story are whose file another program replaced while it was open."""

    theirs: Path
    ours: Path

    def __str__(self) -> str:
        where = f"in {self.ours.name}" if self.ours.parent == self.theirs.parent else f"in {self.ours}"
        return (
            f"Another program changed {self.theirs.name} while it was open here. That version stays there; "
            f"yours is {where}."
        )


@dataclass(frozen=True, slots=True)
class Damage:
    """The unreadable parts of a damaged file. Nodes whose parent was lost are below the root.

    ``doubtful`` nodes were read, but may not be as they were written last.
    """

    problem: str
    read: int
    missing: tuple[NodeId, ...] = ()
    displaced: tuple[NodeId, ...] = ()
    doubtful: tuple[NodeId, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.problem}; {counted(self.read, 'node')} read"]
        for nodes, words in (
            (self.missing, "lost"),
            (self.displaced, "without their place, below the root"),
            (self.doubtful, "not as written, perhaps — read them over"),
        ):
            if nodes:
                more = f" and {len(nodes) - 20} more" if len(nodes) > 20 else ""
                parts.append(f"nodes {', '.join(map(str, nodes[:20]))}{more}: {words}")
        return "; ".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, whose plural ends in s: ``1 word``, ``2 words``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class StoryError(Exception):
    """Base of the story's errors; ``str()`` is a message for the writer."""


class NotAStory(StoryError):
    """The file is not a story, missing, or exists already."""

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
    """Part of the file cannot be read. Opening it again recovers the rest."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        cure = "open it in the app: `r` there continues in a copy with what is left"
        super().__init__(f"{path}: the file is damaged ({problem}) — {cure}")


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

    def __init__(self, path: Path, problem: str, full: bool, cure: str = "") -> None:
        self.path, self.full = path, full
        self.short = "the disk is full" if full else problem
        usual = "free some space and try again" if full else "check the folder, or save a copy elsewhere"
        cure = cure or usual
        super().__init__(f"{path}: not saved, {problem} — {cure}; nothing is lost while the program runs")


class NotMade(NotSaved):
    """There was no place for a new story file, and nothing is left of it; ``words`` say why, and the cure."""

    def __init__(self, path: Path, words: str, full: bool) -> None:
        super().__init__(path, words, full)
        self.short = words
        self.args = (f"{path}: no story can be made there, {words}",)
