"""Messages → a prompt, for every dialect that speaks of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from srbwriter.engine.chat import CHATML
from srbwriter.engine.limits import MESSAGES
from srbwriter.engine.types import EngineError

from .body import Body
from .call import Call
from .errors import ApiError, bad

CHATML_STOPS = ("<|im_end|>", "<|im_start|>")
"""Where a turn ends under ChatML: a model that was not trained with it has no token for that."""


class ChatPrompt(NamedTuple):
    prompt: str
    stops: tuple[str, ...]
    add_bos: bool  # not again when the template writes the beginning token itself


def read_chat(body: Body, call: Call) -> ChatPrompt:
    """The prompt that the messages make under the model's template. Raises ApiError (400)."""
    engine = call.engine
    messages = read_messages(body.raw("messages"))
    prefill = messages[-1]["role"] == "assistant"
    if prefill and len(messages) > 1 and messages[-2]["role"] == "assistant":
        raise bad("messages", "Field 'messages': cannot end with two assistant messages")
    go_on = body.flag("continue_final_message", prefill)
    add_prompt = body.flag("add_generation_prompt", not go_on)
    if go_on and add_prompt:
        raise bad(
            "add_generation_prompt",
            "Field 'add_generation_prompt': cannot be true together with continue_final_message",
        )
    tools = body.raw("tools")
    options = body.mapping("chat_template_kwargs") or {}
    try:
        prompt = engine.apply_template(
            messages,
            add_generation_prompt=add_prompt,
            continue_final_message=go_on,
            tools=cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else None,
            template=call.services.chat_template,
            **{name: value for name, value in options.items() if name.isidentifier() and name not in _OURS},
        )
    except (EngineError, ApiError):
        raise
    except Exception as error:  # whatever a template raises is about the messages it was given
        raise bad("messages", f"Field 'messages': the chat template refused them: {error}") from None
    template = call.services.chat_template or engine.info.chat_template or CHATML
    stops = CHATML_STOPS if template == CHATML else ()
    begin = engine.token_bytes(engine.bos).decode("utf-8", "replace") if engine.bos is not None else ""
    return ChatPrompt(prompt, stops, not (begin and prompt.startswith(begin)))


_OURS = frozenset({"messages", "add_generation_prompt", "continue_final_message", "tools", "template"})


def read_messages(value: Any) -> list[dict[str, Any]]:
    """Messages with text content. Raises ApiError (400: clients of this dialect try a 501 again)."""
    if not isinstance(value, list) or not value:
        raise bad("messages", "Field 'messages': expected a list of messages")
    if len(cast("list[Any]", value)) > MESSAGES:
        raise bad("messages", f"Field 'messages': at most {MESSAGES} are possible")
    return [_message(item) for item in cast("list[Any]", value)]


def _message(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise bad("messages", "Field 'messages': expected objects with role and content")
    message = cast("dict[str, Any]", item)
    if not isinstance(message.get("role"), str):
        raise bad("messages", "Field 'messages': every message needs a role")
    return {**message, "content": _content(message.get("content"))}


def _content(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise bad("messages", "Field 'messages': content must be text or a list of parts")
    parts: list[str] = []
    for part in cast("list[Any]", value):
        entry: Mapping[str, Any] = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        if entry.get("type") != "text" or not isinstance(entry.get("text"), str):
            raise bad("messages", "Field 'messages': this model reads text only; no images, sound or files")
        parts.append(entry["text"])
    return "".join(parts)
