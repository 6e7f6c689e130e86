"""The state of the server: ``/health``, ``/props``, ``/slots``, ``/metrics``, and its LoRA adapters.

Metrics are written in Prometheus' text format, under llama.cpp's names of today and of 2024.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format, version 0.0.4.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import EngineStats
from srbwriter.server.body import Fields, read_params
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.llamacpp.slots import slot_objects
from srbwriter.server.errors import ApiError
from srbwriter.server.reply import ratio, settings_object
from srbwriter.server.services import FINGERPRINT, Services


async def health(context: Context) -> Response:
    services = context.services
    if services.loader.error is not None:
        raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
    busy, most = services.busy_branches(), services.max_n  # 503 while the model is being loaded
    full = busy == most
    answer: dict[str, Any] = {
        "status": "no slot available" if full else "ok",
        "issues": [],
        "slots_idle": most - busy,
        "slots_processing": busy,
    }
    if context.switch("include_slots") and services.settings.slots:
        answer["slots"] = slot_objects(context, busy)
    if full and context.switch("fail_on_no_slot"):
        return json_response(answer, 503, {"Retry-After": "1"})
    return json_response(answer)


async def props(context: Context) -> Response:
    services, engine = context.services, context.engine
    info = engine.info
    return json_response(
        {
            "default_generation_settings": {
                "id": 0,
                "id_task": -1,
                "n_ctx": engine.n_ctx,
                "speculative": False,
                "is_processing": False,
                "params": settings_object(engine, read_params(Fields({}), context.services)),
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
            "bos_token": _token(context, engine.bos),
            "eos_token": _token(context, engine.eos),
            "build_info": FINGERPRINT,
            "system_prompt": services.system.prompt,
            "assistant_name": services.system.assistant_name,
            "user_name": services.system.anti_prompt,
        }
    )


async def change_props(context: Context) -> Response:
    raise ApiError(501, "this server does not change its properties while it runs")


async def metrics(context: Context) -> Response:
    if not context.settings.metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    text = exposition(context.services)
    headers = {"Process-Start-Time-Unix": str(int(context.services.started))}
    return Response(text, 200, headers, CONTENT_TYPE)


def _token(context: Context, token: int | None) -> str:
    return "" if token is None else context.engine.token_bytes(token).decode("utf-8", "replace")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(services: Services) -> str:
    """Return all metrics; those of the engine are 0 while the model is loading."""
    engine = services.loader.engine
    stats = engine.stats() if engine is not None else EngineStats()
    return "".join(
        f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value!r}\n"
        for kind, rows in (("counter", _counters(services, stats)), ("gauge", _gauges(services, stats)))
        for name, help, value in rows
    )


_Rows = tuple[tuple[str, str, float], ...]


def _counters(services: Services, s: EngineStats) -> _Rows:
    return (
        ("prompt_tokens_total", "Prompt tokens evaluated.", s.prompt_rows),
        ("prompt_tokens_cached_total", "Prompt tokens found in the cache.", s.reused_tokens),
        ("prompt_seconds_total", "Seconds spent on prompts.", s.prompt_seconds),
        ("tokens_predicted_total", "Tokens written.", s.generated_tokens),
        ("tokens_predicted_seconds_total", "Seconds spent on writing.", s.decode_seconds),
        ("n_decode_total", "Calls of llama_decode.", s.decodes),
        ("n_tokens_max", "Most tokens seen in one sequence.", services.tokens_max),
    )


def _gauges(services: Services, s: EngineStats) -> _Rows:
    return (
        ("prompt_tokens_seconds", "Mean prompt tokens a second.", ratio(s.prompt_rows, s.prompt_seconds)),
        ("predicted_tokens_seconds", "Mean tokens written a second.",
         ratio(s.generated_tokens, s.decode_seconds)),
        ("requests_processing", "Requests being answered.", len(services.registry.live())),
        ("requests_deferred", "Requests that wait for room.", s.waiting_requests),
        ("n_busy_slots_per_decode", "Mean branches in one llama_decode.", ratio(s.branch_rows, s.decodes)),
        ("kv_cache_usage_ratio", "Share of the KV cache in use.", ratio(s.used_cells, s.total_cells)),
        ("kv_cache_tokens", "Tokens in the KV cache.", s.used_cells),
    )  # fmt: skip


async def lora_adapters(context: Context) -> Response:
    """The adapters that are loaded, and how much of each."""
    return json_response([
        {"id": number, "path": path, "scale": scale, "task_name": "", "prompt_prefix": ""}
        for number, (path, scale) in enumerate(context.engine.adapters)
    ])  # fmt: skip
