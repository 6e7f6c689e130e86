"""What the server and its slots are doing: ``/health``, ``/props``, ``/slots``, ``/metrics``."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import Stop
from srbwriter.server.body import Body
from srbwriter.server.call import Call, json_response
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.metrics import CONTENT_TYPE, exposition
from srbwriter.server.params import read_options
from srbwriter.server.slots import Slot

from .ask import Ask
from .shape import settings_object


async def health(call: Call) -> Response:
    services = call.services
    if services.loader.error is not None:
        raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
    _ = services.engine  # 503 while it is being loaded
    idle = services.slots.idle(services.max_n)
    answer: dict[str, Any] = {
        "status": "ok",
        "slots_idle": idle,
        "slots_processing": services.max_n - idle,
    }
    if call.switch("include_slots") and services.settings.slots:
        answer["slots"] = [_slot(call, slot) for slot in services.slots.all(services.max_n)]
    if idle == 0 and call.switch("fail_on_no_slot"):
        return json_response({**answer, "status": "no slot available"}, 503, {"Retry-After": "1"})
    return json_response(answer)


async def props(call: Call) -> Response:
    services, engine = call.services, call.engine
    info = engine.info
    return json_response(
        {
            "default_generation_settings": {
                "id": 0,
                "id_task": -1,
                "n_ctx": engine.n_ctx,
                "speculative": False,
                "is_processing": False,
                "params": settings_object(_defaults(call)),
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
            "bos_token": _token(call, engine.bos),
            "eos_token": _token(call, engine.eos),
            "build_info": services.fingerprint,
            "system_prompt": services.system.prompt,
            "assistant_name": services.system.assistant_name,
            "user_name": services.system.anti_prompt,
        }
    )


async def change_props(call: Call) -> Response:
    raise ApiError(501, "this server does not change its properties while it runs")


async def slots(call: Call) -> Response:
    _need_slots(call)
    _ = call.engine
    services = call.services
    idle = services.slots.idle(services.max_n)
    if idle == 0 and call.switch("fail_on_no_slot"):
        raise ApiError(503, "no slot available", headers={"Retry-After": "1"})
    return json_response([_slot(call, slot) for slot in services.slots.all(services.max_n)])


async def slot_action(call: Call) -> Response:
    """Erase a slot's pin; saving and restoring wait for an engine that can."""
    _need_slots(call)
    number = call.path["slot"]
    if not number.isdecimal() or len(number) > 6 or int(number) >= call.services.max_n:
        raise bad("id_slot", "Invalid slot ID")
    action = call.query.get("action", "")
    if action == "erase":
        slot = call.services.slots.all(call.services.max_n)[int(number)]
        return json_response({"id_slot": slot.id, "n_erased": await call.services.erase_slot(slot)})
    if action not in ("save", "restore"):
        raise bad("action", "Invalid action")
    if call.settings.slot_save_path is None:
        raise ApiError(501, "This server does not support slots actions. Start it with `--slot-save-path`")
    name = Body(await call.json()).text("filename")
    if not _BARE_NAME.fullmatch(name):
        raise bad("filename", "Invalid filename")
    raise ApiError(501, "this server does not keep slots on disk")


_BARE_NAME = re.compile(r"(?!\.)[\w.\- ]{1,200}")


async def metrics(call: Call) -> Response:
    if not call.settings.metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    text = exposition(call.services)
    headers = {"Process-Start-Time-Unix": str(int(call.services.started))}
    return Response(text, 200, headers, CONTENT_TYPE)


def _need_slots(call: Call) -> None:
    if not call.settings.slots:
        raise ApiError(501, "This server does not support slots endpoint. Start it without `--no-slots`")


def _slot(call: Call, slot: Slot) -> dict[str, Any]:
    """Numbers only: no text of anybody's."""
    value: dict[str, Any] = {
        "id": slot.id,
        "n_ctx": call.engine.n_ctx,
        "speculative": False,
        "is_processing": slot.busy,
    }
    branch, record = slot.branch, slot.record
    if branch is None or record is None:
        return value
    limit = branch.stop_rule.max_tokens
    written = len(branch.ids)
    defaults = _defaults(call)
    return {
        **value,
        "id_task": record.generation.number,
        "n_prompt_tokens": len(record.generation.prompt_ids),
        "params": {
            name: setting
            for name, setting in settings_object(defaults).items()
            if name not in ("stop", "grammar", "json_schema", "logit_bias", "dry_sequence_breakers")
        },
        "next_token": [
            {
                "has_next_token": slot.busy,
                "has_new_line": "\n" in branch.text,
                "n_remain": max(0, limit - written) if slot.busy and limit is not None else -1,
                "n_decoded": written if slot.busy else 0,
            }
        ],
    }


def _defaults(call: Call) -> Ask:
    limit = call.settings.n_predict
    return Ask(
        n=1,
        sampling=call.settings.sampling,
        stop=Stop(max_tokens=limit if limit >= 0 else None),
        n_probs=0,
        post_sampling_probs=False,
        options=read_options(Body({}), call.settings.context_shift, call.engine),
        stream=False,
        return_tokens=False,
        return_progress=False,
        timings_per_token=False,
        response_fields=(),
        id_slot=-1,
    )


def _token(call: Call, token: int | None) -> str:
    return "" if token is None else call.engine.token_bytes(token).decode("utf-8", "replace")
