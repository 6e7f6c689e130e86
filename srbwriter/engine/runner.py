"""What steps an engine: the right to step, its thread, the commands, and the end.

An :class:`~srbwriter.engine.engine.Engine` holds a runner, and so does each of its requests. The runner and
all that its thread reaches hold no engine: one that is dropped without ``close`` finishes its running
requests and is freed.
"""

from __future__ import annotations

import _thread
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from .active import ActiveRequest
from .adapters import key_of
from .cache import Cache
from .commands import prepared
from .disk import StoryFiles, state_key
from .embedding import Embedder
from .ending import close_at_exit
from .generation import FAILING, Command, Generation
from .model import Model
from .native.context import Context, flash_attention
from .scheduler import Scheduler
from .sequences import Sequences
from .sizing import host_budget, threads_of, uses_gpu
from .tree import Namespace
from .types import EngineClosed, EngineError, EngineOptions, NativeError, Priority, describe_error
from .validate import LocalChecks

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 5e-4
"""Seconds. The engine thread asks for the GIL back after every decode; with Python's default of
5 ms, one busy thread makes a 2 ms step last 7 ms, with this 4 ms."""

LOGITS_BYTES = 64 << 20
"""Of stored logits, at most; they take an eighth of what states may take in memory."""


class Runner:
    """Runs one engine's requests. Every public method may be called from any thread.

    Args:
        window: how many positions one branch may use.
        seed: what the seeds of sequences derive from.
    """

    def __init__(
        self, model: Model, context: Context, options: EngineOptions, window: int, seed: int,
    ) -> None:  # fmt: skip
        self.model, self.context, self.options = model, context, options
        self.checks = LocalChecks(model, options.max_branches)
        self.window = window
        self.generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self.known = threading.Lock()  # of the generations, while they are looked through
        disk = None
        if options.disk_dir is not None and options.disk_bytes:
            disk = StoryFiles(Path(options.disk_dir), self.state_key, options.disk_bytes)
        host = host_budget(options.host_bytes)
        rows = max(64, min(LOGITS_BYTES, host // 8) // (4 * model.n_vocab))
        self.cache = Cache(
            context, logits_rows=options.logits_rows or rows, on_device=uses_gpu(options), host_bytes=host,
            files=disk, visible_paths=self._on_screen,
        )  # fmt: skip
        abortable = self.cache.can_rewind and not uses_gpu(options)
        if abortable:
            context.enable_abort()
        self.wake = threading.Event()
        self.scheduler = Scheduler(
            model, context, self.cache, options, window=window, abortable=abortable,
            threads=threads_of(options),
        )  # fmt: skip
        self.closing = False
        self.thread: threading.Thread | None = None
        self._dropped = False
        self._dead: BaseException | None = None
        self._failures = 0
        self.embedder = Embedder(model, options, window, self.scheduler.queue.has_wanted_requests)
        self.scheduler.queue.works_elsewhere = lambda: self.embedder.working
        self._owner = threading.Lock()  # the right to step
        self._stepper = 0  # thread that is in a step
        self.sequences = Sequences(model, self.scheduler, window, self.turn, seed)

    @cached_property
    def state_key(self) -> str:
        """Names the states that this engine makes."""
        options = self.options
        kind = (options.cache_type_k, options.cache_type_v, flash_attention(options), *key_of(options))
        return state_key(self.model.path, *kind)

    # ---- life

    @property
    def alive(self) -> bool:
        return not self.closing and self._dead is None

    def start(self) -> None:
        """Step on a thread of the runner's own from now on."""
        if sys.getswitchinterval() > SWITCH_INTERVAL:
            sys.setswitchinterval(SWITCH_INTERVAL)
        self.scheduler.overlaps = uses_gpu(self.options)
        self.thread = threading.Thread(target=self._run, name="srbwriter-engine", daemon=True)
        self.thread.start()
        close_at_exit(self)

    def close(self, timeout: float = 5.0) -> None:
        """End every request, notify readers, and free the model. May be called twice."""
        if self.closing:
            return
        self.closing = True
        self.embedder.close(timeout)
        self.wake.set()
        self.context.abort()
        if self._stepping():
            return  # called from a callback: the step frees everything when it ends
        if self._owner.acquire(timeout=timeout):
            self._release()
            self._owner.release()
        else:
            log.error("the engine is still in a step, and is freed when that ends")
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout)

    def drop(self) -> None:
        """Finish the running requests and close, since the engine has no references left.

        Returns at once, and takes no lock: the garbage collector may call it on any thread, anywhere.
        """
        if self.alive:
            with suppress(RuntimeError):  # there is no new thread at the end of the program
                _thread.start_new_thread(self._end_dropped, ())

    def _end_dropped(self) -> None:
        self._dropped = True
        if self.thread is None:
            self.close()
        else:
            self.wake.set()

    def check_open(self) -> None:
        """Raise EngineClosed, with the reason, when nothing can be asked of the engine any more."""
        if self._dead is not None:
            dead = self._dead
            words = str(dead) if isinstance(dead, EngineError) else describe_error(dead)
            raise EngineClosed(f"the engine has failed: {words}")
        if self.closing:
            raise EngineClosed("the engine was closed")

    # ---- work

    def post(self, command: Command) -> None:
        """Post a command to the stepping thread.

        Raises InvalidRequest for a verb that cannot be carried out.
        """
        generation = command.generation
        if generation is not _NOBODY:
            self.checks.check_command(command)
            command = prepared(command, self.model)
            try:
                self.check_open()
            except EngineClosed as error:
                generation.abandon(error)
                return
        self.scheduler.inbox.append(command)
        if command.verb == FAILING:
            (self.scheduler.loop.interruption,) = command.args
        if generation is not _NOBODY:
            self.scheduler.interrupt()
        self.wake.set()

    def call(self, function: Callable[[], Any], timeout: float | None) -> Any:
        """Run ``function`` between two steps and return its result (raise its error)."""
        self.check_open()
        self._refuse_reentry()
        asked = Future[Any]()
        self.post(Command("call", _NOBODY, -1, (asked, function)))
        if self.thread is None:
            self._step()
        if not self.alive:
            self._abandon()
        try:
            return asked.result(timeout)
        except CancelledError:
            if not asked.cancelled():
                raise  # by the function
            self.check_open()
            raise EngineClosed("the engine is closed") from None
        except TimeoutError:
            if asked.done():
                raise
            asked.cancel()
            raise EngineClosed("the engine did not answer") from None

    def process(self, timeout: float | None) -> bool:
        """Do one step on the caller's thread; False when there was nothing to do for ``timeout`` seconds."""
        if self.thread is not None:
            raise EngineClosed("this engine has a thread of its own; load it with thread=False to step it")
        self.check_open()
        self._refuse_reentry()
        self.wake.clear()  # before the step, so that what comes in while it runs is not slept over
        if self._step():
            return True
        rest = self.scheduler.seconds_to_work(time.monotonic())
        if rest == 0:  # what is written ahead may begin since this step did
            return self._step()
        if (
            not timeout
            or not self.wake.wait(timeout if rest is None else min(timeout, rest))
            and rest is None
        ):
            return False
        return self._step()

    @contextmanager
    def turn(self) -> Generator[None]:
        """The right to use the context between two steps."""
        self.check_open()
        self._refuse_reentry()
        with self._owner:
            self.check_open()
            self._stepper = threading.get_ident()
            try:
                yield
            finally:
                self._stepper = 0
                if self.closing:
                    self._release()

    # ---- inside

    def _on_screen(self) -> Iterator[tuple[Sequence[int], Namespace]]:
        """Paths that a reader still knows, the newest first."""
        with self.known:
            known = [g for g in self.generations if g.request.priority is not Priority.BACKGROUND]
        for generation in sorted(known, key=lambda g: -g.number):
            request = generation.engine_state
            if isinstance(request, ActiveRequest):
                yield from ((active.path, active.namespace) for active in request.branches)

    def _refuse_reentry(self) -> None:
        if self._stepping():
            raise EngineError("the engine cannot be asked to step, or to wait for one, by its own callbacks")

    def _stepping(self) -> bool:
        """Whether the caller is called from within a step."""
        return self._stepper == threading.get_ident()

    def _run(self) -> None:
        if self.options.nice and sys.platform == "linux":  # elsewhere it is one number for the whole process
            thread = threading.get_native_id()  # llama.cpp's threads are made by this one and follow it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, 0) + self.options.nice)
        try:
            while not self.closing:
                self.wake.clear()
                if self._step() or self.closing:
                    continue
                rest = self.scheduler.seconds_to_work(time.monotonic())
                if self._dropped and rest is None and not self.scheduler.queue.busy:
                    self.close()
                else:
                    self.wake.wait(rest)
        except BaseException as error:  # nothing that foreign code raises; but nobody is to wait for ever
            log.critical("the engine thread ends", exc_info=error)
            self._dead = error
            self._abandon()

    def _step(self) -> bool:
        """One step. A failure ends the running requests, not the engine, unless it keeps failing."""
        with self._owner:
            if not self.alive:
                return False
            self._stepper = threading.get_ident()
            try:
                busy = self.scheduler.step()
                self._failures = 0
            except BaseException as error:
                self._recover(error)
                busy = True
                if not isinstance(error, Exception):
                    self.scheduler.loop.interruption = error
            finally:
                self._stepper = 0
                if self.closing:
                    self._release()
            loop = self.scheduler.loop
            interruption, loop.interruption = loop.interruption, None
            if interruption is not None and self.thread is None:
                raise interruption  # no Exception, as a Ctrl-C: to the caller that steps
            return busy

    def _recover(self, error: BaseException) -> None:
        log.error("an engine step failed", exc_info=error)
        self._failures += 1
        shown = error if isinstance(error, EngineError) else NativeError("engine step", repr(error))
        try:
            self.scheduler.fail_all(shown)
        except BaseException as second:
            log.exception("the engine could not recover")
            self._failures = 3
            error = second
        if self._failures >= 3:
            self._dead = error
            self._abandon()

    def _abandon(self) -> None:
        """Fail all waiting commands and requests."""
        try:
            self.check_open()
        except EngineClosed as error:
            for generation in list(self.generations):
                generation.abandon(error)
        for command in list(self.scheduler.inbox):
            if command.verb == "call":
                command.args[0].cancel()

    def _release(self) -> None:
        """Free native memory; only for the holder of the right to step."""
        self._abandon()
        if self.cache.files is not None and self._dead is None:
            try:
                self.cache.write_story(at_end=True)
            except EngineError as error:
                log.warning("the story's state is not written: %s", error)
        for generation in list(self.generations):
            generation.engine_state.close()
        if self.cache.files is not None:
            self.cache.files.close()
        self.scheduler.loop.pool.close()
        self.sequences.close()
        self.context.close()
        self.model.close()


_NOBODY: Any = None  # commands that concern no request
