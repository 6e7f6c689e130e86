"""The other way in: a count, so many arguments, and from then on plain text in both directions.

It is what a fork of llama.cpp's main program spoke over TCP, and what bash can speak. Arguments are the flags
of sampling and prompts; what names a file or a model is refused. Flags of the machine that its clients send
are taken without effect: model, threads and context are those of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import EngineError, Finished, FinishReason, Text
from srbwriter.server.errors import ApiError
from srbwriter.server.lines.conversation import ROWS
from srbwriter.server.lines.peer import Asked, Peer, until_loaded
from srbwriter.server.lines.wire import Gone, Intake, Refused

COUNT = "First line must be character count"
READ = "Failed to read arguments"
PARSE = "Failed to parse parameters"

_MOST_ARGUMENTS = 200
_MOST_BYTES = 1 << 20  # of all arguments
_SWITCHES = frozenset(
    {"--color", "--memory-f16", "--memory-f32", "--mlock", "--no-mmap", "--verbose-prompt", "--strict"}
)
_WITHOUT_EFFECT = frozenset({"-t", "--threads", "-c", "--ctx-size", "-b", "--batch-size"})
_INTERACTIVE = frozenset({"-i", "--interactive", "--interactive-first"})


class PlainError(Exception):
    """What ends the connection, as the line that the original says."""

    def __init__(self, line: str, reason: str = "") -> None:
        super().__init__(f"{reason}\nError: {line}\n" if reason else f"Error: {line}\n")


async def read_arguments(intake: Intake) -> list[str]:
    """The count's line, and so many arguments with a NUL behind each. Raises PlainError."""
    line = await intake.line() or b""
    if not line.isdigit() or int(line) > _MOST_ARGUMENTS:
        raise PlainError(COUNT)
    arguments: list[str] = []
    room = _MOST_BYTES
    try:
        for _ in range(int(line)):
            argument = await intake.until(b"\0", room)
            if argument is None:
                raise PlainError(READ)
            room -= len(argument)
            arguments.append(argument.decode())
    except UnicodeDecodeError:
        raise PlainError(READ, "error: the arguments are not UTF-8") from None
    return [arguments[0].lstrip(), *arguments[1:]] if arguments else []


@dataclass(slots=True)
class Asking:
    """What the arguments say. ``values`` are pairs of a parameter and its value as text."""

    prompt: str = ""
    interactive: bool = False
    first: bool = False  # the client speaks first
    values: list[tuple[Parameter, str]] = field(default_factory=list["tuple[Parameter, str]"])
    lists: dict[str, list[str]] = field(
        default_factory=dict[str, "list[str]"]
    )  # of flags that may be repeated


def _flags() -> Mapping[str, Parameter]:
    rows = {flag: row for row in ROWS for flag in row.flags if row.name != "n"}
    limit = next(row for row in PARAMETERS if row.name == "max_tokens")
    return {**rows, "-n": limit}  # here it is the number of tokens


_FLAGS = _flags()


def parse_arguments(arguments: Sequence[str]) -> Asking:
    """Parse the arguments of a client. Raises PlainError for unknown and forbidden ones."""
    asking, rest = Asking(), list(reversed(arguments))
    while rest:
        argument = rest.pop()
        flag = argument.replace("_", "-") if argument.startswith("--") else argument
        row = _FLAGS.get(flag)
        if flag in _INTERACTIVE:
            asking.interactive = True
            asking.first |= flag == "--interactive-first"
        elif row is not None and row.kind == "bool":
            asking.values.append((row, "true"))
        elif flag not in _SWITCHES:
            known = row is not None or flag in _WITHOUT_EFFECT or flag in ("-p", "--prompt")
            if not known or not rest:
                problem = "a value is missing" if known else "unknown argument"
                raise PlainError(PARSE, f"error: {problem}: {argument[:80]}")
            value = rest.pop()
            if flag in ("-p", "--prompt"):
                asking.prompt = value
            elif row is not None and row.kind == "texts":
                asking.lists.setdefault(row.name, []).append(value)
            elif row is not None:
                asking.values.append((row, value))
    return asking


class Plain(Peer):
    """A client that sent arguments."""

    async def serve(self, arguments: Sequence[str]) -> None:
        """Write turns, and read a line of text between two. Raises PlainError, Fatal and Gone."""
        asking = parse_arguments(arguments)
        await until_loaded(self.services)
        self._apply(asking)
        if asking.prompt:
            self.talk.clear()
        await self.both(self._listen(), self._work(asking))

    def _apply(self, asking: Asking) -> None:
        """Raise PlainError."""
        usual = (("overflow", "shift"), ("include_stop", "true"))
        lists = ((name, json.dumps(texts)) for name, texts in asking.lists.items())
        asked = ((row.name, value) for row, value in asking.values)
        for name, value in (*usual, *lists, *asked):
            try:
                self.knobs.set(name, value)
            except (Refused, ApiError, EngineError) as error:
                raise PlainError(PARSE, f"error: {error}") from None

    async def _listen(self) -> None:
        while (line := await self.line()) is not None:
            await self.inbox.put(Asked(b"", line + b"\n"))
        if self.patient:
            await self.inbox.put(Asked(b"QUIT", b""))

    async def _work(self, asking: Asking) -> None:
        reverse = asking.lists.get("stop", [])
        if asking.prompt:
            await self.pipe.write(asking.prompt.encode("utf-8", "replace"))
        text = asking.prompt
        waits = asking.first or any(text.endswith(stop) for stop in reverse if stop)
        if asking.interactive and waits:
            text += await self._said()
        while True:
            ended = await self._turn(text)
            if not asking.interactive:
                return
            text = ""
            if ended is FinishReason.EOG and reverse:
                text = "\n" + reverse[0]  # the model ended its text; the client's turn begins all the same
                await self.pipe.write(text.encode())
            text += await self._said()

    async def _said(self) -> str:
        """Return the client's next line. Raises Gone."""
        said = await self.inbox.get()
        if said.word == b"QUIT":
            raise Gone
        return said.rest.decode("utf-8", "replace")

    async def _turn(self, text: str) -> FinishReason | None:
        """Write on, as it comes; why it ended. Raises PlainError."""
        try:
            record = await self.ask(self.knobs.request(self.prompt(text) or ""), Asked(b"", b""))
            ended: FinishReason | None = None
            async with contextlib.aclosing(self.batches(record)) as batches:
                async for events in batches:
                    out = "".join(event.text for event in events if isinstance(event, Text))
                    if out:
                        await self.pipe.write(out.encode("utf-8", "replace"))
                    ended = next((event.reason for event in events if isinstance(event, Finished)), ended)
        except (Refused, ApiError, EngineError) as error:
            raise PlainError(str(error)) from error
        self.talk.add(text, record.generation, self.engine.info.vocab)
        return ended


async def hand_over(peer: Plain, seconds: float) -> None:
    """Read the arguments, which must arrive within ``seconds``, and serve.

    Raises PlainError, Fatal and Gone.
    """
    try:
        async with asyncio.timeout(seconds):
            arguments = await read_arguments(peer.intake)
    except TimeoutError:
        raise PlainError(READ) from None
    await peer.serve(arguments)
