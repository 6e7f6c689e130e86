"""Tokens as text for answers that list them: strings that join to the published text, and their bytes.

Works from the engine's events alone, so that it can follow a stream or look back on a finished branch.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import NamedTuple

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import TokenLogprob


class Written(NamedTuple):
    """One token of a branch whose text is published."""

    id: int  # -1 for text that no token stands for: the rest of one that a stop string cut
    text: str  # what it added; "" while a character is incomplete
    start: int  # characters before it in the branch
    logprob: TokenLogprob | None


class Tokens:
    """Pairs the ids of one branch with the text that was published for them."""

    def __init__(self, engine: Backend, hidden: int = 0) -> None:
        """``hidden`` characters of the first token end the prompt already (token healing)."""
        self._engine = engine
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[tuple[int, str, int, TokenLogprob | None]] = []
        self._decoded = 0
        self._published = 0
        self._covered = 0  # characters that tokens given out so far stand for

    def feed(
        self, text: str, ids: Sequence[int], logprobs: Sequence[TokenLogprob], last: bool = False
    ) -> list[Written]:
        """Tokens whose text is out now. ``last``: what a stop string cut off will never come."""
        for position, token in enumerate(ids):
            piece = self._decoder.decode(_piece(self._engine, token))
            hidden = min(self._hidden, len(piece))
            self._hidden -= hidden
            piece = piece[hidden:]
            logprob = logprobs[position] if position < len(logprobs) else None
            self._waiting.append((token, piece, self._decoded, logprob))
            self._decoded += len(piece)
        self._published += len(text)
        ready: list[Written] = []
        while self._waiting:
            token, piece, start, logprob = self._waiting[0]
            if start + len(piece) > self._published and not last:
                break
            del self._waiting[0]
            if start < self._published or not piece:
                ready.append(Written(token, piece[: self._published - start], start, logprob))
        if ready:
            self._covered = ready[-1].start + len(ready[-1].text)
        rest = self._published - self._covered
        if last and rest > 0:
            ready.append(Written(-1, text[-rest:], self._covered, None))
        return ready


def branch_tokens(engine: Backend, branch: Branch) -> list[Written]:
    """The tokens of an ended branch; their texts join to its text."""
    return Tokens(engine, branch.overlap).feed(branch.text, branch.ids, branch.logprobs, last=True)


def token_text(engine: Backend, token: int) -> str:
    return engine.token_bytes(token).decode("utf-8", "replace")


def prompt_tokens(engine: Backend, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> list[Written]:
    """The tokens of a prompt; the first has no logprob, and the beginning token no text."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    written: list[Written] = []
    position = 0
    for number, token in enumerate(ids):
        hidden = number == 0 and token == engine.bos
        piece = "" if hidden else decoder.decode(_piece(engine, token))
        known = logprobs[number - 1] if 0 < number <= len(logprobs) else None
        written.append(Written(token, piece, position, known))
        position += len(piece)
    return written


def _piece(engine: Backend, token: int) -> bytes:
    """What a token adds to the text: nothing if it is a control token, whatever its name."""
    return engine.token_bytes(token) if engine.detokenize((token,)) else b""
