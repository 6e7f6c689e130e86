"""Messages → a prompt, for every dialect that speaks of messages; and the template that makes it one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.chat import CHATML, render
from srbwriter.engine.limits import MESSAGES
from srbwriter.engine.types import EngineError, InvalidRequest
from srbwriter.server.body import Fields
from srbwriter.server.settings import ServerError, ServerSettings

from .errors import ApiError, bad, missing
from .services import Services
from .system_prompt import put_before_messages
from .work import MOST_SECONDS

CHATML_STOPS = ("<|im_end|>", "<|im_start|>")
_TRIAL = ({"role": "user", "content": "Hello"},)
_ANSWER = "\ue000answer\ue001"  # private-use characters; marks where an answer stands


def template_of(settings: ServerSettings) -> str | None:
    """Return the template that the server was started with, Jinja or a name; None for the model's own.

    Raises ServerError for the name of an unknown template, and for a broken one.
    """
    template = settings.chat_template
    if not template:
        return None
    if template.strip().lower() == "chatml":
        return CHATML
    template = template.strip() if "{" not in template else template
    try:
        render(template, _TRIAL, bos="", eos="")
    except InvalidRequest as error:
        if error.field == "chat_template":
            cure = "" if "{" in template else "; or give the template itself, or --chat-template-file"
            raise ServerError(f"the chat template cannot be used: {error.problem}{cure}") from error
        # It only refused the trial's messages: it may want a system message, say.
    return template


class ChatPrompt(NamedTuple):
    prompt: str
    stops: tuple[str, ...]  # where a turn ends, where the model has no token for that
    add_bos: bool  # not again when the template writes the beginning token itself


TEMPLATE_SECONDS = 2 * MOST_SECONDS
"""What :func:`read_chat` takes, for those who call it: so long that it is always called on a thread.

A template is a program that came with the model's file.
"""


def read_chat(fields: Fields, services: Services, *, system: bool = True) -> ChatPrompt:
    """The prompt that the messages make under the template, with the server's ``system`` prompt or without.

    Raises ApiError (400).
    """
    engine, template = services.engine, services.template
    _refuse_tools(fields)
    messages = read_messages(fields.raw("messages"))
    prefill = messages[-1]["role"] == "assistant"
    if prefill and len(messages) > 1 and messages[-2]["role"] == "assistant":
        raise bad("messages", "Field 'messages': cannot end with two assistant messages")
    go_on = fields.flag("continue_final_message", prefill)
    add_prompt = fields.flag("add_generation_prompt", not go_on)
    if go_on and add_prompt:
        raise bad(
            "add_generation_prompt",
            "Field 'add_generation_prompt': cannot be true together with continue_final_message",
        )
    options = fields.mapping("chat_template_kwargs") or {}
    variables = {name: value for name, value in options.items() if name.isidentifier() and name not in _OURS}

    def render(messages: Sequence[dict[str, Any]]) -> str:
        return engine.apply_template(
            messages,
            add_generation_prompt=add_prompt,
            continue_final_message=go_on,
            template=template,
            **variables,
        )

    try:
        text = services.system.prompt if system else ""
        prompt = _render_with_system(render, messages, text) if text else render(messages)
        stops = _turn_ends(engine, template) if template != engine.info.chat_template else ()
    except (EngineError, ApiError):
        raise
    except Exception as error:  # whatever a template raises is about the messages it was given
        raise bad("messages", f"Field 'messages': the chat template refused them: {error}") from None
    begin = engine.token_bytes(engine.bos).decode("utf-8", "replace") if engine.bos is not None else ""
    return ChatPrompt(prompt, stops, not (begin and prompt.startswith(begin)))


def _refuse_tools(fields: Fields) -> None:
    """Raise ApiError (400) where functions are to be called."""
    for name in ("tools", "functions", "tool_choice", "function_call"):
        if fields.raw(name) not in (None, "", [], "auto", "none"):
            raise bad(name, f"Field '{name}': no functions are called here; see response_format")


def _render_with_system(
    render: Callable[[Sequence[dict[str, Any]]], str], messages: Sequence[dict[str, Any]], text: str
) -> str:
    """Render messages with ``text`` as a system message, or before the first user's where there are none."""
    with contextlib.suppress(InvalidRequest):  # so says a template that takes no system messages
        prompt = render(put_before_messages(messages, text, as_system=True))
        if text.strip() in prompt:
            return prompt
    return render(put_before_messages(messages, text, as_system=False))


_OURS = frozenset({"messages", "add_generation_prompt", "continue_final_message", "template"})


def _turn_ends(engine: Backend, template: str) -> tuple[str, ...]:
    """Texts that end a turn under a template that is not the model's own: it may have no token for them."""
    if template == CHATML:
        return CHATML_STOPS
    dialogue = [*_TRIAL, {"role": "assistant", "content": _ANSWER}]
    try:
        written = engine.apply_template(dialogue, add_generation_prompt=False, template=template)
    except EngineError:
        return ()  # it wants other messages than these
    _, found, end = written.rpartition(_ANSWER)
    return (end.strip(),) if found and end.strip() else ()


def read_messages(value: Any) -> list[dict[str, Any]]:
    """Messages with text content. Raises ApiError (400: clients of these dialects try a 501 again)."""
    if value is None:
        raise missing("messages")
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
    if message.get("tool_calls"):
        raise bad("messages", "Field 'messages': no functions are called here; leave tool_calls out")
    plain = {**message, "content": _read_content(message.get("content"))}
    plain.pop("tool_calls", None)
    return plain


def _read_content(value: Any) -> str:
    """The text of a message, or of its parts, one a line. Raises ApiError (400)."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise bad("messages", "Field 'messages': content must be text or a list of parts")
    parts: list[str] = []
    for part in cast("list[Any]", value):
        entry: Mapping[str, Any] = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        kind = entry.get("type")
        if isinstance(kind, str) and kind != "text":
            raise bad("messages", "Field 'messages': this model reads text only; no images, sound or files")
        if kind is None or not isinstance(entry.get("text"), str):
            raise bad("messages", "Field 'messages': a part of content is an object with type and text")
        parts.append(entry["text"])
    return "\n".join(parts)
