"""The model and its vocabulary, for another srbwriter that writes with them from elsewhere."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.srb.completions import PRIORITIES
from srbwriter.server.errors import ApiError
from srbwriter.server.prompts import read_ids
from srbwriter.server.work import PER_ENTRY, off_loop
from srbwriter.version import __version__

_LARGEST = 1 << 22  # tokens of a vocabulary; a backend that does not know its own says more


async def model(context: Context) -> Response:
    """Describe the backend, without paths and devices of this machine."""
    engine, can = context.engine, context.engine.capabilities
    info = asdict(engine.info) | {"path": "", "name": context.services.model_name}
    del info["device"]
    return json_response({
        "version": __version__, "info": info, "n_ctx": engine.n_ctx, "max_n": context.services.max_n,
        "bos": engine.bos, "eos": engine.eos, "eog": sorted(engine.eog), "fim": engine.fim,
        "add_bos": engine.add_bos, "scores": can.has("prompt_logprobs"),
        "priorities": PRIORITIES if can.has("look_ahead") else (),
        "lacks": dict(can.missing), "max_logprobs": can.max_logprobs,
    })  # fmt: skip


async def vocabulary(context: Context) -> Response:
    """What each token writes, in base64: ``pieces`` to a text, ``special`` control tokens too."""
    engine = context.engine
    n_vocab = engine.info.n_vocab
    if n_vocab > _LARGEST:
        raise ApiError(501, "this server does not know the whole vocabulary of its model")
    return await context.answer(n_vocab * PER_ENTRY, lambda: _pieces(engine, n_vocab))


async def pieces(context: Context) -> Response:
    """What some tokens write, also where the whole vocabulary is not known."""
    engine, fields = context.engine, await context.fields()
    ids = read_ids("ids", fields.raw("ids"), engine)
    special = fields.flag("special")

    def work() -> list[bytes]:
        return [engine.token_bytes(token) for token in ids] if special else engine.pieces(ids)

    found = await off_loop(context.services.asking + len(ids) * PER_ENTRY, work)
    return json_response({"pieces": [base64.b64encode(piece).decode() for piece in found]})


def _pieces(engine: Backend, n_vocab: int) -> dict[str, Any]:
    ids = range(n_vocab)
    return {
        "pieces": [base64.b64encode(piece).decode() for piece in engine.pieces(ids)],
        "special": [base64.b64encode(engine.token_bytes(token)).decode() for token in ids],
    }
