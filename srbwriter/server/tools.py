"""Tools of a conversation: how a template writes a call, a grammar for calls, and the parser of answers.

There is no list of models here. A template renders a conversation in which a tool was called, and the text
around the name and the arguments is the format that the model was trained with. Answers then follow a grammar
made of these pieces and the tools' own JSON schemas, so that the parsed text is always well formed.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.limits import CONSTRAINT_CHARS
from srbwriter.engine.types import EngineError, Request, Sampling
from srbwriter.server.body import Fields

from .errors import ApiError, bad

MOST_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_FIRST, _SECOND = "srbwriter_first", "srbwriter_second"
_ARGUMENT = "srbwriter_argument"
_TEXT = "srbwriter said this"


class Format(NamedTuple):
    """The text around names and arguments of calls: ``first name middle {…} (between name …)* last``."""

    first: str
    middle: str
    between: str
    last: str


_COMMON = Format(
    '<tool_call>\n{"name": "',
    '", "arguments": ',
    '}\n</tool_call>\n<tool_call>\n{"name": "',
    "}\n</tool_call>",
)
"""For templates that write arguments as something other than JSON."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one request: as the template is given them, and how they may be called."""

    listed: list[dict[str, Any]]
    format: Format
    choice: Literal["auto", "required"]
    grammar: str


def read_tools(fields: Fields, engine: Backend, template: str) -> Tools | None:
    """What ``tools``, ``tool_choice`` and ``parallel_tool_calls`` ask for; None for no tools.

    Raises ApiError (400) for tools that are none, and where the template has no place for them.
    """
    choice: Any = fields.raw("tool_choice")
    listed = _listed(fields.raw("tools"))
    named = _named(choice)
    if choice not in (None, "auto", "none", "required") and named is None:
        raise bad(
            "tool_choice", "Field 'tool_choice': expected auto, none, required, or a function by its name"
        )
    if not listed:
        if choice == "required" or named:
            raise bad("tool_choice", "Field 'tool_choice': there are no tools to choose from")
        return None
    if choice == "none":
        return None
    if "{" not in template or not re.search(r"\btools\b", template):
        raise bad("tools", "Field 'tools': the chat template of this model has no place for tools")
    offered = [tool for tool in listed if named in (None, tool["function"]["name"])]
    if not offered:
        raise bad("tool_choice", f"Field 'tool_choice': there is no tool {named}")
    form = _format(engine, template)
    kind: Literal["auto", "required"] = "auto" if choice in (None, "auto") else "required"
    grammar = _grammar(form, offered, kind, fields.flag("parallel_tool_calls", True), _control(engine))
    if len(grammar) > CONSTRAINT_CHARS:
        raise bad("tools", f"Field 'tools': their schemas have more than {CONSTRAINT_CHARS} characters")
    return Tools(listed, form, kind, grammar)


def _listed(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad("tools", "Field 'tools': expected a list of tools")
    tools = cast("list[Any]", value)
    if len(tools) > MOST_TOOLS:
        raise bad("tools", f"Field 'tools': at most {MOST_TOOLS} are possible")
    return [_tool(entry) for entry in tools]


def _tool(value: Any) -> dict[str, Any]:
    entry: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    function: Any = entry.get("function")
    if entry.get("type", "function") != "function" or not isinstance(function, dict):
        raise bad("tools", "Field 'tools': expected objects of type function, with a function")
    known = cast("dict[str, Any]", function)
    name = known.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad("tools", "Field 'tools': a function has a name of letters, digits, and _ . -")
    schema = known.get("parameters") or {"type": "object"}
    if not isinstance(schema, dict):
        raise bad("tools", f"Field 'tools': the parameters of {name} are no JSON schema")
    return {**entry, "type": "function", "function": {**known, "parameters": schema}}


def _named(choice: Any) -> str | None:
    """The function that a choice names, in the shape of chat or of responses."""
    if not isinstance(choice, dict):
        return None
    entry = cast("dict[str, Any]", choice)
    inner = entry.get("function")
    name = cast("dict[str, Any]", inner).get("name") if isinstance(inner, dict) else entry.get("name")
    return name if isinstance(name, str) else None


# ---- the template's format


def _format(engine: Backend, template: str) -> Format:
    """Return a template's format of calls, cached; a common format where the template shows none."""

    def write(messages: Sequence[dict[str, Any]], prompt: bool) -> str:
        return engine.apply_template(messages, add_generation_prompt=prompt, template=template)

    if template not in _learnt:
        if len(_learnt) > 8:
            _learnt.clear()
        try:
            _learnt[template] = _look(write) or _COMMON
        except EngineError:  # the template refuses such a conversation
            _learnt[template] = _COMMON
    return _learnt[template]


_learnt: dict[str, Format] = {}


def _look(write: Callable[[Sequence[dict[str, Any]], bool], str]) -> Format | None:
    question = {"role": "user", "content": "Hello"}
    begun = write([question], True)
    end = write([question, {"role": "assistant", "content": _TEXT}], False).rpartition(_TEXT)[2]
    one = _after(begun, write([question, _calling(_FIRST)], False)).removesuffix(end)
    two = _after(begun, write([question, _calling(_FIRST, _SECOND)], False))
    first, found, rest = one.partition(_FIRST)
    arguments = _object(rest)
    if not found or arguments is None:
        return None
    middle, last = rest[: arguments[0]], rest[arguments[1] :].rstrip()
    rest = two.partition(_FIRST)[2]
    arguments = _object(rest)
    if arguments is None:
        return None
    between, found, _ = rest[arguments[1] :].partition(_SECOND)
    return Format(first.lstrip(), middle, between if found else "", last)


def _calling(*names: str) -> dict[str, Any]:
    calls = [
        {"id": "callid000", "type": "function", "function": {"name": name, "arguments": {_ARGUMENT: "x"}}}
        for name in names
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _after(begun: str, whole: str) -> str:
    """What ``whole`` adds to what it has in common with ``begun``."""
    same = next((k for k, (a, b) in enumerate(zip(begun, whole, strict=False)) if a != b), len(begun))
    return whole[same:]


def _object(text: str) -> tuple[int, int] | None:
    """Return start and end of the JSON object with the trial's argument."""
    at = text.find(f'"{_ARGUMENT}"')
    start = text.rfind("{", 0, at) if at >= 0 else -1
    if start < 0:
        return None
    try:
        return start, json.JSONDecoder().raw_decode(text, start)[1]
    except ValueError:
        return None


# ---- the grammar


def _control(engine: Backend) -> Callable[[str], Iterable[str | int]]:
    """Splits a piece of a format into text and the control tokens in it, which no text can spell."""

    @lru_cache
    def split(text: str) -> tuple[str | int, ...]:
        parts: list[str | int] = []
        start = 0
        for found in re.finditer(r"<[^<>\s]+>|\[[A-Z_]+\]", text):
            token = engine.token(found[0])
            if token is not None and not engine.detokenize((token,)):
                parts += [text[start : found.start()], token]
                start = found.end()
        return tuple(part for part in (*parts, text[start:]) if part != "")

    return split


def _grammar(
    form: Format, tools: Sequence[dict[str, Any]], kind: str, parallel: bool,
    split: Callable[[str], Iterable[str | int]],
) -> str:  # fmt: skip
    """Lark for llguidance: text or calls for ``auto``, else calls; a single one unless ``parallel``."""

    def spelled(text: str) -> str:
        return " ".join(_quoted(part) if isinstance(part, str) else f"<[{part}]>" for part in split(text))

    more = f"({spelled(form.between)} call)*" if parallel and form.between else ""
    calls = f"call {more} {spelled(form.last)}"
    marker = _marker(form.first)
    lines = [f"start: {spelled(form.first)} {calls}"]
    if kind == "auto":
        before, rest = next(iter(split(form.first)), ""), form.first[len(marker) :]
        if isinstance(before, int):  # a control token opens the calls, and no text holds one
            lines = ["start: TEXT | TEXT? " + spelled(form.first) + f" {calls}", "TEXT: /(?s:.+)/"]
        elif marker:
            held = re.escape(marker).replace("/", "\\/")
            lines = [
                f"start: TEXT | opening {spelled(rest)} {calls}",
                f"opening[lazy]: /(?s:.*){held}/",
                f"TEXT: /(?s:.*)/ & ~/(?s:.*){held}(?s:.*)/",
            ]
        else:
            first = re.escape(form.first.lstrip()[:1]) or r"\{"
            lines = [f"start: TEXT | {spelled(form.first)} {calls}", rf"TEXT: /[^{first}\s](?s:.*)/"]
    lines.append("call: " + " | ".join(f"call_{number}" for number in range(len(tools))))
    for number, tool in enumerate(tools):
        function = tool["function"]
        lines.append(f"call_{number}: {_quoted(function['name'])} {spelled(form.middle)} arguments_{number}")
        lines.append(
            f"arguments_{number}: %json {json.dumps({'x-guidance': _LAYOUT} | function['parameters'])}"
        )
    return "%llguidance {}\n" + "\n".join(lines) + "\n"


_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _marker(first: str) -> str:
    """Return the text that marks a call: the first word of the format, unless that is JSON already."""
    word = first.split("{")[0].split("[{")[0].split("\n")[0].strip()
    return word if len(word) > 1 else ""


# ---- reading


class Said(NamedTuple):
    """Text of an answer."""

    text: str


class Called(NamedTuple):
    """A call begins."""

    number: int
    id: str
    name: str


class Argued(NamedTuple):
    """More of a call's arguments, which are JSON."""

    number: int
    text: str


class ToolReader:
    """Separate text from calls while an answer is written; feed it the pieces, and an empty last one."""

    def __init__(self, tools: Tools) -> None:
        self._form, self._auto = tools.format, tools.choice == "auto"
        self._marker = _marker(tools.format.first)
        self._head = _head(tools)
        self._rest = ""
        self._begun = False  # whether text has come
        self._state: Literal["text", "head", "arguments"] = "text" if self._auto else "head"
        self._depth, self._quoted, self._escaped = 0, False, False
        self.calls = 0

    def feed(self, text: str, last: bool = False) -> list[Said | Called | Argued]:
        """Return the parts that are complete now."""
        self._rest += text
        found: list[Said | Called | Argued] = []
        while self._step(found, last):
            pass
        return found

    def _step(self, found: list[Said | Called | Argued], last: bool) -> bool:
        """Consume the next part of the input; return False when more input is needed."""
        if self._state == "text":
            return self._text(found, last)
        if self._state == "head":
            head = self._head.search(self._rest)
            if head is None:
                return False
            found.append(Called(self.calls, f"call_{secrets.token_hex(12)}", head[1]))
            self._rest = self._rest[head.end() :]
            self._state, self._depth, self._quoted, self._escaped = "arguments", 0, False, False
            self.calls += 1
            return True
        return self._arguments(found)

    def _text(self, found: list[Said | Called | Argued], last: bool) -> bool:
        at = self._rest.find(self._marker)
        if not self._marker:  # then the whole answer is a call, or none of it
            at = 0 if not self._begun and self._rest.lstrip().startswith(self._form.first) else -1
        if at >= 0:
            if said := self._rest[:at].rstrip():
                found.append(Said(said))
            self._rest, self._state = self._rest[at + len(self._marker) :], "head"
            return True
        certain = len(self._rest) if last else self._certain()
        if certain:
            found.append(Said(self._rest[:certain]))
            self._rest = self._rest[certain:]
            self._begun = True
        return False

    def _certain(self) -> int:
        """Characters that can be no part of a marker, nor of the space before one."""
        if not self._marker:
            may_call = not self._begun and self._form.first.startswith(self._rest.lstrip())
            return 0 if may_call else len(self._rest)
        for size in range(min(len(self._marker) - 1, len(self._rest)), 0, -1):
            if self._rest.endswith(self._marker[:size]):
                return len(self._rest[:-size].rstrip())
        return len(self._rest.rstrip())

    def _arguments(self, found: list[Said | Called | Argued]) -> bool:
        for position, letter in enumerate(self._rest):
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = letter == "\\", letter != '"'
            elif letter == '"':
                self._quoted = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    found.append(Argued(self.calls - 1, self._rest[: position + 1]))
                    self._rest, self._state = self._rest[position + 1 :], "head"
                    return True
        if self._rest:
            found.append(Argued(self.calls - 1, self._rest))
            self._rest = ""
        return False


def _head(tools: Tools) -> re.Pattern[str]:
    """A name of a tool, with what the format puts after it; control tokens leave no text."""
    names = "|".join(re.escape(tool["function"]["name"]) for tool in tools.listed)
    middle = re.sub(r"<[^<>\s]+>|\[[A-Z_]+\]", "", tools.format.middle)
    return re.compile(rf"({names}){re.escape(middle)}")


def message_of(tools: Tools, text: str) -> dict[str, Any]:
    """The message that an answer is: its text, and the calls in it."""
    reader = ToolReader(tools)
    said: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in reader.feed(text, last=True):
        if isinstance(part, Said):
            said.append(part.text)
        elif isinstance(part, Called):
            calls.append(
                {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": ""}}
            )
        else:
            calls[part.number]["function"]["arguments"] += part.text
    content = "".join(said)
    if calls:
        return {"role": "assistant", "content": content or None, "tool_calls": calls}
    return {"role": "assistant", "content": content}


def refused(error: ApiError) -> ApiError:
    """An error about the grammar, which the client never saw, as one about its tools."""
    if error.field != "grammar":
        return error
    return bad("tools", error.message.replace("'grammar'", "'tools'"))


def constrain(request: Request, tools: Tools) -> Request:
    """``request`` with the grammar of the tools. Raises ApiError (400) where another constraint is given."""
    sampling = cast("Sampling", request.sampling)
    for name in ("grammar", "json_schema", "regex"):
        if getattr(sampling, name):
            raise bad("tools", f"Field 'tools': they constrain the answer, and so does {name}; only one can")
    return replace(request, sampling=replace(sampling, grammar=tools.grammar))
