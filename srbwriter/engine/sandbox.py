"""Run a chat template in Jinja's immutable sandbox, with a limit of its time and of the size of texts.

A template comes with a model file or a setting. No attribute leads out of the sandbox, and a template that
runs away by mistake is stopped; one that is made to fill the memory is not.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sized
from functools import lru_cache, partial
from types import FrameType
from typing import Any, NoReturn

from .limits import PROMPT_CHARS
from .types import InvalidRequest

MAX_SECONDS = 5.0


def run(source: str, variables: Mapping[str, Any]) -> str:
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


def _limit(size: int) -> None:
    """Raise InvalidRequest for a text of too many characters, or a number of as many bits."""
    if size > PROMPT_CHARS:
        raise InvalidRequest("chat_template", f"builds more than {PROMPT_CHARS} characters")


def _limit_operator(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        values: Any = [right] if isinstance(right, str | int | float) else right
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        widths = sum(map(int, re.findall(r"%[^a-zA-Z%]*?(\d+)", left)))
        _limit(len(left) + left.count("%") * longest + widths)
    elif isinstance(left, int) and isinstance(right, int):
        _limit(left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length())
    elif operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
        _limit(len(left) + len(right))
    elif operator == "*":
        times, items = (left, right) if isinstance(left, int) else (right, left)
        _limit(times * len(items) if isinstance(times, int) and isinstance(items, Sized) else 0)


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    _limit(len(str(text)) + str(text).count(old) * len(new))
    return str(text).replace(old, new, count)


def _join(items: Iterable[object], separator: str = "") -> str:
    texts, size = list[str](), 0
    for item in items:
        texts.append(str(item))
        size += len(texts[-1]) + len(separator)
        _limit(size)
    return separator.join(texts)


@lru_cache(maxsize=8)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Any:
    """What templates written for Hugging Face's ``apply_chat_template`` expect."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):  # {% generation %} only marks text for training
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _limit_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            text, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
            if isinstance(text, str) and name in ("join", "replace"):
                return _join(args[0], text) if name == "join" else _replace(text, *args)
            return super().call(__context, __obj, *args, **kwargs)

    def refuse(message: object) -> NoReturn:
        raise InvalidRequest("messages", str(message))

    sandbox: Any = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    sandbox.filters |= {"tojson": partial(json.dumps, ensure_ascii=False), "join": _join, "replace": _replace}
    sandbox.globals |= {"raise_exception": refuse, "strftime_now": time.strftime}
    return sandbox
