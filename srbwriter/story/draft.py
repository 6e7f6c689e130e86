"""A whole story as plain values: the form in which it leaves and enters the program.

Formats turn file bytes into a :class:`StoryDraft` and back; the tree turns a draft into a living
story and back.  Nothing here knows files, the store, the engine or a screen, and nothing here
keeps invariants beyond :func:`check_draft`: a draft is data.

Conventions shared by everyone who fills or reads a draft:

* There is exactly one root (``parent_id is None``) and it is ``nodes[0]``; parents come before
  their children.  An importer that finds several top-level nodes hangs them below an empty root.
* The text of a node is exact: concatenating root → node gives the story, nothing is trimmed.
* Story-wide settings sit on the root node and are inherited down the tree like any others.
* Fields of a foreign file that mean nothing here are kept under ``meta["foreign"][format name]``,
  so that writing the same format again can put them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

JsonValue = Any
"""Anything JSON can say."""

JsonObject = dict[str, JsonValue]

Author = Literal["writer", "model", "edited", "imported"]
"""Who is responsible for a node's text; ``edited`` is model text that a person changed."""

SecondaryLogic = Literal["any", "all", "not_any", "not_all"]
"""How secondary keys narrow an entry whose primary key matched."""

AUTHORS: tuple[str, ...] = get_args(Author)


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
    secondary: list[str] = field(default_factory=list[str])
    logic: SecondaryLogic = "any"
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

    Layout: ``before`` memory ``between`` story ``after``.
    """

    name: str = ""
    before: str = ""
    between: str = ""
    after: str = ""


@dataclass(slots=True)
class Settings:
    """What a node says about its subtree; ``None`` (or an empty list or mapping) says nothing.

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
    sampling: JsonObject = field(default_factory=dict[str, JsonValue])

    def inherit(self, above: Settings) -> Settings:
        """These settings, with everything unsaid filled in from ``above`` (the parent's effective ones)."""
        own_ids = {entry.id for entry in self.lore}
        return Settings(
            memory=above.memory if self.memory is None else self.memory,
            author_note=above.author_note if self.author_note is None else self.author_note,
            author_note_depth=(
                above.author_note_depth if self.author_note_depth is None else self.author_note_depth
            ),
            lore=[*(entry for entry in above.lore if entry.id not in own_ids), *self.lore],
            lore_budget=above.lore_budget if self.lore_budget is None else self.lore_budget,
            scan_depth=above.scan_depth if self.scan_depth is None else self.scan_depth,
            template=above.template if self.template is None else self.template,
            sampling={**above.sampling, **self.sampling},
        )


def settings_text(settings: Settings) -> str | None:
    """JSON of what ``settings`` say; None if they say nothing."""
    if settings == Settings():
        return None
    said = {key: value for key, value in asdict(settings).items() if value not in (None, [], {})}
    return json.dumps(said) if said else None


def settings_from(text: str | None) -> Settings:
    """The inverse of :func:`settings_text`."""
    fields = cast(dict[str, Any], json.loads(text) if text else {})
    fields["lore"] = [LoreEntry(**entry) for entry in cast(list[dict[str, Any]], fields.get("lore", []))]
    if fields.get("template"):
        fields["template"] = Template(**fields["template"])
    return Settings(**fields)


@dataclass(slots=True)
class DraftRun:
    """A stretch of a node's text of one origin, with the tokens it was written in.

    ``vocabulary`` is the fingerprint of the vocabulary the ids belong to; ids without a fingerprint
    must not be reused.  The text of the ids is ``lead + text``, where ``lead`` already ends the text
    before.  ``logprobs`` is empty or as long as ``tokens``; natural logarithm, ``None`` where unknown.
    """

    text: str
    author: Author
    tokens: list[int] = field(default_factory=list[int])
    vocabulary: str = ""
    logprobs: list[float | None] = field(default_factory=list["float | None"])
    lead: str = ""


@dataclass(slots=True)
class Generation:
    """How model text came to be.  ``sampling`` holds the parameters by their own names."""

    seed: int | None = None
    sampling: JsonObject = field(default_factory=dict[str, JsonValue])
    model: str = ""
    finish_reason: str = ""


@dataclass(slots=True)
class Marks:
    """What the writer hung on a node.  ``title`` names the node, and the chapter if ``chapter`` is set."""

    bookmark: bool = False
    tags: list[str] = field(default_factory=list[str])
    rating: int = 0
    """-1 thumbs down, 0 none, +1 thumbs up."""
    note: str = ""
    chapter: bool = False
    title: str = ""
    visited: bool = True
    deleted: bool = False
    """In the bin: kept, but not part of the readable tree (nor is anything below)."""


@dataclass(slots=True)
class DraftNode:
    """One node.  ``order`` is its place among its siblings (ascending); times are Unix seconds, UTC.

    ``runs`` say who wrote which part of the text, and in which tokens; their texts join to ``text``.
    No runs means one, by ``author``, without tokens.
    """

    id: str
    parent_id: str | None = None
    order: int = 0
    text: str = ""
    author: Author = "imported"
    runs: list[DraftRun] = field(default_factory=list[DraftRun])
    generation: Generation | None = None
    marks: Marks = field(default_factory=Marks)
    settings: Settings = field(default_factory=Settings)
    created: float | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    number: int | None = None
    """Its number in the story it came from, where ``id`` does not say it; values of faces go by numbers."""


@dataclass(slots=True)
class DraftDay:
    """Words typed, picked and generated on one calendar day, and seconds spent writing."""

    typed: int = 0
    picked: int = 0
    generated: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class DraftSitting:
    """From opening a story to closing it (Unix seconds, UTC), and what came of it."""

    began: float
    ended: float
    typed: int = 0
    picked: int = 0
    generated: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class StoryDraft:
    """A story: its nodes, where the writer is, what it is called, and what was done on it when."""

    nodes: list[DraftNode]
    current_id: str
    title: str = ""
    byline: str = ""
    language: str = ""
    """A language tag (BCP 47) such as ``en`` or ``pt-BR``; empty where nothing is known."""
    created: float | None = None
    modified: float | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    id: str = ""
    """A UUID that stays the same however often the story is written out; empty where there is none."""
    hoisted: str = ""
    """The node whose subtree is looked at; empty for the whole."""
    values: JsonObject = field(default_factory=dict[str, JsonValue])
    """What faces keep with a story, such as knobs and words on open sheets."""
    days: dict[str, DraftDay] = field(default_factory=dict[str, DraftDay])
    """By calendar day (ISO 8601)."""
    sittings: list[DraftSitting] = field(default_factory=list[DraftSitting])

    @property
    def root(self) -> DraftNode:
        return self.nodes[0]


class DraftError(ValueError):
    """The nodes of a draft do not form a tree; the message names the node."""


def check_draft(draft: StoryDraft) -> None:
    """Check what the draft promises.

    Raises :class:`DraftError` unless the nodes form one tree, parents first, with a known current
    node, and every node's runs join to its text.
    """
    if not draft.nodes:
        raise DraftError("a story needs at least a root node")
    seen: set[str] = set()
    for index, node in enumerate(draft.nodes):
        if node.id in seen:
            raise DraftError(f"node id {node.id!r} occurs twice")
        if (node.parent_id is None) != (index == 0):
            raise DraftError(f"node {node.id!r}: the first node, and only the first, has no parent")
        if node.runs and "".join(run.text for run in node.runs) != node.text:
            raise DraftError(f"node {node.id!r}: its runs do not join to its text")
        if node.parent_id is not None and node.parent_id not in seen:
            raise DraftError(f"node {node.id!r}: its parent {node.parent_id!r} does not come before it")
        seen.add(node.id)
    if draft.current_id not in seen:
        raise DraftError(f"the current node {draft.current_id!r} is not in the story")


def children_by_parent(draft: StoryDraft) -> dict[str, list[DraftNode]]:
    """Every node's children in sibling order; each node has an entry, leaves an empty one."""
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


def reading_order(draft: StoryDraft, *, with_deleted: bool = True) -> Iterator[DraftNode]:
    """Depth-first, siblings in order, without recursion (a novel is deeper than the call stack)."""
    children = children_by_parent(draft)
    stack = [draft.root]
    while stack:
        node = stack.pop()
        if node.marks.deleted and not with_deleted:
            continue
        yield node
        stack.extend(reversed(children[node.id]))


def nested_text(root: DraftNode, parts: Callable[[DraftNode], Iterable[str | DraftNode]]) -> str:
    """A text whose nodes stand inside one another, made without recursion.

    ``parts`` gives what a node becomes, in order; each child among them becomes its own parts there.
    """
    texts: list[str] = []
    stack: list[str | DraftNode] = [root]
    while stack:
        here = stack.pop()
        if isinstance(here, str):
            texts.append(here)
        else:
            stack.extend(reversed(list(parts(here))))
    return "".join(texts)


def without_deleted(draft: StoryDraft) -> StoryDraft:
    """The readable tree: no binned nodes; a binned current node gives way to its nearest living ancestor."""
    nodes = list(reading_order(draft, with_deleted=False)) or [DraftNode(id=draft.root.id)]
    kept = {node.id for node in nodes}
    living = [node.id for node in path_to(draft, draft.current_id) if node.id in kept]
    return replace(draft, nodes=nodes, current_id=living[-1] if living else nodes[0].id)


def foreign(meta: JsonObject, format_name: str) -> JsonObject:
    """The fields of ``format_name`` kept under ``meta["foreign"]``; empty when there are none."""
    fields: JsonValue = as_object(meta.get("foreign")).get(format_name)
    return as_object(fields)


def keep_foreign(meta: JsonObject, format_name: str, fields: JsonObject) -> None:
    """Store ``fields`` under ``meta["foreign"][format_name]``; nothing is stored for no fields."""
    if fields:
        meta["foreign"] = {**as_object(meta.get("foreign")), format_name: fields}


def as_object(value: JsonValue) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value if it is a JSON list, else an empty one."""
    return cast(list[JsonValue], value) if isinstance(value, list) else []
