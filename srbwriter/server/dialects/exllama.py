"""exllama's small server: ``POST /generate`` answers in plain text, ``/check`` names the model.

The page at ``/chat`` uses both. The cache finds the part of a growing conversation that is evaluated already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import Request
from srbwriter.server.body import Fields, read_params
from srbwriter.server.context import Context
from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import LLAMACPP, ApiError, bad
from srbwriter.server.prompts import read_prompts
from srbwriter.server.reply import BranchReply, Piece
from srbwriter.server.schemas import FIELDS, object_of
from srbwriter.server.services import Services

USUAL: Mapping[str, Any] = {
    "max_tokens": 200, "temperature": 0.7, "top_k": 20, "top_p": 0.65, "min_p": 0.06, "repeat_penalty": 1.15,
    "repeat_last_n": 256, "overflow": "truncate",
}  # fmt: skip
"""What its clients mean by leaving a field out, by the table's names."""

_PLACE = "{user_input}"


async def generate(context: Context) -> Response:
    """The text alone: as it is written, or a list of n texts."""
    request, reply = await context.read(_read)
    return await context.reply([request], reply)


def _read(fields: Fields, services: Services) -> tuple[Request, PlainText]:
    """Read a body; the answer is streamed unless ``stream`` is false. Raises ApiError (400)."""
    params = replace(read_params(fields, services, USUAL), stream=fields.flag("stream", True))
    if params.stream and params.n > 1:
        raise bad("n", "Field 'n': a stream of plain text is one text; without stream there is a list of n")
    message, template = fields.need_text("message"), fields.text("prompt")
    (prompt,) = read_prompts(template.replace(_PLACE, message) if template else message, services.engine)
    request = services.put_system_before(params.of_prompt(prompt, parse_special=True))
    return request, PlainText(services, params)


class PlainText(BranchReply):
    """No frames at all. An error after the first text can only end it."""

    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    ping = b""

    def whole(self) -> list[str]:
        return [branch.text for branch in self._record.branches]

    def waiting(self, place: int) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return b""

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        out.append(piece.text)


_GENERATE = object_of(
    "message",
    message="string",
    prompt={"type": "string", "description": f"What stands around the message: {_PLACE} in a text."},
    stream={"type": "boolean", "default": True},
    **FIELDS,
    example={"message": "Once upon a time,", "max_new_tokens": 16},
)
_row = rows_of(LLAMACPP, "exllama")
_ROWS = (
    _row("POST /generate", generate, "a text as plain text, while it is written", body=_GENERATE),
    _row("GET /check", respond(lambda context: [context.services.model_name]), "the model's name in a list"),
)
LEAF = Leaf(rows=_ROWS)
