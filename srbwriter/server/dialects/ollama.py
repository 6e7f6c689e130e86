"""Ollama's API: ``/api/generate``, ``/api/chat``, and what its clients ask about models.

Answers are lines of JSON unless ``stream`` is false. A prompt is put into the chat template of the model, if
it has one and ``raw`` is not set. ``options`` may hold every parameter of this server beside those of Ollama.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Finished, NotSupported, Prompt, Request

from ..answer import Answer, Written, branch_tokens, encode, finish_reason, timings
from ..body import Body, read_request, stop_also, with_prompt
from ..errors import ApiError, bad, missing
from ..http import Call, Dialect, Endpoint, json_response
from ..prompts import ChatPrompt, fill, read_chat
from ..run import Services

VERSION = "0.12.6"
"""The Ollama whose answers these are; clients compare it."""

USUAL: Mapping[str, Any] = {
    "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "repeat_penalty": 1.1, "repeat_last_n": 64,
    "overflow": "truncate",
}  # fmt: skip
"""What its clients mean by leaving an option out, by the table's names."""

OF_OLLAMAS_MACHINE = frozenset(
    "num_batch num_gpu main_gpu num_thread numa low_vram use_mmap use_mlock vocab_only f16_kv logits_all "
    "embedding_only penalize_newline tfs_z n stream".split()
)
"""Options that say how a model is loaded there, or that no sampler here reads. They change nothing."""


def error_body(error: ApiError) -> dict[str, Any]:
    return {"error": error.message}


# ---- what is asked


def _read_common(body: Body, services: Services, stops: Sequence[str]) -> Request:
    """Return the request without its prompt. ``stops`` end a text beside its own. Raises ApiError (400)."""
    if body.raw("think") not in (None, False, "", "false"):
        raise ApiError(400, f"{json.dumps(_model(body, services))} does not support thinking", field="think")
    options = body.mapping("options") or {}
    values = {name: value for name, value in options.items() if name not in OF_OLLAMAS_MACHINE}
    values["n_keep"] = values.pop("num_keep", values.get("n_keep"))
    given = Body(values)
    if given.number("max_tokens", 0) < 0:  # -1 and -2: as many as there is room for
        values.pop("num_predict", None)
    if given.has("context"):
        values["num_ctx"] = max(2, min(given.integer("context", 0), services.engine.n_ctx))
    form = body.raw("format")
    if form == "json" or isinstance(form, dict):
        values["json_schema"] = {"type": "object"} if form == "json" else form
    elif form:
        raise ApiError(400, 'invalid format: expected "json" or a JSON schema', field="format")
    request = stop_also(read_request(Body(values), services, USUAL), stops)
    top = body.size("top_logprobs", 0, like="logprobs")
    wanted = body.only("logprobs").flag("logprobs")
    return replace(request, logprobs=top if wanted else None, parse_special=True)


def _model(body: Body, services: Services) -> str:
    return body.text("model") or services.model_name


def read_generate(body: Body, services: Services) -> tuple[list[Request], OllamaAnswer]:
    """Return what continues or answers a prompt. Raises ApiError."""
    engine, raw = services.engine, body.flag("raw")
    text, system, suffix = body.text("prompt"), body.text("system"), body.text("suffix")
    if body.text("template"):
        raise bad("template", "Go templates are not read here; use raw")
    if body.values.get("context"):
        raise bad("context", "answers have none here; use /api/chat")
    plain = not suffix and (raw or not _has_template(services))
    if suffix:
        try:
            chat = ChatPrompt("", (), True)
            prompt: Prompt = fill(engine, text, suffix)
        except NotSupported:
            message = f"{services.model_name} does not support insert"
            raise ApiError(400, message, field="suffix") from None
    elif plain:
        joined = text if raw else "\n\n".join(part for part in (system, text) if part)
        prompt = (chat := ChatPrompt(joined, (), True)).prompt
    else:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": text})
        prompt = (chat := read_chat(Body({"messages": messages}), services)).prompt
    request = with_prompt(_read_common(body, services, chat.stops), prompt, add_bos=chat.add_bos)
    request = services.put_system_before(request) if plain else request
    return [request], OllamaAnswer(body, services, request)


def read_conversation(body: Body, services: Services) -> tuple[list[Request], OllamaAnswer]:
    """Return what continues a conversation. Raises ApiError."""
    chat = read_chat(Body({name: body.raw(name) for name in ("messages", "tools")}), services)
    request = with_prompt(_read_common(body, services, chat.stops), chat.prompt, add_bos=chat.add_bos)
    return [request], OllamaAnswer(body, services, request, chat=True)


def _has_template(services: Services) -> bool:
    return bool(services.chat_template or services.engine.info.chat_template)


async def generate(call: Call, chat: bool = False) -> Response:
    """Answer with text that continues or answers a prompt; without one the model is only loaded."""
    body, services = call.body, call.services
    if not body.text("model"):
        raise missing("model")
    if body.raw("images"):
        raise ApiError(400, "this model reads text only; no images", field="images")
    if any(body.raw(name) for name in (("messages",) if chat else ("prompt", "suffix"))):
        read = read_conversation if chat else read_generate
        return await call.reply(*await call.work(lambda: read(body, services), thread=True))
    _ = call.engine
    empty = _text("", chat)
    return json_response({**_head(_model(body, services)), **empty, "done": True, "done_reason": "load"})


# ---- answers


def _head(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": _time(time.time())}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _text(text: str, chat: bool) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}} if chat else {"response": text}


class OllamaAnswer(Answer):
    """A line of JSON for each piece, and a last one with counts and times in nanoseconds."""

    headers = {"content-type": "application/x-ndjson"}
    ping = b""
    error_body = staticmethod(error_body)

    def __init__(self, body: Body, services: Services, request: Request, *, chat: bool = False) -> None:
        super().__init__(body, services, request)
        self._chat = chat
        self._model, self.stream = _model(body, services), body.flag("stream", True)

    def answer(self) -> dict[str, Any]:
        """Return the answer in one piece. Raises ApiError where the text could not be finished."""
        branch = self.record.branches[0]
        if branch.error is not None:
            raise ApiError(500, branch.error.words)
        known: dict[str, Any] = {}
        if self.request.logprobs is not None:
            known["logprobs"] = self.content(branch_tokens(self.engine, branch))
        return {**_head(self._model), **_text(branch.text, self._chat), **self._end(branch), **known}

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if not text and not tokens:
            return ""
        known = {"logprobs": self.content(tokens)} if tokens else {}
        return self._line({**_text(text, self._chat), "done": False, **known})

    def last(self, index: int, event: Finished) -> str:
        if event.problem is not None:
            return self.error(ApiError(500, event.problem)).decode()
        return self._line({**_text("", self._chat), **self._end(self.of(index)[1])})

    def error(self, error: ApiError) -> bytes:
        return encode(error_body(error)) + b"\n"

    def _line(self, values: Mapping[str, Any]) -> str:
        return encode({**_head(self._model), **values}).decode() + "\n"

    def _end(self, branch: Branch) -> dict[str, Any]:
        generation = branch.generation
        known = timings(generation, branch)
        prompt, predicted = (max(int(known[f"{name}_ms"] * 1e6), 1) for name in ("prompt", "predicted"))
        return {
            "done": True,
            "done_reason": finish_reason(branch.finish_reason),
            "total_duration": prompt + predicted,
            "load_duration": 1,
            "prompt_eval_count": len(generation.prompt_ids),
            "prompt_eval_duration": prompt,
            "eval_count": len(branch.ids),
            "eval_duration": predicted,
        }


# ---- models


def tags(call: Call) -> dict[str, Any]:
    return {"models": [_card(call.services)]}


def running(call: Call) -> dict[str, Any]:
    """List the model once it is loaded. ``keep_alive`` has no effect: it stays."""
    engine = call.services.loader.engine
    if engine is None:
        return {"models": []}
    more = {"expires_at": "2318-01-01T00:00:00Z", "size_vram": 0, "context_length": engine.n_ctx}
    return {"models": [{**_card(call.services), **more}]}


def _card(services: Services) -> dict[str, Any]:
    engine, name = services.loader.engine, services.model_name
    size = 0 if engine is None else engine.info.size
    return {
        "name": name,
        "model": name,
        "modified_at": _time(services.started),
        "size": size,
        "digest": hashlib.sha256(f"{name} {size}".encode()).hexdigest(),
        "details": _details(engine),
    }


def _details(engine: Backend | None) -> dict[str, Any]:
    family = "" if engine is None else engine.info.architecture
    billions = 0.0 if engine is None else engine.info.n_params / 1e9
    level = re.search(r"\b(I?Q\d\w*|F16|F32|BF16)\b", engine.info.description if engine is not None else "")
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": f"{billions:.1f}B" if billions >= 1 else f"{billions * 1000:.2f}M",
        "quantization_level": level[0] if level else "unknown" if engine is not None else "",
    }


def show(call: Call) -> dict[str, Any]:
    """Describe the one model, by any name."""
    call.body.need_text("model")
    services, engine = call.services, call.engine
    info = engine.info
    template = services.template if _has_template(services) else "{{ .Prompt }}"
    gaps = ["insert"] if engine.capabilities.has("gap_filling") else []
    return {
        "modelfile": f'# served by srbwriter\nFROM {services.model_name}\nTEMPLATE """{template}"""\n',
        "parameters": "",
        "template": template,
        "details": _details(engine),
        "model_info": {
            **info.metadata,
            "general.architecture": info.architecture,
            "general.parameter_count": info.n_params,
            f"{info.architecture}.context_length": info.n_ctx_train,
            f"{info.architecture}.embedding_length": info.n_embd,
        },
        "capabilities": ["completion", *gaps],
        "modified_at": _time(services.started),
    }


def asks_for_no_page(call: Call) -> bool:
    return "text/html" not in call.request.headers.get("accept", "")


def is_running(call: Call) -> Response:
    return Response("Ollama is running", media_type="text/plain; charset=utf-8")


_COMMON = (
    "model! stream:boolean format:any options:object keep_alive:any logprobs:boolean top_logprobs:integer"
)
DIALECT = Dialect(
    "Ollama",
    (
        Endpoint("GET /", is_running, "a sign of life for clients that ask for no page", public=True,
            claims=asks_for_no_page, gives_way=True),
        Endpoint("GET /api/version", lambda _: {"version": VERSION}, "what Ollama this answers as"),
        Endpoint("GET /api/tags", tags, "the models"),
        Endpoint("GET /api/ps", running, "the models that are loaded"),
        Endpoint("POST /api/show", show, "a model by name", "model! stream:boolean"),
        Endpoint("POST /api/generate", generate, "a text that answers or continues a prompt",
            f"{_COMMON} prompt:string suffix system raw:boolean"),
        Endpoint("POST /api/chat", partial(generate, chat=True), "the next message of a conversation",
            f"{_COMMON} messages"),
    ),
    error_body,
    prefixes=tuple(
        f"/api/{name}"
        for name in "version tags ps show generate chat embed pull create copy push delete blobs".split()
    ),
)  # fmt: skip
