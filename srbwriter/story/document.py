"""An open story in memory: its index, its texts and its file, changed in transactions.

The verbs of a story are built on this module. It changes nodes completely or not at all, and decides no
policy.

Threading: any thread may call any public method of :class:`~srbwriter.story.story.Story`. A verb holds
:attr:`Document.writing`, so one runs at a time. Memory is read and changed under :attr:`Document.lock`, which
is released while the disk syncs, so readers never wait for a disk. Acquire ``writing`` before ``lock``.
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import accumulate
from threading import RLock
from typing import Any, NamedTuple, overload

from srbwriter.story.diff import Piece
from srbwriter.story.encoding import decode, encode
from srbwriter.story.model import (
    ROOT,
    Author,
    JsonValue,
    NodeId,
    NoSuchNode,
    ReadOnly,
    ReadOnlyStory,
    Refused,
    State,
    StoryError,
    TokenSizes,
)
from srbwriter.story.progress import DayLog
from srbwriter.story.spans import Spans, text_of
from srbwriter.story.store import Body, Store
from srbwriter.story.tree import CHAPTER, SETTINGS, VISITED, Entry, Tree
from srbwriter.story.words import count

log = logging.getLogger(__name__)

_CACHED_CHARS = 4_000_000  # characters of bodies kept in memory; a long novel has about three million


class Written(NamedTuple):
    """A branch that a model is writing: the node that gets its text, and the vocabulary of its tokens."""

    node: NodeId
    vocab: str


class Document:
    """Everything one open story holds in memory."""

    def __init__(self, store: Store, read_only: ReadOnly | None) -> None:
        self.lock = RLock()
        self.writing = store.writing
        self.store = store
        self.read_only = read_only
        self.token_sizes: TokenSizes | None = None
        self.on_revert: list[Callable[[], None]] = []  # called after each reverted transaction
        self.live: dict[NodeId, Written] = {}
        """The branches being written, by the first node of each."""
        self._inside = False
        self._broken: BaseException | None = None  # the first error in a part of the open transaction
        self._fresh: dict[NodeId, Body] = {}  # bodies of the open transaction
        self._bodies: OrderedDict[NodeId, Body] = OrderedDict()
        self._cached = 0
        self.day_log = DayLog(store)
        self.on_revert.append(self.day_log.revert)
        self.load()

    def load(self) -> None:
        """Read the index again."""
        with self.store.one_moment():
            self.tree = Tree(self.store.entries())
            self.recipes = self.store.recipes()
            self.values: dict[str, JsonValue] = {}
            self.values["current"] = self.tree.nearest_living(int(self.store.value("current", ROOT)))
            self._forget()

    @contextmanager
    def one_moment(self) -> Generator[None]:
        """Read index, texts and values of one moment inside, even if another process is writing them."""
        with self.store.one_moment() as begun:
            if begun:
                self.load()
            yield

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Generator[None]:
        """Run a transaction: all changes are on the disk afterwards, or none happened.

        A change inside another is a part of it. If another program has replaced the file, the story goes on
        in a second one. Raises ReadOnlyStory, NotSaved or DamagedStory.
        """
        if self.read_only is not None:
            raise ReadOnlyStory(self.read_only)
        with self.writing:
            if self._inside:
                with self._part():
                    yield
                return
            if self.store.replaced and self.store.on_replaced is not None:
                with self.lock:
                    self.store.on_replaced()
                    self.values.pop("title", None)
            self._inside = True
            kept = dict(self.values), dict(self.live)
            try:
                self.store.begin()  # without the lock: another process may have the file for seconds
                with self.lock, self.store.in_words():
                    yield
                    if self._broken is not None:
                        raise self._broken
                    self.store.write_bodies()
                    self.store.put_entries(self.tree.changed)
                self.store.commit()  # without the lock
            except BaseException:
                self._revert(*kept)
                raise
            finally:
                self._inside, self._broken = False, None
            self._settle()

    @contextmanager
    def _part(self) -> Generator[None]:
        """Run a change inside another; if it fails, the whole transaction does, since it may be half done."""
        try:
            yield
        except BaseException as error:
            self._broken = self._broken or error
            raise

    def _settle(self) -> None:
        with self.lock:
            self.tree.settle()
            self._fresh.clear()
            self.day_log.settle()

    def _revert(self, values: dict[str, JsonValue], live: dict[NodeId, Written]) -> None:
        with self.lock:
            self.tree.revert()
            self.values, self.live = values, live
            self._forget()
            for call in self.on_revert:
                call()
            try:
                self.store.rollback()
            except StoryError as error:  # the disk fails altogether; the next transaction rolls back first
                log.warning("a transaction is left open: %s", error)

    def value(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return a story-wide value; ``default`` if it is missing or null."""
        if key not in self.values:
            self.values[key] = self.store.value(key)
        found = self.values[key]
        return default if found is None else found

    def put_value(self, key: str, value: JsonValue) -> None:
        if self.value(key) != value:
            self.values[key] = value
            self.store.put_value(key, value)

    # -- bodies ------------------------------------------------------------------------------------

    def body(self, node: NodeId) -> Body:
        """Return the text of ``node`` and its other large fields. Raises NoSuchNode."""
        return self.some_bodies([node])[node]

    def some_bodies(self, nodes: Sequence[NodeId]) -> dict[NodeId, Body]:
        with self.lock:
            found = {node: body for node in nodes if (body := self._known(node)) is not None}
            wanted = [node for node in nodes if node not in found]
            for node, body in self.store.bodies(wanted).items() if wanted else ():
                found[node] = body
                self._remember(node, body)
            for node in nodes:
                if node not in found:
                    raise NoSuchNode(node, "has lost its text") if node in self.tree else NoSuchNode(node)
                if node in self._bodies:
                    self._bodies.move_to_end(node)
            return found

    def _known(self, node: NodeId) -> Body | None:
        return self._fresh.get(node) or self._bodies.get(node)

    def texts(self, nodes: Sequence[NodeId]) -> dict[NodeId, str]:
        """Return the texts of ``nodes``, without the rest of their bodies; for long paths."""
        with self.lock:
            found = {node: body.text for node, body in self._fresh.items()} if self._fresh else {}
            return self.store.texts([node for node in nodes if node not in found]) | found

    def set_body(self, node: NodeId, **fields: Any) -> None:
        """Change fields of a body other than the text."""
        self.put_body(node, self.body(node)._replace(**fields))

    def put_body(self, node: NodeId, body: Body) -> None:
        self.store.put_body(node, body)
        self._fresh[node] = body
        self._remember(node, body)

    def _remember(self, node: NodeId, body: Body) -> None:
        old = self._bodies.pop(node, None)
        self._cached += len(body.text) - (len(old.text) if old else 0)
        self._bodies[node] = body
        while self._cached > _CACHED_CHARS and len(self._bodies) > 1:
            self._cached -= len(self._bodies.popitem(last=False)[1].text)

    def _forget(self) -> None:
        self._fresh.clear()
        self._bodies.clear()
        self._cached = 0

    def spans(self, node: NodeId) -> Spans:
        return self.decode(node, self.body(node))

    def decode(self, node: NodeId, body: Body) -> Spans:
        return decode(body.runs, body.text, self.tree[node].author)

    # -- the primitive changes ---------------------------------------------------------------------

    def add(
        self,
        parent: NodeId | None,
        spans: Spans,
        author: Author,
        *,
        place: int | None = None,
        body: Body | None = None,
        visited: bool = True,
    ) -> NodeId:
        """Add a node, after its siblings unless ``place`` is given; ``body`` holds all but the text."""
        node, flags = self.tree.next_id, VISITED if visited else 0
        place = self.tree.last_place(parent) if place is None else place
        self.tree.put(Entry(node, parent, place, State.LIVING, author, flags=flags, created=time.time()))
        self.write(node, spans, body or Body())
        return node

    def write(self, node: NodeId, spans: Spans, body: Body | None = None) -> None:
        """Set the text of ``node`` to ``spans``."""
        self.put_text(node, text_of(spans), encode(spans, self.tree[node].author), body)

    def put_text(self, node: NodeId, text: str, runs: bytes | None, body: Body | None = None) -> None:
        """Set the text of ``node``; ``runs`` are its encoded spans."""
        self.put_body(node, (body or self.body(node))._replace(text=text, runs=runs))
        words = count(text)
        self.tree.set(node, chars=len(text), words=words.words, edges=words.edges)
        self.store.put_unindexed(node)

    def move(self, nodes: Iterable[NodeId], parent: NodeId) -> None:
        """Move ``nodes`` below ``parent``, in their present order."""
        for node in nodes:
            self.tree.set(node, parent=parent)

    # -- spares: siblings that keep an earlier text for the nodes that follow it -------------------

    def park(self, node: NodeId, spare: NodeId, children: Sequence[NodeId], always: bool = False) -> NodeId:
        """Move ``children`` from ``node`` to a sibling with the same text, which they still follow then.

        ``spare`` is the sibling made for this before, or 0. Returns the sibling, or ``spare`` if no child
        needs one. ``always`` makes the sibling even without children.
        """
        # An absorbed child with children is itself a spare, and everything below it is in the bin.
        children = [c for c in children if self.tree[c].state != State.ABSORBED or self.tree.all_children(c)]
        if not children and not always:
            return spare
        entry = self.tree[node]
        assert entry.parent is not None  # the root has no text that could change
        spare = spare or self.tree.next_id
        alive = always or any(self.tree[c].state == State.LIVING for c in children)
        known = spare in self.tree
        old = (
            self.tree[spare] if known else Entry(spare, entry.parent, entry.place, State.LIVING, entry.author)
        )
        self.tree.put(
            old._replace(
                parent=entry.parent,
                place=entry.place,
                author=entry.author,
                flags=entry.flags & (SETTINGS | VISITED) | (VISITED if always else 0),
                state=State.LIVING if alive else State.ABSORBED,
                created=entry.created,
                chars=entry.chars,
                words=entry.words,
                edges=entry.edges,
            )
        )
        self.put_body(spare, self.body(node)._replace(name=None))
        self.store.put_unindexed(spare)
        self.move(children, spare)
        return spare

    def unpark(self, node: NodeId, spare: NodeId) -> None:
        """Move the children back that :meth:`park` moved away, and empty ``spare``."""
        if not spare:
            return
        self.move(self.tree.all_children(spare), node)
        self.tree.set(spare, state=State.ABSORBED)
        self.write(spare, ())

    # -- recipes -----------------------------------------------------------------------------------

    def recipe(self, model: str, sampling: JsonValue) -> int | None:
        """Return the number of a model and its sampling in the file; None if both are empty."""
        if not model and not sampling:
            return None
        text = json.dumps(sampling or {}, sort_keys=True)
        number = self.store.recipe(model, text)
        self.recipes[number] = (model, text)
        return number

    @property
    def current(self) -> NodeId:
        """The node at which the writer is."""
        return int(self.value("current"))

    # -- checks --------------------------------------------------------------------------------------

    def check_kept(self, node: NodeId) -> NodeId:
        """Return ``node``. Raises NoSuchNode if it is in the bin itself or was joined to another node."""
        state = self.tree[node].state
        if state == State.BINNED:
            raise NoSuchNode(node, "is in the bin")
        if state == State.ABSORBED:
            raise NoSuchNode(node, "is part of another node now")
        return node

    def check_living(self, node: NodeId) -> NodeId:
        """Return ``node``. Raises NoSuchNode if it is not part of the readable tree."""
        self.check_kept(node)
        if not self.tree.living(node):
            raise NoSuchNode(node, "is below something in the bin")
        return node

    def check_parent(self, node: NodeId, verb: str) -> NodeId:
        """Return the parent of a living ``node``. Raises Refused for the root, which cannot be ``verb``."""
        parent = self.tree[self.check_living(node)].parent
        if parent is None:
            raise Refused(f"the root of the story cannot be {verb}")
        return parent

    def check_unwritten(self, node: NodeId) -> None:
        """Raise Refused while a model writes at the end of ``node``."""
        if self.written_at(node) is not None:
            raise Refused(f"node {node} is still being written — stop it first")

    # -- branches being written ----------------------------------------------------------------------

    def written(self, branch: NodeId) -> Written:
        """Return a branch by its first node. Raises Refused if it is not being written."""
        try:
            return self.live[branch]
        except KeyError:
            raise Refused(f"node {branch} is not being written") from None

    def written_at(self, node: NodeId) -> NodeId | None:
        """Return the branch that is being written at the end of ``node``, by its first node."""
        return next((name for name, branch in self.live.items() if branch.node == node), None)

    def moved_on(self, old: NodeId, new: NodeId) -> None:
        """Let a branch that is being written at the end of ``old`` continue at the end of ``new``."""
        name = self.written_at(old)
        if name is not None:
            self.live[name] = self.live[name]._replace(node=new)


class PathText(Sequence[Piece]):
    """The text from the root to the end of a node, as one piece for each node; texts are read on demand."""

    def __init__(self, document: Document, end: NodeId) -> None:
        self._document = document
        self._nodes = document.tree.path(end)[1:]  # the root has none
        self._ends = list(accumulate([document.tree[node].chars for node in self._nodes], initial=0))
        self._writing = {written.node for written in document.live.values()}
        self._held = -1, ""  # the node that was read last

    @property
    def length(self) -> int:
        """Characters of the text."""
        return self._ends[-1]

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> list[Piece]: ...
    def __getitem__(self, index: int | slice) -> Piece | list[Piece]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        node = self._nodes[at]
        entry = self._document.tree[node]
        model, chapter = entry.author == "model", bool(entry.flags & CHAPTER)
        return Piece(node, self._ends[at], self._ends[at + 1], model, node in self._writing, chapter)

    def read(self, start: int, stop: int) -> str:
        """Return characters ``start`` to ``stop``, or up to the end of the text."""
        stop = min(stop, self.length)
        if start >= stop:
            return ""
        first, last = bisect_right(self._ends, start) - 1, bisect_left(self._ends, stop)
        if last - first > 1:
            texts = self._document.texts(self._nodes[first:last])
            text = "".join(texts[node] for node in self._nodes[first:last])
        else:
            if self._held[0] != first:
                self._held = first, self._document.body(self._nodes[first]).text
            text = self._held[1]
        begin = self._ends[first]
        return text[start - begin : stop - begin]
