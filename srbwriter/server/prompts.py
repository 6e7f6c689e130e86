"""Prompts, token ids and conversations of a body, as the engine is given them; and the server's own text."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.chat import CHATML, render
from srbwriter.engine.infill import infill_ids
from srbwriter.engine.limits import MESSAGES, PROMPTS, check_prompt
from srbwriter.engine.types import EngineError, InvalidRequest, Prompt, Request, TokenRun

from .errors import ApiError, bad, missing
from .settings import ServerError, ServerSettings, read_text

if TYPE_CHECKING:
    from .body import Body
    from .run import Services


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---- prompts and token ids


def read_prompts(value: Any, engine: Backend) -> list[Prompt]:
    """Return every prompt of a request. Raises ApiError (400).

    A text, a list of ids, a list that mixes ids and text, or ``{"prompt_string": text}`` is one prompt;
    a list of texts, of lists or of such objects is many.
    """
    if value is None:
        raise missing("prompt")
    if not isinstance(value, list):
        return [read_prompt(value, engine)]
    items = cast("list[Any]", value)
    if not items:
        raise bad("prompt", "an empty list")
    if any(is_integer(item) for item in items):
        return [read_prompt(items, engine)]
    if len(items) > PROMPTS:
        raise bad("prompt", f"at most {PROMPTS} prompts, but got {len(items)}")
    return [read_prompt(item, engine) for item in items]


def read_prompt(value: Any, engine: Backend, field: str = "prompt") -> Prompt:
    """Return one prompt. Raises ApiError (400) that names ``field``."""
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        refuse_media(entry)
        value = entry.get("prompt_string")
    if isinstance(value, str):
        check_prompt(field, len(value))
        return value
    if isinstance(value, list) and value:
        return read_mixed(field, cast("list[Any]", value), engine)
    raise bad(field, "expected text, token ids, or a list of these")


def read_single_prompt(value: Any, engine: Backend) -> Prompt:
    """Return the prompt of a request that may have one only. Raises ApiError (400)."""
    prompt, *more = read_prompts(value, engine)
    if more:
        raise bad("prompt", "one prompt only")
    return prompt


def read_mixed(
    field: str, items: list[Any], engine: Backend, add_bos: bool = True, parse_special: bool = False
) -> list[int]:
    """Return the token ids of mixed texts and ids; a text at the start may get the BOS token.

    Raises ApiError (400) that names ``field``.
    """
    check_prompt(field, sum(len(item) for item in items if isinstance(item, str)), len(items))
    n_vocab = engine.info.n_vocab
    ids: list[int] = []
    for place, item in enumerate(items):
        if isinstance(item, str):
            ids += engine.tokenize(item, add_bos=add_bos and place == 0, parse_special=parse_special)
        elif not is_integer(item):
            raise bad(field, "expected text, token ids, or a list of these")
        elif 0 <= item < n_vocab:
            ids.append(item)
        else:
            raise bad(field, f"token id {item} is not in the vocabulary")
    return ids


def read_ids(field: str, value: Any, engine: Backend) -> list[int]:
    """Return token ids of the vocabulary. Raises ApiError (400) that names ``field``."""
    if value is None:
        raise missing(field)
    if not isinstance(value, list) or any(isinstance(item, str) for item in cast("list[Any]", value)):
        raise bad(field, "expected a list of token ids")
    return read_mixed(field, cast("list[Any]", value), engine)


def wants_bos(prompt: Prompt) -> bool:
    """Whether the beginning token is to be put before a prompt; one of token ids is taken as it is."""
    return isinstance(prompt, str) or isinstance(next(iter(prompt), None), TokenRun)  # never runs and ids


def refuse_media(values: Mapping[str, Any]) -> None:
    """Raise ApiError (501) for pictures and other media beside a text."""
    if values.get("image_data") or values.get("multimodal_data"):
        raise ApiError(501, "this model reads text only; no images or other media")


def fill(engine: Backend, prefix: Prompt, suffix: str) -> list[int]:
    """Return a fill-in-the-middle prompt as token ids.

    Raises NotSupported, and InvalidRequest where they are too long.
    """
    check_prompt("prompt", len(prefix) + len(suffix))
    return infill_ids(engine, prefix, suffix)


# ---- the server's own text


def put_before(request: Request, text: str, engine: Backend) -> Request:
    """Return a request for a text with the server's own before it, where it stays when the text is cut."""
    prompt, keep = request.prompt, request.n_keep
    if not text or not isinstance(prompt, str):
        return request
    if keep >= 0 and (request.overflow != "error" or request.context is not None):
        keep += len(engine.tokenize(text, add_bos=request.add_bos))
    return replace(request, prompt=(TokenRun(text), *((TokenRun(prompt),) if prompt else ())), n_keep=keep)


def read_system_prompt(settings: ServerSettings) -> str:
    """Return the text of the settings' file that begins every prompt. Raises ServerError."""
    file = settings.system_prompt_file
    return "" if file is None else read_text(file, "the system prompt")


def put_before_messages(
    messages: Sequence[dict[str, Any]], text: str, *, as_system: bool
) -> list[dict[str, Any]]:
    """Return messages with ``text`` as the first system message, or at the beginning of the user's first."""
    roles = [one.get("role") for one in messages]
    wanted = roles[0] if as_system and roles[0] in ("system", "developer") else "user"
    if wanted not in roles or (as_system and wanted == "user"):
        return [{"role": "system" if as_system else "user", "content": text}, *messages]
    at = roles.index(wanted)
    own = messages[at]["content"]
    if isinstance(own, list):
        content: Any = [{"type": "text", "text": f"{text}\n"}, *cast("list[Any]", own)]
    else:
        content = "\n\n".join(filter(None, (text, own)))
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


# ---- conversations

CHATML_STOPS = ("<|im_end|>", "<|im_start|>")
_TRIAL = ({"role": "user", "content": "Hello"},)
_MARK = "\ue000"  # a private-use character; marks where a client's or the model's words stand


def read_template(settings: ServerSettings) -> str | None:
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


_OURS = frozenset({"messages", "add_generation_prompt", "continue_final_message", "template"})


def read_chat(body: Body, services: Services, *, system: bool = True) -> ChatPrompt:
    """Return the prompt that the messages make under the template, after the server's ``system`` prompt.

    To be called on a thread: a template is a program that came with the model's file. Raises ApiError (400).
    """
    engine, template = services.engine, services.template
    for name in ("tools", "functions", "tool_choice", "function_call"):
        if body.raw(name) not in (None, "", [], "auto", "none"):
            raise bad(name, "no functions are called here; see response_format")
    messages = read_messages(body.raw("messages"))
    prefill = messages[-1]["role"] == "assistant"
    if prefill and len(messages) > 1 and messages[-2]["role"] == "assistant":
        raise bad("messages", "cannot end with two assistant messages")
    go_on = body.flag("continue_final_message", prefill)
    add_prompt = body.flag("add_generation_prompt", not go_on)
    if go_on and add_prompt:
        raise bad("add_generation_prompt", "cannot be true together with continue_final_message")
    options = body.mapping("chat_template_kwargs") or {}
    variables = {name: value for name, value in options.items() if name.isidentifier() and name not in _OURS}
    variables |= {"add_generation_prompt": add_prompt, "continue_final_message": go_on, "template": template}
    text = services.system if system else ""
    prompt = ""
    try:
        if text:  # as a system message, or before the first user's where the template takes none
            with contextlib.suppress(InvalidRequest):
                prompt = engine.apply_template(
                    put_before_messages(messages, text, as_system=True), **variables
                )
            if text.strip() not in prompt:
                prompt = engine.apply_template(
                    put_before_messages(messages, text, as_system=False), **variables
                )
        else:
            prompt = engine.apply_template(messages, **variables)
        stops = _turn_ends(engine, template) if template != engine.info.chat_template else ()
    except (EngineError, ApiError):
        raise
    except Exception as error:  # whatever a template raises is about the messages it was given
        raise bad("messages", f"the chat template refused them: {error}") from None
    begin = engine.token_bytes(engine.bos).decode("utf-8", "replace") if engine.bos is not None else ""
    return ChatPrompt(prompt, stops, not (begin and prompt.startswith(begin)))


def _turn_ends(engine: Backend, template: str) -> tuple[str, ...]:
    """Return texts that end a turn under a template that is not the model's own: it may have no token."""
    if template == CHATML:
        return CHATML_STOPS
    dialogue = [*_TRIAL, {"role": "assistant", "content": _MARK}]
    try:
        written = engine.apply_template(dialogue, add_generation_prompt=False, template=template)
    except EngineError:
        return ()  # it wants other messages than these
    _, found, end = written.rpartition(_MARK)
    return (end.strip(),) if found and end.strip() else ()


def read_messages(value: Any) -> list[dict[str, Any]]:
    """Return messages, whose content the template checks. Raises ApiError (400: clients try a 501 again)."""
    if value is None:
        raise missing("messages")
    messages = cast("list[dict[str, Any]]", value if isinstance(value, list) else [])
    roles = [one.get("role") if isinstance(cast("Any", one), dict) else None for one in messages]
    if not roles or not all(isinstance(role, str) for role in roles):
        raise bad("messages", "expected a list of objects with role and content")
    if len(messages) > MESSAGES:
        raise bad("messages", f"at most {MESSAGES} are possible")
    if any(one.get("tool_calls") for one in messages):
        raise bad("messages", "no functions are called here; leave tool_calls out")
    if any(one.get("images") for one in messages):
        raise bad("messages", "this model reads text only; no images, sound or files")
    return [{**one, "content": "" if one.get("content") is None else one["content"]} for one in messages]
