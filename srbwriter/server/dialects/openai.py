"""OpenAI's dialect, with what vLLM adds: completions, chat, embeddings, and the cards of models."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Generation
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
from ..errors import ApiError, bad, missing, openai_error
from ..http import Call, Dialect, Endpoint, json_response
from ..prompts import fill, is_integer, read_chat, read_prompts, refuse_media, wants_bos
from ..registry import RequestRecord
from ..run import FINGERPRINT, Services, words

if TYPE_CHECKING:
    from srbwriter.engine.embedding import Embedding  # loads llama.cpp

# ---- what is asked


def _read_common(body: Body, services: Services, logprobs: int | None, stops: Sequence[str] = ()) -> Request:
    """Return a request without its prompt. ``stops`` end a text beside its own. Raises ApiError (400)."""
    request = stop_also(read_request(body, services), stops)
    if body.has("prompt_logprobs"):
        raise bad("prompt_logprobs", "echo with logprobs has those of the prompt")
    return replace(request, logprobs=logprobs)


def read_completions(body: Body, services: Services) -> tuple[list[Request], OpenAIAnswer]:
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
        try:
            filled = [fill(engine, prompt, suffix) for prompt in prompts]
        except NotSupported as error:  # not 501: clients would try again
            raise bad("suffix", str(error)) from None
        requests = [with_prompt(common, ids, add_bos=add_bos) for ids in filled]
    echoed = [_prompt_words(engine, request.prompt) for request in requests] if echo else ()
    return requests, OpenAIAnswer(body, services, common, echoed=echoed)


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


def read_conversation(body: Body, services: Services) -> tuple[list[Request], OpenAIAnswer]:
    """Return what continues a conversation, and the answer. Raises ApiError (400)."""
    chat = read_chat(body, services)
    wanted = body.only("logprobs").flag("logprobs")
    logprobs = body.size("top_logprobs", 20, like="logprobs") if wanted else None
    if not wanted and body.values.get("top_logprobs"):
        raise bad("top_logprobs", "needs logprobs to be true")
    common = _read_common(body, services, logprobs, chat.stops)
    request = with_prompt(common, chat.prompt, parse_special=True, add_bos=chat.add_bos)
    return [request], OpenAIAnswer(body, services, common, chat=True)


async def completions(call: Call) -> Response:
    return await call.reply(*await call.work(lambda: read_completions(call.body, call.services)))


async def chat_completions(call: Call) -> Response:
    read = lambda: read_conversation(call.body, call.services)  # noqa: E731
    return await call.reply(*await call.work(read, thread=True))


# ---- the answers

DONE = b"data: [DONE]\n\n"


class OpenAIAnswer(Answer):
    """A ``text_completion``, whose texts begin with those that are ``echoed``; or a ``chat.completion``.

    In a stream of a chat the role comes once, then content, then the reason.
    """

    error_body = staticmethod(openai_error)

    def __init__(
        self, body: Body, services: Services, request: Request, *, chat: bool = False,
        echoed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(body, services, request)
        self._chat, self._echoed = chat, echoed
        self._model = body.text("model") or services.model_name
        options = Body(body.mapping("stream_options") or {})
        self._include_usage = self.stream and options.flag("include_usage")

    def begin(self, record: RequestRecord) -> None:
        super().begin(record)
        prefix, kind = ("chatcmpl", "chat.completion") if self._chat else ("cmpl", "text_completion")
        self._head = {
            "id": f"{prefix}-{record.id}",
            "object": f"{kind}.chunk" if self._chat and self.stream else kind,
            "created": int(time.time()),
            "model": self._model,
            "system_fingerprint": FINGERPRINT,
        }

    def answer(self) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for index, branch in enumerate(self.record.branches):
            known = None
            if self.request.logprobs is not None:
                before = self._prompt(branch.generation)
                known = self._known([*before, *_moved(branch_tokens(self.engine, branch), before)])
            if self._chat:
                text: dict[str, Any] = {"message": {"role": "assistant", "content": branch.text}}
            else:
                own = self._echoed[index // self.n] if self._echoed else ""
                text = {"text": own + branch.text, "stop_reason": branch.stop_text}
            reason = finish_reason(branch.finish_reason)
            choice = {"index": index, **text, "logprobs": known, "finish_reason": reason, **problem(branch)}
            choices.append(choice)
        return {**self._head, "choices": choices, **self._account()}

    def _known(self, tokens: Sequence[Written]) -> dict[str, Any] | None:
        if not tokens and self.stream:
            return None
        return {"content": self.content(tokens)} if self._chat else self.legacy_logprobs(tokens)

    def _prompt(self, generation: Generation) -> list[Written]:
        """Return the tokens of the prompt, where it is echoed with log-probabilities."""
        if not self._echoed or self.request.logprobs is None:
            return []
        return prompt_tokens(self.engine, generation.prompt_ids, generation.prompt_logprobs)

    def _account(self) -> dict[str, Any]:
        """Return ``usage``, tokens of all prompts, each once, and of all branches; and ``timings``."""
        record, first = self.record, self.record.generation
        # Where the tokens of prompts are listed, as many as the lists have.
        listed = sum(len(self._prompt(generation)) for generation in record.generations)
        read, written = listed or record.prompt_tokens, record.written
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": record.cached_tokens},
        }
        return {"usage": usage, "timings": timings(first, first.branches[0]), **seed_note(self.request)}

    def first(self, index: int) -> str:
        if self._chat:
            return self._chunk(index, {"delta": {"role": "assistant", "content": None}})
        if not self._echoed:
            return ""
        return self._chunk(index, {"text": self._echoed[index // self.n]}, self._prompt(self.of(index)[0]))

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if not text and not tokens:
            return ""
        moved = _moved(tokens, self._prompt(self.of(index)[0])) if tokens else ()
        return self._chunk(index, {"delta": {"content": text}} if self._chat else {"text": text}, moved)

    def last(self, index: int, event: Finished) -> str:
        text: dict[str, Any] = {"delta": {}} if self._chat else {"text": "", "stop_reason": event.stop_text}
        failure = {} if event.problem is None else {"error": event.problem}
        return self._chunk(index, {**text, **failure}, reason=finish_reason(event.reason))

    def _chunk(
        self, index: int, text: dict[str, Any], tokens: Sequence[Written] = (), reason: str | None = None
    ) -> str:
        """Return a chunk: with timings at a choice's end, or in each chunk if requested."""
        choice = {"index": index, **text, "logprobs": self._known(tokens), "finish_reason": reason}
        value: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._include_usage:
            value["usage"] = None
        if reason is not None or self.switches["timings_per_token"]:
            value["timings"] = timings(*self.of(index))
        return frame(value)

    def end(self) -> bytes:
        if not self._include_usage:
            return DONE
        return frame({**self._head, "choices": [], **self._account()}).encode() + DONE


def _moved(tokens: Sequence[Written], before: Sequence[Written]) -> list[Written]:
    """Return tokens with the places that they have after others."""
    length = sum(len(token.text) for token in before)
    return [token._replace(start=token.start + length) for token in tokens]


# ---- embeddings

EMBEDDINGS = "embd_normalize:integer pooling"
"""Fields of both forms."""


async def embeddings(call: Call, native: bool = False) -> Response:
    """Answer with vectors of a text, of one list of token ids, or of several of either.

    In OpenAI's form, or in the ``native`` one of llama.cpp: a list of vectors for each.
    """
    body, lane = call.body, call.engine.embedder  # 501 before anything else, where it has none
    native = native or (body.has("content") and not body.has("input"))
    style, width = body.text("encoding_format", "float"), call.engine.info.n_embd
    if style not in ("float", "base64"):
        raise bad("encoding_format", "expected float or base64")
    if body.integer("dimensions", width) != width:
        raise bad("dimensions", f"this model's vectors have {width}, and are not cut")
    field = "content" if native and (body.has("content") or not body.has("input")) else "input"
    value = body.raw(field)
    if value is None:
        raise missing(field)
    refuse_media(body.values)
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if any(isinstance(item, dict) for item in items):  # parts of a message, or pictures
        raise ApiError(501, "this model reads text only; no images or other media")
    texts = [items] if items and all(map(is_integer, items)) else items
    normalize = max(-1, min(body.integer("embd_normalize", 2), 100))
    pooling = cast("Any", body.text("pooling") or None)  # the engine refuses any other word
    work = await call.work(lambda: lane.embed(texts, pooling, normalize))
    vectors = await call.until_gone(asyncio.wrap_future(work))
    tokens = sum(one.tokens for one in vectors)

    def written(one: Embedding) -> Any:
        if style == "base64":
            return base64.b64encode(one.values.astype("<f4").tobytes()).decode()
        return one.values.tolist()

    def answer() -> Any:
        if native:
            return [{"index": index, "embedding": [one.values.tolist()]} for index, one in enumerate(vectors)]
        data = [
            {"object": "embedding", "index": index, "embedding": written(one)}
            for index, one in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        model = body.text("model") or call.services.model_name
        return {"object": "list", "model": model, "data": data, "usage": usage}

    return await call.work(lambda: json_response(answer()), thread=True)


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
    """Return the facts of the model; while it is still being loaded without its measures."""
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
        Endpoint("POST /v1/completions", completions,
            "choices for a body with model, stream, echo, logprobs, best_of, suffix or stream_options",
            COMPLETION),
        Endpoint("POST /v1/chat/completions /chat/completions", chat_completions,
            "choices for a conversation", CHAT),
        Endpoint("GET /v1/models /models", models, "the model"),
        Endpoint("GET /v1/models/{model:path} /models/{model:path}", model, "one model by name"),
        Endpoint("POST /v1/embeddings", embeddings, "embeddings of texts",
            f"input!:prompt model encoding_format dimensions:integer {EMBEDDINGS}"),
    ),
    openai_error,
    busy=429,
    prefixes=("/v1/",),
)  # fmt: skip
