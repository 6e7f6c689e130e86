"""A client's settings and conversation.

One loop over the engine's table of parameters sets, reads and lists the settings. A conversation is kept as
tokens, turn by turn, so that a new turn evaluates only its own tokens.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import Prompt, Request, Sampling, TokenRun
from srbwriter.server.body import (
    OF_DIALECTS,
    Fields,
    read_n,
    read_options,
    read_sampling,
    read_stop,
    seeded,
)
from srbwriter.server.lines.wire import Refused
from srbwriter.server.services import Services
from srbwriter.server.work import parse

# ---- parameters

ROWS = tuple(row for row in PARAMETERS if row.name == "parse_special" or row.name not in OF_DIALECTS)
"""All but those that clients cannot have, or that lines have no words for."""

_BY_NAME: Mapping[str, Parameter] = {
    name: row
    for row in reversed(ROWS)
    for name in (
        *(flag.removeprefix("--").replace("-", "_") for flag in row.flags if flag.startswith("--")),
        *row.aliases,
        row.name,
    )
}
"""Every spelling: the table's, its aliases, and its flags with low lines, so ``reverse_prompt`` too."""

_NOTHING: Mapping[str, Any] = {"max_tokens": -1, "int": 0, "float": 0.0}


def row_of(name: str) -> Parameter:
    """The parameter of that name in any spelling. Raises Refused."""
    row = _BY_NAME.get(name)
    if row is None:
        raise Refused(404, f"there is no parameter {name[:80]}; INFO lists them")
    return row


class Knobs:
    """One client's values over those that the server was started with."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._values: dict[str, Any] = {}
        self._engine: Backend | None = None
        self._request: Request | None = None
        self._draw_seed()

    def set(self, name: str, text: str) -> Parameter:
        """A value as text; lists and objects as JSON. Raises Refused or ApiError, and nothing has changed."""
        row = row_of(name)
        if not text.strip() and row.kind in ("int", "float"):
            raise Refused(400, f"{name}: expected a number")
        is_json = row.kind in ("texts", "ids", "biases") and text[:1] in ("[", "{")
        value: Any = parse(text.encode("utf-8", "replace")) if is_json else text
        values = {**self._values, row.name: value}
        self._request = self._read(values)
        self._values = values
        if row.name == "seed":
            self._draw_seed()
        return row

    def get(self, row: Parameter) -> Any:
        """Return the current value, in the form that a client would send."""
        request = self.usual
        value = getattr(request if row.record == "request" else getattr(request, row.record), row.field)
        if value is None and row.name == "seed":
            return self._drawn
        return value if value is not None else _NOTHING.get(row.name, _NOTHING.get(row.kind, ""))

    def items(self) -> Iterator[tuple[str, Any]]:
        """All names with their values."""
        return ((row.name, self.get(row)) for row in ROWS)

    @property
    def usual(self) -> Request:
        """What a turn is asked with, but for its prompt. Raises ApiError."""
        if self._request is None or self._engine is not self._services.engine:
            self._request = self._read(self._values)
        return self._request

    def next_seed(self) -> int:
        """Return the seed of the next turn: the one that is set, or else one that is drawn for it."""
        if self._used:
            self._draw_seed()
        seed = cast("Sampling", self.usual.sampling).seed
        return self._drawn if seed is None else seed

    def use_seed(self) -> None:
        """Draw another seed for the turn after the one that has begun."""
        self._used = True

    def _draw_seed(self) -> None:
        self._drawn, self._used = secrets.randbelow(1 << 31), False

    def request(self, prompt: Prompt, seed: int | None = None) -> Request:
        """For the engine; ``seed`` instead of the one that is set. Raises ApiError."""
        request = self.usual
        if seed is not None:
            request = replace(request, sampling=replace(cast("Sampling", request.sampling), seed=seed))
        return replace(request, prompt=prompt, sampling=seeded(request))

    def _read(self, values: Mapping[str, Any]) -> Request:
        self._engine = engine = self._services.engine
        fields, settings, most = Fields(values), self._services.settings, self._services.max_n
        return Request(
            "",
            n=read_n(fields, min(settings.line_n, most), most),
            sampling=read_sampling(fields, settings.sampling, engine),
            stop=read_stop(fields, settings.line_stop),
            add_bos=fields.flag("add_bos", True),
            parse_special=fields.flag("parse_special"),
            **read_options(fields, settings.context_shift, engine),
        )


# ---- turns

_MOST_TURNS = 10_000

Runs = tuple[TokenRun, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one branch wrote, and how many tokens it has with all before it."""

    runs: Runs
    used: int


@dataclass(slots=True)
class Turn:
    """A client's message and the answers to it; the conversation continues from one answer."""

    typed: str
    answers: Sequence[Answer]
    picked: int = 0

    @property
    def answer(self) -> Answer:
        return self.answers[self.picked]


class Talk:
    """Begins with ``start``, which is so many ``tokens``."""

    def __init__(self, start: Runs = (), tokens: int = 0) -> None:
        self._start = self._head = (start, tokens)
        self.turns: list[Turn] = []

    @property
    def runs(self) -> Runs:
        """All of it, as a prompt."""
        turns = (run for turn in self.turns for run in (*typed(turn.typed), *turn.answer.runs))
        return (*self._head[0], *turns)

    @property
    def used(self) -> int:
        """Tokens that all of it takes of the context."""
        return self.turns[-1].answer.used if self.turns else self._head[1]

    def check(self) -> None:
        """Raises Refused where no turn more is taken."""
        if len(self.turns) >= _MOST_TURNS:
            raise Refused(400, f"a conversation has at most {_MOST_TURNS} turns; RESET begins another")

    def add(self, text: str, generation: Generation, vocab: str) -> None:
        """A turn that was written; of the one before, only the answer that was picked is kept."""
        if self.turns:
            last = self.turns[-1]
            last.answers, last.picked = (last.answer,), 0
        before = len(generation.prompt_ids)
        answers = [
            Answer(_written(branch, vocab), before + len(branch.ids)) for branch in generation.branches
        ]
        self.turns.append(Turn(text, answers))

    def pick(self, number: int) -> None:
        """Continue from another answer of the latest turn. Raises Refused."""
        count = len(self.turns[-1].answers) if self.turns else 0
        if not 0 <= number < count:
            raise Refused(404, f"there is no answer {number}: the latest turn has {count}")
        self.turns[-1].picked = number

    def undo(self) -> None:
        """Take the latest turn back. Raises Refused."""
        if not self.turns:
            raise Refused(404, "there is no turn to take back")
        self.turns.pop()

    def reset(self) -> None:
        """Forget the conversation."""
        self._head = self._start
        self.turns.clear()

    def clear(self) -> None:
        """Forget the conversation, and what it began with."""
        self._head = ((), 0)
        self.turns.clear()


def typed(text: str) -> Runs:
    return (TokenRun(text),) if text else ()


def _written(branch: Branch, vocab: str) -> Runs:
    """The text of a branch, by its tokens as far as they spell it."""
    buffer, text = branch.buffer, branch.text
    if not buffer.ids:
        return typed(text)
    spelled = text[: len(text) - len(buffer.tail)]
    return (TokenRun(spelled, tuple(buffer.ids), vocab, branch.overlap), *typed(buffer.tail))
