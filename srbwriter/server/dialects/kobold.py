"""KoboldAI's dialect as SillyTavern and Kobold Lite speak it to KoboldCpp: ``/api/v1`` and ``/api/extra``.

Its clients send no request id when they poll or abort. The request is then the latest of the same key and
address, or the one with their ``genkey``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.limits import check_prompt
from srbwriter.engine.types import Finished, Request, Stop

from ..answer import Answer, Written, branch_tokens, encode, finish_reason, problem
from ..body import Body, read_request, stop_also, with_prompt
from ..errors import ApiError
from ..http import Call, Dialect, Endpoint, json_response
from ..prompts import read_single_prompt, wants_bos
from ..registry import RequestRecord
from ..run import Services

_KINDS = {401: "unauthorized", 404: "not_found", 429: "service_unavailable", 503: "service_unavailable"}


def error_body(error: ApiError) -> dict[str, Any]:
    """The errors of KoboldAI's protocol."""
    kind = _KINDS.get(error.status, "bad_input" if error.status < 500 else "server_error")
    return {"detail": {"error": error.kind, "msg": error.message, "type": kind, **error.extra}}


VERSION = "1.102"
"""The KoboldCpp whose answers these are; clients compare it."""

UNITED = "1.2.5"
"""The same of KoboldAI's own interface: what has stop sequences."""

USUAL: Mapping[str, Any] = {
    "max_tokens": 180, "temperature": 0.7, "top_k": 100, "top_p": 0.92, "min_p": 0.0, "repeat_penalty": 1.0,
    "repeat_last_n": 320, "dry_penalty_last_n": 320, "xtc_threshold": 0.2, "overflow": "truncate",
}  # fmt: skip
"""What KoboldCpp's clients mean by leaving a field out, by the table's names."""

WEBUI: Mapping[str, Any] = {
    "max_tokens": 200, "temperature": 0.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.1,
    "repeat_last_n": -1, "overflow": "truncate",
}  # fmt: skip
"""What text-generation-webui's older clients mean. They say ``max_new_tokens``."""

_LIKELIEST = 10


def read(body: Body, services: Services, usual: Mapping[str, Any] | None = None) -> Request:
    """Return what continues a prompt, after the system prompt. Raises ApiError (400).

    Without ``usual`` the spelling of the limit says whose defaults hold.
    """
    if usual is None:
        usual = WEBUI if "max_new_tokens" in body.values else USUAL
    values = dict(body.values)
    if usual is WEBUI and values.get("repetition_penalty_range") == 0:
        values["repetition_penalty_range"] = -1  # there it is the whole text
    if body.flag("bypass_eos"):
        values["ignore_eos"] = True
    known = values.pop("logprobs", None)  # a switch here, or a number
    if isinstance(known, int) and not isinstance(known, bool):
        logprobs = Body({"logprobs": known}).size("logprobs", 0)
    else:
        logprobs = _LIKELIEST if Body({"logprobs": known}).flag("logprobs") else None
    request = read_request(Body(values), services, usual)
    request = stop_also(request, ["\n"] if body.flag("singleline") else [])
    if not body.flag("trim_stop", True):
        request = replace(request, stop=replace(cast("Stop", request.stop), include_string=True))
    memory, prompt = body.text("memory"), read_single_prompt(body.raw("prompt"), services.engine)
    check_prompt("memory", len(memory))
    if memory:  # it stays where the beginning of a prompt has to go
        request = replace(request, n_keep=len(services.engine.tokenize(memory, add_bos=True)))
        prompt = memory + prompt if isinstance(prompt, str) else prompt
    add_bos = body.flag("add_bos", True) and wants_bos(prompt)
    request = with_prompt(request, prompt, add_bos=add_bos, logprobs=logprobs, parse_special=True)
    return services.put_system_before(request)


async def generate(call: Call, stream: bool = False) -> Response:
    """Answer with texts, or with tokens as events; with n > 1 each says whose it is."""
    request = await call.work(lambda: read(call.body, call.services))
    answer = KoboldAnswer(call.body, call.services, request)
    answer.stream = stream
    return await call.reply([request], answer, tag=tag_of(call))


class KoboldAnswer(Answer):
    """Results; or ``message`` events, without ``[DONE]``, which clients would try to read as JSON."""

    error_body = staticmethod(error_body)

    def answer(self) -> dict[str, Any]:
        return {
            "results": [
                {
                    "text": branch.text,
                    "finish_reason": finish_reason(branch.finish_reason),
                    "logprobs": None
                    if self.request.logprobs is None
                    else self.legacy_logprobs(branch_tokens(self.engine, branch)),
                    "prompt_tokens": len(branch.generation.prompt_ids),
                    "completion_tokens": len(branch.ids),
                    **problem(branch),
                }
                for branch in self.record.branches
            ]
        }

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if self.request.logprobs is None:
            return self._event(index, token=text, finish_reason=None) if text else ""
        events: list[str] = []
        for token in tokens:
            top = [one for entry in self.content([token]) for one in entry["top_logprobs"]]
            events.append(self._event(index, token=token.text, finish_reason=None, top_logprobs=top))
        return "".join(events)

    def last(self, index: int, event: Finished) -> str:
        wrong = {} if event.problem is None else {"error": event.problem}
        return self._event(index, token="", finish_reason=finish_reason(event.reason), **wrong)

    def _event(self, index: int, **fields: Any) -> str:
        if self.n > 1:
            fields["index"] = index
        return f"event: message\ndata: {encode(fields).decode()}\n\n"


# ---- looking at what runs, and stopping it


def tag_of(call: Call) -> str:
    """Return ``genkey``; these clients send no body at all where they have none."""
    return call.body.text("genkey")[:200]


def _latest(call: Call) -> RequestRecord | None:
    """Return this client's latest request, the latest with its ``genkey`` if it sends one; or None."""
    own = call.services.registry.own(call.client, tag_of(call))
    return own[-1] if own else None


def check(call: Call) -> dict[str, Any]:
    """Answer with what has been written so far."""
    record = _latest(call)
    texts = [""] if record is None else [branch.text for branch in record.branches]
    return {"results": [{"text": text} for text in texts]}


def abort(call: Call) -> dict[str, str]:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    return {"success": "true" if call.stop_own(tag_of(call)) else "false", "done": "true"}


def last_logprobs(call: Call) -> dict[str, Any]:
    record = _latest(call)
    if record is None or record.generation.request.logprobs is None:
        return {"logprobs": None}
    answer = KoboldAnswer(call.body, call.services, record.generation.request)
    return {"logprobs": answer.legacy_logprobs(branch_tokens(call.engine, record.branches[0]))}


def perf(call: Call) -> dict[str, Any]:
    """Answer with what the server is doing for this client. Kobold Lite shows all that is here."""
    services, engine = call.services, call.services.loader.engine
    return {
        "total_gens": len(services.registry.own(call.client)),
        "queue": 0 if engine is None else engine.stats().waiting_requests,
        "idle": int(engine is None or not services.busy_branches()),
        "uptime": int(time.time() - services.started),
    }


async def token_count(call: Call) -> Response:
    """Count tokens. ``special``: with the beginning token, as clients expect where they do not say."""
    text = call.body.raw("prompt")
    if not isinstance(text, str):
        words = "`prompt` is missing" if text is None else "Field 'prompt': expected text"
        return json_response({"value": -1, "detail": {"msg": words}}, 400)
    ids = await call.tokenize(text, add_bos=call.body.flag("special", True), parse_special=True)
    return json_response({"value": len(ids), "ids": ids})


def version(call: Call) -> dict[str, Any]:
    protected = bool(call.settings.api_keys or call.settings.admin_keys)
    return {"result": "KoboldCpp", "version": VERSION, "protected": protected, "embeddings": True}


_GENERATE = "prompt!:string memory genkey trim_stop:boolean logprobs:boolean +"
DIALECT = Dialect(
    "KoboldAI and KoboldCpp",
    (
        Endpoint("POST /api/v1/generate", generate,
            "continuations of a prompt, as KoboldAI and KoboldCpp answer", _GENERATE),
        Endpoint("POST /api/extra/generate/stream", partial(generate, stream=True), "one token an event",
            _GENERATE),
        Endpoint("POST /api/extra/generate/check", check, "what has been written so far", "genkey"),
        Endpoint("POST /api/extra/abort", abort, "stop what this client asked for", "genkey"),
        Endpoint("POST /api/extra/last_logprobs", last_logprobs, "log-probabilities of the answer so far",
            "genkey"),
        Endpoint("POST /api/extra/tokencount", token_count, "a text's tokens, counted",
            "prompt!:string special:boolean"),
        Endpoint("GET /api/v1/model", lambda call: {"result": call.services.model_name}, "the model's name"),
        Endpoint("GET /api/v1/info/version", lambda _: {"result": UNITED}, "the version of this interface"),
        Endpoint("GET /api/v1/config/max_context_length /api/extra/true_max_context_length",
            lambda call: {"value": call.engine.n_ctx}, "tokens of prompt and answer together"),
        Endpoint("GET /api/extra/version", version, "what KoboldCpp this answers as"),
        Endpoint("GET /api/extra/preloadstory", lambda _: {}, "no story is preloaded"),
        Endpoint("GET /api/extra/perf", perf, "what runs, and what waits"),
    ),
    error_body,
    prefixes=("/api/",),
)  # fmt: skip
