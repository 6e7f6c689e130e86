"""What runs requests on a server: a thread with an event loop, the commands, and the end.

A :class:`~srbwriter.engine.remote.engine.RemoteEngine` holds a runner, and so does each of its requests. The
runner and its thread hold no engine: one that is dropped without ``close`` finishes its running requests, and
then its connections and its thread end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar, cast

from ..ending import close_at_exit
from ..generation import Command, Generation
from ..steering import typed_text
from ..types import Cancelled, EngineClosed, EngineError
from .branch import RemoteRequest
from .checks import RemoteChecks
from .connection import Connection
from .dialects.base import Dialect
from .options import RemoteOptions
from .upstream import Upstream
from .verbs import RemoteVerbs
from .vocabulary import LetterVocabulary

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK = 0.1  # seconds between looks at whether a connection is still wanted
_ANSWER_SECONDS = 30.0  # that a question may take, beside those for the connection
_END_SECONDS = 5.0  # that the connections of an engine that was dropped may take to end


class RemoteRunner:
    """One connection and its requests. Public methods may be called from any thread but its own."""

    connection: Connection
    upstream: Upstream
    checks: RemoteChecks

    def __init__(self, options: RemoteOptions) -> None:
        self.options = options
        self.generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="srbwriter-remote", daemon=True)
        self._commands: list[Command] = []
        self._posting = threading.Lock()  # of the commands, and of the decision that no more are taken
        self._closing = self._dropped = self._ended = False

    # ---- life

    def connect(self, on_progress: Callable[[float], bool] | None) -> None:
        """Start the thread, and find out what the server is; ``on_progress`` gives up by returning False.

        Raises RemoteError, Cancelled.
        """
        self._thread.start()
        try:
            connecting = asyncio.run_coroutine_threadsafe(self._connect(), self._loop)
            while True:
                try:
                    connecting.result(_LOOK)
                    break
                except TimeoutError:
                    if connecting.done():
                        raise
                    if on_progress is not None and not on_progress(0.0):
                        connecting.cancel()
                        raise Cancelled(f"connecting to {self.options.url} was stopped") from None
        except BaseException:
            self.close()
            raise
        close_at_exit(self)

    async def _connect(self) -> None:
        self.connection = Connection(self.options)
        profile = await self.connection.identify()
        self.checks = RemoteChecks(profile, self.options.max_branches)
        self._vocabulary, self._verbs = LetterVocabulary(), RemoteVerbs()
        self.upstream = Upstream(self.connection, self._end_if_dropped)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ended:
            try:
                self._loop.run_forever()
            except BaseException:  # asyncio lets SystemExit and KeyboardInterrupt through
                log.exception("something ended the event loop; it goes on")
        self._abandon()
        self._loop.close()

    def close(self, timeout: float = _END_SECONDS) -> None:
        """End every request and the connections. A second call does nothing."""
        with self._posting:
            if self._closing:
                return
            self._closing = True
        self._loop.call_soon_threadsafe(self._begin_end, timeout)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * timeout)
            if self._thread.is_alive():
                log.warning("the event loop did not end in time")
            self._abandon()

    def drop(self) -> None:
        """Finish the running requests and close, since the engine has no references left.

        Returns at once, and takes no lock: the garbage collector may call it on any thread, anywhere.
        """
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end_dropped)

    def _end_dropped(self) -> None:
        self._dropped = True
        self._end_if_dropped()

    def _end_if_dropped(self) -> None:
        """Close once the engine has no references and nothing is being written."""
        if not self._dropped or self.upstream.busy:
            return
        with self._posting:
            if self._closing or self._commands:
                return
            self._closing = True
        self._begin_end(_END_SECONDS)

    def _begin_end(self, seconds: float) -> None:
        self._ending = self._loop.create_task(self._end(seconds))  # the loop itself keeps no task alive

    async def _end(self, seconds: float) -> None:
        """End everything on the loop, then the connections."""
        try:
            async with asyncio.timeout(seconds):
                # A question or an attempt to connect would open a socket behind the client's end.
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
                if hasattr(self, "connection"):
                    await self.connection.close()
                await asyncio.sleep(0)  # closed sockets are given back in the loop's next round
        except TimeoutError:
            log.warning("connections did not end in time")
        finally:
            self._ended = True
            self._loop.stop()

    def _abandon(self) -> None:
        for generation in list(self.generations):
            generation.abandon(EngineClosed("the engine was closed"))

    def check_open(self) -> None:
        """Raise EngineClosed, with the reason, when nothing can be asked of the server any more."""
        if self._closing:
            raise EngineClosed("the engine was closed")

    # ---- from callers to the loop

    def post(self, command: Command) -> None:
        """Hand a command to the loop. Raises InvalidRequest for a verb that cannot be carried out."""
        generation = command.generation
        self.checks.check_command(command)
        if command.verb == "append":
            more = typed_text(self._vocabulary, str(command.args[0]), "", heals=False)
            command = command._replace(args=(*command.args, *more))
        elif command.verb in ("reroll", "add_branch"):
            self._vocabulary.check_ids(command.args[-2])
        with self._posting:
            closed = self._closing
            if not closed:
                self._commands.append(command)
                if len(self._commands) == 1:
                    self._loop.call_soon_threadsafe(self._obey)
        if closed:
            generation.abandon(EngineClosed("the engine was closed"))

    def _obey(self) -> None:
        """Carry out the posted commands, then ask for the branches that wait."""
        with self._posting:
            commands, self._commands = self._commands, []
        touched: dict[RemoteRequest, None] = {}
        for command in commands:
            request = cast(RemoteRequest, command.generation.engine_state)
            try:
                if not request.dead:
                    command.carry_out(self._verbs, request, request.branches)
            except Exception as error:
                log.exception("%s of a branch elsewhere failed", command.verb)
                request.branches[command.branch].fail(EngineError(f"{command.verb}: {error!r}"))
            command.generation.arrived(command)
            touched[request] = None
        for request in touched:
            self.upstream.start(request)
            request.publish(obeyed=True)
        self._end_if_dropped()

    def ask(self, question: Callable[[Dialect], Awaitable[T]]) -> T:
        """Return what the server answers; tried some times. Raises RemoteError, EngineClosed."""
        return self.wait(self.connection.ask(question))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and return its result. Raises RemoteError, EngineClosed."""
        try:
            self.check_open()
            if threading.current_thread() is self._thread:
                raise EngineError("the engine cannot be asked to wait for an answer by its own callbacks")
        except EngineError:
            work.close()
            raise
        try:
            asked: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # it was closed just now
            work.close()
            raise EngineClosed("the engine was closed") from None
        try:
            return asked.result(_ANSWER_SECONDS + self.options.connect_seconds)
        except TimeoutError:
            asked.cancel()
            raise EngineError(f"{self.connection.profile.server} did not answer in time") from None
