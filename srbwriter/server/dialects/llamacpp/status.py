"""What the server is doing: ``/health``, ``/props``, ``/slots``, ``/metrics``, and its LoRA adapters.

Figures are told in Prometheus' text format, under llama.cpp's names of today and of 2024.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format, version 0.0.4.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from starlette.responses import Response

from srbwriter.engine.types import EngineStats
from srbwriter.server.answers import ratio, settings_object
from srbwriter.server.context import Context, json_response
from srbwriter.server.errors import ApiError, bad, unavailable
from srbwriter.server.fields import Fields
from srbwriter.server.params import Params, adapters_of, need_adapters, read_common, read_scales
from srbwriter.server.registry import Slot
from srbwriter.server.services import Services
from srbwriter.server.sessions import BARE_NAME
from srbwriter.server.settings import Client


async def health(context: Context) -> Response:
    services, models = context.services, context.services.models
    if models.alone:
        if services.loader.error is not None:
            raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
        _ = services.engine  # 503 while it is being loaded
    loaded = models.loaded()
    troubles = {one: trouble for one in loaded if (trouble := await _trouble(one))}
    if troubles and len(troubles) == len(models.names):
        raise unavailable("; ".join(troubles.values()))
    well = [one for one in loaded if one not in troubles]
    busy, most = sum(one.busy() for one in well), sum(one.max_n for one in well)
    full = bool(most) and busy == most
    answer: dict[str, Any] = {
        "status": "no slot available" if full else "ok",
        "issues": [f"{one.model_name}: {trouble}" for one, trouble in troubles.items()],
        "slots_idle": most - busy,
        "slots_processing": busy,
    }
    if context.switch("include_slots") and services.settings.slots and most:
        answer["slots"] = _slots(context, services.busy())
    if full and context.switch("fail_on_no_slot"):
        return json_response(answer, 503, {"Retry-After": "1"})
    return json_response(answer)


async def _trouble(services: Services) -> str:
    """Why a model that runs elsewhere could write nothing now; nothing if it could, or runs here."""
    look = getattr(services.engine, "trouble_now", None)
    trouble = "" if look is None else await asyncio.to_thread(look)
    return f"the engine elsewhere: {trouble}" if trouble else ""


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
                "params": settings_object(engine, _defaults(context)),
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
            "build_info": services.fingerprint,
            "system_prompt": services.system.prompt,
            "assistant_name": services.system.assistant_name,
            "user_name": services.system.anti_prompt,
        }
    )


async def change_props(context: Context) -> Response:
    raise ApiError(501, "this server does not change its properties while it runs")


async def load(context: Context) -> Response:
    """Load a model, as llama-server's router does; which one is the current stays as it is."""
    await context.load_model(await _named(context), choose=False)
    return json_response({"success": True})


async def unload(context: Context) -> Response:
    await context.unload_model(await _named(context))
    return json_response({"success": True})


async def _named(context: Context) -> str:
    name = Fields(await context.json()).need_text("model")
    if not name:
        raise bad("model", "Field 'model': expected the name of a model")
    return name


async def pull(context: Context) -> Response:
    raise ApiError(501, "models are fetched on the machine itself: srbwriter models pull NAME")


async def slots(context: Context) -> Response:
    _need_slots(context)
    _ = context.engine
    busy = context.services.busy()
    if busy == context.services.max_n and context.switch("fail_on_no_slot"):
        raise ApiError(503, "no slot available", headers={"Retry-After": "1"})
    return json_response(_slots(context, busy))


async def slot_action(context: Context) -> Response:
    """Erase what is kept of a slot, write it to a file, or read that again."""
    _need_slots(context)
    number = context.path["slot"]
    if not number.isdecimal() or len(number) > 6 or int(number) >= context.services.max_n:
        raise bad("id_slot", "Invalid slot ID")
    action = context.query.get("action", "")
    name = Fields(await context.json()).text("filename")
    slot = context.services.slots.all(context.services.max_n)[int(number)]
    if slot.client and not (context.client.admin or slot.client == context.client.name):
        raise ApiError(403, f"slot {slot.id} holds what another client wrote: it takes an admin key")
    if action == "erase":
        return json_response({"id_slot": slot.id, "n_erased": await context.services.erase_slot(slot)})
    if action not in ("save", "restore"):
        raise bad("action", "Invalid action")
    if context.settings.slot_save_path is None:
        raise ApiError(501, "This server does not support slots actions. Start it with `--slot-save-path`")
    if not BARE_NAME.fullmatch(name):
        raise bad("filename", "Invalid filename")
    return json_response(await context.services.keep_session(slot, action, context.client, name))


async def metrics(context: Context) -> Response:
    if not context.settings.metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    text = exposition(context.services, context.client)
    headers = {"Process-Start-Time-Unix": str(int(context.services.started))}
    return Response(text, 200, headers, CONTENT_TYPE)


def _need_slots(context: Context) -> None:
    if not context.settings.slots:
        raise ApiError(501, "This server does not support slots endpoint. Start it without `--no-slots`")


def _slots(context: Context, busy: int) -> list[dict[str, Any]]:
    """Every slot. Where branches are written that have none (the terminal's), idle ones stand for them."""
    slots = context.services.slots.all(context.services.max_n)
    others = busy - sum(slot.busy for slot in slots)
    lent = [slot.id for slot in slots if not slot.busy][: max(others, 0)]
    settings = settings_object(context.engine, _defaults(context))
    params = {name: value for name, value in settings.items() if name not in _OF_A_REQUEST}
    return [_slot(context, slot, params, slot.id in lent) for slot in slots]


_OF_A_REQUEST = ("stop", "grammar", "json_schema", "logit_bias", "banned_phrases", "dry_sequence_breakers")


def _slot(context: Context, slot: Slot, params: dict[str, Any], lent: bool) -> dict[str, Any]:
    """Numbers only: no text of anybody's."""
    value: dict[str, Any] = {
        "id": slot.id,
        "n_ctx": context.engine.n_ctx,
        "speculative": False,
        "is_processing": slot.busy or lent,
    }
    branch = slot.branch
    if branch is None or lent:
        return value
    limit, written = branch.stop_rule.max_tokens, len(branch.buffer.ids)
    return {
        **value,
        "id_task": branch.generation.number,
        "n_prompt_tokens": len(branch.generation.prompt_ids),
        "params": params,
        "next_token": [
            {
                "has_next_token": slot.busy,
                "has_new_line": any("\n" in piece for piece in branch.buffer.pieces),
                "n_remain": max(0, limit - written) if slot.busy and limit is not None else -1,
                "n_decoded": written if slot.busy else 0,
            }
        ],
    }


def _defaults(context: Context) -> Params:
    """What a request that says nothing asks for."""
    return Params(**read_common(Fields({}), context))


def _token(context: Context, token: int | None) -> str:
    return "" if token is None else context.engine.token_bytes(token).decode("utf-8", "replace")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Figure(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    value: float


def exposition(services: Services, client: Client) -> str:
    """All figures; valid while the model is being loaded too, when the engine's are 0.

    What clients have asked for is told to each of itself, and of all to an admin.
    """
    shown = services.models.loaded() or [services]
    rows = zip(*(_figures(one, _stats(one)) for one in shown), strict=True)
    return "".join(
        f"# HELP llamacpp:{row[0].name} {row[0].help}\n# TYPE llamacpp:{row[0].name} {row[0].kind}\n"
        + "".join(
            f"llamacpp:{figure.name}{_of_model(one)} {_number(figure.value)}\n"
            for one, figure in zip(shown, row, strict=True)
        )
        for row in rows
    ) + "".join(_of_clients(services, client))


def _stats(services: Services) -> EngineStats:
    engine = services.loader.engine
    return engine.stats() if engine is not None else EngineStats()


def _of_model(services: Services) -> str:
    """Which model a figure is of, where there are several."""
    return "" if services.models.alone else f'{{model="{_escaped(services.model_name)}"}}'


def _of_clients(services: Services, client: Client) -> Iterator[str]:
    shares = services.registry.shares().items()
    told = [(name, share) for name, share in shares if client.admin or name == client.name]
    for field, kind, help in (
        ("requests", "counter", "Requests of a client."),
        ("tokens", "counter", "Tokens written for a client."),
        ("branches", "gauge", "Branches of a client that are live."),
        ("waiting", "gauge", "Requests of a client that wait for room."),
    ):
        name = f"srbwriter:client_{field}" + ("_total" if kind == "counter" else "")
        yield f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
        for label, share in told:
            yield f'{name}{{client="{_escaped(label)}"}} {getattr(share, field)}\n'


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _figures(services: Services, stats: EngineStats) -> list[Figure]:
    s = stats
    counters = (
        ("prompt_tokens_total", "Prompt tokens evaluated.", s.prompt_rows),
        ("prompt_tokens_cached_total", "Prompt tokens found in the cache.", s.reused_tokens),
        ("prompt_seconds_total", "Seconds spent on prompts.", s.prompt_seconds),
        ("tokens_predicted_total", "Tokens written.", s.generated_tokens),
        ("tokens_predicted_seconds_total", "Seconds spent on writing.", s.decode_seconds),
        ("n_decode_total", "Calls of llama_decode.", s.decodes),
        ("n_tokens_max", "Most tokens seen in one sequence.", services.tokens_max),
        ("spec_decode_num_draft_tokens_total", "Speculative decoding; not done here.", 0),
        ("spec_decode_num_accepted_tokens_total", "Speculative decoding; not done here.", 0),
        ("spec_decode_num_drafts_total", "Speculative decoding; not done here.", 0),
        ("tokens_saved_total", "Tokens copied out of the cache.", s.saved_tokens),
        ("tokens_restored_total", "Tokens copied back into it.", s.restored_tokens),
        ("tokens_evaluated_again_total", "Tokens evaluated though they were held.",
         sum(s.evaluated_again.values())),
    )  # fmt: skip
    gauges = (
        ("prompt_tokens_seconds", "Mean prompt tokens a second.", ratio(s.prompt_rows, s.prompt_seconds)),
        ("predicted_tokens_seconds", "Mean tokens written a second.",
         ratio(s.generated_tokens, s.decode_seconds)),
        ("requests_processing", "Requests being answered.", len(services.live())),
        ("requests_deferred", "Requests that wait for room.", s.waiting_requests),
        ("n_busy_slots_per_decode", "Mean branches in one llama_decode.", ratio(s.branch_rows, s.decodes)),
        ("kv_cache_usage_ratio", "Share of the KV cache in use.", ratio(s.used_cells, s.total_cells)),
        ("kv_cache_tokens", "Tokens in the KV cache.", s.used_cells),
        ("host_cache_bytes", "Bytes of memory for what left the cache.", s.host_bytes),
        ("disk_cache_bytes", "Bytes on disk for what is to outlive it.", s.disk_bytes),
    )  # fmt: skip
    return [
        *(Figure(name, "counter", help, value) for name, help, value in counters),
        *(Figure(name, "gauge", help, value) for name, help, value in gauges),
    ]


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "0"


async def lora_adapters(context: Context) -> Response:
    """Every adapter with the scale that requests get which name none."""
    adapters = adapters_of(context.engine)
    return json_response([
        {"id": one.id, "path": one.path, "scale": one.scale, "task_name": "", "prompt_prefix": ""}
        for one in (adapters.list() if adapters is not None else ())
    ])  # fmt: skip


async def set_lora_adapters(context: Context) -> Response:
    """Set those scales; what is running goes on with its own."""
    scales = read_scales(await context.value())
    need_adapters(context.engine).defaults = scales
    return json_response({"success": True})
