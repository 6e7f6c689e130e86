"""A client of the line protocol: its settings, and its conversation.

A conversation is kept as tokens, turn by turn, so that a new turn evaluates only its own tokens.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import Request, Sampling, TokenRun

from .body import OF_DIALECTS, Body, branch_samplings, read_n, read_options, read_sampling, read_stop
from .errors import ApiError
from .run import Services

# ---- settings of a client

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


class Knobs:
    """One client's values over those that the server was started with."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._values: dict[str, Any] = {}
        self._request: tuple[Backend, Request] | None = None

    def set(self, name: str, text: str) -> Parameter:
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
        values = {**self._values, row.name: value}
        row.check(self._get(row, self._read(values)))
        self._values, self._request = values, None
        return row

    def get(self, row: Parameter) -> Any:
        """Return the current value, in the form that a client would send."""
        value = self._get(row, self.request())
        return value if value is not None else _NOTHING.get(row.name, _NOTHING.get(row.kind, ""))

    @staticmethod
    def _get(row: Parameter, request: Request) -> Any:
        return getattr(request if row.record == "request" else getattr(request, row.record), row.field)

    def request(self) -> Request:
        """Return what a turn is asked with, but for its prompt. Raises ApiError."""
        engine = self._services.engine
        if self._request is None or self._request[0] is not engine:
            self._request = engine, self._read(self._values)
        return self._request[1]

    def ask(self, prompt: Sequence[TokenRun]) -> Request:
        """Return a turn's request; where no seed is set, with one that is drawn for it."""
        request = self.request()
        sampling = cast("Sampling", request.sampling)
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbelow(1 << 31))
        return replace(request, prompt=prompt or "", sampling=branch_samplings(sampling, request.n))

    def _read(self, values: Mapping[str, Any]) -> Request:
        body, services = Body(values), self._services
        settings, most = services.settings, services.max_n
        return Request(
            "",
            n=read_n(body, min(settings.line_n, most), most),
            sampling=read_sampling(body, settings.sampling, services.engine),
            stop=read_stop(body, settings.line_stop),
            add_bos=body.flag("add_bos", True),
            parse_special=body.flag("parse_special"),
            **read_options(body, services),
        )


# ---- a conversation, as tokens: a new turn evaluates only its own

Runs = tuple[TokenRun, ...]


class Turn(NamedTuple):
    """A client's message and the answers to it, each with the tokens of it and all before it."""

    typed: str
    answers: Sequence[tuple[Runs, int]]


class Talk:
    """Turns after ``start``, which is so many ``tokens``. Each goes on from the picked answer of the last."""

    def __init__(self, start: Runs = (), tokens: int = 0) -> None:
        self.start, self.tokens = start, tokens
        self.turns: list[Turn] = []
        self.picked = 0  # of the latest turn; those before have only the answer that was picked

    def prompt(self, text: str = "") -> Runs:
        """Return the conversation with ``text`` after it. Raises ApiError where no turn more is taken."""
        if len(self.turns) >= _MOST_TURNS:
            raise ApiError(400, f"a conversation has at most {_MOST_TURNS} turns; RESET begins another")
        runs = list(self.start)
        for turn in self.turns:
            answer = turn.answers[self.picked if turn is self.turns[-1] else 0]
            runs += (*typed_runs(turn.typed), *answer[0])
        return (*runs, *typed_runs(text))

    @property
    def used(self) -> int:
        """Tokens that all of it takes of the context."""
        return self.turns[-1].answers[self.picked][1] if self.turns else self.tokens

    def add(self, text: str, generation: Generation, engine: Backend) -> None:
        """Add a turn that was written."""
        if self.turns:
            last = self.turns[-1]
            self.turns[-1] = last._replace(answers=(last.answers[self.picked],))
        before = len(generation.prompt_ids)
        answers = [(_written(branch, engine), before + len(branch.ids)) for branch in generation.branches]
        self.turns.append(Turn(text, answers))
        self.picked = 0


_MOST_TURNS = 10_000


def typed_runs(text: str) -> Runs:
    return (TokenRun(text),) if text else ()


def _written(branch: Branch, engine: Backend) -> Runs:
    """Return the text of a branch, by its tokens as far as they spell it."""
    ids, text = branch.ids, branch.text
    spelled = b"".join(engine.pieces(ids)).decode("utf-8", "replace")[branch.overlap :]
    if not ids or not text.startswith(spelled):  # a stop text was cut off inside a token
        return typed_runs(text)
    run = TokenRun(spelled, ids, engine.info.vocab, branch.overlap)
    return (run, *typed_runs(text[len(spelled) :]))
