"""Event lines, byte for byte as the first single-request-batching server wrote them.

``data: `` and JSON with ``", "`` and ``": "`` between its parts, non-ASCII as escapes, one line feed.
On request the frames end in a blank line, and carry token ids, logprobs and reasons.
"""

from __future__ import annotations

import json
from typing import Any

from srbwriter.engine.types import (
    Added,
    Cut,
    Finished,
    FinishReason,
    PromptProgress,
    StateChanged,
    Text,
    TokenLogprob,
)
from srbwriter.server.call import Call
from srbwriter.server.errors import ApiError
from srbwriter.server.registry import Record
from srbwriter.server.stream import PING, News

_NATURAL = frozenset({FinishReason.STOP, FinishReason.LINE, FinishReason.SENTENCE, FinishReason.PARAGRAPH})


class EventLines:
    """``start``, ``stream``, ``stop`` and ``done``; with ``rich`` also what else happens to branches."""

    def __init__(
        self, call: Call, record: Record, *, sse: bool, rich: bool, only: int | None = None, first: int = -1
    ) -> None:
        """``only`` one branch, or all. ``first``: number the events on, beginning after this one."""
        self._call, self._record, self._rich = call, record, rich
        self._end = "\n\n" if sse else "\n"
        self.ping = PING if sse else b""
        self._only, self._number = only, first
        self._started = False
        self._pieces: dict[int, int] = {}
        for event in record.generation.log[: max(first, 0)]:
            if isinstance(event, Text):
                self._pieces[event.branch] = self._pieces.get(event.branch, 0) + 1

    def batch(self, news: News) -> bytes:
        out: list[str] = []
        if not self._started:
            self._started = True
            out.append(self._line(self._start()))
        for number, event in news:
            value = self._event(event, number * self._record.generation.request.n)
            if self._number >= 0:
                self._number += 1
            if value is not None and self._only in (None, value.get("index", self._only)):
                out.append(self._line(value))
        return "".join(out).encode()

    def waiting(self, place: int) -> bytes:
        """Only the richer form says it; the original knew no such line."""
        return self._line({"event": "queue", "place": place}).encode() if self._rich else self.ping

    def end(self) -> bytes:
        done: dict[str, Any] = {"event": "done", "count": self._count}
        if self._rich:
            generations = self._record.generations
            done["prompt_tokens"] = sum(len(generation.prompt_ids) for generation in generations)
            done["cached_tokens"] = sum(generation.cached_tokens for generation in generations)
            done["completion_tokens"] = sum(len(branch.ids) for branch in self._record.branches)
        return self._line(done).encode()

    def error(self, error: ApiError) -> bytes:
        return self._line({"event": "error", **error.body("srb")}).encode()

    @property
    def _count(self) -> int:
        return len(self._record.branches)

    def _start(self) -> dict[str, Any]:
        start: dict[str, Any] = {"event": "start", "count": self._count}
        if self._rich:
            start["id"] = self._record.id
        return start

    def _line(self, value: dict[str, Any]) -> str:
        id = f"id: {self._number}\n" if self._number >= 0 else ""
        return f"{id}data: {json.dumps(value)}{self._end}"

    def _event(self, event: object, offset: int) -> dict[str, Any] | None:
        if isinstance(event, Text):
            return self._text(event, event.branch + offset)
        if isinstance(event, Finished):
            return self._finished(event, event.branch + offset)
        return self._more(event, offset) if self._rich else None

    def _text(self, event: Text, index: int) -> dict[str, Any] | None:
        if not event.text and not self._rich:
            return None
        self._pieces[index] = self._pieces.get(index, 0) + 1
        value: dict[str, Any] = {"event": "stream", "index": index, "text": event.text}
        if self._rich:
            value["ids"] = event.ids
            if event.logprobs:
                value["logprobs"] = [_logprob(entry) for entry in event.logprobs]
        return value

    def _finished(self, event: Finished, index: int) -> dict[str, Any]:
        value: dict[str, Any] = {
            "event": "stop",
            "index": index,
            # The original counted from nought: one less than the pieces it had sent.
            "length": max(0, self._pieces.get(index, 0) - 1),
            "stop": int(event.reason in _NATURAL),
        }
        if self._rich:
            value |= {"reason": str(event.reason), "tokens": event.tokens, "stop_text": event.stop_text}
        if event.problem is not None:
            value["error"] = event.problem
        return value

    def _more(self, event: object, offset: int) -> dict[str, Any] | None:
        match event:
            case PromptProgress(done, total, cached):
                return {"event": "prompt", "done": done, "total": total, "cached": cached}
            case Cut(branch, chars, tokens):
                return {"event": "cut", "index": branch + offset, "chars": chars, "tokens": tokens}
            case Added(branch):
                return {"event": "added", "index": branch + offset}
            case StateChanged(branch, state):
                return {"event": "state", "index": branch + offset, "state": str(state)}
            case _:
                return None


def _logprob(entry: TokenLogprob) -> dict[str, Any]:
    return {"id": entry.id, "logprob": max(entry.logprob, -9999.0), "top": [list(pair) for pair in entry.top]}
