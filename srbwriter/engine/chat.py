"""Turn chat messages into one prompt: by the model's own Jinja template, another, or ChatML.

A template comes with a model file or a setting: it runs in Jinja's immutable sandbox, with a limit of time
and one for what it writes. No attribute leads out of the sandbox, and a template that runs away by mistake is
stopped; one that is made to fill the memory is not. Must never know tokens or the model; the caller that
tokenises the result decides on the BOS token.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import FrameType
from typing import Any, NoReturn, cast

from .limits import PROMPT_CHARS
from .types import InvalidRequest

MAX_SECONDS = 5.0  # that a template may take

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""https://github.com/openai/openai-python/blob/v0.28.1/chatml.md"""

_HERE = "\ue000here\ue001"  # private-use characters; marks where the last message ends


def render(
    template: str | None,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    bos: str,
    eos: str,
    **kwargs: Any,
) -> str:
    """Return the prompt for ``messages`` under ``template``, in Jinja; None is ChatML.

    ``continue_final_message`` leaves the last message open, so that the model continues it; no generation
    prompt is added then. ``kwargs`` are further variables of the template.

    Raises InvalidRequest naming ``messages`` when these are malformed or refused by the template,
    ``chat_template`` when the template is broken or runs away.
    """
    if not isinstance(cast("object", messages), Sequence) or isinstance(messages, str) or not messages:
        raise InvalidRequest("messages", "must be a list with at least one message")
    plain = [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]
    if continue_final_message:
        last = plain[-1]
        if not isinstance(last.get("content"), str):
            raise InvalidRequest("continue_final_message", "the last message has no text to go on from")
        plain[-1] = {**last, "content": last["content"] + _HERE}
    add_generation_prompt = add_generation_prompt and not continue_final_message
    template = CHATML if template is None else template
    if "{" not in template:
        raise InvalidRequest("chat_template", f"no template is called {template[:60]!r}; there is chatml")
    variables = {
        "messages": plain, "tools": None, "add_generation_prompt": add_generation_prompt,
        "bos_token": bos, "eos_token": eos,
    }  # fmt: skip
    prompt = _run(template, {**kwargs, **variables})
    if not continue_final_message:
        return prompt
    head, mark, _ = prompt.rpartition(_HERE)
    if not mark:
        raise InvalidRequest("continue_final_message", "the chat template leaves the last message out")
    return head


# ---- messages


def _message(message: object, where: str) -> dict[str, Any]:
    """A copy of ``message`` whose content is text."""
    if not isinstance(message, Mapping):
        raise InvalidRequest(where, "must be an object with role and content")
    fields = {str(key): value for key, value in cast("Mapping[Any, Any]", message).items()}
    role = fields.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidRequest(f"{where}.role", "must be a non-empty string")
    content = fields.get("content")
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        fields["content"] = "\n".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(parts))
    elif content is None:
        if role != "assistant":
            raise InvalidRequest(f"{where}.content", "is missing")
        fields["content"] = None
    elif not isinstance(content, str):
        raise InvalidRequest(f"{where}.content", "must be a string or a list of text parts")
    return fields


def _part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    fields: Mapping[Any, Any] = cast("Mapping[Any, Any]", part) if isinstance(part, Mapping) else {}
    text = fields.get("text")
    if fields.get("type", "text") != "text":
        raise InvalidRequest(where, f"parts of type {fields['type']!r} are not supported, only text")
    if not isinstance(text, str):
        raise InvalidRequest(where, "must be an object with type and text")
    return text


# ---- the sandbox


def _run(source: str, variables: Mapping[str, Any]) -> str:
    """Return what the template writes. InvalidRequest names ``messages`` or the broken ``chat_template``."""
    from jinja2 import TemplateSyntaxError

    end, before = time.monotonic() + MAX_SECONDS, sys.gettrace()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        """Only a trace function stops a loop that neither writes nor calls anything."""
        if time.monotonic() > end:
            raise InvalidRequest("chat_template", f"takes longer than {MAX_SECONDS:g} seconds")
        return None if frame.f_code.co_filename == __file__ else trace

    try:
        sys.settrace(trace)
        return _join(_compiled(source).generate(variables))
    except InvalidRequest:
        raise
    except Exception as error:  # whatever a foreign program does wrong: its types are not ours to list
        place = f"line {error.lineno}" if isinstance(error, TemplateSyntaxError) else "failed"
        raise InvalidRequest("chat_template", f"{place}: {type(error).__name__}: {error}") from None
    finally:
        sys.settrace(before)


def _join(items: Iterable[object], separator: str = "") -> str:
    """Join texts. Raises InvalidRequest where they become longer than any prompt."""
    texts, size = list[str](), 0
    for item in items:
        texts.append(str(item))
        size += len(texts[-1]) + len(separator)
        if size > PROMPT_CHARS:
            raise InvalidRequest("chat_template", f"builds more than {PROMPT_CHARS} characters")
    return separator.join(texts)


@lru_cache(maxsize=8)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Any:
    """What templates written for Hugging Face's ``apply_chat_template`` expect."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):  # {% generation %} only marks text for training
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: object) -> NoReturn:
        raise InvalidRequest("messages", str(message))

    extensions = [loopcontrols, GenerationTag]
    sandbox: Any = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    sandbox.filters |= {"tojson": partial(json.dumps, ensure_ascii=False), "join": _join}
    sandbox.globals |= {"raise_exception": refuse, "strftime_now": time.strftime}
    return sandbox
