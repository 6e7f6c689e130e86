"""From chat messages to one prompt, by the model's own Jinja template or ChatML when it has none.

A template comes with the model file and is not trusted: it runs sandboxed, with limits on time
and size. Must never know tokens or the model; whether a beginning-of-text token is to be added is
up to who tokenises the result.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .types import InvalidRequest, Stop

if TYPE_CHECKING:
    from jinja2 import Environment, Template, nodes
    from jinja2.compiler import Frame
    from jinja2.parser import Parser
    from jinja2.runtime import Context

MAX_CHARS = 16 * 2**20
"""Characters one prompt, or any text a template joins on the way to it, may have."""

MAX_SECONDS = 5.0
"""Wall clock one template may run."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""https://github.com/openai/openai-python/blob/v0.28.1/chatml.md"""

_CHARS_PER_BIT = 64  # so that no number grows beyond what is multiplied at once

_HERE = "\ue000here\ue001"  # private-use characters; marks where the last message ends


def render(
    template: str | None,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    bos: str,
    eos: str,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> str:
    """The prompt that ``messages`` become.

    ``continue_final_message`` leaves the last message open, so that the model goes on with it; no
    generation prompt is added then. ``kwargs`` are further variables of the template.

    Raises InvalidRequest naming ``messages`` when these are malformed or refused by the template,
    ``chat_template`` when the template is broken or runs away.
    """
    plain = [_message(message, f"messages[{i}]") for i, message in enumerate(_sequence(messages))]
    if continue_final_message:
        last = plain[-1]
        if not isinstance(last.get("content"), str):
            raise InvalidRequest("continue_final_message", "the last message has no text to go on from")
        plain[-1] = {**last, "content": last["content"] + _HERE}
    prompt = _run(
        _compiled(CHATML if template is None else template),
        {
            **kwargs,
            "messages": plain,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
            "bos_token": bos,
            "eos_token": eos,
        },
    )
    if not continue_final_message:
        return prompt
    head, mark, _ = prompt.rpartition(_HERE)
    if not mark:
        raise InvalidRequest("continue_final_message", "the chat template leaves the last message out")
    return head


def stop_strings_for(template: str | None) -> tuple[str, ...]:
    """Stop strings that a prompt rendered with ``template`` needs.

    A model's own template ends messages with a token that its vocabulary knows as an end; to one
    without, the end mark of ChatML is mere text.
    """
    return ("<|im_end|>",) if template is None else ()


def with_stop_strings(stop: Stop | tuple[Stop, ...], template: str | None) -> Stop | tuple[Stop, ...]:
    """``stop`` with the strings that a prompt rendered with ``template`` needs besides."""
    if isinstance(stop, tuple):
        return tuple(replace(one, strings=(*one.strings, *stop_strings_for(template))) for one in stop)
    return replace(stop, strings=(*stop.strings, *stop_strings_for(template)))


# ---- messages


def _sequence(messages: object) -> Sequence[Any]:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise InvalidRequest("messages", "must be a list with at least one message")
    return cast("Sequence[Any]", messages)


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


class _Runaway(Exception):
    """A template exceeds a limit; ``str()`` says which."""


class _Refused(Exception):
    """The template itself refuses the messages."""


def _run(template: Template, variables: dict[str, Any]) -> str:
    chunks: list[str] = []
    total = 0
    try:
        with _deadline(MAX_SECONDS):
            for chunk in template.generate(variables):
                total += len(chunk)
                _limit(total)
                chunks.append(chunk)
    except _Refused as error:
        raise InvalidRequest("messages", str(error)) from None
    except _Runaway as error:
        raise InvalidRequest("chat_template", str(error)) from None
    except Exception as error:  # whatever a foreign program does wrong: its types are not ours to list
        raise InvalidRequest("chat_template", f"failed: {type(error).__name__}: {error}") from None
    return "".join(chunks)


@contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """Raise _Runaway in Python code that is entered within and runs for longer than ``seconds``.

    A trace function is the one way to stop a loop that neither writes nor calls anything.
    """
    end = time.monotonic() + seconds

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if time.monotonic() > end:
            raise _Runaway(f"takes longer than {seconds:g} seconds")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _limit(size: int) -> None:
    if size > MAX_CHARS:
        raise _Runaway(f"builds more than {MAX_CHARS} characters")


@lru_cache(maxsize=8)
def _compiled(source: str) -> Template:
    from jinja2 import TemplateSyntaxError

    try:
        return _environment().from_string(source)
    except TemplateSyntaxError as error:
        raise InvalidRequest("chat_template", f"line {error.lineno}: {error.message}") from None
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        raise InvalidRequest("chat_template", f"cannot be compiled: {type(error).__name__}") from None


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """What templates written for Hugging Face's ``apply_chat_template`` expect."""
    from jinja2.compiler import CodeGenerator
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` only marks text for training."""

        tags = {"generation"}

        def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Code(CodeGenerator):
        """Compiles ``a ~ b`` to a call that can be limited."""

        def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
            self.write("environment.concatenated((")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write("))")

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**"})
        code_generator_class = Code

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            _limit(_size(operator, left, right))
            return super().call_binop(context, operator, left, right)

        def concatenated(self, parts: tuple[Any, ...]) -> str:
            texts = [str(part) for part in parts]
            _limit(sum(map(len, texts)))
            return "".join(texts)

    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    sandbox.filters["tojson"] = _to_json
    cast("dict[str, Any]", sandbox.globals).update(raise_exception=_refuse, strftime_now=_strftime_now)
    return sandbox


def _size(operator: str, left: Any, right: Any) -> int:
    """An upper bound on the length of the result, where it can grow."""
    if isinstance(left, int) and isinstance(right, int):
        bits = {"+": 0, "*": left.bit_length() + right.bit_length(), "**": left.bit_length() * right}[
            operator
        ]
        return bits * _CHARS_PER_BIT
    if operator == "+":
        return len(left) + len(right) if isinstance(left, Sized) and isinstance(right, Sized) else 0
    times, items = (left, right) if isinstance(left, int) else (right, left)
    return times * len(items) if isinstance(times, int) and isinstance(items, Sized) else 0


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None,
    separators: tuple[str, str] | None = None, sort_keys: bool = False,
) -> str:  # fmt: skip
    """Jinja's own ``tojson`` escapes for HTML; models were trained without."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: object) -> NoReturn:
    raise _Refused(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
