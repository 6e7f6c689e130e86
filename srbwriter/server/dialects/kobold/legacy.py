"""text-generation-webui's older interface: ``/api/v1`` with WebSockets; ``/api/v1/generate`` is KoboldAI's.

A WebSocket is one client: its requests are answered one after the other, with a message for each batch of
tokens. Closing the WebSocket cancels its request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter.server.body import Params
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.kobold.current import KOBOLD, LEGACY, read, reading, tag_of
from srbwriter.server.endpoints import Socket, as_api_error, rows_of
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.registry import Record, new_id
from srbwriter.server.reply import BranchReply, Piece
from srbwriter.server.schemas import object_of
from srbwriter.server.services import Services
from srbwriter.server.work import encode

_WAITING = 4
"""Messages that a client may send ahead while one is answered."""


async def token_count(context: Context) -> Response:
    text = (await context.fields()).need_text("prompt")
    ids = await context.services.tokenize(text, add_bos=True, parse_special=True)
    return json_response({"results": [{"tokens": len(ids)}]})


async def stop_stream(context: Context) -> Response:
    context.stop_own()
    return json_response({"results": "success"})


# ---- WebSockets


class LegacyReply(BranchReply):
    """``text_stream`` messages with a number each, and ``stream_end``; one branch."""

    ping = b""

    def __init__(self, services: Services, params: Params) -> None:
        super().__init__(services, params)
        self._number = 0

    def waiting(self, place: int) -> bytes:
        return b""

    def end(self) -> bytes:
        return encode({"event": "stream_end", "message_num": self._number})

    def error(self, error: ApiError) -> bytes:
        return encode({"event": "error", "message_num": self._number, **KOBOLD.body(error)})

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text or index:
            return
        event = {"event": "text_stream", "message_num": self._number, "text": piece.text}
        self._number += 1
        out.append(encode(event).decode() + "\n")


class _Inbox:
    """Messages of one client that wait for their turn."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[str | None] = asyncio.Queue(_WAITING)  # None: no more will come
        self.refusing = False  # too many came: those that wait are still answered, later ones are not

    def put(self, message: str) -> None:
        if not self.refusing:
            try:
                self.messages.put_nowait(message)
            except asyncio.QueueFull:
                self.refusing = True

    def end(self) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # then it is ended by who has left, or by `refusing`
            self.messages.put_nowait(None)

    async def get(self) -> str | None:
        return None if self.refusing and self.messages.empty() else await self.messages.get()


async def stream(context: Context, socket: WebSocket) -> None:
    """Answer messages one after the other, until the client leaves or has sent too many ahead."""
    await socket.accept()
    inbox = _Inbox()
    answering: asyncio.Task[None] | None = None

    def busy() -> bool:
        return answering is not None and not answering.done()

    reader = asyncio.create_task(_read(socket, inbox, context.settings.timeout, busy))
    try:
        while (message := await inbox.get()) is not None:
            answering = asyncio.create_task(_answer(context, socket, message))
            await asyncio.wait({answering, reader}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                break  # it left
            answering.result()
        if inbox.refusing and not reader.done():
            await socket.close(1008, f"{_WAITING} messages may wait for their turn; later ones were not read")
    finally:
        for task in (reader, answering):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await task


async def _read(socket: WebSocket, inbox: _Inbox, seconds: float, busy: Callable[[], bool]) -> None:
    """Messages as they come. A client is let go that says nothing for so long while it is owed nothing."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                event = await socket.receive()
        except TimeoutError:
            if busy():
                continue
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(1008, f"nothing came for {seconds:g} seconds")
            break
        if event["type"] != "websocket.receive":
            break
        text = event.get("text")
        inbox.put(text if text is not None else (event.get("bytes") or b"").decode("utf-8", "replace"))
    inbox.end()


async def _answer(context: Context, socket: WebSocket, message: str) -> None:
    asked = Context(context.request, context.services, KOBOLD)
    asked.id = new_id()
    try:
        await asked.given(message.encode("utf-8", "replace"))
        fields = await asked.fields()
        if fields.integer("n", 1) != 1:
            raise bad("n", "Field 'n': a stream is one text; /api/v1/generate has several")
        request, params = await asked.read(partial(read, usual=LEGACY), reading(fields))
        reply = LegacyReply(asked.services, params)
        record = await asked.submit([request], tag=await tag_of(asked))
        reply.begin(record)
        await _send(asked, socket, record, reply)
    except (WebSocketDisconnect, TimeoutError):
        raise
    except Exception as error:
        wrong = as_api_error(error)
        await socket.send_text(encode({"event": "error", "message_num": 0, **KOBOLD.body(wrong)}).decode())


async def _send(context: Context, socket: WebSocket, record: Record, reply: LegacyReply) -> None:
    try:
        async for out in context.frames(record, reply):
            for line in filter(None, out.decode().split("\n")):
                async with asyncio.timeout(context.settings.timeout):
                    await socket.send_text(line)
    finally:
        context.end(record)


_row = rows_of(KOBOLD, "text-generation-webui")
ROWS = (
    _row("POST /api/v1/token-count", token_count, "how many tokens a text is",
         body=object_of("prompt", prompt="string", example={"prompt": "Once upon a time"})),
    _row("POST /api/v1/stop-stream", stop_stream, "stop what this client asked for"),
)  # fmt: skip
SOCKETS = (Socket("/api/v1/stream", stream),)
