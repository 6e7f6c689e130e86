"""The line protocol: HELO, the server's state as KV, and a conversation in commands.

``KV awaiting_prompt=true`` follows every command: the only sign that the server is ready. Commands may be
sent ahead and are answered in order; only STOP and PING act at once.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from srbwriter.engine.compat import IGNORED
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineError, Event, Finished, FinishReason, Text
from srbwriter.server.body import Fields
from srbwriter.server.errors import ApiError, from_engine
from srbwriter.server.lines.conversation import row_of
from srbwriter.server.lines.peer import Asked, Peer, until_loaded
from srbwriter.server.lines.wire import MOST, Fatal, Refused, escape, kv, message, unescape, unquoted
from srbwriter.server.registry import Record
from srbwriter.server.reply import token_text
from srbwriter.server.work import PER_BYTE, PER_ENTRY, off_loop
from srbwriter.version import __version__

log = logging.getLogger(__name__)

HELO = f"HELO proto/1 srbwriter/{__version__}\n".encode()

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
_SET_BYTE = 2e-6  # seconds: a grammar is checked, a bias by text made tokens


class Session(Peer):
    """A client that speaks the protocol."""

    debug = False

    async def serve(self) -> None:
        """Send the server's state, then carry out commands until the client disconnects.

        Raises Fatal and Gone.
        """
        await until_loaded(self.services)
        await self.pipe.write(b"".join(self._card()) + kv("awaiting_prompt", True))
        await self.both(self._listen(), self._work())

    # ---- what comes in

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
                await self.inbox.put(Asked(word, rest))
        if self.patient:
            await self.inbox.put(Asked(b"QUIT", b""))

    async def _work(self) -> None:
        while (asked := await self.inbox.get()).word != b"QUIT":
            try:
                command = _COMMANDS.get(asked.word)
                if command is None:
                    known = ", ".join(sorted(word.decode() for word in _COMMANDS))
                    raise Refused(400, f"unknown command; there are {known}, PING and QUIT")
                await command(self, asked)
            except Refused as error:
                await self._refuse(error.code, str(error))
            except (ApiError, EngineError) as error:
                problem = from_engine(error)
                await self._refuse(problem.status, problem.message)
            await self.pipe.write(kv("awaiting_prompt", True))

    async def _refuse(self, code: int, words: str) -> None:
        await self.pipe.write(message("ERROR", f"{code} {words}"))

    async def _text(self, asked: Asked) -> str:
        """The text of a command. Raises Refused."""
        return await off_loop(len(asked.rest) * PER_BYTE, lambda: unescape(asked.rest))

    # ---- what is known

    def _card(self) -> Iterable[bytes]:
        info, engine = self.engine.info, self.engine
        stops: Sequence[str] = self.knobs.get(row_of("stop"))
        known: dict[str, Any] = {
            "model": self.services.model_name,
            "model_desc": info.description,
            "n_params": info.n_params,
            "n_vocab": info.n_vocab,
            "n_ctx": engine.n_ctx,
            "n_ctx_train": info.n_ctx_train,
            "n_max": self.services.max_n,
            "interactive_mode": True,
            "reverse_prompt": stops[0] if stops else "",
            "debug": self.debug,
        }
        return [kv(name, value) for name, value in (*known.items(), *self.knobs.items(), *self._room())]

    def _room(self) -> list[tuple[str, int]]:
        return [("remaining_tokens", max(self.engine.n_ctx - self.talk.used, 0))]

    async def _tell(self, *known: tuple[str, Any]) -> None:
        await self.pipe.write(b"".join(kv(*pair) for pair in known))

    async def info(self, asked: Asked) -> None:
        await self.pipe.write(b"".join(self._card()))

    async def get(self, asked: Asked) -> None:
        name = await self._text(asked)
        if name == "debug":
            await self._tell((name, self.debug))
        else:
            await self._tell((name, self.knobs.get(row_of(name))))

    async def set(self, asked: Asked) -> None:
        name, found, value = asked.rest.partition(b"=")
        if not found:
            raise Refused(400, "expected SET name=value")
        await self._set(unescape(name).strip(), unquoted(value))

    async def number(self, asked: Asked) -> None:
        await self._set("n", await self._text(asked))

    async def _set(self, name: str, value: str) -> None:
        if name == "debug":
            self.debug = Fields({"debug": value}).flag("debug")
            await self._tell((name, self.debug))
            return
        if name in IGNORED:
            await self._tell((name, False))
            return
        row = await off_loop(len(value) * _SET_BYTE, lambda: self.knobs.set(name, value))
        await self._tell((name, self.knobs.get(row)))

    # ---- the conversation

    async def prompt_command(self, asked: Asked) -> None:
        text = await self._text(asked)
        echo = message("PROMPT", text)
        if len(echo) > MOST:
            raise Refused(400, f"a prompt is written in at most {MOST} bytes")
        prompt = self.prompt(text) or ""
        request = self.knobs.request(prompt, self.knobs.next_seed())
        await self.pipe.write(echo + kv("awaiting_prompt", False))
        record = await self.ask(request, asked)
        self.knobs.use_seed()
        vocab = self.engine.info.vocab
        reported, first = -1, True
        async with contextlib.aclosing(self.batches(record)) as batches:
            async for events in batches:
                out: list[bytes] = []
                if not events and record.waiting:
                    place = self.services.registry.place(record)
                    out = [kv("queue", place)] if place != reported else []
                    reported = place
                elif events:
                    size = len(events) * 10 * PER_ENTRY
                    out = await off_loop(size, partial(self._news, record, events, first))
                    first = False
                await self.pipe.write(b"".join(out))
        self.talk.add(text, record.generation, vocab)
        await self._tell(*self._room())

    def _news(self, record: Record, events: Sequence[Event], first: bool) -> list[bytes]:
        """Lines for what happened: of each branch its text, then its end."""
        generation = record.generation
        out: list[bytes] = []
        if first:
            out += [kv("prompt_tokens", len(generation.prompt_ids)),
                    kv("cached_tokens", generation.cached_tokens),
                    kv("seed", self.knobs.get(row_of("seed")))]  # fmt: skip
        texts: dict[int, list[Text]] = {}
        for event in events:
            if isinstance(event, Text):
                texts.setdefault(event.branch, []).append(event)
        for branch, pieces in texts.items():
            out += self._piece(_suffix(generation, branch), pieces)
        for event in events:
            if isinstance(event, Finished):
                out += _end(_suffix(generation, event.branch), event)
        return out

    def _piece(self, suffix: str, pieces: Sequence[Text]) -> Iterable[bytes]:
        if self.debug:
            for id in (id for piece in pieces for id in piece.ids):
                yield f"DEBUG {id} -> '{escape(token_text(self.engine, id))}'\n".encode()
        text = "".join(piece.text for piece in pieces)
        for start in range(0, len(text), _PIECE):
            yield message(f"OUTPUT{suffix}", text[start : start + _PIECE])

    async def pick(self, asked: Asked) -> None:
        text = await self._text(asked)
        if not text.isdecimal() or len(text) > 4:
            raise Refused(400, "expected PICK number")
        self.talk.pick(int(text))
        await self._tell(("picked", int(text)), *self._room())

    async def undo(self, asked: Asked) -> None:
        self.talk.undo()
        await self._tell(*self._room())

    async def reset(self, asked: Asked) -> None:
        self.talk.reset()
        await self._tell(*self._room())

    async def stop_nothing(self, asked: Asked) -> None:
        """Nothing was being written."""


def _suffix(generation: Generation, branch: int) -> str:
    return f".{branch}" if len(generation.branches) > 1 else ""


def _end(suffix: str, event: Finished) -> list[bytes]:
    reason = _REASONS.get(event.reason, "stop")
    lines = [kv(f"finish_reason{suffix}", reason), kv(f"completion_tokens{suffix}", event.tokens)]
    return [*lines, kv(f"problem{suffix}", event.problem)] if event.problem else lines


_COMMANDS: Mapping[bytes, Callable[[Session, Asked], Awaitable[None]]] = {
    b"PROMPT": Session.prompt_command,
    b"SET": Session.set,
    b"GET": Session.get,
    b"N": Session.number,
    b"INFO": Session.info,
    b"STOP": Session.stop_nothing,
    b"RESET": Session.reset,
    b"UNDO": Session.undo,
    b"PICK": Session.pick,
}
COMMANDS = (*(word.decode() for word in _COMMANDS), "PING", "QUIT", "AUTH")
"""All commands by name."""
