"""The recorder: a thread that brings generated text into the story.

It reads the engine's buffers by cursor. A verb does the same on its own thread, together with its own change
(:meth:`Recorder.together`). Neither the engine nor the screen waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from srbwriter.engine.generation import Branch, Buffer, Generation
from srbwriter.engine.types import FinishReason, Sampling
from srbwriter.story import ROOT, NodeId, State, Story
from srbwriter.story.model import JsonObject

from .prefix import keep_prefix
from .rounds import WISH, Round, Track
from .workspace import Workspace

log = logging.getLogger(__name__)

TEXT_SECONDS = 0.6
"""Longest time from generated text to the story, in seconds."""

Result = TypeVar("Result")


class Recorder:
    """Brings the text of the rounds that it follows into the story. ``lock`` is the session's."""

    def __init__(self, story: Story, lock: threading.RLock, workspace: Workspace) -> None:
        self._story, self._lock, self._workspace = story, lock, workspace
        self._rounds: list[Round] = []
        self._wake = threading.Condition()
        self._due: float | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    # -- news, from any thread ---------------------------------------------------------------------------

    def follow(self, current: Round) -> None:
        """Save this round from now on, also one that was over and may be continued."""
        assert current.generation is not None
        with self._lock:
            known = current in self._rounds
            if known:
                self._rounds.remove(current)
            self._rounds.append(current)  # the shown round is the last one: see _let_go
        if not known:
            current.update_versions()  # the first verb may cut prefetched text before any event
            self.follow_request(current, current.generation)
        self.note_view(0)

    def follow_request(self, current: Round, generation: Generation) -> None:
        """Save what ``generation``, one of those of ``current``, writes from now on."""
        generation.add_listener(lambda: self._on_event(current))

    def _on_event(self, current: Round) -> None:
        """Handle an event of the engine, on its thread."""
        current.update_versions()
        self.note_view(TEXT_SECONDS if current.tracks else 0)

    def note_view(self, seconds: float = TEXT_SECONDS) -> None:
        """Save what is new, also on the screen, within ``seconds``."""
        due = time.monotonic() + seconds
        if self._due is not None and self._due <= due:  # the engine calls this at every step
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

    # -- writing -----------------------------------------------------------------------------------------

    def write(self) -> None:
        """Bring everything published so far into the story."""
        if self._story.read_only is None:
            self.together(lambda: None)

    def together(self, act: Callable[[], Result]) -> Result:
        """Run ``act`` in one batch with everything published before it; if it raises, nothing has changed."""
        with self._lock:
            before = [(current, [track.copy() for track in current.tracks]) for current in self._rounds]
            try:
                with self._story.together():
                    for current in [current for current in self._rounds if current.news]:
                        self._keep_if_possible(current)
                    done = act()
                    self._workspace.write()
            except BaseException:
                for current, tracks in before:
                    current.tracks = tracks
                raise
            if len(self._rounds) > 1:  # forget those that are over, except the shown one
                self._rounds = [r for r in self._rounds if not r.over or r is self._rounds[-1]]
            return done

    def _keep_if_possible(self, current: Round) -> None:
        """Save a round; a defect in one is no reason to lose what else is to be saved."""
        before = [track.copy() for track in current.tracks]
        try:
            with self._story.together():
                self.keep(current)
        except Exception:
            log.exception("branches cannot be written down")
            current.tracks = before

    def close(self) -> None:
        """Save the last text and stop the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)
        self.write()

    # -- branches, inside a transaction --------------------------------------------------------------------

    def keep(self, current: Round) -> None:
        """Save the text that the branches of ``current`` have published since the last call."""
        if fresh := current.branches[len(current.tracks) :]:
            names = self._begin_branches(current, fresh, self._existing_node(current.parent))
            current.tracks += [
                Track(b, name, current.takes(b)[0], [(name, 0)]) for b, name in zip(fresh, names, strict=True)
            ]
            self._keep_origin(current, {b.index: name for b, name in zip(fresh, names, strict=True)})
        for track in current.tracks:
            live = track.branch.live  # read before the text, so that the text of an ended branch is complete
            self._drain(current, track)
            for buffer in current.takes(track.branch)[track.take + 1 :]:
                track.take += 1
                if buffer is not track.buffer:  # another thread may have saved it
                    self._new_take(current, track, buffer)
                    self._drain(current, track)
            if not live and not track.finished and track.branch.buffer is track.buffer:
                self._end(current, track, str(track.branch.finish_reason or "failed"))
            if track.killed_late:
                track.killed = True
                self._story.set_finish_reason(
                    self._existing_node(track.nodes[-1][0]), str(FinishReason.KILLED)
                )

    def settle(self, current: Round, index: int) -> None:
        """Save branch ``index`` as it reads now; its further text becomes a child node."""
        self.keep(current)
        track = current.tracks[index]
        if not track.finished:
            self._end(current, track, "picked")

    def _end(self, current: Round, track: Track, reason: str) -> None:
        self._story.finish(track.name, reason)
        track.finished, track.killed = True, reason == FinishReason.KILLED

    def _drain(self, current: Round, track: Track) -> None:
        """Save new text of the buffer with its ids."""
        buffer = track.buffer
        count = len(buffer.pieces)
        fresh = "".join(buffer.pieces[track.pieces : count])
        if not fresh and count == track.pieces:
            return
        track.pieces = count
        self._stream(current, track, fresh)

    def _stream(self, current: Round, track: Track, text: str) -> None:
        if not text:
            return
        buffer, end = track.buffer, track.chars + len(text)
        last = bisect_right(buffer.ends, end, track.ids)
        if track.finished:
            self._begin(current, track, self._end_of(track))
            track.nodes.append((track.name, track.chars))
        ids = buffer.ids[track.ids : last]
        known = buffer.logprobs[track.ids : last] if len(buffer.logprobs) >= last else []
        lead = track.branch.generation.healed if track.ids == 0 and track.branch.overlap else ""
        self._story.stream(track.name, text, ids, [k.logprob for k in known], lead=lead)
        track.ids, track.chars = last, end

    def _new_take(self, current: Round, track: Track, buffer: Buffer) -> None:
        """Save a cut branch: the old version stays, the new one begins with the remaining text."""
        track.buffer = buffer
        text = buffer.pieces[0] if buffer.pieces else ""
        track.pieces, track.chars = min(1, len(buffer.pieces)), len(text)
        track.ids = bisect_right(buffer.ends, len(text))
        ids, old = buffer.ids[: track.ids], track.nodes[0][0]
        if track.finished:
            self._begin(current, track, self._existing_node(current.parent))
            self._story.stream(track.name, text, ids)
        else:
            track.name = self._story.replace_stream(track.name, text, ids, track.branch.seed)
        track.nodes = [(track.name, 0)]
        self._keep_origin(current, {track.branch.index: track.name})
        if text:
            self._story.carry_marks(old, track.name)

    def _keep_origin(self, current: Round, names: Mapping[int, NodeId]) -> None:
        """Store the text before branches, and what they were asked with; ``names`` are by their indices."""
        if current.prefix is not None:
            keep_prefix(self._story, list(names.values()), current.prefix)
        for index, name in names.items():
            if wish := current.wish_of(index):
                self._story.put_meta(name, WISH, wish)

    def _begin(self, current: Round, track: Track, parent: int) -> None:
        """Let a finished branch continue in a new node below ``parent``."""
        [track.name] = self._begin_branches(current, [track.branch], parent)
        track.finished = False

    def _begin_branches(self, current: Round, branches: Sequence[Branch], parent: int) -> list[NodeId]:
        """Add a node below ``parent`` for each of ``branches``."""
        return self._story.begin_branches(
            parent,
            len(branches),
            model=current.model,
            vocab=current.vocab,
            sampling=[_sampling_json(branch) for branch in branches],
            seeds=[branch.seed for branch in branches],
        )

    def _end_of(self, track: Track) -> NodeId:
        """Return the node in which the saved text of a branch ends; the writer may have split it."""
        story, (node, start) = self._story, track.nodes[-1]
        here, left = story.node(node), track.text[start:]
        while left.startswith(here.text):
            left = left[len(here.text) :]
            below = story.nodes(story.children(here.id))
            after = next((child for child in below if child.text and left.startswith(child.text)), None)
            if after is None:
                break
            here = after
        return self._existing_node(here.id)

    def _existing_node(self, node: NodeId) -> NodeId:
        """Return ``node``, or the node that it was joined to."""
        while self._story.node(node).state is State.ABSORBED:
            node = self._story.parent(node) or ROOT
        return node


_NOT_KEPT = frozenset({"seed", "banned_phrases"})
"""Fields that are not stored: the seed has a column, and a long list would be repeated for each branch."""


def _sampling_json(branch: Branch) -> JsonObject:
    return kept_sampling(branch.sampling)


def kept_sampling(sampling: Sampling) -> JsonObject:
    """Return the fields of a branch's sampling that its node keeps: those that differ from the default."""
    plain, own = asdict(Sampling()), asdict(sampling)
    changed = {name: value for name, value in own.items() if value != plain[name] and name not in _NOT_KEPT}
    return json.loads(json.dumps(changed))
