"""OpenAI's dialect, with what vLLM adds: completions, chat, and the cards of models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import Finished, NotSupported, Prompt, Request, TokenRun

from ..answer import (
    Answer,
    Written,
    branch_tokens,
    finish_reason,
    frame,
    problem,
    prompt_tokens,
    seed_note,
    timings,
)
from ..body import Body, read_request, stop_also, with_prompt
from ..errors import ApiError, bad, openai_error
from ..http import Call, Dialect, Row
from ..prompts import fill, read_chat, read_prompts, wants_bos
from ..registry import Record
from ..run import FINGERPRINT, Services, words
from .embeddings import EMBEDDINGS, openai_embeddings

# ---- what is asked


def _read_common(body: Body, services: Services, logprobs: int | None, stops: Sequence[str] = ()) -> Request:
    """Return a request without its prompt. ``stops`` end a text beside its own. Raises ApiError (400)."""
    request = stop_also(read_request(body, services), stops)
    if body.has("prompt_logprobs"):
        raise bad("prompt_logprobs", "echo with logprobs has those of the prompt")
    return replace(request, logprobs=logprobs)


def read_completions(body: Body, services: Services) -> tuple[list[Request], CompletionAnswer]:
    """Return a request for each prompt of a body, and the answer to all. Raises ApiError (400)."""
    engine, suffix, add_bos = services.engine, body.text("suffix"), body.flag("add_bos", True)
    logprobs, echo = _completion_logprobs(body), body.flag("echo")
    common = _read_common(body, services, logprobs)
    if echo:
        common = replace(common, prompt_logprobs=logprobs)
    prompts = read_prompts(body.raw("prompt"), engine)
    if not suffix:
        requests = [
            services.put_system_before(with_prompt(common, prompt, add_bos=add_bos and wants_bos(prompt)))
            for prompt in prompts
        ]
    elif echo:
        raise bad("suffix", "cannot be combined with echo")
    else:
        check_prompt("suffix", sum(len(prompt) + len(suffix) for prompt in prompts))
        try:
            filled = [fill(engine, prompt, suffix) for prompt in prompts]
        except NotSupported as error:  # not 501: clients would try again
            raise bad("suffix", str(error)) from None
        requests = [with_prompt(common, ids, add_bos=add_bos) for ids in filled]
    answer = CompletionAnswer(body, services, common)
    if echo:
        answer.prompts = [_prompt_words(engine, request.prompt) for request in requests]
    return requests, answer


def _completion_logprobs(body: Body) -> int | None:
    value = body.values.get("logprobs")
    if value is None or value is False:
        return None
    if value is True:
        return body.size("top_logprobs", 1, like="logprobs")
    top = body.only("logprobs")
    if top.integer("logprobs", 0) < 0:
        raise bad("logprobs", "it cannot be less than 0")
    return top.size("logprobs", 0)


def _prompt_words(engine: Backend, prompt: Prompt) -> str:
    """Return the text of a prompt, as ``echo`` shows it."""
    if isinstance(prompt, str):
        return prompt
    runs = [item.text for item in prompt if isinstance(item, TokenRun)]
    ids = [item for item in prompt if isinstance(item, int)]
    return "".join((*runs, *(token.text for token in prompt_tokens(engine, ids, ()))))


def read_conversation(body: Body, services: Services) -> tuple[list[Request], ChatAnswer]:
    """Return what continues a conversation, and the answer. Raises ApiError (400)."""
    chat = read_chat(body, services)
    wanted = body.only("logprobs").flag("logprobs")
    logprobs = body.size("top_logprobs", 20, like="logprobs") if wanted else None
    if not wanted and body.values.get("top_logprobs"):
        raise bad("top_logprobs", "needs logprobs to be true")
    common = _read_common(body, services, logprobs, chat.stops)
    request = with_prompt(common, chat.prompt, parse_special=True, add_bos=chat.add_bos)
    return [request], ChatAnswer(body, services, common)


async def completions(call: Call) -> Response:
    return await call.reply(*await call.work(lambda: read_completions(call.body, call.services)))


async def chat_completions(call: Call) -> Response:
    read = lambda: read_conversation(call.body, call.services)  # noqa: E731
    return await call.reply(*await call.work(read, thread=True))


# ---- the answers

DONE = b"data: [DONE]\n\n"


class _OpenAIAnswer(Answer):
    """What both answers have in common; they differ in how a text stands in a choice and in a chunk."""

    error_body = staticmethod(openai_error)
    prefix, kind, chunk_kind = "", "", ""

    def __init__(self, body: Body, services: Services, request: Request) -> None:
        super().__init__(body, services, request)
        self.model = body.text("model") or services.model_name
        options = Body(body.mapping("stream_options") or {})
        self.include_usage = self.stream and options.flag("include_usage")

    def begin(self, record: Record) -> None:
        super().begin(record)
        self._head = {
            "id": f"{self.prefix}-{record.id}",
            "object": self.chunk_kind if self.stream else self.kind,
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }

    def answer(self) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                **self.choice(index, branch),
                "finish_reason": finish_reason(branch.finish_reason),
                **problem(branch),
            }
            for index, branch in enumerate(self.record.branches)
        ]
        return {**self._head, "choices": choices, **self._account()}

    def choice(self, index: int, branch: Branch) -> dict[str, Any]:
        """Return the text of a branch, and its log-probabilities."""
        raise NotImplementedError

    def _account(self) -> dict[str, Any]:
        """Return ``usage``, tokens of all prompts, each once, and of all branches; and ``timings``."""
        record, first, read = self.record, self.record.generation, self.prompt_tokens()
        usage = {
            "prompt_tokens": read,
            "completion_tokens": record.written,
            "total_tokens": read + record.written,
            "prompt_tokens_details": {"cached_tokens": record.cached_tokens},
        }
        return {"usage": usage, "timings": timings(first, first.branches[0]), **seed_note(self.request)}

    def prompt_tokens(self) -> int:
        """Return how many tokens all prompts have."""
        return self.record.prompt_tokens

    def _chunk(self, index: int, choice: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        """Return a chunk: with timings at a choice's end, or in each chunk if requested."""
        choices = [{"index": index, **choice, "finish_reason": reason, **more}]
        value: dict[str, Any] = {**self._head, "choices": choices}
        if self.include_usage:
            value["usage"] = None
        if reason is not None or self.switches["timings_per_token"]:
            value["timings"] = timings(*self.of(index))
        return frame(value)

    def end(self) -> bytes:
        if not self.include_usage:
            return DONE
        return frame({**self._head, "choices": [], **self._account()}).encode() + DONE


def _failure(event: Finished) -> dict[str, str]:
    """Return the ``error`` member of a choice that failed while others did not."""
    return {} if event.problem is None else {"error": event.problem}


class CompletionAnswer(_OpenAIAnswer):
    """A ``text_completion``; with ``echo`` each text begins with its prompt."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"
    prompts: Sequence[str] = ()
    """The text of each prompt, where they are to be echoed."""

    def choice(self, index: int, branch: Branch) -> dict[str, Any]:
        known = None
        if self.request.logprobs is not None:
            before = self._before(branch.generation)
            length, tokens = _length(before), branch_tokens(self.engine, branch)
            moved = [token._replace(start=token.start + length) for token in tokens]
            known = self.legacy_logprobs([*before, *moved])
        text = (self.prompts[index // self.n] if self.prompts else "") + branch.text
        return {"text": text, "logprobs": known, "stop_reason": branch.stop_text}

    def _before(self, generation: Generation) -> list[Written]:
        """Return the tokens of the prompt, where it is echoed with log-probabilities."""
        if not self.prompts or self.request.logprobs is None:
            return []
        return prompt_tokens(self.engine, generation.prompt_ids, generation.prompt_logprobs)

    def prompt_tokens(self) -> int:
        """Return how many there are: where they are listed, as many as the list has."""
        if not self.prompts or self.request.logprobs is None:
            return super().prompt_tokens()
        return sum(len(self._before(generation)) for generation in self.record.generations)

    def first(self, index: int) -> str:
        if not self.prompts:
            return ""
        before = self._before(self.of(index)[0])
        known = self.legacy_logprobs(before) if before else None
        return self._chunk(index, {"text": self.prompts[index // self.n], "logprobs": known})

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if not text and not tokens:
            return ""
        offset = _length(self._before(self.of(index)[0])) if tokens else 0
        known = self.legacy_logprobs(tokens, offset) if tokens else None
        return self._chunk(index, {"text": text, "logprobs": known})

    def last(self, index: int, event: Finished) -> str:
        reason = finish_reason(event.reason)
        none = {"text": "", "logprobs": None}
        return self._chunk(index, none, reason, stop_reason=event.stop_text, **_failure(event))


def _length(tokens: Sequence[Written]) -> int:
    return sum(len(token.text) for token in tokens)


class ChatAnswer(_OpenAIAnswer):
    """``chat.completion``; in chunks the role once, then content, then the reason."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, branch: Branch) -> dict[str, Any]:
        known = self._known(branch_tokens(self.engine, branch)) if self.request.logprobs is not None else None
        return {"message": {"role": "assistant", "content": branch.text}, "logprobs": known}

    def _known(self, tokens: Sequence[Written]) -> dict[str, Any]:
        return {"content": self.content(tokens)}

    def first(self, index: int) -> str:
        return self._chunk(index, {"delta": {"role": "assistant", "content": None}, "logprobs": None})

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if not text and not tokens:
            return ""
        known = self._known(tokens) if tokens else None
        return self._chunk(index, {"delta": {"content": text}, "logprobs": known})

    def last(self, index: int, event: Finished) -> str:
        none: dict[str, Any] = {"delta": {}, "logprobs": None}
        return self._chunk(index, none, finish_reason(event.reason), **_failure(event))


# ---- models


def models(call: Call) -> dict[str, Any]:
    """List the model; llama.cpp does so a second time under ``models``, in another project's shape."""
    card = model_card(call.services)
    twin = {
        "name": card["id"], "model": card["id"], "type": "model", "capabilities": ["completion"],
        "details": {"format": "gguf"},
    }  # fmt: skip
    return {"object": "list", "data": [card], "models": [twin]}


def model(call: Call) -> dict[str, Any]:
    name, card = call.path["model"], model_card(call.services)
    if name not in (card["id"], *card["aliases"]):
        raise ApiError(404, f"there is no model {name}; this server has {card['id']}")
    return card


def model_card(services: Services) -> dict[str, Any]:
    """Return what is known of the model; while it is still being loaded without its measures."""
    engine, state = services.loader.engine, services.loader.state
    state = str(getattr(state, "name", state)).upper()
    card: dict[str, Any] = {
        "id": services.model_name,
        "aliases": list(services.model_names),
        "tags": list(words(services.settings.tags)),
        "object": "model",
        "created": int(services.started),
        "owned_by": "llamacpp",
        "engine_state": "RUNNING" if state == "READY" and services.registry.live() else state,
        "max_n": services.max_n,
        "meta": None,
    }
    if engine is not None:
        info = engine.info
        card["max_model_len"] = engine.n_ctx
        card["meta"] = {
            "vocab_type": info.metadata.get("tokenizer.ggml.model", ""),
            "n_vocab": info.n_vocab,
            "n_ctx": engine.n_ctx,
            "n_ctx_train": info.n_ctx_train,
            "n_embd": info.n_embd,
            "n_params": info.n_params,
            "size": info.size,
            "ftype": info.description,
        }
    return card


_SWITCHES = "model stream:boolean stream_options:object"
COMPLETION = f"prompt! {_SWITCHES} logprobs:integer echo:boolean best_of:integer suffix +"
CHAT = f"messages! {_SWITCHES} logprobs:boolean top_logprobs:integer timings_per_token:boolean +"
DIALECT = Dialect(
    "OpenAI",
    (
        Row("POST /v1/completions", completions,
            "choices for a body with model, stream, echo, logprobs, best_of, suffix or stream_options",
            COMPLETION),
        Row("POST /v1/chat/completions /chat/completions", chat_completions, "choices for a conversation",
            CHAT),
        Row("GET /v1/models /models", models, "the model"),
        Row("GET /v1/models/{model:path} /models/{model:path}", model, "one model by name"),
        Row("POST /v1/embeddings", openai_embeddings, "embeddings of texts",
            f"input!:prompt model encoding_format dimensions:integer {EMBEDDINGS}"),
    ),
    openai_error,
    busy=429,
    prefixes=("/v1/",),
)  # fmt: skip
