"""text-generation-webui's older interface: ``/api/v1`` with WebSockets; ``/api/v1/generate`` is KoboldAI's.

A WebSocket is one client: its requests are answered one after the other, with a message for each batch of
tokens. Closing the WebSocket cancels its request.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter.engine.types import Request
from srbwriter.server.body import Fields, Params
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
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

_TOLD_AGAIN = 200_000
"""Characters of a conversation that a stream repeats with every message, as that protocol has it."""


async def token_count(context: Context) -> Response:
    text = (await context.fields()).need_text("prompt")
    ids = await context.services.tokenize(text, add_bos=True, parse_special=True)
    return json_response({"results": [{"tokens": len(ids)}]})


def _names(context: Context) -> list[str]:
    """Of all models; of one alone, all that it goes by."""
    services = context.services
    return list(services.model_names) if services.models.alone else services.models.names


async def stop_stream(context: Context) -> Response:
    context.stop_own()
    return json_response({"results": "success"})


async def model(context: Context) -> Response:
    """``action``: nothing or ``info``, ``list``, ``load`` and ``unload``."""
    fields = await context.fields()
    action = fields.text("action")
    name = context.services.model_name
    match action:
        case "":
            return json_response({"result": name})
        case "info":
            return json_response({"result": {"model_name": name, "lora_names": []}})
        case "list":
            return json_response({"result": _names(context)})
        case "load" if (wanted := fields.text("model_name")) in _names(context):
            await context.load_model(wanted)
            return json_response({"result": {"model_name": wanted}})
        case "unload" if not context.services.models.alone:
            await context.unload_model()
            return json_response({"result": {"model_name": "None"}})
        case "load" | "unload":
            raise ApiError(501, f"this server has {', '.join(_names(context))}; start another for another")
        case _:
            raise bad("action", "Field 'action': expected info, list, load or unload")


async def chat(context: Context) -> Response:
    """The conversation with the model's next turn."""
    history, request, _ = await context.read(_read_chat, TEMPLATE_SECONDS)
    record = await context.submit([request])

    def make() -> dict[str, Any]:
        return {"results": [{"history": history(branch.text)} for branch in record.generation.branches]}

    return await context.whole(record, make, context.effort * len(record.branches))


History = Callable[[str], dict[str, Any]]


def _read_chat(fields: Fields, services: Services) -> tuple[History, Request, Params]:
    """What the conversation is with an answer added, and what asks for that. Raises ApiError (400)."""
    pairs = _pairs(fields)
    said, begun = fields.text("user_input"), ""
    if pairs and fields.flag("_continue"):
        said, begun = pairs.pop()
    elif pairs and fields.flag("regenerate"):
        said, _ = pairs.pop()
    messages: list[dict[str, str]] = []
    if system := fields.text("context_instruct") or fields.text("context"):
        messages.append({"role": "system", "content": system})
    for user, assistant in pairs:
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    messages.append({"role": "user", "content": said})
    if begun:
        messages.append({"role": "assistant", "content": begun})
    prompt = read_chat(Fields({"messages": messages}), services)
    stops = [*fields.texts("stop"), *prompt.stops, *(["\n"] if fields.flag("stop_at_newline") else [])]
    asked = {name: value for name, value in fields.values.items() if name not in _OF_CHAT}
    body = {**asked, "prompt": prompt.prompt, "stop": stops, "add_bos": prompt.add_bos}

    def history(answer: str) -> dict[str, Any]:
        turns = [*pairs, (said, begun + answer)]
        return {
            "internal": [list(turn) for turn in turns],
            "visible": [[html.escape(text) for text in turn] for turn in turns],
        }

    return history, *read(Fields(body), services, LEGACY, system=False)


_OF_CHAT = frozenset(
    {"user_input", "history", "stopping_strings", "stop_sequence", "memory", "prompt", "add_bos_token"}
)


def _pairs(fields: Fields) -> list[tuple[str, str]]:
    """Turns of user and model. Raises ApiError (400)."""
    internal: Any = Fields(fields.mapping("history") or {}).raw("internal") or []
    wrong = bad("history", "Field 'history': expected internal and visible, lists of pairs of texts")
    if not isinstance(internal, list):
        raise wrong
    pairs: list[tuple[str, str]] = []
    for turn in cast("list[Any]", internal):
        texts: list[Any] = cast("list[Any]", turn) if isinstance(turn, list) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise wrong
        pairs.append((texts[0], texts[1]))
    return pairs


# ---- WebSockets


class LegacyReply(BranchReply):
    """``text_stream`` messages with a number each, and ``stream_end``; one branch."""

    ping = b""

    def __init__(self, services: Services, params: Params, history: History | None) -> None:
        super().__init__(services, params)
        self._number, self._history, self._text = 0, history, ""

    def waiting(self, place: int) -> bytes:
        return b""

    def end(self) -> bytes:
        return encode({"event": "stream_end", "message_num": self._number})

    def error(self, error: ApiError) -> bytes:
        return encode({"event": "error", "message_num": self._number, **KOBOLD.body(error)})

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text or index:
            return
        self._text += piece.text
        content = {"text": piece.text} if self._history is None else {"history": self._history(self._text)}
        event = {"event": "text_stream", "message_num": self._number, **content}
        self._number += 1
        out.append(encode(event).decode() + "\n")


async def stream(context: Context, socket: WebSocket) -> None:
    await _serve(context, socket, chat=False)


async def chat_stream(context: Context, socket: WebSocket) -> None:
    await _serve(context, socket, chat=True)


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


async def _serve(context: Context, socket: WebSocket, chat: bool) -> None:
    """Answer messages one after the other, until the client leaves or has sent too many ahead."""
    await socket.accept()
    inbox = _Inbox()
    answering: asyncio.Task[None] | None = None

    def busy() -> bool:
        return answering is not None and not answering.done()

    reader = asyncio.create_task(_read(socket, inbox, context.settings.timeout, busy))
    try:
        while (message := await inbox.get()) is not None:
            answering = asyncio.create_task(_answer(context, socket, message, chat))
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


async def _answer(context: Context, socket: WebSocket, message: str, chat: bool) -> None:
    asked = Context(context.request, context.services, KOBOLD)
    asked.id = new_id()
    try:
        await asked.given(message.encode("utf-8", "replace"))
        fields = await asked.fields()
        if fields.integer("n", 1) != 1:
            raise bad("n", "Field 'n': a stream is one text; /api/v1/generate has several")
        history: History | None = None
        if chat:
            if len(message) > _TOLD_AGAIN:
                most = f"at most {_TOLD_AGAIN} characters here; /api/v1/chat takes more"
                raise bad("history", f"Field 'history': {most}")
            history, request, params = await asked.read(_read_chat, TEMPLATE_SECONDS)
        else:
            request, params = await asked.read(partial(read, usual=LEGACY), reading(fields))
        reply = LegacyReply(asked.services, params, history)
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
    _row("POST /api/v1/model", model, "the loaded model", chooses=False,
         body=object_of(action="string", model_name="string", example={"action": "info"})),
    _row("POST /api/v1/chat", chat, "a conversation with the next turn",
         body=object_of(user_input="string", history="object",
                        example={"user_input": "Tell me a story.", "max_new_tokens": 16})),
)  # fmt: skip
SOCKETS = (
    Socket("/api/v1/stream", stream),
    Socket("/api/v1/chat-stream", chat_stream),
)
