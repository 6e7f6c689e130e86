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
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.compat import IGNORED
from srbwriter.engine.generation import Branch
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import (
    ONLY_READ,
    EngineError,
    Event,
    Finished,
    FinishReason,
    Request,
    Sampling,
    Text,
    TokenRun,
)
from srbwriter.version import __version__

from .answer import token_text
from .auth import Client, Guard
from .body import OF_DIALECTS, Body, branch_samplings, read_n, read_options, read_sampling, read_stop
from .errors import ApiError, as_api_error
from .registry import Record, new_id
from .run import LARGE, Follower, Loader, Services
from .settings import ServerSettings, read_text
from .wire import MOST, Fatal, Gone, Pipe, escape, kv, message, open_standard, unescape

log = logging.getLogger(__name__)

# ---- parameters by name

ROWS = tuple(row for row in PARAMETERS if row.name == "parse_special" or row.name not in OF_DIALECTS)
"""All parameters but those that clients cannot have, or that lines have no words for."""

BY_SPELLING: Mapping[str, Parameter] = {
    name: row
    for row in reversed(ROWS)
    for name in (
        *(flag.removeprefix("--").replace("-", "_") for flag in row.flags if flag.startswith("--")),
        *row.aliases,
        row.name,
    )
}
"""Every spelling: the table's, its aliases, and its flags with low lines, so ``reverse_prompt`` too."""

_NOTHING: Mapping[str, Any] = {"max_tokens": -1, "seed": -1, "int": 0, "float": 0.0}


def row_of(name: str) -> Parameter:
    """Return the parameter of that name in any spelling. Raises ApiError."""
    if (row := BY_SPELLING.get(name)) is None:
        raise ApiError(404, f"there is no parameter {name[:80]}; INFO lists them")
    return row


def value_of(row: Parameter, request: Request) -> Any:
    return getattr(request if row.record == "request" else getattr(request, row.record), row.field)


def shown(row: Parameter, request: Request) -> Any:
    """Return a parameter's value in the form that a client would send."""
    value = value_of(row, request)
    return value if value is not None else _NOTHING.get(row.name, _NOTHING.get(row.kind, ""))


# ---- a client


class Talk(NamedTuple):
    """A conversation up to one place, as tokens, so that a new turn evaluates only its own."""

    runs: tuple[TokenRun, ...] = ()
    tokens: int = 0

    def after(self, text: str) -> tuple[TokenRun, ...]:
        return (*self.runs, TokenRun(text)) if text else self.runs


def _written(branch: Branch, engine: Backend) -> Iterator[TokenRun]:
    """Yield the text of a branch, by its tokens as far as they spell it."""
    ids, text = branch.ids, branch.text
    spelled = b"".join(engine.pieces(ids)).decode("utf-8", "replace")[branch.overlap :]
    if ids and text.startswith(spelled):  # else a stop text was cut off inside a token
        yield TokenRun(spelled, ids, engine.info.vocab, branch.overlap)
        text = text[len(spelled) :]
    if text:
        yield TokenRun(text)


_AHEAD = 32  # commands of a mebibyte each, at most
_MOST_TURNS = 1000


class Peer:
    """A client: its settings, its conversation, and how much of what it asked has been answered.

    Input is read while a turn is written, so that STOP and a disconnect take effect at once. Turns are read
    from the engine's buffers: a slow client delays no other, and gets everything new in its next line.
    ``patient``: what was asked is answered though no more will come.
    """

    asked: int = 0  # lines
    answered: int = 0
    stopped: int = 0  # those up to it are to be stopped

    def __init__(self, services: Services, pipe: Pipe, client: Client, start: Talk, patient: bool) -> None:
        self.services, self.pipe, self.client, self.patient = services, pipe, client, patient
        self.values: dict[str, Any] = {}  # over those that the server was started with
        self.start = start
        self.turns: list[
            Sequence[Talk]
        ] = []  # each with its answers; of those before the last only the picked
        self.picked = 0
        self.waiting = asyncio.Queue[bytes | None](_AHEAD)  # more are left unread; None: no more will come
        self.record: Record | None = None  # of the turn that is written

    @property
    def engine(self) -> Backend:
        return self.services.engine

    @property
    def talk(self) -> Talk:
        return self.turns[-1][self.picked] if self.turns else self.start

    # ---- settings

    def request(self, values: Mapping[str, Any] | None = None) -> Request:
        """Return what a turn is asked with, but for its prompt. Raises ApiError."""
        body, services = Body(self.values if values is None else values), self.services
        settings, most = services.settings, services.max_n
        return Request(
            "",
            n=read_n(body, min(settings.line_n, most), most),
            sampling=read_sampling(body, settings.sampling, services.engine),
            stop=read_stop(body, settings.line_stop),
            add_bos=body.flag("add_bos", True),
            parse_special=body.flag("parse_special"),
            **read_options(body),
        )

    def change(self, name: str, text: str) -> Parameter:
        """Set a value from text; lists and objects are JSON. Raises ApiError: nothing has changed."""
        row = row_of(name)
        if not text.strip() and row.kind in ("int", "float"):
            raise ApiError(400, f"{name}: expected a number")
        value: Any = text
        if row.kind in ("texts", "ids", "biases") and text[:1] in ("[", "{"):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ApiError(400, f"{name}: this is not valid JSON: {error}") from None
        values = {**self.values, row.name: value}
        row.check(value_of(row, self.request(values)))
        self.values = values
        return row

    # ---- what is asked

    async def put(self, line: bytes | None) -> None:
        self.asked += 1
        await self.waiting.put(line)

    async def line(self) -> bytes | None:
        """Return the next line. Raises Fatal for a client that is silent while nothing is done for it."""
        while True:
            try:
                async with asyncio.timeout(None if self.patient else self.services.settings.timeout):
                    return await self.pipe.line()
            except TimeoutError:
                if self.asked == self.answered:
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
                    await self.put(None)
            if worker.done() or self.patient:
                await worker
        finally:
            for task in (reader, worker):
                task.cancel()
            await asyncio.gather(reader, worker, return_exceptions=True)

    async def begin_turn(self, text: str) -> Record:
        """Ask the engine for what follows ``text``. Raises ApiError and EngineError."""
        if len(self.turns) >= _MOST_TURNS:
            raise ApiError(400, f"a conversation has at most {_MOST_TURNS} turns; RESET begins another")
        request, runs = self.request(), self.talk.after(text)
        sampling = cast("Sampling", request.sampling)
        if sampling.seed is None:  # one is drawn for the turn
            sampling = replace(sampling, seed=secrets.randbelow(1 << 31))
        request = replace(request, prompt=runs or "", sampling=branch_samplings(sampling, request.n))
        large = sum(len(run.text) for run in runs) > LARGE
        submitting = asyncio.ensure_future(
            self.services.submit([request], self.client, new_id(), large=large)
        )
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:  # it may be on its way to the engine already
            submitting.add_done_callback(lambda done: done.exception() or done.result().cancel())
            raise

    async def follow_turn(self, record: Record, text: str) -> AsyncGenerator[Sequence[Event]]:
        """Yield the events of a turn; add it to the conversation.

        Cancelled when the caller stops reading. Raises ApiError.
        """
        self.record = record
        try:
            if self.answered < self.stopped:
                record.cancel()
            with Follower(self.services.notifier, record.generations) as follower:
                async for news in follower.batches():
                    yield [event for _, event in news]
            if (error := record.error) is not None:
                raise as_api_error(error) from error
            before, read = self.talk.after(text), len(record.generation.prompt_ids)
            answers = [
                Talk((*before, *_written(branch, self.engine)), read + len(branch.ids))
                for branch in record.branches
            ]
            self.turns[-1:] = [[self.talk]] if self.turns else []
            self.turns.append(answers)
            self.picked = 0
        finally:
            self.record = None
            record.cancel()


# ---- one that speaks the protocol

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
_QUOTED = re.compile(rb'"(.*)(?<!\\)((?:\\\\)*)"', re.S)


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
            first, word = False, line.partition(b" ")[0].upper()
            if word == b"PING":
                await self.pipe.write(b"PONG\n")
            elif word == b"STOP" and self.asked > self.answered:  # ends all that was asked up to here
                self.stopped = self.asked
                if self.record is not None:
                    self.record.cancel()
            elif line.strip():
                await self.put(None if word == b"QUIT" else line)

    async def _work(self) -> None:
        while (line := await self.waiting.get()) is not None:
            word, _, rest = line.partition(b" ")
            try:
                await self._act(word.decode("latin-1").upper(), rest)
            except (ApiError, EngineError) as error:
                problem = as_api_error(error)
                await self.pipe.write(message("ERROR", f"{problem.status} {problem.message}"))
            self.answered += 1
            await self.tell(("awaiting_prompt", True))

    async def _act(self, word: str, rest: bytes) -> None:
        """Carry out one command. Raises ApiError and EngineError: it has changed nothing."""
        match word:
            case "PROMPT":
                await self._prompt(unescape(rest))
            case "SET":
                name, found, value = rest.partition(b"=")
                if not found:
                    raise ApiError(400, "expected SET name=value")
                if quoted := _QUOTED.fullmatch(value):
                    value = quoted[1] + quoted[2]
                await self._set(unescape(name).strip(), unescape(value))
            case "N":
                await self._set("n", unescape(rest))
            case "GET":
                name = unescape(rest)
                known = {**dict(self.card()), "awaiting_prompt": True, "picked": self.picked}
                told = name in known and name not in BY_SPELLING
                await self.tell((name, known[name] if told else shown(row_of(name), self.request())))
            case "INFO":
                await self.tell(*self.card())
            case "STOP":  # nothing was being written
                pass
            case "RESET":
                self.turns, self.picked = [], 0
                await self.tell(self.room())
            case "UNDO":
                if not self.turns:
                    raise ApiError(404, "there is no turn to take back")
                self.turns.pop()
                self.picked = 0
                await self.tell(self.room())
            case "PICK":
                number, count = unescape(rest), len(self.turns[-1]) if self.turns else 0
                if not number.isdecimal() or len(number) > 4:
                    raise ApiError(400, "expected PICK number")
                if int(number) >= count:
                    raise ApiError(404, f"there is no answer {number}: the latest turn has {count}")
                self.picked = int(number)
                await self.tell(("picked", self.picked), self.room())
            case _:
                known = "GET, INFO, N, PICK, PING, PROMPT, QUIT, RESET, SET, STOP and UNDO"
                raise ApiError(400, f"unknown command; there are {known}")

    async def _set(self, name: str, value: str) -> None:
        if name == "debug":
            self.debug = Body({name: value}).flag(name)
            await self.tell((name, self.debug))
        elif name in IGNORED:
            await self.tell((name, False))
        else:
            await self.tell((name, shown(self.change(name, value), self.request())))

    async def tell(self, *known: tuple[str, Any]) -> None:
        await self.pipe.write(b"".join(kv(*pair) for pair in known))

    def room(self) -> tuple[str, int]:
        return "remaining_tokens", max(self.engine.n_ctx - self.talk.tokens, 0)

    def card(self) -> Iterator[tuple[str, Any]]:
        """Yield all that is known, by the names under which GET answers."""
        info, request = self.engine.info, self.request()
        stops = cast("Sequence[str]", shown(row_of("stop"), request))
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
        yield from ((row.name, shown(row, request)) for row in ROWS)
        yield self.room()

    async def _prompt(self, text: str) -> None:
        record = await self.begin_turn(text)
        await self.pipe.write(message("PROMPT", text) + kv("awaiting_prompt", False))
        first, several = True, len(record.branches) > 1
        async with contextlib.aclosing(self.follow_turn(record, text)) as turn:
            async for events in turn:
                out: list[bytes] = []
                if first:
                    generation, first = record.generation, False
                    out += [kv("prompt_tokens", len(generation.prompt_ids)),
                            kv("cached_tokens", generation.cached_tokens),
                            kv("seed", generation.branches[0].seed)]  # fmt: skip
                texts: dict[int, list[Text]] = {}
                for event in events:
                    if isinstance(event, Text):
                        texts.setdefault(event.branch, []).append(event)
                for branch, pieces in texts.items():
                    out += self._output(f".{branch}" if several else "", pieces)
                for event in events:
                    if isinstance(event, Finished):
                        own = f".{event.branch}" if several else ""
                        out.append(kv(f"finish_reason{own}", _REASONS.get(event.reason, "stop")))
                        out.append(kv(f"completion_tokens{own}", event.tokens))
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
            self.start = Talk()
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
        values: list[tuple[str, str]] = [("overflow", "truncate"), ("include_stop", "true")]
        lists: dict[str, list[str]] = {}  # of flags that may be repeated
        rest = iter(arguments)
        for argument in rest:
            flag = argument.replace("_", "-") if argument.startswith("--") else argument
            row = _FLAGS.get(flag)
            if flag in _INTERACTIVE:
                interactive, first = True, first or flag == "--interactive-first"
            elif row is not None and row.kind == "bool":
                values.append((row.name, "true"))
            elif flag not in _SWITCHES:
                known = row is not None or flag in _WITHOUT_EFFECT or flag in ("-p", "--prompt")
                value = next(rest, None) if known else None
                if value is None:
                    problem = "a value is missing" if known else "unknown argument"
                    raise PlainError(_PARSE, f"error: {problem}: {argument[:80]}")
                if flag in ("-p", "--prompt"):
                    prompt = value
                elif row is not None and row.kind == "texts":
                    lists.setdefault(row.name, []).append(value)
                elif row is not None:
                    values.append((row.name, value))
        try:
            for name, value in (*values, *((name, json.dumps(texts)) for name, texts in lists.items())):
                self.change(name, value)
        except (ApiError, EngineError) as error:
            raise PlainError(_PARSE, f"error: {error}") from None
        return prompt, interactive, first, lists.get("stop", [])

    async def _listen(self) -> None:
        while (line := await self.line()) is not None:
            await self.put(line + b"\n")

    async def _work(self, prompt: str, interactive: bool, first: bool, reverse: Sequence[str]) -> None:
        if prompt:
            await self.pipe.write(prompt.encode("utf-8", "replace"))
        text = prompt
        if interactive and (first or any(text.endswith(stop) for stop in reverse if stop)):
            text += await self._said()
        while True:
            ended: FinishReason | None = None
            try:
                record = await self.begin_turn(text)
                async with contextlib.aclosing(self.follow_turn(record, text)) as turn:
                    async for events in turn:
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
        line = await self.waiting.get()
        self.answered += 1
        if line is None:
            raise Gone
        return line.decode("utf-8", "replace")


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
        self._start = Talk()
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
        await self.read_preload()
        return [await asyncio.start_server(self._come, sock=one, limit=1 << 16) for one in self._listening]

    async def read_preload(self) -> None:
        """Evaluate what conversations begin with, and pin it in the cache."""
        if self._preload is None:
            return
        services = self._services
        try:
            engine = await until_loaded(services)
            request = Request(prompt=(TokenRun(self._preload),), stop=ONLY_READ)
            record = await services.submit([request], Client("preload", True), new_id(), bound=False)
            await services.finish(record)
            ids = record.generation.prompt_ids
            if engine.capabilities.has("pins"):
                await asyncio.to_thread(engine.pin, "preload", ids)
            self._start = Talk((TokenRun(self._preload, ids, engine.info.vocab),), len(ids))
        except (ApiError, EngineError, Fatal) as error:
            self._trouble = f"the preloaded prompt cannot be used: {error}"
            log.error("%s", self._trouble)

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
            await self.answer(pipe, address[0])
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            self._clients.pop(task, None)
            await pipe.close()

    async def answer(
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
                await pipe.write(f"HELO proto/1 srbwriter/{__version__}\n".encode())
            if self._trouble:
                raise Fatal(self._trouble)
            await kind(self._services, pipe, own, self._start, patient).serve()
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

    What was asked is answered after the input's end. Raises ServerError for a file that cannot be read.
    """
    services = Services(loader, settings)
    lines = LineServer(services)

    async def serve() -> None:
        services.notifier.attach(asyncio.get_running_loop())
        await lines.read_preload()
        async with open_standard(settings.timeout) as pipe:
            await lines.answer(pipe, "standard", Client("standard", True, "standard"), patient=True)

    asyncio.run(serve())
    return 0
