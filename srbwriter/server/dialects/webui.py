"""text-generation-webui's two APIs beside OpenAI's routes: ``/v1/internal``, and the older ``/api/v1``.

The older one shares ``/api/v1/generate`` with KoboldAI and streams over a WebSocket. A WebSocket is one
client, whose messages are answered one after the other; closing it cancels its request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter.engine.types import Request

from ..answer import Answer, Written, encode
from ..body import Body
from ..errors import ApiError, as_api_error, bad, openai_error
from ..http import Call, Dialect, Endpoint
from ..prompts import read_ids
from ..registry import new_id
from ..run import Services
from . import kobold

# ---- /v1/internal


async def _ids(call: Call, field: str = "text") -> list[int]:
    return await call.tokenize(call.body.need_text(field), add_bos=True, parse_special=True)


async def encode_text(call: Call) -> dict[str, Any]:
    ids = await _ids(call)
    return {"tokens": ids, "length": len(ids)}


async def count_text(call: Call) -> dict[str, Any]:
    return {"length": len(await _ids(call))}


async def decode(call: Call) -> dict[str, Any]:
    ids = call.body.raw("tokens")
    return {"text": await call.work(lambda: call.engine.detokenize(read_ids("tokens", ids, call.engine)))}


def stop_generation(call: Call) -> str:
    """Cancel this client's requests; those of other clients and of the terminal continue."""
    call.stop_own()
    return "OK"


def model_info(call: Call) -> dict[str, Any]:
    names = [path for path, _ in call.engine.adapters]
    return {"model_name": call.services.model_name, "lora_names": names, "loader": "llama.cpp"}


_I = "/v1/internal"
DIALECT = Dialect(
    "text-generation-webui",
    (
        Endpoint(f"POST {_I}/encode", encode_text, "text as token ids", "text!"),
        Endpoint(f"POST {_I}/decode", decode, "token ids as text", "tokens!:ids"),
        Endpoint(f"POST {_I}/token-count", count_text, "how many tokens a text is", "text!"),
        Endpoint(f"POST {_I}/stop-generation", stop_generation, "stop what this client asked for"),
        Endpoint(f"GET {_I}/model/info", model_info, "the loaded model"),
    ),
    openai_error,
)  # fmt: skip

# ---- the older API


async def count_prompt(call: Call) -> dict[str, Any]:
    return {"results": [{"tokens": len(await _ids(call, "prompt"))}]}


def stop_stream(call: Call) -> dict[str, str]:
    call.stop_own()
    return {"results": "success"}


class Messages(Answer):
    """``text_stream`` messages with a number each, one a line, and ``stream_end``."""

    ping = b""

    def __init__(self, body: Body, services: Services, request: Request) -> None:
        super().__init__(body, services, request)
        self._number = 0

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        if not text:
            return ""
        self._number += 1
        event = {"event": "text_stream", "message_num": self._number - 1, "text": text}
        return encode(event).decode() + "\n"

    def end(self) -> bytes:
        return encode({"event": "stream_end", "message_num": self._number})

    def error(self, error: ApiError) -> bytes:
        return error_message(error, self._number)


def error_message(error: ApiError, number: int = 0) -> bytes:
    return encode({"event": "error", "message_num": number, **kobold.error_body(error)})


_AHEAD = 4
"""Messages that may wait while one is answered."""


async def stream(socket: WebSocket, services: Services) -> None:
    """Answer the messages of one client until it leaves, is silent for too long or sends too much ahead."""
    await socket.accept()
    messages = asyncio.Queue[bytes](_AHEAD)
    busy = asyncio.Lock()
    answering = asyncio.create_task(_answer_messages(socket, services, messages, busy))
    reason = ""
    try:
        while not reason:
            try:
                async with asyncio.timeout(services.settings.timeout):
                    message = await socket.receive()
                if message["type"] != "websocket.receive":
                    break
                data = message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace")
                messages.put_nowait(data)
            except TimeoutError:
                reason = "" if busy.locked() else "nothing came for too long"
            except asyncio.QueueFull:
                reason = f"more than {_AHEAD} messages wait for their turn"
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
    if reason:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it has left
            await socket.close(1008, reason)


async def _answer_messages(
    socket: WebSocket, services: Services, messages: asyncio.Queue[bytes], busy: asyncio.Lock
) -> None:
    while True:
        message = await messages.get()
        async with busy:
            try:
                await _answer(socket, services, message)
            except (WebSocketDisconnect, TimeoutError):  # the client has left, or reads no more
                return
            except Exception as error:
                await socket.send_text(error_message(as_api_error(error)).decode())


async def _answer(socket: WebSocket, services: Services, message: bytes) -> None:
    call = Call(cast("Any", socket), services, OLDER)  # whose connection it does not read
    call.id = new_id()
    await call.parse(message)
    request = await call.work(lambda: kobold.read(call.body, services, kobold.WEBUI))
    if request.n > 1:
        raise bad("n", "a stream is one text; /api/v1/generate has several")
    answer = Messages(call.body, services, request)
    record = await call.submit([request], tag=kobold.tag_of(call))
    answer.begin(record)
    try:
        async for lines in call.frames(record, answer):
            for line in filter(None, lines.decode().split("\n")):
                async with asyncio.timeout(services.settings.timeout):
                    await socket.send_text(line)
    finally:
        record.cancel()


OLDER = Dialect(
    "text-generation-webui's older API",
    (
        Endpoint("POST /api/v1/token-count", count_prompt, "how many tokens a prompt is", "prompt!:string"),
        Endpoint("POST /api/v1/stop-stream", stop_stream, "stop what this client asked for"),
    ),
    kobold.error_body,
)
SOCKETS: Mapping[str, Any] = {"/api/v1/stream": stream}
