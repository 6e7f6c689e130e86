"""Frames of OpenAI's streams: one choice a chunk, the reason last, usage once and only when asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from srbwriter.engine.types import Finished, Text
from srbwriter.server.call import Call, encode
from srbwriter.server.errors import ApiError
from srbwriter.server.registry import Record
from srbwriter.server.stream import PING, News, error_frame
from srbwriter.server.tokens import Tokens, Written, prompt_tokens

from .ask import Ask
from .shape import content_logprobs, finish_reason, legacy_logprobs, usage

_QUOTED = json.encoder.encode_basestring
DONE = b"data: [DONE]\n\n"


class _Frames:
    """What both streams share: merging a batch by branch, logprobs, usage, the end."""

    ping = PING

    def __init__(self, call: Call, record: Record, head: Mapping[str, Any], ask: Ask) -> None:
        self._call, self._record, self._ask = call, record, ask
        self._head = (
            "data: " + json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1] + ',"choices":['
        )
        self._tail = '],"usage":null}\n\n' if ask.include_usage else "]}\n\n"
        self._tokens: dict[int, Tokens] = {}
        self._begun: set[int] = set()

    def batch(self, news: News) -> bytes:
        texts: dict[int, list[Text]] = {}
        ends: dict[int, Finished] = {}
        for number, event in news:
            if isinstance(event, Text):
                texts.setdefault(number * self._ask.n + event.branch, []).append(event)
            elif isinstance(event, Finished):
                ends[number * self._ask.n + event.branch] = event
        out: list[str] = []
        for index in dict.fromkeys((*texts, *ends)):
            self._write(out, index, texts.get(index, ()), ends.get(index))
        return "".join(out).encode()

    def end(self) -> bytes:
        if not self._ask.include_usage:
            return DONE
        head = self._head.removesuffix("[")
        return (head + '[],"usage":').encode() + encode(usage(self._record.generations)) + b"}\n\n" + DONE

    def error(self, error: ApiError) -> bytes:
        return error_frame(self._call, error)

    def _write(self, out: list[str], index: int, events: Sequence[Text], last: Finished | None) -> None:
        text = "".join([event.text for event in events])
        tokens = self._written(index, text, events, last) if self._ask.logprobs is not None else ()
        if index not in self._begun and (text or last is not None):
            self._begun.add(index)
            self._begin(out, index)
        if text or tokens:
            self._piece(out, index, text, tokens)
        if last is not None:
            self._finish(out, index, last)

    def _written(
        self, index: int, text: str, events: Sequence[Text], last: Finished | None
    ) -> Sequence[Written]:
        tokens = self._tokens.get(index)
        if tokens is None:
            number, branch = divmod(index, self._ask.n)
            overlap = self._record.generations[number].branches[branch].overlap
            tokens = self._tokens[index] = Tokens(self._call.engine, overlap)
        ids = [id for event in events for id in event.ids]
        logprobs = [entry for event in events for entry in event.logprobs]
        return tokens.feed(text, ids, logprobs, last is not None)

    def _begin(self, out: list[str], index: int) -> None:
        """Frames before the first of a choice."""

    def _piece(self, out: list[str], index: int, text: str, tokens: Sequence[Written]) -> None:
        raise NotImplementedError

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        raise NotImplementedError


class CompletionFrames(_Frames):
    """``text_completion`` chunks."""

    def __init__(
        self, call: Call, record: Record, head: Mapping[str, Any], ask: Ask, prompts: Sequence[str]
    ) -> None:
        super().__init__(call, record, head, ask)
        self._prompts = prompts

    def _begin(self, out: list[str], index: int) -> None:
        if not self._ask.echo:
            return
        number = index // self._ask.n
        generation = self._record.generations[number]
        tokens = ()
        if self._ask.logprobs is not None:
            tokens = prompt_tokens(self._call.engine, generation.prompt_ids, generation.prompt_logprobs)
        self._piece(out, index, self._prompts[number], tokens)

    def _piece(self, out: list[str], index: int, text: str, tokens: Sequence[Written]) -> None:
        known = "null"
        if tokens:
            known = encode(legacy_logprobs(self._call.engine, tokens)).decode()
        out.append(
            f'{self._head}{{"index":{index},"text":{_QUOTED(text)},"logprobs":{known},"finish_reason":null}}{self._tail}'
        )

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        stop = "null" if last.stop_text is None else _QUOTED(last.stop_text)
        out.append(
            f'{self._head}{{"index":{index},"text":"","logprobs":null,'
            f'"finish_reason":"{finish_reason(last.reason)}","stop_reason":{stop}{_problem(last)}}}{self._tail}'
        )


class ChatFrames(_Frames):
    """``chat.completion.chunk`` chunks: the role once, then content, then the reason."""

    def _begin(self, out: list[str], index: int) -> None:
        self._delta(out, index, '{"role":"assistant","content":null}', "null", "null")

    def _piece(self, out: list[str], index: int, text: str, tokens: Sequence[Written]) -> None:
        if not text and not tokens:
            return
        known = "null"
        if tokens:
            known = encode({"content": content_logprobs(self._call.engine, tokens)}).decode()
        self._delta(out, index, f'{{"content":{_QUOTED(text)}}}', known, "null")

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        self._delta(out, index, "{}", "null", f'"{finish_reason(last.reason)}"{_problem(last)}')

    def _delta(self, out: list[str], index: int, delta: str, logprobs: str, reason: str) -> None:
        out.append(
            f'{self._head}{{"index":{index},"delta":{delta},"logprobs":{logprobs},'
            f'"finish_reason":{reason}}}{self._tail}'
        )


def _problem(last: Finished) -> str:
    """One more field of a choice that could not go on, beside others that could."""
    return "" if last.problem is None else f',"error":{_QUOTED(last.problem)}'
