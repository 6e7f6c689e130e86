"""text-generation-webui's dialects: the modern ``/v1/internal``, and the older ``/api/v1`` with WebSockets.

What it shares with others is theirs: ``/api/v1/generate`` is KoboldAI's, ``/v1/completions`` OpenAI's. A
WebSocket is one client: its requests are answered one after the other, a message for each batch of tokens,
and closing it ends what it asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import math
from collections.abc import Callable
from typing import Any, cast

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter.engine.types import Request, Sampling, Stop
from srbwriter.server.answers import token_text
from srbwriter.server.chat import read_chat
from srbwriter.server.context import Context, frames, json_response
from srbwriter.server.dialects.kobold import LEGACY, KoboldParams, submit
from srbwriter.server.endpoints import CHAT, Socket, as_told, object_of, rows_of, told
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import Fields, read_ids
from srbwriter.server.params import adapters_of
from srbwriter.server.registry import Record, new_id
from srbwriter.server.streams import BranchFrames, Piece
from srbwriter.server.work import PER_ENTRY, encode

_WAITING = 4
"""Messages that a client may send ahead while one is answered."""

_TOLD_AGAIN = 200_000
"""Characters of a conversation that a stream repeats with every message, as that protocol has it."""


# ---- /v1/internal


async def encode_text(context: Context) -> Response:
    ids = await _tokens(context)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"tokens": ids, "length": len(ids)})


async def count_text(context: Context) -> Response:
    return json_response({"length": len(await _tokens(context))})


async def _tokens(context: Context, name: str = "text") -> list[int]:
    text = Fields(await context.json()).need_text(name)
    return await context.services.tokenize(text, add_bos=True, parse_special=True)


async def decode(context: Context) -> Response:
    ids = read_ids("tokens", Fields(await context.json()).raw("tokens"), context.engine)
    return await context.answer(len(ids) * PER_ENTRY, lambda: {"text": context.engine.detokenize(ids)})


async def logits(context: Context) -> Response:
    """How likely the next token is each of the likeliest, by the model alone."""
    fields = Fields(await context.json())
    if fields.flag("use_samplers"):
        raise bad("use_samplers", "Field 'use_samplers': these are the model's own probabilities")
    top = fields.size("top_logits", 50, 1, like="logprobs")
    stop = Stop(max_tokens=1, ignore_eog=True)
    prompt = fields.need_text("prompt")
    request = Request(prompt, logprobs=top, stop=stop, sampling=Sampling(seed=0), parse_special=True)
    record = await context.submit([context.services.put_system_before(request)])

    def make() -> dict[str, dict[str, float]]:
        known = record.generation.branches[0].logprobs
        likeliest = known[0].top if known else ()
        return {"logits": {token_text(context.engine, id): math.exp(logprob) for id, logprob in likeliest}}

    return await context.whole(record, make)


async def chat_prompt(context: Context) -> Response:
    chat = await read_chat(Fields(await context.json()), context, system=False)
    return json_response({"prompt": chat.prompt})


async def stop_generation(context: Context) -> Response:
    """End what this client asked for; nothing of others, and nothing of the terminal."""
    context.stop_own()
    return json_response("OK")


async def model_info(context: Context) -> Response:
    adapters = adapters_of(context.engine)
    names = [one.path for one in adapters.list()] if adapters else []
    name = context.services.model_name
    return json_response({"model_name": name, "lora_names": names, "loader": "llama.cpp"})


def _names(context: Context) -> list[str]:
    """Of all models; of one alone, all that it goes by."""
    services = context.services
    return list(services.model_names) if services.models.alone else services.models.names


async def model_load(context: Context) -> Response:
    """It answers from then on; one alone is loaded already."""
    name = Fields(await context.json()).need_text("model_name")
    if name not in _names(context):
        known = ", ".join(_names(context))
        raise bad(
            "model_name", f"Field 'model_name': there is no model {name[:200]}; this server has {known}"
        )
    await context.load_model(name)
    return json_response("OK")


async def model_unload(context: Context) -> Response:
    await context.unload_model()
    return json_response("OK")


# ---- the older interface


async def token_count(context: Context) -> Response:
    return json_response({"results": [{"tokens": len(await _tokens(context, "prompt"))}]})


async def stop_stream(context: Context) -> Response:
    context.stop_own()
    return json_response({"results": "success"})


async def model(context: Context) -> Response:
    """``action``: nothing or ``info``, ``list``, ``load`` and ``unload``."""
    fields = Fields(await context.json())
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
    fields = Fields(await context.json())
    history, ask = await _chat(context, fields)
    record, _ = await ask()

    def make() -> dict[str, Any]:
        return {"results": [{"history": history(branch.text)} for branch in record.generation.branches]}

    return await context.whole(record, make, context.effort * len(record.branches))


History = Callable[[str], dict[str, Any]]


async def _chat(context: Context, fields: Fields) -> tuple[History, Callable[[], Any]]:
    """What the conversation is with an answer added, and how to ask for that. Raises ApiError (400)."""
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
    prompt = await read_chat(Fields({"messages": messages}), context)
    stops = [*fields.texts("stop"), *prompt.stops, *(["\n"] if fields.flag("stop_at_newline") else [])]
    asked = {name: value for name, value in fields.values.items() if name not in _OF_CHAT}
    body = {**asked, "prompt": prompt.prompt, "stop": stops, "add_bos": prompt.add_bos}

    def history(answer: str) -> dict[str, Any]:
        turns = [*pairs, (said, begun + answer)]
        return {
            "internal": [list(turn) for turn in turns],
            "visible": [[html.escape(text) for text in turn] for turn in turns],
        }

    async def ask() -> tuple[Record, KoboldParams]:
        return await submit(context, Fields(body), LEGACY, system=False)

    return history, ask


_OF_CHAT = frozenset(
    {"user_input", "history", "stopping_strings", "stop_sequence", "memory", "prompt", "add_bos_token"}
)


def _pairs(fields: Fields) -> list[tuple[str, str]]:
    """Turns of user and model. Raises ApiError (400)."""
    told: Any = Fields(fields.mapping("history") or {}).raw("internal") or []
    wrong = bad("history", "Field 'history': expected internal and visible, lists of pairs of texts")
    if not isinstance(told, list):
        raise wrong
    pairs: list[tuple[str, str]] = []
    for turn in cast("list[Any]", told):
        texts: list[Any] = cast("list[Any]", turn) if isinstance(turn, list) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise wrong
        pairs.append((texts[0], texts[1]))
    return pairs


# ---- WebSockets


class LegacyFrames(BranchFrames):
    """``text_stream`` messages with a number each, and ``stream_end``; one branch."""

    ping = b""

    def __init__(
        self, context: Context, record: Record, params: KoboldParams, history: History | None = None
    ) -> None:
        super().__init__(context, record, params)
        self._number, self._history, self._text = 0, history, ""

    def waiting(self, place: int) -> bytes:
        return b""

    def end(self) -> bytes:
        return encode({"event": "stream_end", "message_num": self._number})

    def error(self, error: ApiError) -> bytes:
        return encode({"event": "error", "message_num": self._number, **error.body("kobold")})

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        if not piece.text or index:
            return
        self._text += piece.text
        told = {"text": piece.text} if self._history is None else {"history": self._history(self._text)}
        event = {"event": "text_stream", "message_num": self._number, **told}
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
    asked = Context(context.request, context.services, "kobold")
    asked.id = new_id()
    try:
        await asked.given(message.encode("utf-8", "replace"))
        fields = Fields(await asked.json())
        if fields.integer("n", 1) != 1:
            raise bad("n", "Field 'n': a stream is one text; /api/v1/generate has several")
        history: History | None = None
        if chat:
            if len(message) > _TOLD_AGAIN:
                most = f"at most {_TOLD_AGAIN} characters here; /api/v1/chat takes more"
                raise bad("history", f"Field 'history': {most}")
            history, ask = await _chat(asked, fields)
            record, params = await ask()
        else:
            record, params = await submit(asked, fields, LEGACY)
        await _send(asked, socket, record, LegacyFrames(asked, record, params, history))
    except (WebSocketDisconnect, TimeoutError):
        raise
    except Exception as error:
        wrong = as_told(error)
        await socket.send_text(encode({"event": "error", "message_num": 0, **wrong.body("kobold")}).decode())


async def _send(context: Context, socket: WebSocket, record: Record, writer: LegacyFrames) -> None:
    try:
        async for out in frames(context, record, writer):
            for line in filter(None, out.decode().split("\n")):
                async with asyncio.timeout(context.settings.timeout):
                    await socket.send_text(line)
    finally:
        context.end(record)


# ---- rows


_row, _older = rows_of("openai", "ooba"), rows_of("kobold", "ooba")
_TEXT = object_of("text", text="string", example={"text": "Once upon a time"})
_I = "/v1/internal"
ENDPOINTS = (
    _row(f"GET {_I}/health", told(lambda _: {"status": "ok"}, ready=True), "whether the model is ready"),
    _row(f"POST {_I}/encode", encode_text, "text as token ids", body=_TEXT),
    _row(f"POST {_I}/decode", decode, "token ids as text",
         body=object_of("tokens", tokens="array", example={"tokens": [1, 2]})),
    _row(f"POST {_I}/token-count", count_text, "how many tokens a text is", body=_TEXT),
    _row(f"POST {_I}/logits", logits, "the likeliest next tokens",
         body=object_of("prompt", prompt="string", top_logits="integer",
                        example={"prompt": "Once upon a", "top_logits": 5})),
    _row(f"POST {_I}/chat-prompt", chat_prompt, "a conversation as one prompt", body=CHAT),
    _row(f"POST {_I}/stop-generation", stop_generation, "stop what this client asked for"),
    _row(f"GET {_I}/model/info", model_info, "the loaded model"),
    _row(f"GET {_I}/model/list", told(lambda context: {"model_names": _names(context)}),
         "the names it goes by"),
    _row(f"POST {_I}/model/load", model_load, "load a model, which is the current one then",
         body=object_of("model_name", model_name="string"), chooses=False),
    _row(f"POST {_I}/model/unload", model_unload, "unload the current model"),
    _older("POST /api/v1/token-count", token_count, "how many tokens a text is",
           body=object_of("prompt", prompt="string", example={"prompt": "Once upon a time"})),
    _older("POST /api/v1/stop-stream", stop_stream, "stop what this client asked for"),
    _older("POST /api/v1/model", model, "the loaded model", chooses=False,
           body=object_of(action="string", model_name="string", example={"action": "info"})),
    _older("POST /api/v1/chat", chat, "a conversation with the next turn",
           body=object_of(user_input="string", history="object",
                          example={"user_input": "Tell me a story.", "max_new_tokens": 16})),
)  # fmt: skip
SOCKETS = (
    Socket("/api/v1/stream", stream),
    Socket("/api/v1/chat-stream", chat_stream),
)
