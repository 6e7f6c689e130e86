"""Frames of OpenAI's streams: one choice a chunk, the reason last, usage once and only when asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from srbwriter.engine.types import Finished
from srbwriter.server.answers import (
    content_logprobs,
    final_object,
    finish_reason,
    legacy_logprobs,
    prompt_tokens,
    timings,
    usage,
)
from srbwriter.server.context import Context
from srbwriter.server.dialects.openai.params import OpenAIParams
from srbwriter.server.registry import Record
from srbwriter.server.streams import BranchFrames, Piece
from srbwriter.server.tools import Argued, Called, Said, ToolReader
from srbwriter.server.work import encode

_QUOTED = json.encoder.encode_basestring
DONE = b"data: [DONE]\n\n"


class _Frames(BranchFrames):
    """What both streams share: the head of a chunk, how it ends, and usage."""

    _params: OpenAIParams

    def __init__(
        self, context: Context, record: Record, head: Mapping[str, Any], params: OpenAIParams
    ) -> None:
        super().__init__(context, record, params)
        self._head = (
            "data: " + json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1] + ',"choices":['
        )
        self._tail = '],"usage":null}\n\n' if params.include_usage else "]}\n\n"

    def _reading(self, number: int, told: dict[str, Any]) -> str:
        """A chunk that reports how much of a prompt is evaluated, with an empty choice as llama.cpp's."""
        return self._empty(self._index(number, 0), f"{self._tail[:-3]},{encode(told).decode()[1:]}\n\n")

    def _empty(self, index: int, tail: str) -> str:
        """A chunk without text."""
        raise NotImplementedError

    def _tail_of(self, index: int, *, last: bool) -> str:
        """How a chunk ends: with timings at a choice's end, or with each piece where they are asked for."""
        if not (last or self._params.timings_per_token):
            return self._with_usage(self._tail)
        generation, branch = self._of(index)
        more: dict[str, Any] = {"timings": timings(generation, branch)}
        if last and self._params.verbose:
            more["__verbose"] = final_object(
                self._context, self._record, branch, self._params, index, stream=True
            )
        return self._with_usage(f"{self._tail[:-3]},{encode(more).decode()[1:]}\n\n")

    def _with_usage(self, tail: str) -> str:
        if not self._params.continuous_usage:
            return tail
        return tail.replace('"usage":null', f'"usage":{encode(usage(self._record)).decode()}', 1)

    def end(self) -> bytes:
        if not self._params.include_usage:
            return DONE
        head = self._head.removesuffix("[")
        return (head + '[],"usage":').encode() + encode(usage(self._record)) + b"}\n\n" + DONE


class CompletionFrames(_Frames):
    """``text_completion`` chunks."""

    def __init__(
        self,
        context: Context,
        record: Record,
        head: Mapping[str, Any],
        params: OpenAIParams,
        prompts: Sequence[str],
    ) -> None:
        super().__init__(context, record, head, params)
        self._prompts = prompts

    def _begin(self, out: list[str], index: int) -> None:
        if not self._params.echo:
            return
        generation, _ = self._of(index)
        tokens = ()
        if self._params.logprobs is not None:
            tokens = prompt_tokens(self._context.engine, generation.prompt_ids, generation.prompt_logprobs)
        self._piece(out, index, Piece(self._prompts[index // self._params.n], tokens, ()))

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text and not piece.tokens:
            return
        known = "null"
        if piece.tokens:
            known = encode(legacy_logprobs(self._context.engine, piece.tokens)).decode()
        out.append(
            f'{self._head}{{"index":{index},"text":{_QUOTED(piece.text)},"logprobs":{known},"finish_reason":null}}'
            + self._tail_of(index, last=False)
        )

    def _empty(self, index: int, tail: str) -> str:
        choice = f'{{"index":{index},"text":"","logprobs":null,"finish_reason":null}}'
        return f"{self._head}{choice}{self._with_usage(tail)}"

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        stop = "null" if last.stop_text is None else _QUOTED(last.stop_text)
        out.append(
            f'{self._head}{{"index":{index},"text":"","logprobs":null,'
            f'"finish_reason":"{finish_reason(last.reason)}","stop_reason":{stop}{_problem(last)}}}'
            + self._tail_of(index, last=True)
        )


class ChatFrames(_Frames):
    """``chat.completion.chunk`` chunks: the role once, then content and calls of tools, then the reason."""

    def __init__(
        self, context: Context, record: Record, head: Mapping[str, Any], params: OpenAIParams
    ) -> None:
        super().__init__(context, record, head, params)
        self._readers: dict[int, ToolReader] = {}

    def _begin(self, out: list[str], index: int) -> None:
        out.append(self._empty(index, self._tail))

    def _empty(self, index: int, tail: str) -> str:
        """A chunk with the role and no text: before the first piece, and (as llama.cpp's) for progress."""
        delta = '{"role":"assistant","content":null}'
        choice = f'{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":null}}'
        return f"{self._head}{choice}{self._with_usage(tail)}"

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text and not piece.tokens:
            return
        known = "null"
        if piece.tokens:
            known = encode({"content": content_logprobs(self._context.engine, piece.tokens)}).decode()
        if self._params.tools is None:
            self._delta(out, index, f'{{"content":{_QUOTED(piece.text)}}}', known)
            return
        deltas = self._called(index, piece.text)
        for delta in deltas or (["{}"] if piece.tokens else []):
            self._delta(out, index, delta, known)
            known = "null"

    def _called(self, index: int, text: str, last: bool = False) -> list[str]:
        """What is certain of an answer that may call tools."""
        assert self._params.tools is not None
        reader = self._readers.setdefault(index, ToolReader(self._params.tools))
        return [_tool_delta(part) for part in reader.feed(text, last)]

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        reason = finish_reason(last.reason)
        if self._params.tools is not None:
            for delta in self._called(index, "", last=True):
                self._delta(out, index, delta, "null")
            if self._readers[index].calls and reason == "stop":
                reason = "tool_calls"
        self._delta(out, index, "{}", "null", f'"{reason}"{_problem(last)}', last=True)

    def _delta(
        self,
        out: list[str],
        index: int,
        delta: str,
        logprobs: str,
        reason: str = "null",
        *,
        last: bool = False,
    ) -> None:
        out.append(
            f'{self._head}{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{reason}}}'
            + self._tail_of(index, last=last)
        )


def _tool_delta(part: Said | Called | Argued) -> str:
    """A part of an answer that may call tools, as the ``delta`` of a chunk."""
    match part:
        case Said(text):
            delta: dict[str, Any] = {"content": text}
        case Called(number, id, name):
            function = {"name": name, "arguments": ""}
            delta = {"tool_calls": [{"index": number, "id": id, "type": "function", "function": function}]}
        case Argued(number, text):
            delta = {"tool_calls": [{"index": number, "function": {"arguments": text}}]}
    return encode(delta).decode()


def _problem(last: Finished) -> str:
    """One more field of a choice that could not go on, beside others that could."""
    return "" if last.problem is None else f',"error":{_QUOTED(last.problem)}'
