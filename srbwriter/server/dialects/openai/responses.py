"""``/v1/responses``: text and its stream, on top of chat. Nothing is stored, and no tools are called here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.types import Finished, FinishReason, Request, Text
from srbwriter.server.body import Fields
from srbwriter.server.chat import TEMPLATE_SECONDS, read_text
from srbwriter.server.context import Context
from srbwriter.server.dialects.openai.completions import read_chat_request
from srbwriter.server.errors import ApiError, bad, missing
from srbwriter.server.registry import Record
from srbwriter.server.reply import finish_reason, problem, usage
from srbwriter.server.services import Services
from srbwriter.server.streams import EVENTS, PING, News, waiting_comment
from srbwriter.server.work import encode

_REFUSED = {
    "previous_response_id": "nothing is stored here; send the conversation as input",
    "conversation": "nothing is stored here; send the conversation as input",
    "prompt": "there are no stored prompts here; use input and instructions",
    "background": "answers are written while somebody waits; /srb/v1/requests runs on its own",
    "tools": "tools are for /v1/chat/completions here",
}
_TAKEN_OVER = frozenset({"input", "instructions", "text", "tool_choice", "parallel_tool_calls", "truncation"})


async def responses(context: Context) -> Response:
    request, reply = await context.read(_read, TEMPLATE_SECONDS)
    return await context.reply([request], reply)


def _read(fields: Fields, services: Services) -> tuple[Request, ResponseReply]:
    request, params = read_chat_request(_as_chat(fields.values), services)
    return request, ResponseReply(_head(fields, services), params.stream)


def _as_chat(values: Mapping[str, Any]) -> Fields:
    """The same request in the fields of chat. Raises ApiError (400)."""
    for name, why in _REFUSED.items():
        if values.get(name):
            raise bad(name, f"Field '{name}': {why}")
    if Fields({"n": values.get("n")}).integer("n", 1) != 1:
        raise bad("n", "Field 'n': a response is one; /v1/chat/completions has several choices")
    messages = _messages(values.get("input"))
    if instructions := Fields({"instructions": values.get("instructions")}).text("instructions"):
        messages.insert(0, {"role": "system", "content": instructions})
    chat = {name: value for name, value in values.items() if name not in _TAKEN_OVER}
    chat["messages"] = messages
    form = (Fields({"text": values.get("text")}).mapping("text") or {}).get("format")
    if isinstance(form, dict):
        schema = cast("dict[str, Any]", form)
        chat["response_format"] = {"type": schema.get("type"), "json_schema": schema}
    if values.get("truncation") == "auto":
        chat.setdefault("overflow", "truncate")
    return Fields(chat)


def _messages(value: Any) -> list[dict[str, Any]]:
    if value is None:
        raise missing("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise bad("input", "Field 'input': expected text or a list of messages")
    return [_message(item) for item in cast("list[Any]", value)]


def _message(value: Any) -> dict[str, Any]:
    item: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if item.get("type", "message") != "message" or not isinstance(item.get("role"), str):
        raise bad("input", "Field 'input': messages only, each with a role and content")
    role = "system" if item["role"] == "developer" else item["role"]
    return {"role": role, "content": read_text(item.get("content"), "input")}


# ---- answers


def _head(fields: Fields, services: Services) -> dict[str, Any]:
    """What a response says of itself before anything is written; its id is put in later."""
    values = fields.values
    names = ("instructions", "max_output_tokens", "metadata", "temperature", "top_p", "user")
    return {
        "id": "",
        "object": "response",
        "created_at": int(time.time()),
        "model": fields.text("model") or services.model_name,
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "text": values.get("text") or {"format": {"type": "text"}},
        "store": False,
        "error": None,
        "incomplete_details": None,
        **{name: values.get(name) for name in names},
    }


def _ended(head: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """The whole response."""
    branch = record.generation.branches[0]
    cut = finish_reason(branch.finish_reason) == "length"
    response = {
        **head,
        "status": "incomplete" if cut else "completed",
        "output": [_item(head, "incomplete" if cut else "completed", [_part(branch.text)])],
        "usage": _usage(record),
    }
    if cut:
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    if wrong := problem(branch):
        response |= {"status": "failed", "error": {"code": "server_error", "message": wrong["error"]}}
    return response


def _item(head: Mapping[str, Any], status: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    id = str(head["id"]).replace("resp_", "msg_")
    return {"type": "message", "id": id, "status": status, "role": "assistant", "content": list(parts)}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(record: Record) -> dict[str, Any]:
    counts = usage(record)
    return {
        "input_tokens": counts["prompt_tokens"],
        "input_tokens_details": counts["prompt_tokens_details"],
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts["total_tokens"],
    }


class ResponseReply:
    """A response; or events with names and numbers: created, one message, its part and deltas, completed."""

    ping, headers = PING, {"content-type": EVENTS}

    def __init__(self, head: Mapping[str, Any], stream: bool) -> None:
        self._head, self.stream = head, stream
        self._number = 0
        self._text: list[str] = []

    def begin(self, record: Record) -> None:
        self._record, self._head = record, {**self._head, "id": f"resp_{record.id}"}
        self._where = {"item_id": _item(self._head, "", [])["id"], "output_index": 0, "content_index": 0}

    def whole(self) -> dict[str, Any]:
        return _ended(self._head, self._record)

    def batch(self, news: News) -> bytes:
        text = "".join(event.text for _, event in news if isinstance(event, Text))
        out = self._opening() if not self._number else []
        if text:
            self._text.append(text)
            out.append(self._event("output_text.delta", **self._where, delta=text, logprobs=[]))
        if any(isinstance(event, Finished) for _, event in news):
            out += self._finish()
        return b"".join(out)

    def waiting(self, place: int) -> bytes:
        return waiting_comment(place)

    def end(self) -> bytes:
        response = _ended(self._head, self._record)
        failed = self._record.generation.branches[0].finish_reason is FinishReason.ERROR
        return self._event(str("failed" if failed else response["status"]), response=response)

    def error(self, error: ApiError) -> bytes:
        problem = {"code": str(error.code or error.status), "message": error.message, "param": error.field}
        return self._frame("error", problem)

    def _opening(self) -> list[bytes]:
        begun: dict[str, Any] = {**self._head, "status": "in_progress", "output": [], "usage": None}
        return [
            self._event("created", response=begun),
            self._event("in_progress", response=begun),
            self._event("output_item.added", output_index=0, item=_item(self._head, "in_progress", [])),
            self._event("content_part.added", **self._where, part=_part("")),
        ]

    def _finish(self) -> list[bytes]:
        text = "".join(self._text)
        item = _ended(self._head, self._record)["output"][0]
        return [
            self._event("output_text.done", **self._where, text=text, logprobs=[]),
            self._event("content_part.done", **self._where, part=_part(text)),
            self._event("output_item.done", output_index=0, item=item),
        ]

    def _event(self, name: str, **fields: Any) -> bytes:
        return self._frame(f"response.{name}", fields)

    def _frame(self, name: str, fields: Mapping[str, Any]) -> bytes:
        frame = {"type": name, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {name}\n".encode() + b"data: " + encode(frame) + b"\n\n"
