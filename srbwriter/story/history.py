"""What was done to a story, so that it can be undone and done again any number of times.

An action is one undoable step, made of reversible changes. Actions form a tree that is kept in the file,
and none is dropped: one that was undone and followed by another stays beside that. Between an undo and a redo
branches go on being written, and new ones may hang below any node. So a change is an operation and not a
picture of the past: it moves aside what came after it (see :meth:`Document.park`) and takes it back.
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
    """One reversible step. Both ways may note in the change what they had to move aside."""

    KIND: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def do(self, document: Document) -> None: ...

    def undo(self, document: Document) -> None: ...


class _Set(ABC):
    """A new value in the place of an old one."""

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
    """New values for fields of the index. Whether a node was visited is not part of history."""

    KIND: ClassVar[str] = "entry"
    node: NodeId
    before: dict[str, JsonValue]
    after: dict[str, JsonValue]

    @classmethod
    def of(cls, entry: Entry, **after: JsonValue) -> SetEntry:
        """The change from what ``entry`` says now."""
        return cls(entry.id, {name: getattr(entry, name) for name in after}, after)

    def _put(self, document: Document, value: dict[str, JsonValue]) -> None:
        fields, spans = dict(value), document.spans(self.node) if "author" in value else None
        if "flags" in fields:
            fields["flags"] = fields["flags"] & ~VISITED | document.tree[self.node].flags & VISITED
        document.tree.set(self.node, **fields)
        if spans is not None:  # they keep theirs
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
    """``removed`` at ``start`` became ``inserted``.

    Children numbered ``mark`` and up came after the change. With ``retake`` the node was the model's: its
    take is kept beside it, on ``spare_before``, for as long as the change stands, and the node is "edited".
    ``runs_before`` are the encoded spans of the whole node before the change; those of a retake are on
    ``spare_before``. ``runs_after`` are the spans after it, while it is undone; else the node has them.
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
        """The change that ``edits`` make to what ``node`` says now."""
        body, retake = document.body(node), document.tree[node].author == "model"
        kept = None if retake else body.runs
        step = cls(node, 0, "", "", kept, None, document.tree.next_id, retake=retake)
        _, step.runs_after = step._aim(document, body.text, body.runs, edits)
        return step

    def go_on(self, document: Document, edit: Edit) -> None:
        """The change stands and has ``edit`` in it from now on."""
        now = document.body(self.node).text
        edits = [self._with(edit, now)]
        text, runs = self._aim(document, self._before(now), self._runs_before(document), edits)
        document.put_text(self.node, text, runs)

    def is_undone_by(self, document: Document, edit: Edit) -> bool:
        """Whether ``edit`` makes the text again what it was before the change."""
        now = document.body(self.node).text
        start, stop, words = self._with(edit, now)
        return self._before(now)[start:stop] == words

    def _before(self, now: str) -> str:
        """What the node said before the change; ``now`` is what it says after it."""
        return now[: self.start] + self.removed + now[self.start + len(self.inserted) :]

    def _with(self, edit: Edit, now: str) -> Edit:
        """The change and ``edit`` after it, as one edit of the text before; ``now`` is that between them."""
        own = Edit(self.start, self.start + len(self.removed), self.inserted)
        return in_one(own, edit, now)

    def _runs_before(self, document: Document) -> bytes | None:
        return document.body(self.spare_before).runs if self.retake else self.runs_before

    def _aim(
        self, document: Document, before: str, runs: bytes | None, edits: Sequence[Edit]
    ) -> tuple[str, bytes | None]:
        """Make this the change that ``edits`` make to ``before``; returns the text and the spans after it."""
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
    """The text of ``node`` from ``at`` on became a child, ``rest``, with all its children.

    ``joining`` turns it round: ``rest`` became part of ``node``. What else hangs below ``node`` while
    it is two, and needs its shorter text, waits on ``spare`` while it is one.
    """

    KIND: ClassVar[str] = "split"
    node: NodeId
    at: int
    rest: NodeId = 0
    spare: NodeId = 0
    joining: bool = False
    seam: tuple[int, int, int] | None = None  # as spans.Seam; None until it is known
    finish: str = ""  # why ``node`` ended while it is two

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
        """Cut where it was cut the first time, whichever vocabularies are at hand now."""
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
    """The fields of ``change``; bytes in base64."""
    said: JsonObject = {"kind": change.KIND}
    for name in _FIELDS[change.KIND]:
        value = getattr(change, name)
        said[name] = b64encode(value).decode() if isinstance(value, bytes) else value
    return said


@dataclass(slots=True)
class Action:
    """One undoable step: ``verb`` on ``node``. ``was`` and ``became`` are the current node around it,
    ``typed`` and ``picked`` the words it brought: see :mod:`srbwriter.story.progress`."""

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
        """Do ``change`` as part of this action."""
        change.do(document)
        self.changes.append(change)

    def created(self, node: NodeId) -> None:
        """``node`` is new. Undoing that puts it into the bin: its words stay."""
        self.changes.append(SetEntry(node, {"state": State.BINNED}, {"state": State.LIVING}))


class History:
    """The actions of one story, and the one after which it stands now."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @property
    def head(self) -> int:
        """The last action done and not undone; 0 at the beginning."""
        return int(self._document.value("head", 0))

    @contextmanager
    def action(self, verb: str, node: NodeId) -> Generator[Action]:
        """A new action in a transaction of its own; the current node follows ``became``."""
        with self._document.change():
            here, now = self._document.current, self._document.sitting.now()
            action = Action(self._next(), self.head, verb, node, now, here, here)
            yield action
            self._count(action, 1)
            self._arrive(action, action.id, action.became)

    def _next(self) -> int:
        row = self._document.store.db.execute("SELECT coalesce(max(id), 0) + 1 FROM action").fetchone()
        return int(row[0])

    def get(self, number: int) -> Action | None:
        """An action by number. Raises Refused if it is not as it was written."""
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
        """Do the action again that was undone last here; None if there is none."""
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
        self._document.sitting.record(times * action.typed, times * action.picked, 0, action.at)

    def _arrive(self, action: Action, head: int, current: NodeId) -> None:
        """Of the actions that follow one action, this is the one that was done or undone last."""
        document = self._document
        action.touched = int(document.value("touched", 0)) + 1
        document.put_value("touched", action.touched)
        self.save(action)
        document.put_value("head", head)
        document.put_value("current", document.tree.nearest_living(current))
