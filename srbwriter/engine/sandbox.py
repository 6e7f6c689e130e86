"""Run an untrusted chat template: no attribute leads out of it, and time and size are bounded.

Everything that makes text in Jinja has its length estimated before the text is made: operators, methods of
strings, filters, and the printing of lists that hold one another. Knows templates only.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .limits import PROMPT_CHARS
from .types import InvalidRequest

if TYPE_CHECKING:
    from jinja2 import Environment, Template, nodes
    from jinja2.compiler import Frame
    from jinja2.parser import Parser
    from jinja2.runtime import Context

MAX_CHARS = PROMPT_CHARS
"""Characters one prompt, or any text a template makes on the way to it, may have."""

MAX_BUILT = 16 * MAX_CHARS
"""Characters of all the texts that one run makes: it could keep them all."""

MAX_SECONDS = 5.0
"""Wall clock one template may run."""

_CHARS_PER_BIT = 64  # so that no number grows beyond what is multiplied at once
_OTHER = 100  # characters that count for a list, and for what is neither text nor number nor list


def run(source: str, variables: Mapping[str, Any]) -> str:
    """What the template writes. Raises InvalidRequest naming ``messages`` when it refuses them,
    ``chat_template`` when it is broken or runs away.
    """
    template = _compiled(source)
    chunks: list[str] = []
    _built.chars = 0
    try:
        with _deadline(MAX_SECONDS):
            for chunk in template.generate(variables):
                _limit(len(chunk))
                chunks.append(chunk)
        _limit(sum(map(len, chunks)))
    except _Refused as error:
        raise InvalidRequest("messages", str(error)) from None
    except _Runaway as error:
        raise InvalidRequest("chat_template", str(error)) from None
    except Exception as error:  # whatever a foreign program does wrong: its types are not ours to list
        raise InvalidRequest("chat_template", f"failed: {type(error).__name__}: {error}") from None
    return "".join(chunks)


class _Runaway(Exception):
    """A template exceeds a limit; ``str()`` says which."""


class _Refused(Exception):
    """The template itself refuses the messages."""


@contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """Raise _Runaway in Python code that is entered within and runs for longer than ``seconds``.

    A trace function is the one way to stop a loop that neither writes nor calls anything.
    """
    end = time.monotonic() + seconds

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if time.monotonic() > end:
            raise _Runaway(f"takes longer than {seconds:g} seconds")
        return None if frame.f_code.co_filename == __file__ else trace  # ours are bounded, and often called

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


# ---- sizes


class _Built(threading.local):
    chars = 0


_built = _Built()


def _limit(size: int) -> None:
    """A text of ``size`` characters is about to be made. Raises _Runaway where that is too much."""
    if size > MAX_CHARS:
        raise _Runaway(f"builds more than {MAX_CHARS} characters")
    _built.chars += size
    if _built.chars > MAX_BUILT:
        raise _Runaway(f"builds more than {MAX_BUILT} characters in all")


def _printed(value: object) -> int:
    """As many characters as ``value`` is printed in, or more; it looks into lists until that is too much."""
    size, open_ = 0, [value]
    while open_:
        item = open_.pop()
        if isinstance(item, str | bytes):
            size += len(item)
        elif isinstance(item, int):
            size += item.bit_length() // 3 + 6
        elif isinstance(item, Mapping):
            pairs = cast("Mapping[object, object]", item)
            size += _OTHER + 6 * len(pairs)
            open_ += [*pairs.keys(), *pairs.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            size += _OTHER + 4 * len(cast("list[object]", item))
            open_ += cast("list[object]", item)
        else:
            size += _OTHER
        if size + len(open_) > MAX_CHARS:
            break
    return size + len(open_)


def _of_binop(operator: str, left: Any, right: Any) -> int:
    """An upper bound on the length of the result, where it can grow."""
    if operator == "%":
        return _of_format(left, right) if isinstance(left, str | bytes) else 0
    if isinstance(left, int) and isinstance(right, int):
        bits = {"+": 0, "*": left.bit_length() + right.bit_length(), "**": left.bit_length() * right}
        return bits[operator] * _CHARS_PER_BIT
    if operator == "+":
        return len(left) + len(right) if isinstance(left, Sized) and isinstance(right, Sized) else 0
    times, items = (left, right) if isinstance(left, int) else (right, left)
    return times * len(items) if isinstance(times, int) and isinstance(items, Sized) else 0


_FIELD = re.compile(r"%(?:\([^)]*\))?[-+ #0]*([\d.*]*)|\{([^{}]*)\}|\{[^{}]*(\{)")


def _of_format(form: str | bytes, *values: Any, **named: Any) -> int:
    """Every field is as long as all values together, and as wide as it says, or any number among them."""
    text = form.decode("latin-1") if isinstance(form, bytes) else form
    size = sum(map(_printed, values)) + _printed(named)
    total = len(text)
    for found in _FIELD.finditer(text):
        written = found[1] or found[2] or ""
        width = max((int(run[:12]) for run in re.findall(r"\d+", written)), default=0)
        total += size + width + (_largest([*values, named]) if found[3] or "*" in written else 0)
    return total


def _largest(value: Any) -> int:
    """The largest number in a value or a list of them."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, Mapping):
        value = list(cast("Mapping[Any, Any]", value).values())
    inner = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return max(map(_largest, inner), default=0)


def _of_replace(text: Any, old: Any, new: Any, *_: Any) -> int:
    whole, part, instead = (text, old, new) if isinstance(text, bytes) else (str(text), str(old), str(new))
    return len(whole) + whole.count(cast("Any", part)) * len(instead)


def _of_join(separator: Any, items: Any) -> int:
    return _printed(items) + len(separator) * len(items)


def _of_joined(items: Any, d: Any = "", attribute: Any = None) -> int:
    return _of_join(str(d), items)


def _grown(value: Any, *others: Any, **named: Any) -> int:
    """As much as if every other argument made ``value`` longer, by its characters and by its numbers."""
    arguments = [*others, *named.values()]
    return (1 + _printed(value)) * (1 + sum(_printed(each) + _largest(each) for each in arguments))


def _escaped(value: Any, *_: Any, **__: Any) -> int:
    return 9 * _printed(value)


def _of_json(value: Any, ensure_ascii: Any = False, indent: Any = None, *_: Any, **__: Any) -> int:
    """Return the length of indented JSON: each entry is a line, indented by the number of lists around it."""
    size = 6 * _printed(value)
    inset = len(indent) if isinstance(indent, str) else int(indent or 0)
    return size + size // 6 * inset


_METHODS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "expandtabs", "ljust", "rjust", "to_bytes", "translate", "zfill"), _grown),
    "format": _of_format, "format_map": _of_format, "join": _of_join, "replace": _of_replace,
}  # fmt: skip
"""Methods of texts and numbers that make something longer, and how long it is at the most."""

_FILTERS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("batch", "center", "indent", "round", "slice", "sum"), _grown),
    **dict.fromkeys(("e", "escape", "string", "urlencode"), _escaped),
    "format": _of_format, "join": _of_joined, "replace": _of_replace, "tojson": _of_json,
}  # fmt: skip
"""Filters that make something longer, and how long it is at the most."""

_GONE_FILTERS = ("pprint", "urlize", "wordwrap", "xmlattr", "forceescape")
_GONE_GLOBALS = ("lipsum", "cycler", "joiner")
"""Nothing that chat templates use."""


# ---- Jinja


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
        intercepted_binops = frozenset({"+", "*", "**", "%"})
        code_generator_class = Code

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            _limit(_of_binop(operator, left, right))
            return super().call_binop(context, operator, left, right)

        def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            owner, name = _method(__obj)
            if isinstance(owner, str | bytes | int) and name in _METHODS:
                args = _held(args)
                _limit(_METHODS[name](owner, *args, **kwargs))
            return super().call(__context, __obj, *args, **kwargs)

        def concatenated(self, parts: tuple[Any, ...]) -> str:
            _limit(sum(map(_printed, parts)))
            return "".join(map(str, parts))

    sandbox = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation], finalize=_finalize
    )
    sandbox.filters["tojson"] = _to_json
    for name in _GONE_FILTERS:
        del sandbox.filters[name]
    for name, size in _FILTERS.items():
        sandbox.filters[name] = _limited(sandbox.filters[name], size)
    names = cast("dict[str, Any]", sandbox.globals)
    for name in _GONE_GLOBALS:
        del names[name]
    names.update(raise_exception=_refuse, strftime_now=_strftime_now)
    return sandbox


def _method(called: Any) -> tuple[Any, str]:
    """Whose method is called, and its name; Jinja wraps those that format."""
    inner = getattr(called, "__wrapped__", called)
    return getattr(inner, "__self__", None), getattr(inner, "__name__", "")


def _held(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values with lists instead of iterators that can be read only once."""
    return tuple(
        _listed(cast("Iterator[Any]", value)) if isinstance(value, Iterator) else value for value in values
    )


def _listed(items: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    size = 0
    for item in items:
        found.append(item)
        size += 1 + _printed(item)
        if size > MAX_CHARS:
            break
    _limit(size)
    return found


def _limited(function: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
    """A filter that asks first how long its result will be."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0  # Jinja's own arguments before the value

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        args = (*args[:first], *_held(args[first:]))
        _limit(size(*args[first:], **kwargs))
        return function(*args, **kwargs)

    return limited


def _finalize(value: Any) -> Any:
    """Called with everything that is written, before it is made a text."""
    if not isinstance(value, str):
        _limit(_printed(value))
    return value


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None,
    separators: tuple[str, str] | None = None, sort_keys: bool = False,
) -> str:  # fmt: skip
    """Jinja's own ``tojson`` escapes for HTML; models were trained without."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: object) -> NoReturn:
    _limit(_printed(message))
    raise _Refused(str(message))


def _strftime_now(form: str) -> str:
    _limit(32 * len(form))
    return datetime.now().strftime(form)
