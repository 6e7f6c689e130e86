"""``/v1/completions`` and ``/v1/chat/completions``: reader, handlers, and replies whole and in chunks.

Every sampler of the engine, one choice per chunk, the finish reason last, usage on request.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.limits import check_prompt, check_range
from srbwriter.engine.types import Finished, NotSupported, Prompt, Request, TokenRun
from srbwriter.server.body import Fields, Params, read_params, stop_also
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
from srbwriter.server.context import Context
from srbwriter.server.errors import OPENAI, bad
from srbwriter.server.prompts import fill, read_prompts, wants_bos
from srbwriter.server.registry import Record
from srbwriter.server.reply import (
    BranchReply,
    Piece,
    branch_tokens,
    content_logprobs,
    final_object,
    finish_reason,
    legacy_logprobs,
    problem,
    prompt_tokens,
    timings,
    usage,
)
from srbwriter.server.services import FINGERPRINT, Services
from srbwriter.server.work import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIParams(Params):
    """Of each prompt as many branches are written as the request says, and the best ``choices`` returned."""

    choices: int
    model: str = ""
    include_usage: bool = False
    echo: bool = False

    def of_prompt(self, prompt: Prompt, **changes: Any) -> Request:
        changes["prompt_logprobs"] = self.logprobs if self.echo else None
        if self.n > self.choices and self.logprobs is None:
            changes["logprobs"] = 0  # to tell the best
        return Params.of_prompt(self, prompt, **changes)


def read_openai(
    fields: Fields, services: Services, logprobs: int | None, stops: Sequence[str] = ()
) -> OpenAIParams:
    """Everything but the prompt. ``stops`` end a text beside the request's own. Raises ApiError (400)."""
    params = read_params(fields, services)
    n, best_of = params.n, params.n
    if fields.has("best_of"):
        best_of = fields.integer("best_of", n)
        check_range("best_of", best_of, 1, services.max_n)
    if best_of < n:
        raise bad("best_of", f"Field 'best_of': must be at least n, which is {n}, but got {best_of}")
    if best_of > n and params.stream:
        raise bad("best_of", "Field 'best_of': the best cannot be streamed before all are written")
    if fields.has("prompt_logprobs"):
        raise bad("prompt_logprobs", "Field 'prompt_logprobs': echo with logprobs has those of the prompt")
    request = stop_also(params.request, stops)
    if best_of != n or logprobs is not None:
        request = replace(request, n=best_of, logprobs=logprobs)
    options = Fields(fields.mapping("stream_options") or {})
    return params.more(
        OpenAIParams,
        request=request,
        choices=n,
        model=fields.text("model") or services.model_name,
        include_usage=params.stream and options.flag("include_usage"),
        echo=fields.flag("echo"),
    )


# ---- completions


async def completions(context: Context) -> Response:
    requests, reply = await context.read(_read)
    return await context.reply(requests, reply)


def _read(fields: Fields, services: Services) -> tuple[list[Request], CompletionReply]:
    """A request for each prompt of a body, and the reply to all. Raises ApiError (400)."""
    engine, suffix, add_bos = services.engine, fields.text("suffix"), fields.flag("add_bos", True)
    params = read_openai(fields, services, _logprobs(fields))
    prompts = read_prompts(fields.raw("prompt"), engine)
    if not suffix:
        requests = [
            services.put_system_before(params.of_prompt(prompt, add_bos=add_bos and wants_bos(prompt)))
            for prompt in prompts
        ]
    elif params.echo:
        raise bad("suffix", "Field 'suffix': cannot be combined with echo")
    else:
        check_prompt("suffix", sum(len(prompt) + len(suffix) for prompt in prompts))
        try:
            filled = [fill(engine, prompt, suffix) for prompt in prompts]
        except NotSupported as error:  # not 501: clients would try again
            raise bad("suffix", f"Field 'suffix': {error}") from None
        requests = [params.of_prompt(ids, add_bos=add_bos) for ids in filled]
    echoed = [prompt_words(engine, request.prompt) for request in requests] if params.echo else []
    return requests, CompletionReply(services, params, echoed)


def _logprobs(fields: Fields) -> int | None:
    value = fields.values.get("logprobs")
    if value is None or value is False:
        return None
    if value is True:
        return fields.size("top_logprobs", 1, like="logprobs")
    top = Fields({"logprobs": value})
    if top.integer("logprobs", 0) < 0:
        raise bad("logprobs", "Field 'logprobs': it cannot be less than 0")
    return top.size("logprobs", 0)


# ---- chat

_DEFAULT_TOP = 20


async def chat_completions(context: Context) -> Response:
    request, params = await context.read(_read_chat_request, TEMPLATE_SECONDS)
    return await context.reply([request], ChatReply(context.services, params))


def _read_chat_request(fields: Fields, services: Services) -> tuple[Request, OpenAIParams]:
    """What continues a conversation. Raises ApiError (400)."""
    chat = read_chat(fields, services)
    params = read_openai(fields, services, _chat_logprobs(fields), chat.stops)
    return params.of_prompt(chat.prompt, parse_special=True, add_bos=chat.add_bos), params


def _chat_logprobs(fields: Fields) -> int | None:
    wanted = Fields({"logprobs": fields.values.get("logprobs")}).flag("logprobs")
    top = fields.size("top_logprobs", _DEFAULT_TOP, like="logprobs")
    if not wanted:
        if fields.values.get("top_logprobs"):
            raise bad("top_logprobs", "Field 'top_logprobs': needs logprobs to be true")
        return None
    return top


# ---- answers

_QUOTED = json.encoder.encode_basestring
DONE = b"data: [DONE]\n\n"


class _Reply(BranchReply):
    """What both answers share: how they begin, how a chunk ends, and usage."""

    dialect = OPENAI
    prefix, kind, chunk = "", "", ""
    _params: OpenAIParams

    def begin(self, record: Record) -> None:
        super().begin(record)
        self._common = {
            "id": f"{self.prefix}-{record.id}",
            "object": self.chunk if self.stream else self.kind,
            "created": int(time.time()),
            "model": self._params.model,
            "system_fingerprint": FINGERPRINT,
        }
        self._head = f'data: {encode(self._common).decode()[:-1]},"choices":['
        self._tail = '],"usage":null}\n\n' if self._params.include_usage else "]}\n\n"

    def whole(self) -> dict[str, Any]:
        first = self._record.generation
        return {
            **self._common,
            "choices": self._choices(),
            "usage": usage(self._record),
            "timings": timings(first, first.branches[0]),
        }

    def _choices(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def _reading(self, number: int, extra: dict[str, Any]) -> str:
        """A chunk that reports how much of a prompt is evaluated, with an empty choice as llama.cpp's."""
        return self._empty(self._index(number, 0), f"{self._tail[:-3]},{encode(extra).decode()[1:]}\n\n")

    def _empty(self, index: int, tail: str) -> str:
        """A chunk without text."""
        raise NotImplementedError

    def _tail_of(self, index: int, *, last: bool) -> str:
        """Return the end of a chunk: with timings at a choice's end, or in each chunk if requested."""
        if not (last or self._params.timings_per_token):
            return self._tail
        generation, branch = self._of(index)
        more: dict[str, Any] = {"timings": timings(generation, branch)}
        if last and self._params.verbose:
            more["__verbose"] = final_object(
                self._services, self._record, branch, self._params, index, stream=True
            )
        return f"{self._tail[:-3]},{encode(more).decode()[1:]}\n\n"

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
        return f"{self._head}{choice}{tail}"

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        stop = "null" if last.stop_text is None else _QUOTED(last.stop_text)
        out.append(
            f'{self._head}{{"index":{index},"text":"","logprobs":null,'
            f'"finish_reason":"{finish_reason(last.reason)}","stop_reason":{stop}{_problem(last)}}}'
            + self._tail_of(index, last=True)
        )


class ChatReply(_Reply):
    """``chat.completion``; in chunks the role once, then content, then the reason."""

    prefix, kind, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def whole(self) -> dict[str, Any]:
        answer = super().whole()
        if self._params.verbose:
            first = self._record.branches[0]
            answer["__verbose"] = final_object(self._services, self._record, first, self._params, 0)
        return answer

    def _choices(self) -> Iterator[dict[str, Any]]:
        return map(self._choice, self._record.generation.branches)

    def _choice(self, branch: Branch) -> dict[str, Any]:
        choice: dict[str, Any] = {
            "index": branch.index,
            "message": {"role": "assistant", "content": branch.text},
            "logprobs": None,
            "finish_reason": finish_reason(branch.finish_reason),
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
        return f"{self._head}{choice}{tail}"

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text and not piece.tokens:
            return
        known = "null"
        if piece.tokens:
            known = encode({"content": content_logprobs(self._engine, piece.tokens)}).decode()
        self._delta(out, index, f'{{"content":{_QUOTED(piece.text)}}}', known)

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        reason = finish_reason(last.reason)
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
