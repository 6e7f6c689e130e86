"""Undo and redo.

An action is one undoable step, made of reversible changes. The file keeps all actions as a tree: an action
that was undone stays in it as a sibling of the action done after that. Between an undo and a redo a model may
write more, and new branches may follow any node. A change is therefore an operation, not a snapshot: undoing
it moves newer nodes aside (see :meth:`Document.park`), and redoing it moves them back.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

from srbwriter.story.diff import Edit, in_one, refined
from srbwriter.story.document import Document
from srbwriter.story.encoding import edit_encoded
from srbwriter.story.model import Author, JsonObject, JsonValue, NodeId, Refused, State
from srbwriter.story.shapes import action_fits, row_sum
from srbwriter.story.spans import Seam, Spans, cut_at, seam, seam_of, tidy
from srbwriter.story.store import ACTION
from srbwriter.story.tree import SETTINGS, VISITED, Entry


class Change(Protocol):
    """One reversible step. ``do`` and ``undo`` may record in it which nodes they moved aside."""

    KIND: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def do(self, document: Document) -> None: ...

    def undo(self, document: Document) -> None: ...


class _Set(ABC):
    """Replaces a value."""

    before: Any
    after: Any

    def do(self, document: Document) -> None:
        self._put(document, self.after)

    def undo(self, document: Document) -> None:
        self._put(document, self.before)

    @abstractmethod
    def _put(self, document: Document, value: Any) -> None: ...


@dataclass(slots=True)
class SetEntry(_Set):
    """New values for fields of an index entry. Whether a node was visited is not undone."""

    KIND: ClassVar[str] = "entry"
    node: NodeId
    before: dict[str, JsonValue]
    after: dict[str, JsonValue]

    @classmethod
    def of(cls, entry: Entry, **after: JsonValue) -> SetEntry:
        """Return the change of these fields from their present values."""
        return cls(entry.id, {name: getattr(entry, name) for name in after}, after)

    def _put(self, document: Document, value: dict[str, JsonValue]) -> None:
        fields, spans = dict(value), document.spans(self.node) if "author" in value else None
        if "flags" in fields:
            fields["flags"] = fields["flags"] & ~VISITED | document.tree[self.node].flags & VISITED
        document.tree.set(self.node, **fields)
        if spans is not None:  # a new author applies to the node; its spans keep their own
            document.write(self.node, spans)


@dataclass(slots=True)
class SetSettings(_Set):
    """New settings (JSON text or None) of a node."""

    KIND: ClassVar[str] = "settings"
    node: NodeId
    before: str | None
    after: str | None

    def _put(self, document: Document, value: str | None) -> None:
        document.set_body(self.node, settings=value)
        flags = document.tree[self.node].flags & ~SETTINGS
        document.tree.set(self.node, flags=flags | (SETTINGS if value else 0))


@dataclass(slots=True)
class SetValue(_Set):
    """A new story-wide value."""

    KIND: ClassVar[str] = "value"
    key: str
    before: JsonValue
    after: JsonValue

    def _put(self, document: Document, value: JsonValue) -> None:
        document.put_value(self.key, value)


@dataclass(slots=True)
class Respell:
    """A change of text: ``removed`` at ``start`` became ``inserted``.

    Children numbered ``mark`` and up were made after the change. ``retake`` means that a model wrote the
    node: its version is kept on a sibling, ``spare_before``, until the change is undone, and the node becomes
    "edited". ``runs_before`` are the encoded spans of the node before the change, unless ``spare_before`` has
    them; ``runs_after`` are those after it while it is undone, when the node does not have them.
    """

    KIND: ClassVar[str] = "text"
    node: NodeId
    start: int
    removed: str
    inserted: str
    runs_before: bytes | None
    runs_after: bytes | None
    mark: NodeId
    spare_before: NodeId = 0
    spare_after: NodeId = 0
    retake: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.runs_before, str):  # from a file: see _as_json
            self.runs_before = b64decode(self.runs_before)
        if isinstance(self.runs_after, str):
            self.runs_after = b64decode(self.runs_after)

    @classmethod
    def of(cls, document: Document, node: NodeId, edits: Sequence[Edit]) -> Respell:
        """Return the change that ``edits`` make to the present text of ``node``."""
        body, retake = document.body(node), document.tree[node].author == "model"
        kept = None if retake else body.runs
        step = cls(node, 0, "", "", kept, None, document.tree.next_id, retake=retake)
        _, step.runs_after = step._aim(document, body.text, body.runs, edits)
        return step

    def go_on(self, document: Document, edit: Edit) -> None:
        """Apply ``edit`` to the node, and make it a part of this change."""
        now = document.body(self.node).text
        edits = [self._with(edit, now)]
        text, runs = self._aim(document, self._before(now), self._runs_before(document), edits)
        document.put_text(self.node, text, runs)

    def is_undone_by(self, document: Document, edit: Edit) -> bool:
        """Whether ``edit`` restores the text from before the change."""
        now = document.body(self.node).text
        start, stop, words = self._with(edit, now)
        return self._before(now)[start:stop] == words

    def _before(self, now: str) -> str:
        """Return the text before the change; ``now`` is the text after it."""
        return now[: self.start] + self.removed + now[self.start + len(self.inserted) :]

    def _with(self, edit: Edit, now: str) -> Edit:
        """Join the change and a later ``edit`` of ``now``, its text, into one edit of the text before."""
        own = Edit(self.start, self.start + len(self.removed), self.inserted)
        return in_one(own, edit, now)

    def _runs_before(self, document: Document) -> bytes | None:
        return document.body(self.spare_before).runs if self.retake else self.runs_before

    def _aim(
        self, document: Document, before: str, runs: bytes | None, edits: Sequence[Edit]
    ) -> tuple[str, bytes | None]:
        """Make this the change by ``edits`` of ``before``; return the text and the encoded spans after it."""
        author: Author = "model" if self.retake else document.tree[self.node].author
        parts = refined(edits, lambda start, stop: before[start:stop])
        text, runs = edit_encoded(
            runs, before, parts, "writer", author, document.token_sizes, "edited" if self.retake else author
        )
        start, end = (parts[0].start, parts[-1].end) if parts else (len(before), len(before))
        self.start, self.removed = start, before[start:end]
        self.inserted = text[start : len(text) - len(before) + end]
        return text, runs

    def do(self, document: Document) -> None:
        self.spare_before = self._leave(document, self.spare_before, self.retake)
        self._put(document, self.removed, self.inserted, self.runs_after, "edited")
        self.runs_after = None
        document.unpark(self.node, self.spare_after)

    def undo(self, document: Document) -> None:
        self.runs_after = document.body(self.node).runs
        self.spare_after = self._leave(document, self.spare_after, False)
        self._put(document, self.inserted, self.removed, self._runs_before(document), "model")
        document.unpark(self.node, self.spare_before)

    def _leave(self, document: Document, spare: NodeId, always: bool) -> NodeId:
        late = [c for c in document.tree.all_children(self.node) if c >= self.mark]
        return document.park(self.node, spare, late, always)

    def _put(self, document: Document, old: str, new: str, runs: bytes | None, author: Author) -> None:
        text = document.body(self.node).text
        text = text[: self.start] + new + text[self.start + len(old) :]
        if self.retake:
            document.tree.set(self.node, author=author)
        document.put_text(self.node, text, runs)


@dataclass(slots=True)
class Split:
    """A split: the text of ``node`` from ``at`` on became a child, ``rest``, which got all the children.

    With ``joining`` it is the reverse: ``rest`` became part of ``node``. Other children of the shorter
    ``node`` are on ``spare`` while the two are joined.
    """

    KIND: ClassVar[str] = "split"
    node: NodeId
    at: int
    rest: NodeId = 0
    spare: NodeId = 0
    joining: bool = False
    seam: tuple[int, int, int] | None = None  # as spans.Seam; None until the first cut
    finish: str = ""  # the finish reason of ``node`` while it is split

    def do(self, document: Document) -> None:
        (self._join if self.joining else self._split)(document)

    def undo(self, document: Document) -> None:
        (self._split if self.joining else self._join)(document)

    def _split(self, document: Document) -> None:
        head, tail = self._cut(document)
        body, entry = document.body(self.node), document.tree[self.node]
        children = document.tree.all_children(self.node)
        if not self.rest:
            made = body._replace(settings=None, meta=None, name=None)
            visited = bool(entry.flags & VISITED)
            self.rest = document.add(self.node, (), entry.author, body=made, visited=visited)
        document.tree.set(self.rest, parent=self.node, state=State.LIVING)
        document.write(self.rest, tail, document.body(self.rest)._replace(finish=body.finish))
        document.write(self.node, head, body._replace(finish=self.finish))
        document.move((c for c in children if c != self.rest), self.rest)
        document.unpark(self.node, self.spare)
        document.moved_on(self.node, self.rest)

    def _cut(self, document: Document) -> tuple[Spans, Spans]:
        """Cut at the same token as the first time, even if the vocabulary is not loaded now."""
        spans = document.spans(self.node)
        if self.seam is None:
            self.seam = seam(spans, self.at, document.token_sizes)
        return cut_at(spans, self.at, Seam(*self.seam))

    def _join(self, document: Document) -> None:
        extra = [c for c in document.tree.all_children(self.node) if c != self.rest]
        self.spare = document.park(self.node, self.spare, extra)
        head = document.spans(self.node)
        spans = tidy([*head, *document.spans(self.rest)])
        if self.seam is None:
            self.seam = seam_of(head, spans)
        self.finish, finish = document.body(self.node).finish, document.body(self.rest).finish
        document.move(document.tree.all_children(self.rest), self.node)
        document.write(self.node, spans, document.body(self.node)._replace(finish=finish))
        document.write(self.rest, ())
        document.tree.set(self.rest, state=State.ABSORBED)
        document.moved_on(self.rest, self.node)


_CHANGES = SetEntry, SetSettings, SetValue, Respell, Split
_KINDS: dict[str, Callable[..., Change]] = {kind.KIND: kind for kind in _CHANGES}
_FIELDS = {kind.KIND: [each.name for each in fields(kind)] for kind in _CHANGES}


def _as_json(change: Change) -> JsonObject:
    """Return the fields of ``change``, with bytes in base64."""
    values: JsonObject = {"kind": change.KIND}
    for name in _FIELDS[change.KIND]:
        value = getattr(change, name)
        values[name] = b64encode(value).decode() if isinstance(value, bytes) else value
    return values


@dataclass(slots=True)
class Action:
    """One undoable step: ``verb`` on ``node``.

    ``was`` and ``became`` are the current node before and after it; ``typed`` and ``picked`` are the words it
    added (see :mod:`srbwriter.story.progress`).
    """

    id: int
    parent: int
    verb: str
    node: NodeId
    at: float
    was: NodeId
    became: NodeId
    typed: int = 0
    picked: int = 0
    touched: int = 0
    changes: list[Change] = field(default_factory=list["Change"])

    def run(self, document: Document, change: Change) -> None:
        """Do ``change``, and make it a part of this action."""
        change.do(document)
        self.changes.append(change)

    def created(self, node: NodeId) -> None:
        """Record that ``node`` is new; undoing the action moves it to the bin."""
        self.changes.append(SetEntry(node, {"state": State.BINNED}, {"state": State.LIVING}))


class History:
    """The actions of a story, and the last of them that is done."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @property
    def head(self) -> int:
        """The number of the last action that is done and not undone; 0 if there is none."""
        return int(self._document.value("head", 0))

    @contextmanager
    def action(self, verb: str, node: NodeId) -> Generator[Action]:
        """Record a new action, made inside, in one transaction; ``became`` is the current node after it."""
        with self._document.change():
            here, now = self._document.current, self._document.day_log.now()
            action = Action(self._next(), self.head, verb, node, now, here, here)
            yield action
            self._count(action, 1)
            self._arrive(action, action.id, action.became)

    def _next(self) -> int:
        row = self._document.store.db.execute("SELECT coalesce(max(id), 0) + 1 FROM action").fetchone()
        return int(row[0])

    def get(self, number: int) -> Action | None:
        """Return an action by its number. Raises Refused if its checksum is wrong."""
        with self._document.store.reading() as db:
            row = db.execute(f"SELECT {ACTION}, sum FROM action WHERE id = ?", (number,)).fetchone()
            if row is None:
                return None
            if not action_fits(row[:-1]) or row_sum(*row[:-1]) != row[-1]:
                raise Refused("the file does not hold any more what was done there")
            changes = [_KINDS[fields.pop("kind")](**fields) for fields in json.loads(row[10])]
            return Action(*row[:10], changes=changes)

    def save(self, action: Action) -> None:
        """Write ``action``, inside a transaction."""
        *plain, changes = (getattr(action, name) for name in ACTION.split(", "))
        changes = json.dumps([_as_json(change) for change in changes])
        self._document.store.put("action", ACTION, [(*plain, changes)])

    def undo(self) -> Action | None:
        """Undo the last action and return it; None at the beginning."""
        with self._document.change():
            action = self.get(self.head)
            if action is None:
                return None
            for change in reversed(action.changes):
                change.undo(self._document)
            action.became = self._document.current
            self._count(action, -1)
            self._arrive(action, action.parent, action.was)
        return action

    def redo(self) -> Action | None:
        """Redo the action that was undone last here, and return it; None if there is none."""
        with self._document.change():
            row = self._document.store.db.execute(
                "SELECT id FROM action WHERE parent = ? ORDER BY touched DESC", (self.head,)
            ).fetchone()
            action = self.get(row[0]) if row is not None else None
            if action is None:
                return None
            for change in action.changes:
                change.do(self._document)
            action.was = self._document.current
            self._count(action, 1)
            self._arrive(action, action.id, action.became)
        return action

    def _count(self, action: Action, times: int) -> None:
        self._document.day_log.record(times * action.typed, times * action.picked, 0, action.at)

    def _arrive(self, action: Action, head: int, current: NodeId) -> None:
        """Save ``action`` as the one to redo first, and set the head and the current node."""
        document = self._document
        action.touched = int(document.value("touched", 0)) + 1
        document.put_value("touched", action.touched)
        self.save(action)
        document.put_value("head", head)
        document.put_value("current", document.tree.nearest_living(current))
