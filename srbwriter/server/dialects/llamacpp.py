"""llama.cpp's own dialect, as its server speaks it: completions, tokens, slots, and the state of the server.

Metrics are written in Prometheus' text format, under llama.cpp's names.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format, version 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.types import (
    ONLY_READ,
    EngineStats,
    Finished,
    FinishReason,
    Request,
)

from ..answer import (
    NATURAL,
    Answer,
    Written,
    branch_tokens,
    finish_reason,
    finite,
    frame,
    problem,
    ratio,
    seed_note,
    settings_object,
    timings,
    token_object,
    token_text,
)
from ..body import Body, read_request, with_prompt
from ..errors import ApiError, bad
from ..http import Call, Dialect, Endpoint, json_response
from ..prompts import fill, put_before, read_chat, read_ids, read_mixed, read_prompts, refuse_media
from ..run import FINGERPRINT, Services
from .openai import CHAT, EMBEDDINGS, embeddings

# ---- completions


def _read_common(body: Body, services: Services) -> tuple[Request, CompletionAnswer]:
    """Return the request without its prompt, and the answer. Raises ApiError.

    400 for a field that means nothing, 501 for what this server cannot do.
    """
    refuse_media(body.values)
    request = read_request(body, services)
    request = replace(request, parse_special=True, logprobs=body.size("logprobs", 0) or None)
    return request, CompletionAnswer(body, services, request)


def read_completion(call: Call) -> tuple[list[Request], CompletionAnswer, str | None]:
    """Return what continues one or several prompts, and the system prompt that the body sets.

    A system prompt that comes without a prompt is only read. Raises ApiError.
    """
    body, services = call.body, call.services
    request, answer = _read_common(body, services)
    changed = _read_system_prompt(call)
    system = services.system if changed is None else changed
    if changed is not None and not body.has("prompt"):
        request, prompts = replace(request, stop=ONLY_READ), [""]
    else:
        prompts = read_prompts(body.raw("prompt"), services.engine)
        if "" in prompts and not system:
            raise bad("prompt", "empty")
    engine = services.engine
    return [put_before(with_prompt(request, one), system, engine) for one in prompts], answer, changed


def _read_system_prompt(call: Call) -> str | None:
    """Return the text that the body puts before every later prompt, as llama.cpp did. Raises ApiError."""
    value = call.body.raw("system_prompt")
    if value is None:
        return None
    if not call.client.admin:
        raise ApiError(403, "system_prompt stands before the prompts of all clients: it takes an admin key")
    return value if isinstance(value, str) else Body(call.body.mapping("system_prompt") or {}).text("prompt")


async def completion(call: Call) -> Response:
    requests, answer, changed = await call.work(lambda: read_completion(call))
    response = await call.reply(requests, answer)
    if changed is not None:  # only now: nothing has refused the request
        call.services.system = changed
    return response


async def infill(call: Call) -> Response:
    def read() -> tuple[list[Request], CompletionAnswer]:
        body, engine = call.body, call.engine
        engine.capabilities.require("gap_filling")
        request, answer = _read_common(body, call.services)
        prefix, suffix = body.need_text("input_prefix"), body.need_text("input_suffix")
        ids = fill(engine, prefix + body.text("prompt"), suffix)
        return [with_prompt(request, ids, add_bos=True)], answer

    return await call.reply(*await call.work(read))


class CompletionAnswer(Answer):
    """One object for each branch; or chunks with content, then a final object for each; no ``[DONE]``."""

    def __init__(self, body: Body, services: Services, request: Request) -> None:
        super().__init__(body, services, request)
        self.return_tokens = body.flag("return_tokens")
        self._counts: dict[int, int] = {}
        self._prompts: dict[int, str] = {}

    def answer(self) -> Any:
        results = [self._result(index) for index in range(len(self.record.branches))]
        return results[0] if len(results) == 1 else results

    def _result(self, index: int) -> dict[str, Any]:
        result = self._final(index)
        if self.request.logprobs:
            tokens = branch_tokens(self.engine, self.of(index)[1])
            result["completion_probabilities"] = self._probabilities(tokens)
        return result

    def _final(self, index: int) -> dict[str, Any]:
        """Return the last object of a branch; in a stream it has no content."""
        generation, branch = self.of(index)
        if generation.number not in self._prompts:  # as it was evaluated, control tokens written out
            raw = b"".join(map(self.engine.token_bytes, generation.prompt_ids))
            self._prompts[generation.number] = raw.decode("utf-8", "replace")
        reason, text, ids = branch.finish_reason, branch.text, branch.ids
        kind = "limit" if finish_reason(reason) == "length" else "none"
        if (
            reason in NATURAL or reason is FinishReason.EOG
        ):  # a complete grammar and a stop token are eos, too
            kind = "word" if branch.stop_text else "eos"
        return {
            "index": index,
            "content": "" if self.stream else text,
            "tokens": ids if self.return_tokens and not self.stream else [],
            "id_slot": self.record.slots[index],
            "stop": True,
            "model": self.services.model_name,
            "tokens_predicted": len(ids),
            "tokens_evaluated": len(generation.prompt_ids),
            "generation_settings": settings_object(self.engine, self.request, self.switches, branch.seed),
            "prompt": self._prompts[generation.number],
            "has_new_line": "\n" in text,
            "truncated": generation.truncated,
            "stop_type": kind,
            "stopping_word": branch.stop_text or "",
            **problem(branch),
            "stopped_eos": kind == "eos",
            "stopped_limit": kind == "limit",
            "stopped_word": kind == "word",
            "tokens_cached": len(generation.prompt_ids) + len(ids),
            "timings": timings(generation, branch),
            **seed_note(self.request),
        }

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        self._counts[index] = self._counts.get(index, 0) + len(ids)
        known = self._probabilities(tokens)
        if not text and not known:
            return ""
        chunk: dict[str, Any] = {
            "index": index,
            "content": text,
            "tokens": ids,
            "stop": False,
            "id_slot": self.record.slots[index],
            "tokens_predicted": self._counts[index],
            "tokens_evaluated": len(self.of(index)[0].prompt_ids),
        }
        if self.request.logprobs:
            chunk["completion_probabilities"] = known
        if self.switches["timings_per_token"]:
            chunk["timings"] = timings(*self.of(index))
        return frame(chunk)

    def last(self, index: int, event: Finished) -> str:
        return frame(self._final(index))

    def _probabilities(self, tokens: Sequence[Written]) -> list[dict[str, Any]]:
        """Return ``completion_probabilities`` in today's shape, with the one of 2024 beside it."""
        post, engine = self.switches["post_sampling_probs"], self.engine

        def entry(id: int, logprob: float) -> dict[str, Any]:
            known = {"prob": math.exp(logprob)} if post else {"logprob": finite(logprob)}
            return token_object(engine, id, "token", **known)

        entries: list[dict[str, Any]] = []
        for token in tokens:
            if (known := token.logprob) is None:
                continue
            top = [(id, logprob) for id, logprob in known.top if not post or math.exp(logprob) > 0]
            entries.append({
                **entry(token.id, known.logprob),
                "top_probs" if post else "top_logprobs": [entry(*pair) for pair in top],
                "content": token_text(engine, token.id),
                "probs": [{"tok_str": token_text(engine, id), "prob": math.exp(p)} for id, p in top],
            })  # fmt: skip
        return entries


# ---- tokens and templates


async def tokenize(call: Call) -> Response:
    """``{content}`` is llama.cpp's question, ``{prompt}`` vLLM's; one answer serves both."""
    body, engine = call.body, call.engine
    theirs = "content" not in body.values and "prompt" in body.values
    text: Any = body.raw("content")
    special = body.flag("add_special", body.flag("add_bos", theirs))
    parse_special = body.flag("parse_special", True)
    if isinstance(text, list):  # llama.cpp takes texts and ids mixed
        mixed = cast("list[Any]", text)
        ids = await call.work(lambda: read_mixed("content", mixed, engine, special, parse_special))
    else:
        text = body.text("prompt" if theirs else "content")
        ids = await call.tokenize(text, add_bos=special, parse_special=parse_special)

    def piece(id: int) -> str | list[int]:
        raw = engine.token_bytes(id)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return list(raw)

    def make() -> Response:
        pieces = body.flag("with_pieces")
        tokens = [{"id": id, "piece": piece(id)} for id in ids] if pieces else ids
        return json_response({"tokens": tokens, "count": len(ids), "max_model_len": engine.n_ctx})

    return await call.work(make)


async def detokenize(call: Call) -> dict[str, str]:
    """``content`` is llama.cpp's answer, ``prompt`` vLLM's."""
    ids = call.body.raw("tokens")
    text = await call.work(lambda: call.engine.detokenize(read_ids("tokens", ids, call.engine)))
    return {"content": text, "prompt": text}


async def apply_template(call: Call) -> dict[str, str]:
    chat = await call.work(lambda: read_chat(call.body, call.services, system=False), thread=True)
    return {"prompt": chat.prompt}


# ---- slots


def slots(call: Call) -> list[dict[str, Any]]:
    """Answer with the state of every slot in numbers, without any text.

    Free slots are shown as busy for branches that have none, such as the terminal's.
    """
    if not call.settings.slots:
        raise ApiError(501, "This server does not support slots endpoint. Start it without `--no-slots`")
    busy = call.services.busy_branches()
    if busy == call.services.max_n and call.switch("fail_on_no_slot"):
        raise ApiError(503, "no slot available", headers={"Retry-After": "1"})
    engine, most, taken = call.engine, call.services.max_n, call.services.registry.busy_slots()
    params = settings_object(engine, read_request(Body({}), call.services), {})
    free = [number for number in range(most) if number not in taken]
    lent = free[: max(busy - len(taken), 0)]
    objects: list[dict[str, Any]] = []
    for number in range(most):
        branch = taken.get(number)
        limit, written = (None, 0) if branch is None else (branch.stop_rule.max_tokens, len(branch.ids))
        next_token = {
            "has_next_token": branch is not None,
            "has_new_line": branch is not None and "\n" in branch.text,
            "n_remain": -1 if limit is None else max(0, limit - written),
            "n_decoded": written,
        }
        objects.append({
            "id": number, "n_ctx": engine.n_ctx, "speculative": False,
            "is_processing": branch is not None or number in lent,
            "id_task": -1 if branch is None else branch.generation.number,
            "n_prompt_tokens": 0 if branch is None else len(branch.generation.prompt_ids),
            "params": params, "next_token": [next_token],
        })  # fmt: skip
    return objects


# ---- the state of the server


def health(call: Call) -> dict[str, Any]:
    services = call.services
    if services.loader.error is not None:
        raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
    busy, most = services.busy_branches(), services.max_n  # 503 while the model is being loaded
    status = "no slot available" if busy == most else "ok"
    return {"status": status, "slots_idle": most - busy, "slots_processing": busy}


def props(call: Call) -> dict[str, Any]:
    services, engine = call.services, call.engine
    info = engine.info
    return {
        "default_generation_settings": {
            "id": 0,
            "id_task": -1,
            "n_ctx": engine.n_ctx,
            "speculative": False,
            "is_processing": False,
            "params": settings_object(engine, read_request(Body({}), services), {}),
        },
        "total_slots": services.max_n,
        "model_alias": services.model_name,
        "model_path": info.path,
        "modalities": {"vision": False, "audio": False},
        "endpoint_slots": services.settings.slots,
        "endpoint_props": False,
        "endpoint_metrics": services.settings.metrics,
        "is_sleeping": False,
        "chat_template": services.chat_template or info.chat_template or "",
        "bos_token": token_text(engine, engine.bos),
        "eos_token": token_text(engine, engine.eos),
        "build_info": FINGERPRINT,
        "system_prompt": services.system,
    }


def metrics(call: Call) -> Response:
    """Figures of the server; those of the engine are 0 while the model is loading."""
    services = call.services
    if not call.settings.metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    engine = services.loader.engine
    s = engine.stats() if engine is not None else EngineStats()
    rows: tuple[tuple[str, str, str, float], ...] = (
        ("counter", "prompt_tokens_total", "Prompt tokens evaluated.", s.prompt_rows),
        ("counter", "prompt_seconds_total", "Seconds spent on prompts.", s.prompt_seconds),
        ("counter", "tokens_predicted_total", "Tokens written.", s.generated_tokens),
        ("counter", "tokens_predicted_seconds_total", "Seconds spent on writing.", s.decode_seconds),
        ("counter", "n_decode_total", "Calls of llama_decode.", s.decodes),
        ("counter", "n_tokens_max", "Most tokens seen in one sequence.", services.tokens_max),
        ("gauge", "prompt_tokens_seconds", "Mean prompt tokens a second.",
         ratio(s.prompt_rows, s.prompt_seconds)),
        ("gauge", "predicted_tokens_seconds", "Mean tokens written a second.",
         ratio(s.generated_tokens, s.decode_seconds)),
        ("gauge", "requests_processing", "Requests being answered.", len(services.registry.live())),
        ("gauge", "requests_deferred", "Requests that wait for room.", s.waiting_requests),
        ("gauge", "n_busy_slots_per_decode", "Mean branches in one llama_decode.",
         ratio(s.branch_rows, s.decodes)),
    )  # fmt: skip
    text = "".join(
        f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value!r}\n"
        for kind, name, help, value in rows
    )
    headers = {"Process-Start-Time-Unix": str(int(services.started))}
    return Response(text, 200, headers, "text/plain; version=0.0.4; charset=utf-8")


_STREAM = "stream:boolean stream_options:object"
DIALECT = Dialect(
    "llama.cpp",
    (
        Endpoint("GET /health /v1/health", health, "whether the model is ready", public=True),
        Endpoint("POST /completion /completions", completion, "branches of one or several prompts",
            f"prompt! {_STREAM} n_probs:integer return_tokens:boolean "
            "timings_per_token:boolean post_sampling_probs:boolean "
            "system_prompt:any +"),
        Endpoint("POST /infill", infill, "text for the gap between two texts",
            f"input_prefix! input_suffix! prompt:string {_STREAM} +"),
        Endpoint("POST /tokenize /v1/tokenize", tokenize, "text as token ids",
            "content add_special:boolean parse_special:boolean with_pieces:boolean"),
        Endpoint("POST /detokenize /v1/detokenize", detokenize, "token ids as text", "tokens!:ids"),
        Endpoint("POST /apply-template", apply_template, "a conversation as one prompt", CHAT),
        Endpoint("POST /embedding /embeddings", partial(embeddings, native=True), "embeddings of texts",
            f"content!:prompt {EMBEDDINGS}"),
        Endpoint("GET /props", props, "the server's settings and the model's"),
        Endpoint("GET /slots", slots, "what every slot is doing", query="fail_on_no_slot:boolean"),
        Endpoint("GET /metrics", metrics, "figures for Prometheus"),
    ),
)  # fmt: skip
