"""The line protocol: the same engine for clients that speak text over a socket, without HTTP.

A message is one line of UTF-8 that ends in LF: a word, and after a space its text. HELO, the server's state
as KV, and a conversation in commands. ``KV awaiting_prompt=true`` follows every command: the only sign that
the server is ready. Commands may be sent ahead and are answered in order; only STOP and PING act at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
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
from .registry import RequestRecord, new_id
from .run import LARGE, Follower, Services
from .settings import read_text

log = logging.getLogger(__name__)


class Fatal(Exception):
    """What ends the connection, in words."""


class Gone(Exception):
    """The client disconnected, or stopped reading."""


# ---- lines and their escapes

_MOST = 1 << 20  # bytes of a line
_ESCAPED = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.|$)", re.S)
_LETTERS = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_BYTES = {
    **{written[1:].encode(): meant.encode() for meant, written in _LETTERS.items()}, b"'": b"'", b'"': b'"'
}  # fmt: skip
_WORD = re.compile(r"(?!(?:true|false)$)[A-Za-z_][A-Za-z0-9_.-]*")


def escape(text: str) -> str:
    """Return ``text`` on one line: backslashes, controls and separators of lines are written out."""

    def written(match: re.Match[str]) -> str:
        meant = match.group()
        return _LETTERS.get(meant) or "".join(f"\\x{byte:02X}" for byte in meant.encode())

    return _ESCAPED.sub(written, text)


def unescape(raw: bytes) -> str:
    """Decode a text with its escapes. Raises ApiError for unknown ones, and for bytes that are not UTF-8."""

    def meant(match: re.Match[bytes]) -> bytes:
        written = match.group(1)
        if len(written) == 3:
            return bytes([int(written[1:], 16)])
        if (found := _BYTES.get(written)) is None:
            known = r"\\ \n \r \t \0 \' \" and \xHH"
            raise ApiError(400, f"unknown escape at byte {match.start()} of the text; there are {known}")
        return found

    try:
        return _ESCAPE.sub(meant, raw).decode()
    except UnicodeDecodeError:
        raise ApiError(400, "this is not UTF-8") from None


def message(word: str, text: str) -> bytes:
    """Return a line of ``word`` and any text."""
    return f"{word} {escape(text)}\n".encode("utf-8", "replace")


def kv(key: str, value: Any) -> bytes:
    """Return ``KV key=value``: texts are quoted unless they are one word, sequences are JSON."""

    def plain(value: Any) -> Any:  # what JSON can say: minus infinity is false, as in ``logit_bias``
        if isinstance(value, tuple | list):
            return [plain(item) for item in cast("Sequence[Any]", value)]
        return False if value == -math.inf else value

    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = f"{value:f}"
    elif isinstance(value, tuple | list):
        text = escape(json.dumps(plain(value), ensure_ascii=False))
    elif isinstance(value, int) or _WORD.fullmatch(value):
        text = str(value)
    else:
        text = '"' + escape(value).replace('"', '\\"') + '"'
    return f"KV {key}={text}\n".encode("utf-8", "replace")


class Pipe:
    """Two directions of lines to one client, dropped when it reads nothing for ``seconds``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader, self._writer, self._seconds = reader, writer, seconds

    async def line(self, most: int = _MOST) -> bytes | None:
        """Return the next line less its end, or None. Raises Fatal for more than ``most`` bytes."""
        line = b""
        while not line.endswith(b"\n") and len(line) <= most:
            try:
                line += await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:  # what is there, of a line that is longer
                line += await self._reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError as error:
                line += error.partial
                break
            except OSError:
                break
        if len(line) > most + 1:
            raise Fatal(f"more than {most} bytes without an end")
        return line.removesuffix(b"\n").removesuffix(b"\r") if line else None

    async def write(self, data: bytes) -> None:
        """Send whole lines; wait for a slow client. Raises Gone for one that stopped reading."""
        if self._writer.is_closing():
            raise Gone
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._seconds):
                await self._writer.drain()
        except (OSError, TimeoutError):
            raise Gone from None

    async def close(self, last: bytes = b"") -> None:
        """Send ``last``, and let what was written arrive, for a moment."""
        if last and not self._writer.is_closing():
            self._writer.write(last)
        self._writer.close()
        try:
            async with asyncio.timeout(min(self._seconds, 5.0)):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


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


def _written(branch: Branch, engine: Backend) -> Iterator[TokenRun]:
    """Yield the text of a branch, by its tokens as far as they spell it."""
    ids, text = branch.ids, branch.text
    spelled = b"".join(engine.pieces(ids)).decode("utf-8", "replace")[branch.overlap :]
    if ids and text.startswith(spelled):  # else a stop text was cut off inside a token
        yield TokenRun(spelled, ids, engine.info.vocab, branch.overlap)
        text = text[len(spelled) :]
    if text:
        yield TokenRun(text)


_REASONS: Mapping[FinishReason, str] = {
    FinishReason.EOG: "eos",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT: "length",
    FinishReason.STOPPED: "cancelled",
    FinishReason.KILLED: "cancelled",
    FinishReason.ERROR: "error",
}
"""What a branch ended of; everything else is a stop rule."""

_AHEAD = 32  # commands of a mebibyte each, at most
_MOST_TURNS = 1000
_PIECE = 1 << 16  # characters of a line of OUTPUT; escapes make them longer
_HTTP = re.compile(rb"[A-Za-z]+ \S+ HTTP/\d\.\d")
_QUOTED = re.compile(rb'"(.*)(?<!\\)((?:\\\\)*)"', re.S)


class LineSession:
    """A client: its settings, its conversation, and how much of what it asked has been answered.

    Input is read while a turn is written, so that STOP and a disconnect take effect at once. Turns are read
    from the engine's buffers: a slow client delays no other, and gets everything new in its next line.
    """

    asked = 0  # commands
    answered = 0
    stopped = 0  # those up to it are to be stopped
    debug = False

    def __init__(self, services: Services, pipe: Pipe, client: Client, start: Talk) -> None:
        self.services, self.pipe, self.client = services, pipe, client
        self.values: dict[str, Any] = {}  # over those that the server was started with
        self.start = start
        # Each turn with its answers; of those before the last only the picked one.
        self.turns: list[Sequence[Talk]] = []
        self.picked = 0
        self.waiting = asyncio.Queue[bytes | None](_AHEAD)  # more are left unread; None: no more will come
        self.record: RequestRecord | None = None  # of the turn that is written

    async def serve(self) -> None:
        """Send the server's state, then carry out commands to the end. Raises Fatal and Gone."""
        await until_loaded(self.services)
        await self.tell(*self.card(), ("awaiting_prompt", True))
        reading = asyncio.create_task(self._listen())
        try:
            while (line := await self.waiting.get()) is not None:
                word, _, rest = line.partition(b" ")
                try:
                    await self._act(word.decode("latin-1").upper(), rest)
                except (ApiError, EngineError) as error:
                    problem = as_api_error(error)
                    await self.pipe.write(message("ERROR", f"{problem.status} {problem.message}"))
                self.answered += 1
                await self.tell(("awaiting_prompt", True))
        finally:
            reading.cancel()
            (ended,) = await asyncio.gather(reading, return_exceptions=True)
        if isinstance(ended, Fatal):
            raise ended

    # ---- what is asked

    async def _listen(self) -> None:
        """Read commands until no more will come. Raises Fatal."""
        first = True
        try:
            while (line := await self._line()) is not None:
                if first and _HTTP.fullmatch(line):  # a browser may be made to send commands behind it
                    raise Fatal("this is no HTTP server")
                first, word = False, line.partition(b" ")[0].upper()
                if word == b"QUIT":
                    return
                if word == b"PING":
                    await self.pipe.write(b"PONG\n")
                elif word == b"STOP" and self.asked > self.answered:
                    self._stop()
                elif line.strip():
                    self.asked += 1
                    await self.waiting.put(line)
            self._stop()
        except Fatal:
            self._stop()
            raise
        finally:
            await self.waiting.put(None)

    async def _line(self) -> bytes | None:
        """Return the next line. Raises Fatal for a client that is silent while nothing is done for it."""
        while True:
            try:
                async with asyncio.timeout(self.services.settings.timeout):
                    return await self.pipe.line()
            except TimeoutError:
                if self.asked == self.answered:
                    raise Fatal("nothing was said for too long") from None

    def _stop(self) -> None:
        """End all that was asked up to here."""
        self.stopped = self.asked
        if self.record is not None:
            self.record.cancel()

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

    # ---- settings and state

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

    async def _set(self, name: str, text: str) -> None:
        """Set a value from text; lists and objects are JSON. Raises ApiError: nothing has changed."""
        if name == "debug":
            self.debug = Body({name: text}).flag(name)
            return await self.tell((name, self.debug))
        if name in IGNORED:
            return await self.tell((name, False))
        row, value = row_of(name), cast("Any", text)
        if not text.strip() and row.kind in ("int", "float"):
            raise ApiError(400, f"{name}: expected a number")
        if row.kind in ("texts", "ids", "biases") and text[:1] in ("[", "{"):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ApiError(400, f"{name}: this is not valid JSON: {error}") from None
        values = {**self.values, row.name: value}
        request = self.request(values)
        row.check(value_of(row, request))
        self.values = values
        await self.tell((name, shown(row, request)))

    async def tell(self, *known: tuple[str, Any]) -> None:
        await self.pipe.write(b"".join(kv(*pair) for pair in known))

    @property
    def talk(self) -> Talk:
        return self.turns[-1][self.picked] if self.turns else self.start

    def room(self) -> tuple[str, int]:
        return "remaining_tokens", max(self.services.engine.n_ctx - self.talk.tokens, 0)

    def card(self) -> Iterator[tuple[str, Any]]:
        """Yield all that is known, by the names under which GET answers."""
        engine, request = self.services.engine, self.request()
        stops = cast("Sequence[str]", shown(row_of("stop"), request))
        yield "model", self.services.model_name
        yield "model_desc", engine.info.description
        yield "n_params", engine.info.n_params
        yield "n_vocab", engine.info.n_vocab
        yield "n_ctx", engine.n_ctx
        yield "n_ctx_train", engine.info.n_ctx_train
        yield "n_max", self.services.max_n
        yield "interactive_mode", True
        yield "reverse_prompt", stops[0] if stops else ""
        yield "debug", self.debug
        yield from ((row.name, shown(row, request)) for row in ROWS)
        yield self.room()

    # ---- a turn

    async def _prompt(self, text: str) -> None:
        """Write what follows ``text`` as it comes. Raises ApiError and EngineError."""
        if len(self.turns) >= _MOST_TURNS:
            raise ApiError(400, f"a conversation has at most {_MOST_TURNS} turns; RESET begins another")
        request, engine = self.request(), self.services.engine
        runs = (*self.talk.runs, TokenRun(text)) if text else self.talk.runs
        sampling = cast("Sampling", request.sampling)
        if sampling.seed is None:  # one is drawn for the turn
            sampling = replace(sampling, seed=secrets.randbelow(1 << 31))
        request = replace(request, prompt=runs or "", sampling=branch_samplings(sampling, request.n))
        large = sum(len(run.text) for run in runs) > LARGE
        record = await self.services.submit([request], self.client, new_id(), large=large)
        self.record = record
        try:
            if self.answered < self.stopped:
                record.cancel()
            await self.pipe.write(message("PROMPT", text) + kv("awaiting_prompt", False))
            with Follower(self.services.notifier, record.generations) as follower:
                generation, begun = record.generation, False
                async for news in follower.batches():
                    if not begun:
                        begun = True
                        await self.tell(
                            ("prompt_tokens", len(generation.prompt_ids)),
                            ("cached_tokens", generation.cached_tokens),
                            ("seed", generation.branches[0].seed),
                        )
                    events = [event for _, event in news]
                    await self.pipe.write(b"".join(self._output(events, request.n)))
            if (error := record.error) is not None:
                raise as_api_error(error) from error
        finally:
            self.record = None
            record.cancel()
        read = len(generation.prompt_ids)
        self.turns[-1:] = [[self.talk]] if self.turns else []
        self.turns.append(
            [Talk((*runs, *_written(one, engine)), read + len(one.ids)) for one in record.branches]
        )
        self.picked = 0
        await self.tell(self.room())

    def _output(self, events: Sequence[Event], n: int) -> Iterator[bytes]:
        """Yield the lines of events: of each branch what is new, then what has ended."""
        texts: dict[int, list[Text]] = {}
        for event in events:
            if isinstance(event, Text):
                texts.setdefault(event.branch, []).append(event)
        for branch, pieces in texts.items():
            for id in (id for piece in pieces for id in piece.ids if self.debug):
                yield f"DEBUG {id} -> '{escape(token_text(self.services.engine, id))}'\n".encode()
            text = "".join(piece.text for piece in pieces)
            for start in range(0, len(text), _PIECE):
                yield message(f"OUTPUT.{branch}" if n > 1 else "OUTPUT", text[start : start + _PIECE])
        for event in events:
            if isinstance(event, Finished):
                own = f".{event.branch}" if n > 1 else ""
                yield kv(f"finish_reason{own}", _REASONS.get(event.reason, "stop"))
                yield kv(f"completion_tokens{own}", event.tokens)
                if event.problem:
                    yield kv(f"problem{own}", event.problem)


# ---- the server

_LONGEST_KEY = 4096  # bytes


async def until_loaded(services: Services) -> Backend:
    """Return the engine, once there is one. Raises Fatal when it could not be loaded."""
    while (engine := services.loader.engine) is None:
        if services.loader.error is not None:
            raise Fatal(f"the model could not be loaded: {services.loader.error}")
        await asyncio.sleep(0.1)
    return engine


class LineServer:
    """All clients of the lines of one server. To be used on its loop.

    A client has limited time to identify itself.
    """

    def __init__(self, services: Services, sockets: Sequence[socket.socket], most: int) -> None:
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
        await self._read_preload()
        return [await asyncio.start_server(self._come, sock=one) for one in self._listening]

    async def _read_preload(self) -> None:
        """Evaluate what conversations begin with."""
        if self._preload is None:
            return
        services = self._services
        try:
            engine = await until_loaded(services)
            request = Request(prompt=(TokenRun(self._preload),), stop=ONLY_READ)
            record = await services.submit([request], Client("preload", True), new_id())
            await services.finish(record)
            ids = record.generation.prompt_ids
            self._start = Talk((TokenRun(self._preload, ids, engine.info.vocab),), len(ids))
        except (ApiError, EngineError, Fatal) as error:
            self._trouble = f"the preloaded prompt cannot be used: {error}"
            log.error("%s", self._trouble)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a client in, and hold its conversation to the end."""
        pipe, last = Pipe(reader, writer, self._services.settings.timeout), b""
        if len(self._clients) >= self._most:
            return await pipe.close(message("FATAL", "too many connections"))
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._clients[task] = pipe
        address: str = (writer.get_extra_info("peername") or ("unknown", 0))[0]
        try:
            client = self._guard.client(None, None, address) or await self._let_in(pipe, address)
            self._numbers += 1
            own = replace(client, peer=f"{client.peer} lines {self._numbers}")
            await pipe.write(f"HELO proto/1 srbwriter/{__version__}\n".encode())
            if self._trouble:
                raise Fatal(self._trouble)
            await LineSession(self._services, pipe, own, self._start).serve()
        except (Fatal, ApiError) as error:
            last = message("FATAL", str(error))
        except (Gone, OSError, asyncio.CancelledError):
            pass  # the client has left, or the server ends
        except Exception as error:
            log.error("unforeseen error in the line protocol", exc_info=error)
            last = message("FATAL", "an unforeseen error; the server's log has it")
        finally:
            self._clients.pop(task, None)
            await pipe.close(last)

    async def _let_in(self, pipe: Pipe, address: str) -> Client:
        """Read the first line of a client, which must identify itself. Raises Fatal and Gone."""
        asked = Fatal("this server has keys: the first line is AUTH and a key")
        try:
            async with asyncio.timeout(self._services.settings.head_seconds):
                line = await pipe.line(_LONGEST_KEY)
        except TimeoutError:
            raise asked from None
        if line is None:
            raise Gone
        word, _, key = line.partition(b" ")
        if word.upper() != b"AUTH":
            raise asked
        with contextlib.suppress(ApiError):
            if client := self._guard.client(unescape(key), None, address):
                return client
        raise Fatal("Invalid API Key")
