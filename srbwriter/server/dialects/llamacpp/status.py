"""What the server and its slots are doing: ``/health``, ``/props``, ``/slots``, ``/metrics``."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import Response

from srbwriter.server.answers import settings_object
from srbwriter.server.body import Body
from srbwriter.server.call import Call, json_response
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.metrics import CONTENT_TYPE, exposition
from srbwriter.server.params import Ask, read_common
from srbwriter.server.registry import Slot


async def health(call: Call) -> Response:
    services = call.services
    if services.loader.error is not None:
        raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
    _ = services.engine  # 503 while it is being loaded
    busy = services.busy()
    answer: dict[str, Any] = {
        "status": "ok",
        "slots_idle": services.max_n - busy,
        "slots_processing": busy,
    }
    if call.switch("include_slots") and services.settings.slots:
        answer["slots"] = _slots(call, busy)
    if busy == services.max_n and call.switch("fail_on_no_slot"):
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
                "params": settings_object(engine, _defaults(call)),
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
    busy = call.services.busy()
    if busy == call.services.max_n and call.switch("fail_on_no_slot"):
        raise ApiError(503, "no slot available", headers={"Retry-After": "1"})
    return json_response(_slots(call, busy))


async def slot_action(call: Call) -> Response:
    """Erase what is kept of a slot, write it to a file, or read that again."""
    _need_slots(call)
    number = call.path["slot"]
    if not number.isdecimal() or len(number) > 6 or int(number) >= call.services.max_n:
        raise bad("id_slot", "Invalid slot ID")
    action = call.query.get("action", "")
    slot = call.services.slots.all(call.services.max_n)[int(number)]
    if slot.client and not (call.client.admin or slot.client == call.client.name):
        raise ApiError(403, f"slot {slot.id} holds what another client wrote: it takes an admin key")
    if action == "erase":
        return json_response({"id_slot": slot.id, "n_erased": await call.services.erase_slot(slot)})
    if action not in ("save", "restore"):
        raise bad("action", "Invalid action")
    if call.settings.slot_save_path is None:
        raise ApiError(501, "This server does not support slots actions. Start it with `--slot-save-path`")
    name = Body(await call.json()).text("filename")
    if not _BARE_NAME.fullmatch(name):
        raise bad("filename", "Invalid filename")
    return json_response(await call.services.keep_session(slot, action, call.settings.slot_save_path / name))


_BARE_NAME = re.compile(r"(?!\.)[\w.\- ]{1,200}")


async def metrics(call: Call) -> Response:
    if not call.settings.metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    text = exposition(call.services, call.client)
    headers = {"Process-Start-Time-Unix": str(int(call.services.started))}
    return Response(text, 200, headers, CONTENT_TYPE)


def _need_slots(call: Call) -> None:
    if not call.settings.slots:
        raise ApiError(501, "This server does not support slots endpoint. Start it without `--no-slots`")


def _slots(call: Call, busy: int) -> list[dict[str, Any]]:
    """Every slot. Where branches are written that have none (the terminal's), idle ones stand for them."""
    slots = call.services.slots.all(call.services.max_n)
    others = busy - sum(slot.busy for slot in slots)
    lent = [slot.id for slot in slots if not slot.busy][: max(others, 0)]
    settings = settings_object(call.engine, _defaults(call))
    params = {name: value for name, value in settings.items() if name not in _OF_A_REQUEST}
    return [_slot(call, slot, params, slot.id in lent) for slot in slots]


_OF_A_REQUEST = ("stop", "grammar", "json_schema", "logit_bias", "dry_sequence_breakers")


def _slot(call: Call, slot: Slot, params: dict[str, Any], lent: bool) -> dict[str, Any]:
    """Numbers only: no text of anybody's."""
    value: dict[str, Any] = {
        "id": slot.id,
        "n_ctx": call.engine.n_ctx,
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


def _defaults(call: Call) -> Ask:
    """What a request that says nothing asks for."""
    return Ask(**read_common(Body({}), call))


def _token(call: Call, token: int | None) -> str:
    return "" if token is None else call.engine.token_bytes(token).decode("utf-8", "replace")
