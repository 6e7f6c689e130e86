"""The recorder: brings generated text into the story, as nodes from the first token on.

Its thread reads the engine's buffers by cursor; a verb does the same on its own thread before its change.
Neither the engine nor the screen waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from srbwriter.engine.generation import Branch, Buffer
from srbwriter.engine.types import FinishReason, Sampling
from srbwriter.story import NodeId
from srbwriter.story.model import JsonObject

from .round import BRANCH, WISH, WRITTEN_FOR, Round, Track, kept_node

log = logging.getLogger(__name__)

TEXT_SECONDS = 0.6
"""Longest time from generated text to the story, in seconds."""


class Recorder:
    """Brings the text of ``rounds()`` into their story. ``lock`` is the session's."""

    def __init__(self, lock: threading.RLock, rounds: Callable[[], Iterable[Round]]) -> None:
        self._lock, self._rounds = lock, rounds
        self._wake = threading.Condition()
        self._due: float | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    def follow(self, current: Round) -> None:
        """Save what the request of this round writes from now on."""
        assert current.generation is not None
        current.update_versions()  # the first verb may cut prefetched text before any event

        def on_event() -> None:  # on the engine's thread, at every step
            current.update_versions()
            self._write_within(TEXT_SECONDS if current.tracks else 0)

        current.generation.add_listener(on_event)
        self._write_within(0)

    def _write_within(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if self._due is not None and self._due <= due:
            return
        with self._wake:
            self._due = due if self._due is None else min(self._due, due)
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="srbwriter-recorder", daemon=True)
                self._thread.start()
            self._wake.notify()

    def _run(self) -> None:
        while self._wait():
            try:
                self.write()
            except Exception:  # this thread must outlive any error
                log.exception("not written down yet")

    def _wait(self) -> bool:
        """Wait until something is due; return False when the story is closed."""
        with self._wake:
            while not self._closing:
                left = None if self._due is None else self._due - time.monotonic()
                if left is not None and left <= 0:
                    self._due = None
                    return True
                self._wake.wait(left)
            return False

    def write(self) -> None:
        """Bring everything published so far into the story. A defect in one round does not stop others."""
        with self._lock:
            for current in self._rounds():
                if current.story.read_only is None and current.news:
                    try:
                        keep(current)
                    except Exception:
                        log.exception("branches cannot be written down")

    def close(self) -> None:
        """Save the last text and stop the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)
        self.write()


# Each call of the story below is one change, after which the track is moved on: a failure loses no text.


def keep(current: Round) -> None:
    """Save the text that the branches of ``current`` have published since the last call."""
    if fresh := current.branches[len(current.tracks) :]:
        names = _begin_nodes(current, fresh, kept_node(current.story, current.parent))
        current.tracks += [
            Track(b, name, current.takes(b)[0], [(name, 0)]) for b, name in zip(fresh, names, strict=True)
        ]
    for track in current.tracks:
        live = track.branch.live  # read before the text, so that the text of an ended branch is complete
        _drain(current, track)
        for buffer in current.takes(track.branch)[track.take + 1 :]:
            _begin_take(current, track, buffer)
            _drain(current, track)
        if not live and not track.finished and track.branch.buffer is track.buffer:
            _end(current, track, str(track.branch.finish_reason or "failed"))
        if track.killed_late:
            last = kept_node(current.story, track.nodes[-1][0])
            current.story.finish(last, str(FinishReason.KILLED))
            track.killed = True


def settle(current: Round, index: int) -> None:
    """Save branch ``index`` as it reads now; its further text becomes a child node."""
    keep(current)
    if not current.tracks[index].finished:
        _end(current, current.tracks[index], "picked")


def _end(current: Round, track: Track, reason: str) -> None:
    current.story.finish(track.name, reason)
    track.finished, track.killed = True, reason == FinishReason.KILLED


def _drain(current: Round, track: Track) -> None:
    """Save new text of the buffer with its ids."""
    buffer, count = track.buffer, len(track.buffer.pieces)
    if text := "".join(buffer.pieces[track.pieces : count]):
        end = track.chars + len(text)
        last = bisect_right(buffer.ends, end, track.ids)
        if track.finished:
            below = kept_node(current.story, track.nodes[-1][0])
            [track.name] = _begin_nodes(current, [track.branch], below)
            track.finished = False
            track.nodes.append((track.name, track.chars))
        ids = buffer.ids[track.ids : last]
        known = buffer.logprobs[track.ids : last] if len(buffer.logprobs) >= last else []
        lead = track.branch.generation.healed if track.ids == 0 and track.branch.overlap else ""
        current.story.stream(track.name, text, ids, [k.logprob for k in known], lead=lead)
        track.ids, track.chars = last, end
    track.pieces = count


def _begin_take(current: Round, track: Track, buffer: Buffer) -> None:
    """Save a cut branch: the old version stays, the new one is saved from its beginning."""
    story = current.story
    old, name = story.node(track.name), track.name
    if track.finished or old.text:
        if not track.finished:
            story.finish(name, "replaced")
        [name] = _begin_nodes(current, [track.branch], kept_node(story, current.parent))
    else:  # nobody has seen a word of it
        with story.together():
            story.set(old, seed=track.branch.seed)
    track.name, track.nodes, track.finished, track.take = name, [(name, 0)], False, track.take + 1
    track.buffer, track.pieces, track.chars, track.ids = buffer, 0, 0, 0


def _begin_nodes(current: Round, branches: Sequence[Branch], parent: NodeId) -> list[NodeId]:
    """Add a node below ``parent`` for each of ``branches``."""
    with current.story.together():
        names = [
            current.story.begin_branch(
                parent, model=current.model, vocab=current.vocab, sampling=_kept_sampling(branch.sampling),
                seed=branch.seed,
            )
            for branch in branches
        ]  # fmt: skip
        current.number = current.number or names[0]
        for branch, name in zip(branches, names, strict=True):
            _keep_origin(current, branch.index, name)
    return names


def _keep_origin(current: Round, index: int, name: NodeId) -> None:
    """Store with a node which branch it holds, and what that was asked with."""
    story = current.story
    story.put_meta(name, BRANCH, [current.number, index])
    if current.prefix is not None:
        story.put_meta(name, WRITTEN_FOR, [*current.prefix])
    if wish := current.wish_of(index):
        story.put_meta(name, WISH, wish)


_NOT_KEPT = frozenset({"seed", "banned_phrases"})
"""Fields that are not stored: the seed has a column, and a long list would be repeated for each branch."""


def _kept_sampling(sampling: Sampling) -> JsonObject:
    """Return the fields of a branch's sampling that its node keeps: those that differ from the default."""
    plain, own = asdict(Sampling()), asdict(sampling)
    changed = {name: value for name, value in own.items() if value != plain[name] and name not in _NOT_KEPT}
    return json.loads(json.dumps(changed))
