"""What the streams of all dialects share: a batch of events, taken apart by branch.

A dialect says how its frames look: before the first piece of a branch, for a piece, at a branch's end, and
while a prompt is read. Branches are numbered through all prompts of a request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import Finished, PromptProgress, Text
from srbwriter.server.answers import Tokens, Written, progress
from srbwriter.server.context import PING, Context, News, error_frame, waiting_comment
from srbwriter.server.errors import ApiError
from srbwriter.server.params import Params
from srbwriter.server.registry import Record
from srbwriter.server.work import encode


def frame(value: Mapping[str, Any]) -> str:
    """One event of a stream that has no other fields than data."""
    return f"data: {encode(value).decode()}\n\n"


class Piece(NamedTuple):
    """What a branch wrote. The text may be empty while a character is incomplete."""

    text: str
    tokens: Sequence[Written]  # where logprobs were asked for
    ids: Sequence[int]


class BranchFrames:
    """Frames of one request; a dialect fills in what they look like."""

    ping = PING

    def __init__(self, context: Context, record: Record, params: Params) -> None:
        self._context, self._record, self._params = context, record, params
        self._tokens: dict[int, Tokens] = {}
        self._begun: set[int] = set()

    def batch(self, news: News) -> bytes:
        texts: dict[int, list[Text]] = {}
        ends: dict[int, Finished] = {}
        out: list[str] = []
        for number, event in news:
            if isinstance(event, Text):
                texts.setdefault(self._index(number, event.branch), []).append(event)
            elif isinstance(event, Finished):
                ends[self._index(number, event.branch)] = event
            elif isinstance(event, PromptProgress) and self._params.return_progress:
                out.append(self._reading(number, self._progress(number, event)))
        for index in dict.fromkeys((*texts, *ends)):
            self._branch(out, index, texts.get(index, ()), ends.get(index))
        return "".join(out).encode()

    def waiting(self, place: int) -> bytes:
        if not self._params.return_progress:
            return waiting_comment(place)
        told = self._progress(0, PromptProgress(0, len(self._record.generation.prompt_ids), 0))
        told["prompt_progress"]["queue"] = place
        return self._reading(0, told).encode()

    def end(self) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return error_frame(self._context, error)

    def _index(self, number: int, branch: int) -> int:
        return number * self._params.n + branch

    def _of(self, index: int) -> tuple[Generation, Branch]:
        number, branch = divmod(index, self._params.n)
        generation = self._record.generations[number]
        return generation, generation.branches[branch]

    def _progress(self, number: int, event: PromptProgress) -> dict[str, Any]:
        return progress(self._record.generations[number], event, time.monotonic())

    def _branch(self, out: list[str], index: int, events: Sequence[Text], last: Finished | None) -> None:
        text = "".join([event.text for event in events])
        ids = [id for event in events for id in event.ids]
        tokens: Sequence[Written] = ()
        if self._params.logprobs is not None:
            pairs = self._tokens.get(index)
            if pairs is None:
                pairs = self._tokens[index] = Tokens(self._context.engine, self._of(index)[1].overlap)
            logprobs = [entry for event in events for entry in event.logprobs]
            tokens = pairs.feed(text, ids, logprobs, last is not None)
        if index not in self._begun and (text or last is not None):
            self._begun.add(index)
            self._begin(out, index)
        if text or tokens or ids:
            self._piece(out, index, Piece(text, tokens, ids))
        if last is not None:
            self._finish(out, index, last)

    # ---- a dialect's own

    def _reading(self, number: int, told: dict[str, Any]) -> str:
        """A frame that tells how far a prompt has been read."""
        return ""

    def _begin(self, out: list[str], index: int) -> None:
        """Frames before the first of a branch."""

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        """Frames for what a branch wrote."""
        raise NotImplementedError

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        """Frames at a branch's end."""
