"""exllama's small server: ``POST /generate`` answers in plain text, ``/check`` names the model.

The page at ``/chat`` uses both. The cache finds the part of a growing conversation that is evaluated already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import Request

from ..answer import Answer, Written
from ..body import Body, read_request, with_prompt
from ..errors import ApiError, bad
from ..http import Call, Dialect, Row
from ..prompts import read_single_prompt
from ..run import Services

USUAL: Mapping[str, Any] = {
    "max_tokens": 200, "temperature": 0.7, "top_k": 20, "top_p": 0.65, "min_p": 0.06, "repeat_penalty": 1.15,
    "repeat_last_n": 256, "overflow": "truncate",
}  # fmt: skip
"""What its clients mean by leaving a field out, by the table's names."""

_PLACE = "{user_input}"


def read(body: Body, services: Services) -> tuple[list[Request], PlainText]:
    """Read a body; the answer is streamed unless ``stream`` is false. Raises ApiError (400)."""
    request = read_request(body, services, USUAL)
    answer = PlainText(body, services, request)
    answer.stream = body.flag("stream", True)
    if answer.stream and request.n > 1:
        raise bad("n", "a stream of plain text is one text; without stream there is a list of n")
    message, template = body.need_text("message"), body.text("prompt")
    text = template.replace(_PLACE, message) if template else message
    prompt = read_single_prompt(text, services.engine)
    return [services.put_system_before(with_prompt(request, prompt, parse_special=True))], answer


class PlainText(Answer):
    """No frames at all. An error after the first text can only end it."""

    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    ping = b""

    def answer(self) -> list[str]:
        return [branch.text for branch in self.record.branches]

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        return text

    def error(self, error: ApiError) -> bytes:
        return b""


async def generate(call: Call) -> Response:
    """Answer with the text alone: as it is written, or as a list of n texts."""
    return await call.reply(*await call.work(lambda: read(call.body, call.services)))


DIALECT = Dialect(
    "exllama",
    (
        Row("POST /generate", generate, "a text as plain text, while it is written",
            "message! prompt:string stream:boolean +"),
        Row("GET /check", lambda call: [call.services.model_name], "the model's name in a list"),
    ),
)  # fmt: skip
