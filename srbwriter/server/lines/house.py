"""The line server: TCP and standard input; authentication and choice of protocol.

A client has limited time to identify itself. Where there are too many connections, the one that has been
silent longest is closed to make room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from srbwriter.engine.types import ONLY_READ, EngineError, Request, TokenRun
from srbwriter.server.errors import ApiError
from srbwriter.server.lines.conversation import Runs, Talk
from srbwriter.server.lines.peer import Peer, until_loaded
from srbwriter.server.lines.plain import Plain, PlainError, hand_over
from srbwriter.server.lines.session import HELO, Session
from srbwriter.server.lines.wire import Fatal, Gone, Intake, Pipe, Refused, message, unescape
from srbwriter.server.middleware import Guard
from srbwriter.server.registry import new_id
from srbwriter.server.services import Services
from srbwriter.server.settings import Client, read_text
from srbwriter.server.streams import Follower

log = logging.getLogger(__name__)

_SILENCE = 0.3  # seconds without a first byte, after which the server speaks first
_COUNT = re.compile(rb"\d{1,9}\r?\n")
_COUNT_SO_FAR = re.compile(rb"\d{1,9}\r?")
_CHUNK = 1 << 16
_LONGEST_KEY = 4096  # bytes


class House:
    """All clients of the lines of one server. To be used on its loop."""

    def __init__(self, services: Services, sockets: Sequence[socket.socket] = (), most: int = 64) -> None:
        self._services, self._listening, self._most = services, sockets, most
        settings = services.settings
        self._guard = Guard(settings)
        self._preload = (
            None if settings.preload is None else read_text(settings.preload, "the preloaded prompt")
        )
        self._start: tuple[Runs, int] = (), 0
        self._ready = asyncio.Event()
        self._trouble = ""  # why what was to be preloaded could not be
        self._clients: dict[asyncio.Task[None], StreamPipe] = {}
        self._strangers: dict[asyncio.Task[None], None] = {}  # those that have not been let in, oldest first
        self._numbers = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Preload, then accept connections, for as long as this is entered."""
        opening = asyncio.create_task(self._open())
        try:
            yield
        finally:
            opening.cancel()
            for server in await _result(opening):
                server.close()
            clients = dict(self._clients)
            for pipe in clients.values():
                pipe.send_last(message("FATAL", "the server is being ended"))
            for task in clients:
                task.cancel()
            await asyncio.gather(*clients, return_exceptions=True)

    async def _open(self) -> list[asyncio.Server]:
        if self._preload is not None:
            try:
                self._start = await self._evaluate(self._preload)
            except (ApiError, EngineError, Fatal) as error:
                self._trouble = f"the preloaded prompt cannot be used: {error}"
                log.error("%s", self._trouble)
        self._ready.set()
        return [await asyncio.start_server(self._came, sock=one, limit=_CHUNK) for one in self._listening]

    async def _evaluate(self, text: str) -> tuple[Runs, int]:
        """What conversations begin with, and how many tokens that is. Raises ApiError and EngineError."""
        services, run = self._services, TokenRun(text)
        engine = await until_loaded(services)
        request = Request(prompt=(run,), stop=ONLY_READ)
        client = Client("preload", True)
        record = await services.submit([request], client, new_id(), bound=False, common=True)
        with Follower(services.notifier, record.generations) as follower:
            await follower.finish()
        ids = record.generation.prompt_ids
        if engine.capabilities.has("pins"):
            await asyncio.to_thread(engine.pin, "preload", ids)
        return (TokenRun(text, ids, engine.info.vocab),), len(ids)

    # ---- the ways in

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection over TCP."""
        pipe = StreamPipe(reader, writer, self._services.settings.timeout)
        task = asyncio.current_task()
        assert task is not None
        if not self._room():
            pipe.send_last(message("FATAL", "too many connections"))
            return
        self._clients[task], self._strangers[task] = pipe, None
        address = cast("tuple[str, int]", writer.get_extra_info("peername") or ("unknown", 0))
        try:
            await self._answer(pipe, address[0])
        except asyncio.CancelledError:
            pass  # it made room for another, or the server ends
        finally:
            self._clients.pop(task, None)
            self._strangers.pop(task, None)
            await pipe.close()

    def _room(self) -> bool:
        """Whether one more may come; a stranger goes for it if need be."""
        if len(self._clients) < self._most:
            return True
        if not self._strangers:
            return False
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        oldest.cancel()
        return True

    async def standard(self) -> None:
        """Standard input and output; what was asked is answered after the input's end."""
        client = Client("standard", True, "standard")
        await self._answer(StdioPipe(), "standard", known=client, patient=True)

    async def _answer(
        self, pipe: Pipe, address: str, *, known: Client | None = None, patient: bool = False
    ) -> None:
        """Let a client in, and speak what it speaks, to the end."""
        intake = Intake(pipe.read)
        last = b""
        try:
            client = known or self._guard.client(None, None, address) or await self._asked_in(intake, address)
            if (task := asyncio.current_task()) is not None:
                self._strangers.pop(task, None)
            self._numbers += 1
            own = Client(client.name, client.admin, f"{client.peer} lines {self._numbers}")
            plain = await self._counts(intake)
            if not plain:
                await pipe.write(HELO)
            if plain:
                peer = Plain(self._services, pipe, intake, own, patient)
                await self._settle(peer)
                await hand_over(peer, self._services.settings.head_seconds)
            else:
                session = Session(self._services, pipe, intake, own, patient)
                await self._settle(session)
                await session.serve()
        except PlainError as error:
            last = str(error).encode("utf-8", "replace")
        except (Fatal, ApiError) as error:
            last = message("FATAL", str(error))
        except (Gone, OSError):
            return
        except Exception as error:
            log.error("unforeseen error in the line protocol", exc_info=error)
            last = message("FATAL", "an unforeseen error; the server's log has it")
        if last:
            with contextlib.suppress(Gone, OSError):
                await pipe.write(last)

    async def _settle(self, peer: Peer) -> None:
        """Give it the beginning that was preloaded, once that is. Raises Fatal."""
        await self._ready.wait()
        if self._trouble:
            raise Fatal(self._trouble)
        peer.talk = Talk(*self._start)

    async def _asked_in(self, intake: Intake, address: str) -> Client:
        """Read the first line of a client, which must identify itself. Raises Fatal and Gone."""
        try:
            async with asyncio.timeout(self._services.settings.head_seconds):
                line = await intake.until(b"\n", _LONGEST_KEY)
        except TimeoutError:
            raise Fatal("this server has keys: the first line is AUTH and a key") from None
        if line is None:
            raise Gone
        word, _, key = line.removesuffix(b"\r").partition(b" ")
        if word.upper() != b"AUTH":
            raise Fatal("this server has keys: the first line is AUTH and a key")
        try:
            client = self._guard.client(unescape(key), None, address)
        except Refused:
            client = None
        if client is None:
            raise Fatal("Invalid API Key")
        return client

    async def _counts(self, intake: Intake) -> bool:
        """Whether the first input is a line of digits. Silence and every other byte say that it is not."""
        try:
            async with asyncio.timeout(_SILENCE):
                if not intake.held and not await intake.more():
                    return False
        except TimeoutError:
            return False
        try:
            async with asyncio.timeout(self._services.settings.head_seconds):
                while _COUNT_SO_FAR.fullmatch(intake.held):
                    if not await intake.more():
                        return False
        except TimeoutError:
            return False
        return _COUNT.match(intake.held) is not None


async def _result(opening: asyncio.Task[list[asyncio.Server]]) -> list[asyncio.Server]:
    try:
        return await opening
    except asyncio.CancelledError:
        return []
    except Exception as error:
        log.error("no lines are taken: %s", error)
        return []


# ---- pipes


class StreamPipe:
    """A connection. A client that does not read for ``seconds`` is let go."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader, self._writer, self._seconds = reader, writer, seconds

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise Gone
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._seconds):
                await self._writer.drain()
        except (OSError, TimeoutError):
            raise Gone from None

    def send_last(self, data: bytes) -> None:
        """Without waiting whether it arrives."""
        if not self._writer.is_closing():
            self._writer.write(data)
            self._writer.close()

    async def close(self) -> None:
        """Let what was written arrive, for a moment."""
        self._writer.close()
        try:
            async with asyncio.timeout(min(self._seconds, 5.0)):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


class StdioPipe:
    """Standard input and output, which may be files, pipes or a terminal: a thread reads, another writes."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._wanted = threading.Semaphore(0)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._asked = self._ended = False

    async def read(self) -> bytes:
        if self._ended:
            return b""
        if self._thread is None:
            work = threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True)
            self._thread = work
            work.start()
        if not self._asked:  # an earlier call may have been given up while it waited
            self._asked = True
            self._wanted.release()
        data = await self._chunks.get()
        self._asked, self._ended = False, not data
        return data

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        data = b"begun"
        while data:
            self._wanted.acquire()
            try:
                data = os.read(0, _CHUNK)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._chunks.put_nowait, data)

    async def write(self, data: bytes) -> None:
        try:
            await asyncio.to_thread(_write_all, data)
        except OSError:
            raise Gone from None


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
