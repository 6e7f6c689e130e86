"""Branches while they are being written: gathered in memory, on the disk within a second.

A stream is known by the node it began with. If the writer takes part of it, or types into it, the
stream goes on at the end of what was written, and keeps its name. Knows no engine: somebody tells
it text and token ids.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Thread

from srbwriter.story.changes import SetEntry
from srbwriter.story.desk import Desk
from srbwriter.story.draft import JsonObject
from srbwriter.story.history import Action
from srbwriter.story.runs import Runs, plain, text_of, tidy
from srbwriter.story.store import Body
from srbwriter.story.types import NodeId, Refused, Run, State, StoryError

FLUSH_SECONDS = 0.8
"""Words wait at most this long in memory; a second is promised."""


@dataclass(slots=True)
class Stream:
    """One branch being written. ``node`` is where its text goes now."""

    name: NodeId
    node: NodeId
    vocab: str
    parts: list[str] = field(default_factory=list[str])
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float | None] = field(default_factory=list["float | None"])
    lead: str = ""

    @property
    def dirty(self) -> bool:
        return bool(self.parts or self.ids)

    def pending(self) -> Runs:
        """What is not on the disk yet."""
        if not self.dirty:
            return ()
        scored = any(p is not None for p in self.logprobs)
        return (
            Run(
                "".join(self.parts),
                "model",
                tuple(self.ids) if self.ids else None,
                self.vocab if self.ids else "",
                tuple(self.logprobs) if scored else None,
                self.lead if self.ids else "",
            ),
        )

    def clear(self) -> None:
        self.parts.clear()
        self.ids.clear()
        self.logprobs.clear()
        self.lead = ""


class Streams:
    """The live streams of one story, and the thread that writes them down."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._live: dict[NodeId, Stream] = {}
        self._oldest: float | None = None
        self._written: list[Stream] = []
        self._wake, self._closing = Event(), False
        self._thread: Thread | None = None
        self.trouble: StoryError | None = None
        """Why the last attempt to write did not work; None once one has."""
        desk.on_begin.append(self._write)
        desk.follow = self._follow

    # -- life of a stream --------------------------------------------------------------------------

    def begin(
        self,
        parent: NodeId,
        n: int,
        model: str,
        vocab: str,
        sampling: Sequence[JsonObject],
        seeds: Sequence[int | None],
    ) -> list[NodeId]:
        """``n`` empty branches below ``parent``."""
        desk = self._desk
        entry = desk.tree[parent]
        if entry.state == State.ABSORBED:
            raise Refused(f"node {parent} is part of another node now")
        if self.of(parent) is not None:
            raise Refused(f"node {parent} is still being written — finish it, or pick a part of it, first")
        with desk.change():
            names = [
                desk.add(
                    parent,
                    (),
                    "model",
                    body=Body(recipe=desk.recipe(model, sampling[i]), seed=seeds[i]),
                    visited=False,
                )
                for i in range(n)
            ]
        self._live.update((name, Stream(name, name, vocab)) for name in names)
        return names

    def add(
        self, name: NodeId, text: str, ids: Sequence[int], logprobs: Sequence[float | None] | None, lead: str
    ) -> None:
        """More of a stream."""
        stream = self._get(name)
        if self._closing:
            raise Refused("the story is closed")
        if logprobs is not None and len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} ids and {len(logprobs)} logprobs")
        if not text and not ids:
            return
        if lead:
            stream.lead = lead
        stream.parts.append(text)
        stream.ids.extend(ids)
        stream.logprobs.extend(logprobs if logprobs is not None else (None,) * len(ids))
        self._touch()

    def finish(self, name: NodeId, reason: str) -> None:
        """The stream is over; on the disk when this returns."""
        stream = self._get(name)
        with self._desk.change():
            body = self._desk.body(stream.node)
            self._desk.put_body(stream.node, replace(body, finish=reason))
            self._desk.generated(self._desk.tree[stream.node].words)
        del self._live[name]

    def replace(
        self, name: NodeId, text: str, ids: Sequence[int], logprobs: Sequence[float | None] | None, keep: bool
    ) -> NodeId:
        """The stream takes back what it wrote and goes on from ``text``."""
        desk, stream = self._desk, self._get(name)
        first = desk.tree[name]
        whole = stream.node == name
        run = Run(text, "model", tuple(ids) or None, stream.vocab if ids else "", _known(logprobs))
        runs = tidy([run])
        if whole and not text_of([*desk.runs(name), *stream.pending()]) or (whole and not keep):
            with desk.change():  # what was pending goes down first, and over it this
                desk.write(name, runs)
            return name
        if first.parent is None:
            raise Refused("the root is not a branch")
        with desk.change():
            body = replace(desk.body(name), finish="", settings=None, meta=None, name=None)
            new = desk.add(first.parent, runs, "model", body=body, place=first.place, visited=False)
            desk.put_body(stream.node, replace(desk.body(stream.node), finish="replaced"))
        del self._live[name]
        self._live[new] = Stream(new, new, stream.vocab)
        return new

    def interject(self, action: Action, name: NodeId, text: str) -> NodeId:
        """Words of the writer at the end of a stream, which goes on after them in a node of its own."""
        stream, desk = self._get(name), self._desk
        old = desk.body(stream.node)
        desk.put_body(stream.node, replace(old, finish="interrupted"))
        typed = desk.add(stream.node, plain(text, "writer"), "writer")
        action.changes.append(SetEntry(typed, {"state": State.BINNED}, {"state": State.LIVING}))
        action.typed = desk.tree.count(typed).words - desk.tree.count(stream.node).words
        target = desk.add(typed, (), "model", body=Body(recipe=old.recipe, seed=old.seed), visited=False)
        desk.moved_on(stream.node, target)
        return typed

    # -- look --------------------------------------------------------------------------------------

    def of(self, node: NodeId) -> Stream | None:
        """The stream that writes at the end of ``node`` now."""
        return next((s for s in self._live.values() if s.node == node), None)

    def target(self, name: NodeId) -> NodeId:
        """Where a stream's text goes now."""
        return self._get(name).node

    def pending(self, node: NodeId) -> Runs:
        """What ``node`` has beyond the disk."""
        stream = self.of(node)
        return stream.pending() if stream else ()

    @property
    def live(self) -> dict[NodeId, NodeId]:
        """Name → node of every live stream."""
        return {name: stream.node for name, stream in self._live.items()}

    def _get(self, name: NodeId) -> Stream:
        try:
            return self._live[name]
        except KeyError:
            raise Refused(f"node {name} is not being written") from None

    # -- to the disk -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything now. Raises NotSaved; nothing is forgotten then."""
        if not any(stream.dirty for stream in self._live.values()):
            return
        with self._desk.change():
            pass  # every transaction takes the streams along

    def _write(self) -> None:
        """Inside any transaction: take along what is pending."""
        self._written = [stream for stream in self._live.values() if stream.dirty]
        for stream in self._written:
            self._desk.write(stream.node, tidy([*self._desk.runs(stream.node), *stream.pending()]))
        if self._written:
            self._desk.after_commit.insert(0, self._settled)

    def _settled(self) -> None:
        """After a commit: what was written is not pending any more."""
        for stream in self._written:
            stream.clear()
        self._written = []
        self._oldest = None
        self.trouble = None

    def _follow(self, old: NodeId, new: NodeId) -> None:
        stream = self.of(old)
        if stream is not None:
            stream.node = new

    def _touch(self) -> None:
        now = time.monotonic()
        if self._oldest is None:
            self._oldest = now
            if self._thread is None:
                self._thread = Thread(target=self._keep_writing, name="story-writer", daemon=True)
                self._thread.start()
            self._wake.set()
        elif now - self._oldest >= FLUSH_SECONDS:
            self._try_flush()

    def _keep_writing(self) -> None:
        """The thread: writes what nobody else has written in time, also when a stream pauses."""
        while not self._closing:
            self._wake.wait()
            if self._closing:
                return
            self._wake.clear()
            while self._oldest is not None and not self._closing:
                left = FLUSH_SECONDS - (time.monotonic() - self._oldest)
                if left > 0:
                    self._wake.wait(left)
                    self._wake.clear()
                    continue
                with self._desk.lock:
                    self._try_flush()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except StoryError as error:
            self.trouble = error
            self._oldest = time.monotonic()  # and again in a while

    def close(self) -> None:
        """Stop the thread. The last flush is the caller's."""
        with self._desk.lock:
            self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)


def _known(logprobs: Sequence[float | None] | None) -> tuple[float | None, ...] | None:
    return tuple(logprobs) if logprobs else None
