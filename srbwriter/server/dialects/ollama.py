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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import Finished, NotSupported, Prompt, Request
from srbwriter.server.body import Fields, Params, read_params, stop_also
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat, read_messages
from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import ApiError, Dialect, bad, missing
from srbwriter.server.prompts import fill, read_ids
from srbwriter.server.reply import (
    BranchReply,
    Piece,
    branch_tokens,
    content_logprobs,
    finish_reason,
    timings,
)
from srbwriter.server.schemas import FIELDS, MESSAGES, object_of
from srbwriter.server.services import Services
from srbwriter.server.work import encode

VERSION = "0.12.6"
"""The Ollama whose answers these are; clients compare it."""

LINES = "application/x-ndjson"

USUAL: Mapping[str, Any] = {
    "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "repeat_penalty": 1.1, "repeat_last_n": 64,
    "overflow": "truncate",
}  # fmt: skip
"""What its clients mean by leaving an option out, by the table's names."""

OPTIONS: Mapping[str, str] = {"num_keep": "n_keep"}
"""Options that are a parameter under another name; the others have names that every dialect takes."""

OF_OLLAMAS_MACHINE = frozenset(
    "num_batch num_gpu main_gpu num_thread numa low_vram use_mmap use_mlock vocab_only f16_kv logits_all "
    "embedding_only penalize_newline tfs_z n stream".split()
)
"""Options that say how a model is loaded there, or that no sampler here reads. They change nothing."""

OLLAMA = Dialect("ollama", lambda error: {"error": error.message})


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaParams(Params):
    """Everything but the prompt."""

    model: str
    context: bool = False  # whether the answer ends with the tokens of prompt and text


def _read_params(
    fields: Fields, services: Services, stops: Sequence[str] = (), *, keeps_context: bool = False
) -> OllamaParams:
    """Everything but the prompt. ``stops`` end a text beside the request's own. Raises ApiError (400)."""
    if fields.flag("think") if isinstance(fields.raw("think"), bool) else fields.raw("think"):
        raise bad("think", f"{json.dumps(_name(services, fields))} does not support thinking")
    asked = fields.mapping("options") or {}
    values = {
        OPTIONS.get(name, name): value for name, value in asked.items() if name not in OF_OLLAMAS_MACHINE
    }
    options = Fields(values)
    if options.number("max_tokens", 0) < 0:  # -1 and -2: as many as there is room for
        values = {name: value for name, value in values.items() if name != "num_predict"}
    if options.has("context"):
        values["num_ctx"] = max(2, min(options.integer("context", 0), services.engine.n_ctx))
    form = fields.raw("format")
    if form == "json":
        values["json_schema"] = {"type": "object"}
    elif isinstance(form, dict):
        values["json_schema"] = form
    elif form:
        raise bad("format", 'invalid format: expected "json" or a JSON schema')
    params = read_params(Fields(values), services, USUAL)
    wanted = Fields({"logprobs": fields.values.get("logprobs")}).flag("logprobs")
    top = fields.size("top_logprobs", 0, like="logprobs")
    request = replace(stop_also(params.request, stops), logprobs=top if wanted else None, parse_special=True)
    return params.more(
        OllamaParams,
        request=request,
        stream=fields.flag("stream", True),
        model=_name(services, fields),
        context=keeps_context,
    )


def _name(services: Services, fields: Fields) -> str:
    return fields.text("model") or services.model_name


# ---- generate


async def generate(context: Context) -> Response:
    """Text that continues or answers a prompt. Without a prompt the model is only loaded."""
    fields = _read_body(await context.json())
    if not fields.text("prompt") and not fields.text("suffix"):
        return await _loaded(context, fields, {"response": ""})
    request, reply = await context.read(_read_generate, TEMPLATE_SECONDS)
    return await context.reply([request], reply)


def _read_generate(fields: Fields, services: Services) -> tuple[Request, GenerateLines]:
    """Raise ApiError."""
    prompt, stops, add_bos, plain = _read_prompt(fields, services)
    params = _read_params(fields, services, stops, keeps_context=not fields.flag("raw"))
    request = params.of_prompt(prompt, add_bos=add_bos)
    request = services.put_system_before(request) if plain else request
    return request, GenerateLines(services, params)


class _Read(NamedTuple):
    """A prompt as the model is given it."""

    prompt: Prompt
    stops: tuple[str, ...] = ()
    add_bos: bool = True
    plain: bool = True  # whether the server's system prompt has yet to be put before it


def _read_prompt(fields: Fields, services: Services) -> _Read:
    """Raise ApiError."""
    engine = services.engine
    text, system = fields.text("prompt"), fields.text("system")
    if fields.text("template"):
        raise bad("template", "Field 'template': Go templates are not read here; use raw")
    if suffix := fields.text("suffix"):
        try:
            return _Read(fill(engine, text, suffix), add_bos=True, plain=False)
        except NotSupported:
            raise bad("suffix", f"{services.model_name} does not support insert") from None
    if fields.flag("raw"):
        read = _Read(text)
    elif not _has_template(services):
        read = _Read("\n\n".join(part for part in (system, text) if part))
    else:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": text})
        chat = read_chat(Fields({"messages": messages}), services)
        read = _Read(chat.prompt, chat.stops, chat.add_bos, False)
    if not fields.raw("context"):
        return read
    before = read_ids("context", fields.raw("context"), engine)
    check_prompt("prompt", len(read.prompt))
    ids = engine.tokenize(str(read.prompt), parse_special=True)
    return _Read([*before, *ids], read.stops, False, False)


def _has_template(services: Services) -> bool:
    return bool(services.chat_template or services.engine.info.chat_template)


# ---- chat


async def chat(context: Context) -> Response:
    """The next message of a conversation. Without messages the model is only loaded."""
    fields = _read_body(await context.json())
    if not fields.raw("messages"):
        return await _loaded(context, fields, {"message": {"role": "assistant", "content": ""}})
    for message in read_messages(fields.raw("messages")):
        if message.get("images"):
            raise bad("messages", "this model reads text only; no images")
    request, reply = await context.read(_read_chat, TEMPLATE_SECONDS)
    return await context.reply([request], reply)


def _read_chat(fields: Fields, services: Services) -> tuple[Request, ChatLines]:
    """Raise ApiError."""
    chat = read_chat(Fields({name: fields.raw(name) for name in ("messages", "tools")}), services)
    params = _read_params(fields, services, chat.stops)
    return params.of_prompt(chat.prompt, add_bos=chat.add_bos), ChatLines(services, params)


# ---- answers


def _read_body(values: Mapping[str, Any]) -> Fields:
    """Raise ApiError (400) where the body names no model, or has pictures."""
    fields = Fields(values)
    if not fields.text("model"):
        raise missing("model")
    if fields.raw("images"):
        raise bad("images", "this model reads text only; no images")
    return fields


async def _loaded(context: Context, fields: Fields, empty: Mapping[str, Any]) -> Response:
    _ = context.engine
    return json_response(
        {**_head(_name(context.services, fields)), **empty, "done": True, "done_reason": "load"}
    )


def _head(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": _time(time.time())}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class GenerateLines(BranchReply):
    """A line of JSON for each piece, and a last one with counts and times in nanoseconds."""

    headers = {"content-type": LINES}
    ping = b""
    _params: OllamaParams

    def waiting(self, place: int) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return encode(OLLAMA.body(error)) + b"\n"

    def whole(self) -> dict[str, Any]:
        """The answer in one piece. Raises ApiError where the text could not be finished."""
        branch = self._record.branches[0]
        if branch.error is not None:
            raise ApiError(500, branch.error.words)
        return {
            **_head(self._params.model), **self._text(branch.text), **self._end(branch), **self._known(branch)
        }  # fmt: skip

    def _known(self, branch: Branch) -> dict[str, Any]:
        if self._params.logprobs is None:
            return {}
        return {"logprobs": content_logprobs(self._engine, branch_tokens(self._engine, branch))}

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        known = content_logprobs(self._engine, piece.tokens) if piece.tokens else None
        if piece.text or known:
            more = {} if known is None else {"logprobs": known}
            out.append(self._line({**self._text(piece.text), "done": False, **more}))

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        if last.problem is not None:
            out.append(self.error(ApiError(500, last.problem)).decode())
            return
        out.append(self._line({**self._text(""), **self._end(self._of(index)[1])}))

    def _line(self, values: Mapping[str, Any]) -> str:
        return encode({**_head(self._params.model), **values}).decode() + "\n"

    def _end(self, branch: Branch) -> dict[str, Any]:
        generation = branch.generation
        known = timings(generation, branch)
        end: dict[str, Any] = {"done": True, "done_reason": finish_reason(branch.finish_reason)}
        if self._params.context:
            end["context"] = [*generation.prompt_ids, *branch.ids]
        nanoseconds = {name: max(int(known[f"{name}_ms"] * 1e6), 1) for name in ("prompt", "predicted")}
        return {
            **end,
            "total_duration": sum(nanoseconds.values()),
            "load_duration": 1,
            "prompt_eval_count": len(generation.prompt_ids),
            "prompt_eval_duration": nanoseconds["prompt"],
            "eval_count": len(branch.buffer.ids),
            "eval_duration": nanoseconds["predicted"],
        }

    # ---- responses

    def _text(self, text: str) -> dict[str, Any]:
        return {"response": text}


class ChatLines(GenerateLines):
    """The same with messages."""

    def _text(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}


# ---- models


async def tags(context: Context) -> Response:
    return json_response({"models": [_card(context.services)]})


async def running(context: Context) -> Response:
    """List the model once it is loaded. ``keep_alive`` has no effect: it stays."""
    more = {"expires_at": "2318-01-01T00:00:00Z", "size_vram": 0}
    services = context.services
    engine = services.loader.engine
    loaded = [] if engine is None else [{**_card(services), **more, "context_length": engine.n_ctx}]
    return json_response({"models": loaded})


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
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": f"{billions:.1f}B" if billions >= 1 else f"{billions * 1000:.2f}M",
        "quantization_level": "" if engine is None else _quantization(engine),
    }


def _quantization(engine: Backend) -> str:
    found = re.search(r"\b(I?Q\d\w*|F16|F32|BF16)\b", engine.info.description)
    return found[0] if found else "unknown"


async def show(context: Context) -> Response:
    fields = await context.fields()
    name = fields.need_text("model")
    services = context.services
    if name.removesuffix(".gguf").removesuffix(":latest") not in services.model_names:
        raise ApiError(404, f"model '{name[:200]}' not found")
    engine, info = services.engine, services.engine.info
    template = services.template if _has_template(services) else "{{ .Prompt }}"
    able = ["completion"]
    if engine.capabilities.has("gap_filling"):
        able.append("insert")
    return json_response(
        {
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
            "capabilities": able,
            "modified_at": _time(services.started),
        }
    )


async def asks_for_no_page(context: Context) -> bool:
    return "text/html" not in context.request.headers.get("accept", "")


async def is_running(context: Context) -> Response:
    return Response("Ollama is running", media_type="text/plain; charset=utf-8")


# ---- rows

_COMMON: dict[str, Any] = {
    "model": "string",
    "stream": {"type": "boolean", "default": True},
    "format": {"description": '"json", or a JSON schema.'},
    "options": object_of(**FIELDS),
    "keep_alive": {"description": "Read and without effect: the model stays."},
    "logprobs": "boolean",
    "top_logprobs": {"type": "integer", "minimum": 0},
}
_GENERATE = object_of(
    "model",
    prompt="string",
    suffix="string",
    system="string",
    raw="boolean",
    context={"type": "array", "items": {"type": "integer"}},
    **_COMMON,
    example={"model": "any", "prompt": "Once upon a time,", "options": {"num_predict": 8}},
)
_CHAT = object_of("model", messages=MESSAGES, **_COMMON)
_NAMED = object_of("model", model="string", stream="boolean")
_row = rows_of(OLLAMA, "Ollama")
LEAF = Leaf(
    rows=(
        _row("GET /", is_running, "a sign of life for clients that ask for no page", public=True,
             claims=asks_for_no_page, gives_way=True),
        _row("GET /api/version", respond(lambda _: {"version": VERSION}), "what Ollama this answers as"),
        _row("GET /api/tags", tags, "the models"),
        _row("GET /api/ps", running, "the models that are loaded"),
        _row("POST /api/show", show, "a model by name", body=_NAMED),
        _row("POST /api/generate", generate, "a text that answers or continues a prompt", body=_GENERATE),
        _row("POST /api/chat", chat, "the next message of a conversation", body=_CHAT),
    ),
    prefixes=dict.fromkeys(
        (f"/api/{name}" for name in
         "version tags ps show generate chat embed pull create copy push delete blobs".split()),
        OLLAMA,
    ),
)  # fmt: skip
