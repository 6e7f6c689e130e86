"""Health."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from srbwriter.server.call import Call, json_response
from srbwriter.server.errors import ApiError


async def health(call: Call) -> Response:
    services = call.services
    if services.loader.error is not None:
        raise ApiError(500, f"the model could not be loaded: {services.loader.error}")
    engine = services.engine  # 503 while it is being loaded
    stats = engine.stats()
    answer: dict[str, Any] = {
        "status": "ok",
        "slots_idle": max(0, services.max_n - stats.live_branches),
        "slots_processing": stats.live_branches,
    }
    return json_response(answer)
