"""exllama's small server: ``POST /generate`` answers in plain text, ``/check`` names the model.

The page at ``/chat`` uses both. What of a growing conversation is evaluated is the cache's work: whatever
begins as something did before is found there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from srbwriter.server.context import Context
from srbwriter.server.endpoints import FIELDS, object_of, rows_of, told
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import Fields
from srbwriter.server.params import Params, read_common
from srbwriter.server.streams import BranchFrames, Piece

USUAL: Mapping[str, Any] = {
    "max_tokens": 200, "temperature": 0.7, "top_k": 20, "top_p": 0.65, "min_p": 0.06, "repeat_penalty": 1.15,
    "repeat_last_n": 256, "overflow": "truncate",
}  # fmt: skip
"""What its clients mean by leaving a field out, by the table's names."""

_PLACE = "{user_input}"
_HEADERS = {"x-content-type-options": "nosniff"}


def read_params(fields: Fields, context: Context) -> Params:
    """Everything but the prompt. It streams unless it is told not to. Raises ApiError (400)."""
    common = read_common(fields, context, USUAL)
    common["stream"] = fields.flag("stream", True)
    if common["stream"] and common["n"] > 1:
        raise bad("n", "Field 'n': a stream of plain text is one text; without stream there is a list of n")
    return Params(**common)


async def generate(context: Context) -> Response:
    """The text alone: as it is written, or a list of n texts."""
    fields = Fields(await context.json())
    params = await context.read(lambda: read_params(fields, context))
    message, template = fields.need_text("message"), fields.text("prompt")
    prompt = template.replace(_PLACE, message) if template else message
    (whole,) = await context.services.read_prompts(prompt, context.effort)
    request = context.services.put_system_before(params.request(whole, parse_special=True))
    record = await context.submit([request])
    if params.stream:
        writer = PlainText(context, record, params)
        return await context.stream(record, writer, media_type="text/plain; charset=utf-8", headers=_HEADERS)
    return await context.whole(record, lambda: [branch.text for branch in record.generation.branches])


class PlainText(BranchFrames):
    """No frames at all. An error after the first text can only end it."""

    ping = b""

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
_row = rows_of("llamacpp", "exllama")
ENDPOINTS = (
    _row("POST /generate", generate, "a text as plain text, while it is written", body=_GENERATE),
    _row("GET /check", told(lambda context: [context.services.model_name]), "the model's name in a list"),
)
