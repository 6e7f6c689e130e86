"""The model, for another srbwriter that writes with it from elsewhere."""

from __future__ import annotations

from dataclasses import asdict

from starlette.responses import Response

from srbwriter.server.context import Context, json_response
from srbwriter.version import __version__


async def model(context: Context) -> Response:
    """Describe the backend, without paths and devices of this machine."""
    engine = context.engine
    info = asdict(engine.info) | {"path": "", "name": context.services.model_name}
    del info["device"]
    return json_response({
        "version": __version__, "info": info, "n_ctx": engine.n_ctx, "max_n": context.services.max_n,
        "lacks": dict(engine.capabilities.missing),
    })  # fmt: skip
