"""What a request becomes: append-only branch buffers, an event log, and handles that steer branches.

The engine thread is the only writer. Readers on any thread follow with cursors and never make it
wait. Knows nothing of llama.cpp; verbs are handed to a ``post`` callable as plain commands.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..prose import last_sentence_start
from .types import (
    BranchState,
    Cancelled,
    Done,
    EngineError,
    Event,
    Failed,
    FinishReason,
    InvalidRequest,
    Priority,
    Request,
    Sampling,
    Stop,
    TokenLogprob,
)
from .verbs import REVIVING

log = logging.getLogger(__name__)


class BranchCommand(NamedTuple):
    """A verb on its way to the engine thread."""

    verb: str
    generation: Generation
    branch: int = -1
    args: tuple[Any, ...] = ()


@dataclass(slots=True)
class Buffer:
    """One take of a branch: only ever appended to. A cut starts a new buffer."""

    revision: int = 0
    pieces: list[str] = field(default_factory=list[str])  # published text
    ids: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])  # characters decoded once the id was added
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    tail: str = ""  # text at the end that no id covers (a stop string ended inside a token)


class Cursor(NamedTuple):
    """How far a reader has read: which take, and how many pieces of it."""

    revision: int = -1
    pieces: int = 0


class Delta(NamedTuple):
    """What a reader has not seen. With ``reset`` the text replaces everything read before."""

    text: str
    reset: bool
    cursor: Cursor


class Branch:
    """Handle on one branch. Attributes may be read from any thread; verbs act within one step."""

    def __init__(self, generation: Generation, index: int, sampling: Sampling, stop: Stop, seed: int) -> None:
        self.generation = generation
        self.index = index
        self.sampling = sampling
        self.stop_rule = stop
        self.seed = seed
        self._state = BranchState.WAITING
        self.finish_reason: FinishReason | None = None
        self.stop_text: str | None = None
        self.error: EngineError | None = None  # why it could not go on
        self.bans = 0  # times that it went back before a banned phrase
        self.overlap = 0  # characters of the first id that already end the prompt (token healing)
        self.started_at = 0.0  # time.monotonic() of the first token and as much later as it rested; 0 before
        self.changed_at = 0.0  # time.monotonic() of the last token, or of going on after a rest
        self.buffer = Buffer()

    @property
    def state(self) -> BranchState:
        """What the branch is doing."""
        return self._state

    @state.setter
    def state(self, state: BranchState) -> None:
        if state is BranchState.WRITING and self._state is not state and self.started_at:
            rest = time.monotonic() - self.changed_at  # paused, ended or waiting: no time of writing
            self.started_at += rest
            self.changed_at += rest
        self._state = state

    @property
    def text(self) -> str:
        """Everything published of this take."""
        return "".join(self.buffer.pieces)

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids of this take; their text is ``text`` less ``buffer.tail``."""
        return tuple(self.buffer.ids)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        return tuple(self.buffer.logprobs)

    @property
    def live(self) -> bool:
        return self.state not in (BranchState.DONE, BranchState.FAILED)

    def chars_before(self, tokens: int | None, chars: int | None, sentences: int | None) -> int:
        """Return how many characters stay without the last tokens, characters or sentences."""
        text, ends = self.text, self.buffer.ends
        if tokens is not None:
            keep = max(len(ends) - max(tokens, 0), 0)
            return min(ends[keep - 1], len(text)) if keep else 0
        if chars is not None:
            return max(len(text) - max(chars, 0), 0)
        return last_sentence_start(text, sentences or 0)

    def read(self, cursor: Cursor | None = None) -> Delta:
        """Text published since ``cursor``; never waits."""
        buffer = self.buffer
        end = len(buffer.pieces)
        seen = cursor or Cursor()
        if seen.revision != buffer.revision:
            return Delta("".join(buffer.pieces[:end]), cursor is not None, Cursor(buffer.revision, end))
        return Delta("".join(buffer.pieces[seen.pieces : end]), False, Cursor(buffer.revision, end))

    def stop(self) -> None:
        """End it here and keep its text."""
        self._post("stop")

    def kill(self) -> None:
        """End it and give its cells back at once; the handle keeps the text."""
        self._post("kill")

    def reroll(
        self, seed: int | None = None, sampling: Sampling | None = None, stop: Stop | None = None,
        begin: tuple[int, ...] = (), without: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """Start over from the prompt in the same slot; None draws a new seed.

        With ``begin`` from the end of these tokens, and not with one of ``without``.
        """
        self._post("reroll", seed, sampling, stop, begin, without)

    def extend(self, stop: Stop | int | None = None) -> None:
        """Continue from where it ended. A number is that many tokens more."""
        self._post("extend", stop)

    def pause(self) -> None:
        self._post("pause")

    def resume(self) -> None:
        self._post("resume")

    def rewind(
        self,
        *,
        tokens: int | None = None,
        chars: int | None = None,
        sentences: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Drop the last ``tokens``, ``chars`` or ``sentences`` (exactly one of them) and continue.

        A new seed is drawn when none is given, so that the new text differs.
        """
        if sum(x is not None for x in (tokens, chars, sentences)) != 1:
            raise InvalidRequest("rewind", "give exactly one of tokens, chars and sentences")
        self._post("rewind", tokens, chars, sentences, seed)

    def change(self, sampling: Sampling | None = None, stop: Stop | None = None) -> None:
        """Sample the next tokens differently, or end by other rules; an unset seed keeps the branch's own.

        Neither is changed where one of them is refused.
        """
        self._post("change", sampling, stop)

    def set_prompt(self, prompt: tuple[int, ...]) -> None:
        """Continue after another prompt: the text stays, and the next token follows ``prompt`` and it.

        ``prompt`` ends like ``generation.prompt_ids``; an empty one is those. It holds until the next one.
        """
        self._post("set_prompt", prompt)

    def _post(self, verb: str, *args: Any) -> None:
        self.generation.post(BranchCommand(verb, self.generation, self.index, args))


BEYOND_THE_END = 12
"""Tokens that a branch writes at least when it is to go on from "the end"."""

Listener = Callable[[], None]


class Generation:
    """A submitted request: its branches, and everything that happened to them in order."""

    def __init__(self, number: int, request: Request, post: Callable[[BranchCommand], None]) -> None:
        self.number = number
        self.request = request
        self.post = post
        self.branches: list[Branch] = []
        self.prompt_ids: tuple[int, ...] = ()  # as evaluated
        self.healed = ""  # end of the prompt that the first tokens of each branch spell again
        self.healed_tokens = 0  # as many of the prompt, which are not among its ids
        self.prompt_logprobs: list[TokenLogprob] = []  # of prompt_ids[1:], when asked for
        self.next_logprobs: tuple[tuple[int, float], ...] = ()  # what could follow it, when asked for
        self.prompt_done = 0
        self.cached_tokens = 0
        self.truncated = False
        self.submitted_at = time.monotonic()
        self.error: Exception | None = None
        self.log: list[Event] = []
        self.engine_state: Any = None  # the engine's own side of the request
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # something was published
        self._ended = threading.Condition(lock)  # done; who waits for that alone sleeps till then
        self._listeners: tuple[Listener, ...] = ()
        self._idle = False
        self._coming = 0  # verbs under way after which a request that was done is not

    # ---- read, from any thread

    @property
    def done(self) -> bool:
        """No branch is live and nothing is waiting."""
        return self._idle

    def events(self, start: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """Events from ``start`` on, waiting for more until the request is done.

        Raises TimeoutError when nothing happens for ``timeout`` seconds.
        """

        def has_news() -> bool:
            return len(self.log) > start or self._idle

        while True:
            with self._changed:
                if not self._changed.wait_for(has_news, timeout):
                    raise TimeoutError("no event from the engine")
                batch = self.log[start:]
            if not batch:
                return
            yield from batch
            start += len(batch)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def wait(self, timeout: float | None = None) -> Generation:
        """Block until done. Raises the error if the request or all branches failed, or TimeoutError."""
        with self._ended:
            if not self._ended.wait_for(lambda: self._idle, timeout):
                raise TimeoutError("the request is still running")
        failed = [branch.error for branch in self.branches if branch.error is not None]
        error = self.error or (failed[0] if len(failed) == len(self.branches) > 0 else None)
        if error is not None:
            raise error
        return self

    def result(self, timeout: float | None = None) -> list[str]:
        """Wait, then the text of every branch."""
        return [branch.text for branch in self.wait(timeout).branches]

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` from the engine thread once per step with news (and once more for the
        first tokens of branches that were just let in); returns its removal.

        It must return at once (``loop.call_soon_threadsafe`` is the intended use).
        """
        with self._changed:
            self._listeners += (listener,)
        return lambda: self._remove_listener(listener)

    def _remove_listener(self, listener: Listener) -> None:
        with self._changed:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    # ---- steer, from any thread

    def cancel(self) -> None:
        """Stop every branch, keep the text."""
        self.post(BranchCommand("cancel", self))

    def add_branch(
        self, n: int = 1, sampling: Sampling | tuple[Sampling, ...] | None = None,
        stop: Stop | tuple[Stop, ...] | None = None,
        begin: tuple[int, ...] = (), without: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """Fork ``n`` more branches from the prompt; they follow as ``Added`` events.

        ``sampling`` and ``stop`` are one for all of them, or a tuple of one for each. With ``begin`` they
        begin with these tokens, followed by none of ``without``.
        """
        self.post(BranchCommand("add_branch", self, -1, (n, sampling, stop, begin, without)))

    def promote(self, priority: Priority = Priority.NORMAL) -> None:
        """Raise the priority of a request, a prefetch for example. Its text stays.

        Raises InvalidRequest for a priority that is lower than its own.
        """
        if not isinstance(priority, Priority):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest("priority", f"{priority!r} is not a Priority")
        if priority > self.request.priority:
            raise InvalidRequest(
                "priority", f"{priority.name} is no promotion from {self.request.priority.name}"
            )
        self.post(BranchCommand("promote", self, -1, (priority,)))

    def expect(self, command: BranchCommand) -> None:
        """Note that a verb is under way, after which a request that was done may not be."""
        if command.verb in REVIVING:
            with self._changed:
                self._coming += 1
                self._idle = self._idle and self.error is not None

    # ---- write, engine thread only

    def arrived(self, command: BranchCommand) -> None:
        """A verb was carried out; what comes of it is published next."""
        if command.verb in REVIVING:
            with self._changed:
                self._coming -= 1

    def publish(self, events: Sequence[Event]) -> None:
        """Append a step's events and wake the readers once."""
        if not events:
            return
        failure = next((e.error for e in events if isinstance(e, Failed)), None)
        with self._changed:
            self.log.extend(events)
            self.error = self.error or failure
            self._idle = self.error is not None or (isinstance(events[-1], Done) and not self._coming)
            self._changed.notify_all()
            if self._idle:
                self._ended.notify_all()
        self._tell()

    def abandon(self, error: Exception | None = None) -> None:
        """End a request that the engine will never touch again."""
        failure = error if error is not None else Cancelled("the engine was closed")
        with self._changed:
            if self._idle:
                return
            self.error, self._idle = failure, True
            self._changed.notify_all()
            self._ended.notify_all()
        for branch in self.branches:
            if branch.live:
                branch.state = BranchState.FAILED
        self._tell()

    def _tell(self) -> None:
        """Call the listeners. One that raises (because its event loop is closed, say) is not called again."""
        for listener in self._listeners:
            try:
                listener()
            except BaseException as error:
                log.warning("a listener of request %d failed: %r", self.number, error)
                self._remove_listener(listener)
                if not isinstance(error, Exception):  # as a Ctrl-C
                    raise
