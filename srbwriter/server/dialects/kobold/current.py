"""KoboldAI's dialect as SillyTavern and Kobold Lite speak it to KoboldCpp: ``/api/v1`` and ``/api/extra``.

Its clients send no request id when they poll or abort. The request is then the latest of the same key and
address, or the one with their ``genkey``. Older clients of text-generation-webui use the same paths for the
same things, so the fields of both are read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import Finished, Request, Stop
from srbwriter.server.body import Fields, Params, read_params, stop_also
from srbwriter.server.context import Context, json_response
from srbwriter.server.endpoints import respond, rows_of
from srbwriter.server.errors import ApiError, Dialect, bad, missing
from srbwriter.server.prompts import read_prompts, wants_bos
from srbwriter.server.registry import Record
from srbwriter.server.reply import (
    BranchReply,
    Piece,
    branch_tokens,
    finish_reason,
    legacy_logprobs,
    problem,
)
from srbwriter.server.schemas import FIELDS, object_of
from srbwriter.server.services import Services
from srbwriter.server.work import PER_ENTRY, encode

_KINDS = {401: "unauthorized", 404: "not_found", 429: "service_unavailable", 503: "service_unavailable"}


def _error_body(error: ApiError) -> dict[str, Any]:
    kind = _KINDS.get(error.status, "bad_input" if error.status < 500 else "server_error")
    return {"detail": {"error": error.kind, "msg": error.message, "type": kind, **error.extra}}


KOBOLD = Dialect("kobold", _error_body)
"""The errors of KoboldAI's protocol."""

VERSION = "1.102"
"""The KoboldCpp whose answers these are; clients compare it."""

UNITED = "1.2.5"
"""The same of KoboldAI's own interface: what has stop sequences."""

_LEFT_OUT: Mapping[str, tuple[Any, Any]] = {
    "max_tokens": (180, 200), "temperature": (0.7, 0.5), "top_k": (100, 0), "top_p": (0.92, 1.0),
    "min_p": (0.0, 0.0), "repeat_penalty": (1.0, 1.1), "repeat_last_n": (320, -1),
    "dry_penalty_last_n": (320, None), "xtc_threshold": (0.2, None), "overflow": ("truncate", "truncate"),
}  # fmt: skip
"""What leaving a field out means, by the table's names; None is what it means everywhere."""

USUAL = {name: value for name, (value, _) in _LEFT_OUT.items()}
"""What KoboldCpp's clients mean by it."""

LEGACY = {name: value for name, (_, value) in _LEFT_OUT.items() if value is not None}
"""What text-generation-webui's older ones mean."""

_LEGACYS = ("max_new_tokens", "stopping_strings", "truncation_length", "do_sample", "repetition_penalty")
_LIKELIEST = 10


def _read_params(fields: Fields, services: Services, usual: Mapping[str, Any] | None) -> Params:
    """``usual``: what leaving a field out means; by the body's spellings if None. Raises ApiError (400)."""
    legacy = any(name in fields.values for name in _LEGACYS)
    values = dict(fields.values)
    if usual is LEGACY or (usual is None and legacy):
        usual = LEGACY
        if values.get("repetition_penalty_range") == 0:
            values["repetition_penalty_range"] = -1  # there it is the whole text
    if fields.flag("bypass_eos"):
        values["ignore_eos"] = True
    logprobs = _logprobs(fields)
    values.pop("logprobs", None)  # a switch here
    params = read_params(Fields(values), services, USUAL if usual is None else usual)
    request = stop_also(params.request, ["\n"] if fields.flag("singleline") else [])
    if not fields.flag("trim_stop", True):
        request = replace(request, stop=replace(cast("Stop", request.stop), include_string=True))
    memory = fields.text("memory")
    check_prompt("memory", len(memory))
    if memory:  # it stays where the beginning of a prompt has to go
        request = replace(request, n_keep=len(services.engine.tokenize(memory, add_bos=True)))
    return replace(params, request=replace(request, logprobs=logprobs, parse_special=True))


def _logprobs(fields: Fields) -> int | None:
    value = fields.values.get("logprobs")
    if isinstance(value, int) and not isinstance(value, bool):
        return Fields({"logprobs": value}).size("logprobs", 0)
    return _LIKELIEST if Fields({"logprobs": value}).flag("logprobs") else None


def read(
    fields: Fields, services: Services, usual: Mapping[str, Any] | None = None
) -> tuple[Request, Params]:
    """What continues a prompt, after the system prompt. Raises ApiError (400)."""
    params = _read_params(fields, services, usual)
    prompts = read_prompts(fields.raw("prompt"), services.engine)
    if len(prompts) != 1:
        raise bad("prompt", "Field 'prompt': one prompt only")
    prompt = prompts[0]
    if isinstance(prompt, str):
        prompt = fields.text("memory") + prompt
    request = params.of_prompt(prompt, add_bos=fields.flag("add_bos", True) and wants_bos(prompt))
    return services.put_system_before(request), params


def reading(fields: Fields) -> float:
    """Seconds that it takes to read what a body has beside its prompt."""
    return len(fields.text("memory")) * 1e-6


async def generate(context: Context) -> Response:
    """n continuations in one answer."""
    return await _generate(context, stream=False)


async def generate_stream(context: Context) -> Response:
    """Tokens as events; with n > 1 each says whose it is."""
    return await _generate(context, stream=True)


async def _generate(context: Context, stream: bool) -> Response:
    fields = await context.fields()
    request, params = await context.read(read, reading(fields))
    reply = KoboldReply(context.services, replace(params, stream=stream))
    return await context.reply([request], reply, tag=await tag_of(context))


class KoboldReply(BranchReply):
    """Results; or ``message`` events, without ``[DONE]``, which clients would try to read as JSON."""

    dialect = KOBOLD

    def whole(self) -> dict[str, Any]:
        return {"results": [self._result(branch) for branch in self._record.branches]}

    def _result(self, branch: Branch) -> dict[str, Any]:
        return {
            "text": branch.text,
            "finish_reason": finish_reason(branch.finish_reason),
            "logprobs": None if self._params.logprobs is None else _known(self._engine, branch),
            "prompt_tokens": len(branch.generation.prompt_ids),
            "completion_tokens": len(branch.buffer.ids),
            **problem(branch),
        }

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if self._params.logprobs is None:
            if piece.text:
                self._event(out, index, token=piece.text, finish_reason=None)
            return
        for token in piece.tokens:
            entries = legacy_logprobs(self._engine, [token])["content"]
            top = [
                {"token": one["token"], "logprob": one["logprob"]}
                for entry in entries
                for one in entry["top_logprobs"]
            ]
            self._event(out, index, token=token.text, finish_reason=None, top_logprobs=top)

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        wrong = {} if last.problem is None else {"error": last.problem}
        self._event(out, index, token="", finish_reason=finish_reason(last.reason), **wrong)

    def _event(self, out: list[str], index: int, **fields: Any) -> None:
        if self._params.n > 1:
            fields["index"] = index
        out.append(f"event: message\ndata: {encode(fields).decode()}\n\n")


def _known(engine: Backend, branch: Branch) -> dict[str, Any]:
    return legacy_logprobs(engine, branch_tokens(engine, branch))


# ---- looking at what runs, and stopping it


async def _of(context: Context) -> Record | None:
    """Return this client's latest request, the latest with its ``genkey`` if it sends one; or None."""
    own = context.services.registry.own(context.client, await tag_of(context))
    return own[-1] if own else None


async def tag_of(context: Context) -> str:
    """``genkey``; these clients send no body at all where they have none."""
    return (await context.fields()).text("genkey")[:200]


async def check(context: Context) -> Response:
    """What has been written so far."""
    record = await _of(context)
    texts = [""] if record is None else [branch.text for branch in record.branches]
    return json_response({"results": [{"text": text} for text in texts]})


async def abort(context: Context) -> Response:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    stopped = context.stop_own(await tag_of(context))
    return json_response({"success": "true" if stopped else "false", "done": "true"})


async def last_logprobs(context: Context) -> Response:
    record = await _of(context)
    if record is None or record.live or record.generation.request.logprobs is None:
        return json_response({"logprobs": None})
    return await context.answer(
        record.effort, lambda: {"logprobs": _known(context.engine, record.generation.branches[0])}
    )


def _perf(context: Context) -> dict[str, Any]:
    """What the server is doing for this client. Kobold Lite shows all that is here."""
    services = context.services
    own = services.registry.own(context.client)
    busy = services.loader.engine is not None and services.busy_branches() > 0
    return {
        "total_gens": len(own),
        "queue": sum(record.live and record.waiting for record in own),
        "idle": int(not busy),
        "uptime": int(time.time() - services.started),
    }


# ---- tokens


async def token_count(context: Context) -> Response:
    """``special``: with the beginning token, as clients expect where they do not say."""
    fields = await context.fields()
    if not isinstance(fields.raw("prompt"), str):
        problem = "Field 'prompt': expected text" if fields.has("prompt") else str(missing("prompt"))
        return json_response({"value": -1, "detail": {"msg": problem}}, 400)
    ids = await context.services.tokenize(
        fields.text("prompt"), add_bos=fields.flag("special", True), parse_special=True
    )
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"value": len(ids), "ids": ids})


# ---- rows


def _version(context: Context) -> dict[str, Any]:
    return {
        "result": "KoboldCpp",
        "version": VERSION,
        "protected": context.services.protected,
        "embeddings": True,
    }


_GENERATE = object_of(
    "prompt",
    prompt="string",
    memory={"type": "string", "description": "Stands before the prompt, and stays when that is cut."},
    genkey={"type": "string", "description": "By what name to look at this request, or to stop it."},
    trim_stop={"type": "boolean", "default": True},
    logprobs="boolean",
    **FIELDS,
)

_row = rows_of(KOBOLD, "KoboldAI and KoboldCpp")
_KEY = object_of(genkey="string")
ROWS = (
    _row("POST /api/v1/generate", generate, "continuations of a prompt, as KoboldAI and KoboldCpp answer",
         body=_GENERATE),
    _row("POST /api/extra/generate/stream", generate_stream, "one token an event", body=_GENERATE),
    _row("POST /api/extra/generate/check", check, "what has been written so far", body=_KEY),
    _row("POST /api/extra/abort", abort, "stop what this client asked for", body=_KEY),
    _row("POST /api/extra/last_logprobs", last_logprobs, "log-probabilities of the latest answer", body=_KEY),
    _row("POST /api/extra/tokencount", token_count, "a text's tokens, counted",
         body=object_of("prompt", prompt="string", special="boolean",
                        example={"prompt": "Once upon a time"})),
    _row("GET /api/v1/model", respond(lambda context: {"result": context.services.model_name}),
         "the model's name"),
    _row("GET /api/v1/info/version", respond(lambda _: {"result": UNITED}),
         "the version of this interface"),
    _row("GET /api/v1/config/max_context_length /api/extra/true_max_context_length",
         respond(lambda context: {"value": context.engine.n_ctx}), "tokens of prompt and answer together"),
    _row("GET /api/extra/version", respond(_version), "what KoboldCpp this answers as"),
    _row("GET /api/extra/preloadstory", respond(lambda _: {}), "no story is preloaded"),
    _row("GET /api/extra/perf", respond(_perf), "what runs, and what waits"),
)  # fmt: skip
