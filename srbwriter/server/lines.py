"""The line protocol: the same engine for clients that speak text over a socket, without HTTP.

HELO, the server's state as KV, and a conversation in commands; or the older way in: a count, so many
arguments, and from then on plain text in both directions, as a fork of llama.cpp's main program spoke it.
``KV awaiting_prompt=true`` follows every command: the only sign that the server is ready. Commands may be
sent ahead and are answered in order; only STOP and PING act at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.compat import IGNORED
from srbwriter.engine.parameters import Parameter
from srbwriter.engine.types import (
    ONLY_READ,
    EngineError,
    Event,
    Finished,
    FinishReason,
    Request,
    Text,
    TokenRun,
)
from srbwriter.version import __version__

from .answer import token_text
from .auth import Client, Guard
from .body import Body
from .conversation import BY_SPELLING, ROWS, Knobs, Runs, Talk, row_of
from .errors import ApiError, as_api_error
from .registry import Record, new_id
from .run import LARGE, Follower, Loader, Services
from .settings import ServerSettings, read_text
from .wire import MOST, Fatal, Gone, Pipe, StandardPipe, escape, kv, message, unescape, unquote

log = logging.getLogger(__name__)

HELO = f"HELO proto/1 srbwriter/{__version__}\n".encode()


# ---- a client


@dataclass(slots=True, eq=False)
class ClientCommand:
    """A command on its way."""

    word: bytes
    rest: bytes = b""
    stopped: bool = False


class Peer:
    """A client and its conversation. ``patient``: what was asked is answered though no more will come.

    Input is read while a turn is written, so that STOP and a disconnect take effect at once. Turns are read
    from the engine's buffers: a slow client delays no other, and gets everything new in its next line.
    """

    def __init__(self, services: Services, pipe: Pipe, client: Client, talk: Talk, patient: bool) -> None:
        self.services, self.pipe, self.client, self.patient = services, pipe, client, patient
        self.waiting = asyncio.Queue[ClientCommand](_AHEAD)  # more are left unread
        self.pending: list[ClientCommand] = []  # all that has not been answered
        self.knobs, self.talk, self._first_talk = Knobs(services), talk, talk
        self._record: Record | None = None

    @property
    def engine(self) -> Backend:
        return self.services.engine

    async def put(self, command: ClientCommand) -> None:
        self.pending.append(command)
        await self.waiting.put(command)

    async def take(self) -> ClientCommand:
        """Return the next command. Raises Gone at the end."""
        command = await self.waiting.get()
        if command.word == b"QUIT":
            raise Gone
        return command

    async def line(self) -> bytes | None:
        """Return the next line. Raises Fatal for a client that is silent while nothing is done for it."""
        while True:
            try:
                async with asyncio.timeout(None if self.patient else self.services.settings.timeout):
                    return await self.pipe.line()
            except TimeoutError:
                if not self.pending and self._record is None:
                    raise Fatal("nothing was said for too long") from None

    async def both(self, reading: Awaitable[None], working: Awaitable[None]) -> None:
        """Read input and work until the work ends or the client disconnects; cancel the current turn then.

        Whoever is patient still answers what was asked.
        """
        reader, worker = asyncio.ensure_future(reading), asyncio.ensure_future(working)
        try:
            await asyncio.wait({reader, worker}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                reader.result()
                if self.patient:
                    await self.put(ClientCommand(b"QUIT"))
            if worker.done() or self.patient:
                await worker
        finally:
            for task in (reader, worker):
                task.cancel()
            await asyncio.gather(reader, worker, return_exceptions=True)

    def stop(self) -> bool:
        """End what has been asked up to here. False where nothing is under way."""
        for command in self.pending:
            command.stopped = True
        if self._record is not None:
            self._record.cancel()
        return bool(self.pending)

    async def turn(self, text: str, command: ClientCommand) -> AsyncGenerator[tuple[Record, Sequence[Event]]]:
        """Write a turn; yield its events, and none of them while it waits.

        Cancelled when the caller stops reading. Raises ApiError and EngineError.
        """
        request = self.knobs.ask(self.talk.prompt(text))
        large = sum(len(run.text) for run in request.prompt if isinstance(run, TokenRun)) > LARGE
        handing = asyncio.ensure_future(self.services.submit([request], self.client, new_id(), large=large))
        try:
            record = await asyncio.shield(handing)
        except asyncio.CancelledError:  # it may be on its way to the engine already
            handing.add_done_callback(lambda done: done.exception() or done.result().cancel())
            raise
        self._record = record
        try:
            if command.stopped:
                record.cancel()
            with Follower(self.services.notifier, record.generations) as follower:
                async for news in follower.batches(1.0):
                    yield record, [event for _, event in news]
            if (error := record.error) is not None:
                raise as_api_error(error) from error
            self.talk.add(text, record.generation, self.engine)
        finally:
            self._record = None
            record.cancel()


_AHEAD = 32  # commands of a mebibyte each, at most

_REASONS: Mapping[FinishReason, str] = {
    FinishReason.EOG: "eos",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT: "length",
    FinishReason.STOPPED: "cancelled",
    FinishReason.KILLED: "cancelled",
    FinishReason.ERROR: "error",
}
"""What a branch ended of; everything else is a stop rule."""

_PIECE = 1 << 16  # characters of a line of OUTPUT; escapes make them longer
_HTTP = re.compile(rb"[A-Za-z]+ \S+ HTTP/\d\.\d")


class LineSession(Peer):
    """A client that speaks the protocol."""

    debug = False

    async def serve(self) -> None:
        """Send the server's state, then carry out commands until the client disconnects."""
        await until_loaded(self.services)
        await self.tell(*self.card(), ("awaiting_prompt", True))
        await self.both(self._listen(), self._work())

    async def _listen(self) -> None:
        first = True
        while (line := await self.line()) is not None:
            if first and _HTTP.fullmatch(line):  # a browser may be made to send commands behind it
                raise Fatal("this is no HTTP server")
            first = False
            word, _, rest = line.partition(b" ")
            word = word.upper()
            if word == b"PING":
                await self.pipe.write(b"PONG\n")
            elif line.strip() and not (word == b"STOP" and self.stop()):
                await self.put(ClientCommand(word, rest))

    async def _work(self) -> None:
        with contextlib.suppress(Gone):
            while True:
                command = await self.take()
                try:
                    if (act := COMMANDS.get(command.word.decode("latin-1"))) is None:
                        known = ", ".join(sorted(COMMANDS))
                        raise ApiError(400, f"unknown command; there are {known}, PING and QUIT")
                    await act(self, command)
                except (ApiError, EngineError) as error:
                    problem = as_api_error(error)
                    await self.pipe.write(message("ERROR", f"{problem.status} {problem.message}"))
                self.pending.remove(command)
                await self.tell(("awaiting_prompt", True))

    # ---- what is known

    def card(self) -> Iterator[tuple[str, Any]]:
        """Yield all that is known, by the names under which GET answers."""
        info, stops = self.engine.info, cast("Sequence[str]", self.knobs.get(row_of("stop")))
        yield "model", self.services.model_name
        yield "model_desc", info.description
        yield "n_params", info.n_params
        yield "n_vocab", info.n_vocab
        yield "n_ctx", self.engine.n_ctx
        yield "n_ctx_train", info.n_ctx_train
        yield "n_max", self.services.max_n
        yield "interactive_mode", True
        yield "reverse_prompt", stops[0] if stops else ""
        yield "debug", self.debug
        yield from ((row.name, self.knobs.get(row)) for row in ROWS)
        yield self.room()

    def room(self) -> tuple[str, int]:
        return "remaining_tokens", max(self.engine.n_ctx - self.talk.used, 0)

    async def tell(self, *known: tuple[str, Any]) -> None:
        await self.pipe.write(b"".join(kv(*pair) for pair in known))

    async def info(self, command: ClientCommand) -> None:
        await self.tell(*self.card())

    async def get(self, command: ClientCommand) -> None:
        name = unescape(command.rest)
        known = {**dict(self.card()), "awaiting_prompt": True, "picked": self.talk.picked}
        value = known[name] if name in known and name not in BY_SPELLING else self.knobs.get(row_of(name))
        await self.tell((name, value))

    async def set(self, command: ClientCommand) -> None:
        name, found, value = command.rest.partition(b"=")
        if not found:
            raise ApiError(400, "expected SET name=value")
        await self._set(unescape(name).strip(), unquote(value))

    async def number(self, command: ClientCommand) -> None:
        await self._set("n", unescape(command.rest))

    async def _set(self, name: str, value: str) -> None:
        if name == "debug":
            self.debug = Body({name: value}).flag(name)
            await self.tell((name, self.debug))
        elif name in IGNORED:
            await self.tell((name, False))
        else:
            await self.tell((name, self.knobs.get(self.knobs.set(name, value))))

    # ---- the conversation

    async def prompt(self, command: ClientCommand) -> None:
        text = unescape(command.rest)
        echo = message("PROMPT", text)
        if len(echo) > MOST:
            raise ApiError(400, f"a prompt is written in at most {MOST} bytes")
        self.knobs.ask(self.talk.prompt(text))  # a turn that is refused has no effect
        await self.pipe.write(echo + kv("awaiting_prompt", False))
        reported, first = -1, True
        async with contextlib.aclosing(self.turn(text, command)) as turn:
            async for record, events in turn:
                if not events:
                    place = self.services.registry.place(record)
                    if record.waiting and place != reported:
                        reported = place
                        await self.tell(("queue", place))
                    continue
                generation, suffix = record.generation, ".{}" if len(record.branches) > 1 else ""
                out: list[bytes] = []
                if first:
                    first, seed = False, generation.branches[0].seed
                    out += [kv("prompt_tokens", len(generation.prompt_ids)),
                            kv("cached_tokens", generation.cached_tokens), kv("seed", seed)]  # fmt: skip
                texts: dict[int, list[Text]] = {}
                for event in events:
                    if isinstance(event, Text):
                        texts.setdefault(event.branch, []).append(event)
                for branch, pieces in texts.items():
                    out += self._output(suffix.format(branch), pieces)
                for event in events:
                    if isinstance(event, Finished):
                        own, reason = suffix.format(event.branch), _REASONS.get(event.reason, "stop")
                        out += [
                            kv(f"finish_reason{own}", reason),
                            kv(f"completion_tokens{own}", event.tokens),
                        ]
                        out += [kv(f"problem{own}", event.problem)] if event.problem else []
                await self.pipe.write(b"".join(out))
        await self.tell(self.room())

    def _output(self, suffix: str, pieces: Sequence[Text]) -> Iterable[bytes]:
        if self.debug:
            for id in (id for piece in pieces for id in piece.ids):
                yield f"DEBUG {id} -> '{escape(token_text(self.engine, id))}'\n".encode()
        text = "".join(piece.text for piece in pieces)
        for start in range(0, len(text), _PIECE):
            yield message(f"OUTPUT{suffix}", text[start : start + _PIECE])

    async def pick(self, command: ClientCommand) -> None:
        text = unescape(command.rest)
        if not text.isdecimal() or len(text) > 4:
            raise ApiError(400, "expected PICK number")
        count = len(self.talk.turns[-1].answers) if self.talk.turns else 0
        if int(text) >= count:
            raise ApiError(404, f"there is no answer {text}: the latest turn has {count}")
        self.talk.picked = int(text)
        await self.tell(("picked", int(text)), self.room())

    async def undo(self, command: ClientCommand) -> None:
        if not self.talk.turns:
            raise ApiError(404, "there is no turn to take back")
        self.talk.turns.pop()
        self.talk.picked = 0
        await self.tell(self.room())

    async def reset(self, command: ClientCommand) -> None:
        self.talk = Talk(self._first_talk.start, self._first_talk.tokens)
        await self.tell(self.room())

    async def stop_nothing(self, command: ClientCommand) -> None:
        """Nothing was being written."""


COMMANDS: Mapping[str, Callable[[LineSession, ClientCommand], Awaitable[None]]] = {
    "PROMPT": LineSession.prompt,
    "SET": LineSession.set,
    "GET": LineSession.get,
    "N": LineSession.number,
    "INFO": LineSession.info,
    "STOP": LineSession.stop_nothing,
    "RESET": LineSession.reset,
    "UNDO": LineSession.undo,
    "PICK": LineSession.pick,
}


# ---- the older way in


class PlainError(Fatal):
    """What ends a connection of the older way in, as the line that the original says."""

    def __init__(self, line: str, reason: str = "") -> None:
        super().__init__(f"{reason}\nError: {line}\n" if reason else f"Error: {line}\n")


_PARSE = "Failed to parse parameters"
_MOST_ARGUMENTS = 200
_SWITCHES = frozenset(
    {"--color", "--memory-f16", "--memory-f32", "--mlock", "--no-mmap", "--verbose-prompt", "--strict"}
)
_WITHOUT_EFFECT = frozenset({"-t", "--threads", "-c", "--ctx-size", "-b", "--batch-size"})
_INTERACTIVE = frozenset({"-i", "--interactive", "--interactive-first"})
_FLAGS: Mapping[str, Parameter] = {
    **{flag: row for row in ROWS for flag in row.flags if row.name != "n"},
    "-n": row_of("max_tokens"),  # here it is the number of tokens
}


class Plain(Peer):
    """A client that sent arguments: the flags of sampling and prompts, of which others are refused.

    Flags of the machine that its clients send are taken without effect: model, threads and context are those
    of the server.
    """

    async def serve(self) -> None:
        """Read the arguments, write turns, and read a line of text between two."""
        try:
            async with asyncio.timeout(self.services.settings.head_seconds):
                arguments = await self._arguments()
        except TimeoutError:
            raise PlainError("Failed to read arguments") from None
        await until_loaded(self.services)
        prompt, interactive, first, reverse = self._apply(arguments)
        if prompt:
            self.talk = Talk()
        await self.both(self._listen(), self._work(prompt, interactive, first, reverse))

    async def _arguments(self) -> list[str]:
        """Return the arguments: the count's line, and so many with a NUL behind each. Raises PlainError."""
        line = await self.pipe.line() or b""
        if not line.isdigit() or int(line) > _MOST_ARGUMENTS:
            raise PlainError("First line must be character count")
        arguments: list[str] = []
        try:
            for _ in range(int(line)):
                argument = await self.pipe.until(b"\0", MOST - sum(map(len, arguments)))
                if argument is None:
                    raise PlainError("Failed to read arguments")
                arguments.append(argument.decode())
        except UnicodeDecodeError:
            raise PlainError("Failed to read arguments", "error: the arguments are not UTF-8") from None
        return [arguments[0].lstrip(), *arguments[1:]] if arguments else []

    def _apply(self, arguments: Sequence[str]) -> tuple[str, bool, bool, list[str]]:
        """Set what the arguments say; return the prompt, whether the client speaks too, whether it does so
        first, and the texts that end a turn. Raises PlainError for unknown and forbidden ones.
        """
        prompt, interactive, first = "", False, False
        values: list[tuple[str, str]] = [("overflow", "shift"), ("include_stop", "true")]
        lists: dict[str, list[str]] = {}  # of flags that may be repeated
        rest = list(reversed(arguments))
        while rest:
            argument = rest.pop()
            flag = argument.replace("_", "-") if argument.startswith("--") else argument
            row = _FLAGS.get(flag)
            if flag in _INTERACTIVE:
                interactive, first = True, first or flag == "--interactive-first"
            elif row is not None and row.kind == "bool":
                values.append((row.name, "true"))
            elif flag not in _SWITCHES:
                known = row is not None or flag in _WITHOUT_EFFECT or flag in ("-p", "--prompt")
                if not known or not rest:
                    problem = "a value is missing" if known else "unknown argument"
                    raise PlainError(_PARSE, f"error: {problem}: {argument[:80]}")
                value = rest.pop()
                if flag in ("-p", "--prompt"):
                    prompt = value
                elif row is not None and row.kind == "texts":
                    lists.setdefault(row.name, []).append(value)
                elif row is not None:
                    values.append((row.name, value))
        try:
            for name, value in (*values, *((name, json.dumps(texts)) for name, texts in lists.items())):
                self.knobs.set(name, value)
        except (ApiError, EngineError) as error:
            raise PlainError(_PARSE, f"error: {error}") from None
        return prompt, interactive, first, lists.get("stop", [])

    async def _listen(self) -> None:
        while (line := await self.line()) is not None:
            await self.put(ClientCommand(b"", line + b"\n"))

    async def _work(self, prompt: str, interactive: bool, first: bool, reverse: Sequence[str]) -> None:
        if prompt:
            await self.pipe.write(prompt.encode("utf-8", "replace"))
        text = prompt
        if interactive and (first or any(text.endswith(stop) for stop in reverse if stop)):
            text += await self._said()
        while True:
            ended: FinishReason | None = None
            try:
                async with contextlib.aclosing(self.turn(text, ClientCommand(b""))) as turn:
                    async for _, events in turn:
                        out = "".join(event.text for event in events if isinstance(event, Text))
                        if out:
                            await self.pipe.write(out.encode("utf-8", "replace"))
                        ended = next((event.reason for event in events if isinstance(event, Finished)), ended)
            except (ApiError, EngineError) as error:
                raise PlainError(str(error)) from error
            if not interactive:
                return
            text = ""
            if ended is FinishReason.EOG and reverse:
                text = "\n" + reverse[0]  # the model ended its text; the client's turn begins all the same
                await self.pipe.write(text.encode())
            text += await self._said()

    async def _said(self) -> str:
        """Return the client's next line. Raises Gone."""
        command = await self.take()
        self.pending.remove(command)
        return command.rest.decode("utf-8", "replace")


# ---- the server

_SILENCE = 0.3  # seconds without a first byte, after which the server speaks first
_COUNT = re.compile(rb"\d{1,9}\r?\n")
_COUNT_SO_FAR = re.compile(rb"\d{1,9}\r?")
_LONGEST_KEY = 4096  # bytes


async def until_loaded(services: Services) -> Backend:
    """Return the engine, once there is one. Raises Fatal when it could not be loaded."""
    while (engine := services.loader.engine) is None:
        if services.loader.error is not None:
            raise Fatal(f"the model could not be loaded: {services.loader.error}")
        await asyncio.sleep(0.1)
    return engine


class LineServer:
    """All clients of the lines of one server: who they are, and what they speak. To be used on its loop.

    A client has limited time to identify itself.
    """

    def __init__(self, services: Services, sockets: Sequence[socket.socket] = (), most: int = 64) -> None:
        self._services, self._listening, self._most = services, sockets, most
        self._guard = Guard(services.settings)
        file = services.settings.preload
        self._preload = None if file is None else read_text(file, "the preloaded prompt")
        self._start: tuple[Runs, int] = (), 0
        self._ready = asyncio.Event()
        self._trouble = ""  # why what was to be preloaded could not be
        self._clients: dict[asyncio.Task[None], Pipe] = {}
        self._numbers = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Preload, then accept connections, for as long as this is entered."""
        opening = asyncio.create_task(self._open())
        try:
            yield
        finally:
            opening.cancel()
            (servers,) = await asyncio.gather(opening, return_exceptions=True)
            for server in servers if isinstance(servers, list) else ():
                server.close()
            clients = dict(self._clients)
            last = message("FATAL", "the server is being ended")
            await asyncio.gather(*(pipe.close(last) for pipe in clients.values()))
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
        return [await asyncio.start_server(self._come, sock=one, limit=1 << 16) for one in self._listening]

    async def _evaluate(self, text: str) -> tuple[Runs, int]:
        """Return what conversations begin with, and how many tokens that is. Raises ApiError, EngineError."""
        services = self._services
        engine = await until_loaded(services)
        request = Request(prompt=(TokenRun(text),), stop=ONLY_READ)
        client = Client("preload", True)
        record = await services.submit([request], client, new_id(), bound=False, common=True)
        await services.finish(record)
        ids = record.generation.prompt_ids
        if engine.capabilities.has("pins"):
            await asyncio.to_thread(engine.pin, "preload", ids)
        return (TokenRun(text, ids, engine.info.vocab),), len(ids)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection over TCP."""
        pipe = Pipe(reader, writer, self._services.settings.timeout)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        if len(self._clients) >= self._most:
            await pipe.close(message("FATAL", "too many connections"))
            return
        self._clients[task] = pipe
        address = cast("tuple[str, int]", writer.get_extra_info("peername") or ("unknown", 0))
        try:
            await self._answer(pipe, address[0])
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            self._clients.pop(task, None)
            await pipe.close()

    async def serve_standard(self) -> None:
        """Speak on standard input and output; what was asked is answered after the input's end."""
        pipe = StandardPipe(self._services.settings.timeout)
        await self._answer(pipe, "standard", Client("standard", True, "standard"), patient=True)

    async def _answer(
        self, pipe: Pipe, address: str, known: Client | None = None, *, patient: bool = False
    ) -> None:
        """Let a client in, and speak what it speaks, to the end."""
        last = b""
        try:
            client = known or self._guard.client(None, None, address) or await self._let_in(pipe, address)
            self._numbers += 1
            own = replace(client, peer=f"{client.peer} lines {self._numbers}")
            kind: type[Plain | LineSession] = Plain if await self._counts(pipe) else LineSession
            if kind is LineSession:
                await pipe.write(HELO)
            await self._ready.wait()
            if self._trouble:
                raise Fatal(self._trouble)
            await kind(self._services, pipe, own, Talk(*self._start), patient).serve()
        except PlainError as error:
            last = str(error).encode("utf-8", "replace")
        except (Fatal, ApiError) as error:
            last = message("FATAL", str(error))
        except (Gone, OSError):
            return
        except Exception as error:
            log.error("unforeseen error in the line protocol", exc_info=error)
            last = message("FATAL", "an unforeseen error; the server's log has it")
        with contextlib.suppress(Gone, OSError):
            await pipe.write(last)

    async def _let_in(self, pipe: Pipe, address: str) -> Client:
        """Read the first line of a client, which must identify itself. Raises Fatal and Gone."""
        asked = Fatal("this server has keys: the first line is AUTH and a key")
        try:
            async with asyncio.timeout(self._services.settings.head_seconds):
                line = await pipe.until(b"\n", _LONGEST_KEY)
        except TimeoutError:
            raise asked from None
        if line is None:
            raise Gone
        word, _, key = line.removesuffix(b"\r").partition(b" ")
        if word.upper() != b"AUTH":
            raise asked
        with contextlib.suppress(ApiError):
            if client := self._guard.client(unescape(key), None, address):
                return client
        raise Fatal("Invalid API Key")

    async def _counts(self, pipe: Pipe) -> bool:
        """Whether the first input is a line of digits. Silence and every other byte say that it is not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SILENCE):
                if not pipe.held and not await pipe.more():
                    return False
            async with asyncio.timeout(self._services.settings.head_seconds):
                while _COUNT_SO_FAR.fullmatch(pipe.held):
                    if not await pipe.more():
                        return False
        return _COUNT.match(pipe.held) is not None


def run_standard(loader: Loader, settings: ServerSettings) -> int:
    """Speak the line protocol on standard input and output until either ends; return the exit code.

    Raises ServerError for a file that cannot be read.
    """
    services = Services(loader, settings)
    lines = LineServer(services)

    async def serve() -> None:
        services.notifier.attach(asyncio.get_running_loop())
        async with lines.open():
            await lines.serve_standard()

    asyncio.run(serve())
    return 0
