"""The form that a request wants its text to have: every program's spelling of it, as one field of Sampling.

A request has one form at most: a grammar, a JSON schema or a regular expression. vLLM, SGLang and OpenAI
wrap these in fields of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from srbwriter.engine.ebnf import to_gbnf
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import InvalidRequest
from srbwriter.server.errors import bad
from srbwriter.server.fields import Fields


class Form(NamedTuple):
    """One constraint of a request."""

    spelling: str  # the field that the client sent
    notation: str  # the field of Sampling
    text: str


Reader = Callable[[str, Any], str]
"""Makes the text of a constraint from the name and the value of a field. Raises ApiError (400)."""


def schema_text(name: str, schema: Any) -> str:
    """Return a JSON schema as text. Raises ApiError (400) when it is none."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        raise bad(name, f"Field '{name}': expected a JSON schema")
    return json.dumps(schema)


def _text(name: str, value: Any) -> str:
    return Fields({name: value}).text(name)


def _ebnf(name: str, value: Any) -> str:
    text = _text(name, value)
    try:
        BY_NAME["grammar"].check(text)
        return text if text.startswith("%llguidance") else to_gbnf(text)
    except InvalidRequest as error:
        raise bad(name, f"Field '{name}': {error.problem}") from None


def _any_of(name: str, value: Any) -> str:
    """Return a regular expression for one of several texts; what could mean something in it is escaped."""
    texts = Fields({name: value}).texts(name)  # without empty ones
    if not texts:
        raise bad(name, f"Field '{name}': expected a text, and not only an empty one")
    found = "|".join("".join(c if c.isalnum() or c.isspace() else "\\" + c for c in text) for text in texts)
    return f"({found})?" if isinstance(value, list) and "" in value else found


_TABLE: Mapping[str, tuple[str, Reader]] = {
    **{
        spelling: (name, reader)
        for name, reader in (("grammar", _text), ("json_schema", schema_text), ("regex", _text))
        for spelling in (name, *BY_NAME[name].aliases)
    },
    "guided_grammar": ("grammar", _ebnf),
    "ebnf": ("grammar", _ebnf),
    "regex_pattern": ("regex", _text),
    "guided_choice": ("regex", _any_of),
}
"""Fields whose value is a constraint, with the field of Sampling that it becomes."""

_OF_STRUCTURED_OUTPUTS: Mapping[str, tuple[str, Reader]] = {
    "json": ("json_schema", schema_text),
    "regex": ("regex", _text),
    "choice": ("regex", _any_of),
    "grammar": ("grammar", _ebnf),
}
"""The same within vLLM's ``structured_outputs``."""

_REFUSED = (
    "structural_tag", "whitespace_pattern", "disable_any_whitespace", "disable_additional_properties",
)  # fmt: skip
"""What else stands there; these would change the text."""

_ABOUT_BACKENDS = ("backend", "_backend", "_backend_was_auto", "disable_fallback")
"""These say which of vLLM's libraries is to follow the constraint."""


def read_form(fields: Fields) -> Form | None:
    """Return the one form that a request asks for, None for free text. Raises ApiError (400)."""
    given = list(dict.fromkeys([*_plain(fields), *_structured(fields), *_response_format(fields)]))
    for other in given[1:]:
        if other[1:] != given[0][1:]:
            raise bad(
                other.spelling,
                f"Field '{other.spelling}': only one constraint is possible, "
                f"and {given[0].spelling} is given",
            )
    return given[0] if given else None


def _plain(fields: Fields) -> Iterator[Form]:
    for spelling, (notation, reader) in _TABLE.items():
        value = fields.values.get(spelling)
        if not _is_neutral(value):
            yield Form(spelling, notation, reader(spelling, value))


def _is_neutral(value: Any) -> bool:
    """Whether a value asks for no form: null, nothing, 0 or false. ``{}`` is the schema of any JSON."""
    return not value and value != {}


def _structured(fields: Fields) -> Iterator[Form]:
    """vLLM's ``structured_outputs``, an object with one kind of constraint."""
    name = "structured_outputs"
    value = fields.raw(name)
    if _is_neutral(value):
        return
    inner = fields.mapping(name) or {}
    for key in _REFUSED:
        if inner.get(key):
            raise bad(name, f"Field '{name}': {key} is not possible here; leave it out, or send null")
    known = {"json_object", *_OF_STRUCTURED_OUTPUTS, *_REFUSED, *_ABOUT_BACKENDS}
    if unknown := next((key for key in inner if key not in known and not _is_neutral(inner[key])), None):
        kinds = ", ".join((*_OF_STRUCTURED_OUTPUTS, "json_object"))
        raise bad(name, f"Field '{name}': there is no constraint {unknown[:60]!r}; there are {kinds}")
    if inner.get("json_object"):
        yield Form(name, "json_schema", json.dumps({"type": "object"}))
    for key, (notation, reader) in _OF_STRUCTURED_OUTPUTS.items():
        if not _is_neutral(inner.get(key)):
            yield Form(name, notation, reader(name, inner[key]))


def _response_format(fields: Fields) -> Iterator[Form]:
    """OpenAI's ``response_format``; the type ``text`` asks for no form."""
    name = "response_format"
    value = fields.raw(name)
    if _is_neutral(value):
        return
    wanted = fields.mapping(name) or {}
    kind, inner = wanted.get("type"), wanted.get("json_schema")
    if kind == "json_object":
        yield Form(name, "json_schema", schema_text(name, wanted.get("schema") or {"type": "object"}))
    elif kind == "json_schema" and isinstance(inner, dict):
        schema: Any = cast("dict[str, Any]", inner).get("schema")
        yield Form(name, "json_schema", schema_text(name, schema or {}))
    elif kind != "text":
        problem = "type must be text, json_object or json_schema, the last with a schema"
        raise bad(name, f"Field '{name}': {problem}")
