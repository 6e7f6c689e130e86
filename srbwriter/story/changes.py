"""What a verb did, in a form that can be undone and done again any number of times.

Between an undo and a redo, branches go on being written, and new ones may hang below any node. So a
change is an operation and not a picture of the past: it moves aside what came after it (see
:meth:`Desk.park`) and takes it back. The full text of a node changes only if the writer changed it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

from srbwriter.story.desk import Desk
from srbwriter.story.draft import JsonValue
from srbwriter.story.runs import Runs, Seam, cut_at, decode, seam, seam_of, tidy
from srbwriter.story.tree import SETTINGS, VISITED
from srbwriter.story.types import NodeId, State


class Change(Protocol):
    """One reversible step. Both ways may note in the change what they had to move aside."""

    KIND: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def do(self, desk: Desk) -> None: ...

    def undo(self, desk: Desk) -> None: ...


@dataclass(slots=True)
class SetEntry:
    """New values for fields of the index. Whether a node was visited is not part of history."""

    KIND: ClassVar[str] = "entry"
    node: NodeId
    before: dict[str, JsonValue]
    after: dict[str, JsonValue]

    def do(self, desk: Desk) -> None:
        self._put(desk, self.after)

    def undo(self, desk: Desk) -> None:
        self._put(desk, self.before)

    def _put(self, desk: Desk, fields: dict[str, JsonValue]) -> None:
        fields = dict(fields)
        author = fields.pop("author", None)
        entry = desk.tree[self.node]
        if "flags" in fields:
            fields["flags"] = fields["flags"] & ~VISITED | entry.flags & VISITED
        desk.tree.put(entry._replace(**fields))
        if author is not None:
            desk.set_author(self.node, author)


@dataclass(slots=True)
class SetSettings:
    """New settings (JSON text or None) of a node."""

    KIND: ClassVar[str] = "settings"
    node: NodeId
    before: str | None
    after: str | None

    def do(self, desk: Desk) -> None:
        self._put(desk, self.after)

    def undo(self, desk: Desk) -> None:
        self._put(desk, self.before)

    def _put(self, desk: Desk, settings: str | None) -> None:
        desk.put_body(self.node, replace(desk.body(self.node), settings=settings))
        entry = desk.tree[self.node]
        flags = entry.flags & ~SETTINGS | (SETTINGS if settings else 0)
        desk.tree.put(entry._replace(flags=flags))


@dataclass(slots=True)
class SetValue:
    """A new story-wide value."""

    KIND: ClassVar[str] = "value"
    key: str
    before: JsonValue
    after: JsonValue

    def do(self, desk: Desk) -> None:
        desk.put_value(self.key, self.after)

    def undo(self, desk: Desk) -> None:
        desk.put_value(self.key, self.before)


@dataclass(slots=True)
class Respell:
    """``removed`` at ``start`` became ``inserted``; ``runs_*`` describe the whole node, base64.

    Children numbered ``mark`` and up came after the change.
    """

    KIND: ClassVar[str] = "text"
    node: NodeId
    start: int
    removed: str
    inserted: str
    runs_before: str | None
    runs_after: str | None
    mark: NodeId
    spare_before: NodeId = 0
    spare_after: NodeId = 0

    def do(self, desk: Desk) -> None:
        self.spare_before = self._leave(desk, self.spare_before)
        self._put(desk, self.removed, self.inserted, self.runs_after)
        desk.unpark(self.node, self.spare_after)

    def undo(self, desk: Desk) -> None:
        self.spare_after = self._leave(desk, self.spare_after)
        self._put(desk, self.inserted, self.removed, self.runs_before)
        desk.unpark(self.node, self.spare_before)

    def _leave(self, desk: Desk, spare: NodeId) -> NodeId:
        late = [c for c in desk.tree.all_children(self.node) if c >= self.mark]
        return desk.park(self.node, spare, late)

    def _put(self, desk: Desk, old: str, new: str, runs: str | None) -> None:
        text = desk.body(self.node).text
        text = text[: self.start] + new + text[self.start + len(old) :]
        desk.write(self.node, decode(unpack(runs), text, desk.tree[self.node].author))


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
    seam: tuple[int, int, int] | None = None  # as runs.Seam; None until it is known
    finish: str = ""  # why ``node`` ended while it is two

    def do(self, desk: Desk) -> None:
        (self._join if self.joining else self._split)(desk)

    def undo(self, desk: Desk) -> None:
        (self._split if self.joining else self._join)(desk)

    def _split(self, desk: Desk) -> None:
        head, tail = self._cut(desk)
        body, entry = desk.body(self.node), desk.tree[self.node]
        children = desk.tree.all_children(self.node)
        if not self.rest:
            made = replace(body, settings=None, meta=None, name=None)
            self.rest = desk.add(self.node, (), entry.author, body=made, visited=bool(entry.flags & VISITED))
        desk.tree.put(desk.tree[self.rest]._replace(parent=self.node, state=State.LIVING))
        desk.write(self.rest, tail, replace(desk.body(self.rest), finish=body.finish))
        desk.write(self.node, head, replace(body, finish=self.finish))
        desk.move((c for c in children if c != self.rest), self.rest)
        desk.unpark(self.node, self.spare)
        desk.moved_on(self.node, self.rest)

    def _cut(self, desk: Desk) -> tuple[Runs, Runs]:
        """Cut where it was cut the first time, whichever vocabularies are at hand now."""
        runs = desk.runs(self.node)
        if self.seam is None:
            self._seal(seam(runs, self.at, desk.token_sizes))
        return cut_at(runs, self.at, Seam(*(self.seam or (0, 0, 0))))

    def _seal(self, where: Seam) -> None:
        self.seam = (where.index, where.tokens, where.broken)

    def _join(self, desk: Desk) -> None:
        extra = [c for c in desk.tree.all_children(self.node) if c != self.rest]
        self.spare = desk.park(self.node, self.spare, extra)
        head = desk.runs(self.node)
        runs = tidy([*head, *desk.runs(self.rest)])
        if self.seam is None:
            self._seal(seam_of(head, runs))
        self.finish, finish = desk.body(self.node).finish, desk.body(self.rest).finish
        desk.move(desk.tree.all_children(self.rest), self.node)
        desk.write(self.node, runs, replace(desk.body(self.node), finish=finish))
        desk.write(self.rest, ())
        desk.set_state(self.rest, State.ABSORBED)
        desk.moved_on(self.rest, self.node)


_KINDS: dict[str, Callable[..., Change]] = {
    kind.KIND: kind for kind in (SetEntry, SetSettings, SetValue, Respell, Split)
}


def dump(changes: Iterable[Change]) -> str:
    """JSON of ``changes``."""
    return json.dumps([{"kind": change.KIND, **asdict(change)} for change in changes])


def load(text: str) -> list[Change]:
    """The inverse of :func:`dump`."""
    made: list[Change] = []
    for fields in json.loads(text):
        kind: str = fields.pop("kind")
        made.append(_KINDS[kind](**fields))
    return made


def pack(runs: bytes | None) -> str | None:
    """Bytes as JSON can hold them."""
    return None if runs is None else b64encode(runs).decode()


def unpack(runs: str | None) -> bytes | None:
    return None if runs is None else b64decode(runs)
