"""llama.cpp's slots: their state, and their tokens in the cache or in files."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import EngineError, InvalidRequest
from srbwriter.server.body import Fields, read_params
from srbwriter.server.context import Context, json_response
from srbwriter.server.errors import ApiError, bad, from_engine
from srbwriter.server.registry import Slot
from srbwriter.server.reply import settings_object
from srbwriter.server.services import Services
from srbwriter.server.sessions import BARE_NAME, find_session, place_session
from srbwriter.server.settings import Client


async def slots(context: Context) -> Response:
    _need_slots(context)
    _ = context.engine
    busy = context.services.busy_branches()
    if busy == context.services.max_n and context.switch("fail_on_no_slot"):
        raise ApiError(503, "no slot available", headers={"Retry-After": "1"})
    return json_response(slot_objects(context, busy))


async def slot_action(context: Context) -> Response:
    """Erase the tokens of a slot, save them to a file, or restore them from one."""
    _need_slots(context)
    number = context.path["slot"]
    if not number.isdecimal() or len(number) > 6 or int(number) >= context.services.max_n:
        raise bad("id_slot", "Invalid slot ID")
    action = context.query.get("action", "")
    name = (await context.fields()).text("filename")
    slot = context.services.slots.all(context.services.max_n)[int(number)]
    if slot.client and not (context.client.admin or slot.client == context.client.name):
        raise ApiError(403, f"slot {slot.id} holds what another client wrote: it takes an admin key")
    if action == "erase":
        return json_response({"id_slot": slot.id, "n_erased": await _erase(context.services, slot)})
    if action not in ("save", "restore"):
        raise bad("action", "Invalid action")
    if context.settings.slot_save_path is None:
        raise ApiError(501, "This server does not support slots actions. Start it with `--slot-save-path`")
    if not BARE_NAME.fullmatch(name):
        raise bad("filename", "Invalid filename")
    return json_response(await _keep(context.services, slot, action, context.client, name))


def _need_slots(context: Context) -> None:
    if not context.settings.slots:
        raise ApiError(501, "This server does not support slots endpoint. Start it without `--no-slots`")


def slot_objects(context: Context, busy: int) -> list[dict[str, Any]]:
    """Return every slot. Idle slots are shown as busy for branches that have none, such as the terminal's."""
    slots = context.services.slots.all(context.services.max_n)
    others = busy - sum(slot.busy for slot in slots)
    lent = [slot.id for slot in slots if not slot.busy][: max(others, 0)]
    settings = settings_object(context.engine, read_params(Fields({}), context.services))
    params = {name: value for name, value in settings.items() if name not in _OF_A_REQUEST}
    return [_slot(context, slot, params, slot.id in lent) for slot in slots]


_OF_A_REQUEST = ("stop", "grammar", "json_schema", "logit_bias", "banned_phrases", "dry_sequence_breakers")


def _slot(context: Context, slot: Slot, params: dict[str, Any], lent: bool) -> dict[str, Any]:
    """Return the state of a slot in numbers, without any text."""
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


async def pin(services: Services, slot: Slot) -> None:
    """Keep what the slot's branch left in the cache, if the engine can pin."""
    engine = services.engine
    if slot.ids and engine.capabilities.has("pins"):
        ids, client = slot.ids, slot.client
        try:
            await asyncio.to_thread(engine.pin, f"slot-{slot.id}", ids, *slot.scope)
        except EngineError as error:
            raise from_engine(error) from error
        slot.pin(ids, client)


async def _keep(services: Services, slot: Slot, action: str, client: Client, name: str) -> dict[str, Any]:
    """Save what a slot left in the cache, or restore it, in llama.cpp's words. Raises ApiError.

    ``name`` is the bare name of one of the client's files.
    """
    engine, began = services.engine, time.perf_counter()
    file: Path | None = None
    owner = slot.client
    try:
        if action == "save":
            file = place_session(services.settings, client, name)
            tokens, size = await asyncio.to_thread(engine.save_session, file, slot.kept, *slot.scope)
        else:
            file, scope = find_session(services.settings, client, name), services.scope(client)
            ids = await asyncio.to_thread(engine.load_session, file, *scope)
            tokens, size = len(ids), file.stat().st_size
            if slot.busy or slot.client != owner:  # a branch took it meanwhile, perhaps another client's
                raise ApiError(409, f"a branch is written in slot {slot.id}; restore into another slot")
            slot.restore(ids, client.name, scope)
            await asyncio.to_thread(engine.pin, f"slot-{slot.id}", ids, *scope)
    except InvalidRequest as error:
        field = "id_slot" if action == "save" else "filename"
        words = error.problem.replace(str(file), name)  # where its folder is concerns nobody
        raise bad(field, f"Field '{field}': {words}") from error
    except EngineError as error:
        raise from_engine(error) from error
    except OSError as error:
        raise bad("filename", f"{name} cannot be used ({error.strerror})") from error
    seconds = 1000 * (time.perf_counter() - began)
    head = {"id_slot": slot.id, "filename": name}
    if action == "save":
        return {**head, "n_saved": tokens, "n_written": size, "timings": {"save_ms": seconds}}
    return {**head, "n_restored": tokens, "n_read": size, "timings": {"restore_ms": seconds}}


async def _erase(services: Services, slot: Slot) -> int:
    """Forget a slot's text; the number of its tokens."""
    erased = len(slot.kept)
    if slot.pinned and services.engine.capabilities.has("pins"):
        await asyncio.to_thread(services.engine.unpin, f"slot-{slot.id}")
    slot.clear()
    return erased
