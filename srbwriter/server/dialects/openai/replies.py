"""OpenAI's answers, whole and in chunks: one choice per chunk, the finish reason last, usage on request."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import Finished, Prompt, TokenRun
from srbwriter.server.dialects.openai.params import OpenAIParams
from srbwriter.server.errors import OPENAI
from srbwriter.server.registry import Record
from srbwriter.server.reply import (
    BranchReply,
    Piece,
    branch_tokens,
    content_logprobs,
    final_object,
    finish_reason,
    finite,
    legacy_logprobs,
    problem,
    prompt_tokens,
    timings,
    token_text,
    usage,
)
from srbwriter.server.services import FINGERPRINT, Services
from srbwriter.server.tools import Argued, Called, Said, ToolReader, message_of
from srbwriter.server.work import encode

_QUOTED = json.encoder.encode_basestring
DONE = b"data: [DONE]\n\n"


class _Reply(BranchReply):
    """What both answers share: how they begin, how a chunk ends, and usage."""

    dialect = OPENAI
    prefix, kind, chunk = "", "", ""
    _params: OpenAIParams

    def begin(self, record: Record) -> None:
        super().begin(record)
        self._told = {
            "id": f"{self.prefix}-{record.id}",
            "object": self.chunk if self.stream else self.kind,
            "created": int(time.time()),
            "model": self._params.model,
            "system_fingerprint": FINGERPRINT,
        }
        self._head = f'data: {encode(self._told).decode()[:-1]},"choices":['
        self._tail = '],"usage":null}\n\n' if self._params.include_usage else "]}\n\n"

    def whole(self) -> dict[str, Any]:
        first = self._record.generation
        return {
            **self._told,
            "choices": self._choices(),
            "usage": usage(self._record),
            "timings": timings(first, first.branches[0]),
        }

    def _choices(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def _reading(self, number: int, told: dict[str, Any]) -> str:
        """A chunk that reports how much of a prompt is evaluated, with an empty choice as llama.cpp's."""
        return self._empty(self._index(number, 0), f"{self._tail[:-3]},{encode(told).decode()[1:]}\n\n")

    def _empty(self, index: int, tail: str) -> str:
        """A chunk without text."""
        raise NotImplementedError

    def _tail_of(self, index: int, *, last: bool) -> str:
        """Return the end of a chunk: with timings at a choice's end, or in each chunk if requested."""
        if not (last or self._params.timings_per_token):
            return self._with_usage(self._tail)
        generation, branch = self._of(index)
        more: dict[str, Any] = {"timings": timings(generation, branch)}
        if last and self._params.verbose:
            more["__verbose"] = final_object(
                self._services, self._record, branch, self._params, index, stream=True
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


class CompletionReply(_Reply):
    """A ``text_completion``; with ``echo`` each text begins with its prompt."""

    prefix, kind, chunk = "cmpl", "text_completion", "text_completion"

    def __init__(self, services: Services, params: OpenAIParams, prompts: Sequence[str]) -> None:
        super().__init__(services, params)
        self._prompts = prompts

    def _choices(self) -> Iterator[dict[str, Any]]:
        index = 0
        for number, generation in enumerate(self._record.generations):
            for branch in _best(generation, self._params.choices):
                yield self._choice(branch, index, self._prompts[number] if self._prompts else "")
                index += 1

    def _choice(self, branch: Branch, index: int, prompt: str) -> dict[str, Any]:
        engine, generation, logprobs = self._engine, branch.generation, None
        if self._params.logprobs is not None:
            tokens = branch_tokens(engine, branch)
            if self._params.echo:
                before = prompt_tokens(engine, generation.prompt_ids, generation.prompt_logprobs)
                length = sum(len(token.text) for token in before)
                tokens = [*before, *(token._replace(start=token.start + length) for token in tokens)]
            logprobs = legacy_logprobs(engine, tokens)
        return {
            "index": index,
            "text": prompt + branch.text,
            "logprobs": logprobs,
            "finish_reason": finish_reason(branch.finish_reason),
            "stop_reason": branch.stop_text,
            **_of_prompt(engine, generation, self._params.prompt_logprobs),
            **problem(branch),
        }

    def _begin(self, out: list[str], index: int) -> None:
        if not self._params.echo:
            return
        generation, _ = self._of(index)
        tokens = ()
        if self._params.logprobs is not None:
            tokens = prompt_tokens(self._engine, generation.prompt_ids, generation.prompt_logprobs)
        self._piece(out, index, Piece(self._prompts[index // self._params.n], tokens, ()))

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text and not piece.tokens:
            return
        known = "null"
        if piece.tokens:
            known = encode(legacy_logprobs(self._engine, piece.tokens)).decode()
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


class ChatReply(_Reply):
    """``chat.completion``; in chunks the role once, then content and calls of tools, then the reason."""

    prefix, kind, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, services: Services, params: OpenAIParams) -> None:
        super().__init__(services, params)
        self._readers: dict[int, ToolReader] = {}

    def whole(self) -> dict[str, Any]:
        answer = super().whole()
        if self._params.verbose:
            first = self._record.branches[0]
            answer["__verbose"] = final_object(self._services, self._record, first, self._params, 0)
        return answer

    def _choices(self) -> Iterator[dict[str, Any]]:
        return map(self._choice, self._record.generation.branches)

    def _choice(self, branch: Branch) -> dict[str, Any]:
        message = {"role": "assistant", "content": branch.text}
        if self._params.tools is not None:
            message = message_of(self._params.tools, branch.text)
        reason = finish_reason(branch.finish_reason)
        choice: dict[str, Any] = {
            "index": branch.index,
            "message": message,
            "logprobs": None,
            "finish_reason": "tool_calls" if "tool_calls" in message and reason == "stop" else reason,
            **problem(branch),
        }
        if self._params.logprobs is not None:
            known = content_logprobs(self._engine, branch_tokens(self._engine, branch))
            choice["logprobs"] = {"content": known}
        return choice

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
            known = encode({"content": content_logprobs(self._engine, piece.tokens)}).decode()
        if self._params.tools is None:
            self._delta(out, index, f'{{"content":{_QUOTED(piece.text)}}}', known)
            return
        deltas = self._called(index, piece.text)
        for delta in deltas or (["{}"] if piece.tokens else []):
            self._delta(out, index, delta, known)
            known = "null"

    def _called(self, index: int, text: str, last: bool = False) -> list[str]:
        """Return chunks for the part of an answer that is surely text or surely a tool call."""
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
    """Return the ``error`` member of a choice that failed while others did not."""
    return "" if last.problem is None else f',"error":{_QUOTED(last.problem)}'


def prompt_words(engine: Backend, prompt: Prompt) -> str:
    """The text of a prompt, as ``echo`` shows it."""
    if isinstance(prompt, str):
        return prompt
    runs = [item.text for item in prompt if isinstance(item, TokenRun)]
    ids = [item for item in prompt if isinstance(item, int)]
    return "".join((*runs, *(token.text for token in prompt_tokens(engine, ids, ()))))


def _best(generation: Generation, n: int) -> list[Branch]:
    """The n branches of the highest mean token logprob, best first; all in order when n are there."""
    if len(generation.branches) <= n:
        return generation.branches
    return sorted(generation.branches, key=_mean_logprob, reverse=True)[:n]


def _mean_logprob(branch: Branch) -> float:
    known = branch.logprobs
    return sum(entry.logprob for entry in known) / len(known) if known else -math.inf


def _of_prompt(engine: Backend, generation: Generation, most: int | None) -> dict[str, Any]:
    """vLLM's list: nothing for the first token, then of each what it was and what else was likely, by id."""
    if most is None:
        return {}
    listed: list[Any] = [None]
    for known in generation.prompt_logprobs:
        likely = {id: (logprob, rank) for rank, (id, logprob) in enumerate(known.top[:most], 1)}
        likely.setdefault(known.id, (known.logprob, 0))
        entry: dict[str, Any] = {}
        for id, (logprob, rank) in likely.items():
            text = token_text(engine, id)
            entry[str(id)] = {"logprob": finite(logprob), "rank": rank or None, "decoded_token": text}
        listed.append(entry)
    return {"prompt_logprobs": listed}
