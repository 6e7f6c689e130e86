"""The generation parameters for every face: one list of the fields of :mod:`srbwriter.engine.types`.

Must not import anything heavy: the command line reads this list to print its help.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from .fields import Parameter as Parameter
from .fields import check_fields, parameters_of
from .fields import is_number as is_number
from .types import InvalidRequest, Request, Sampling, Stop

GROUPS = (
    "length", "basic", "truncation", "repetition", "DRY", "other samplers", "constraint", "variety",
    "request",
)  # fmt: skip
OF_STOP, OF_SAMPLING = parameters_of(Stop), parameters_of(Sampling)
OF_REQUEST = parameters_of(Request)
PARAMETERS: tuple[Parameter, ...] = (*OF_STOP, *OF_SAMPLING, *OF_REQUEST)

BY_NAME: dict[str, Parameter] = {name: p for p in PARAMETERS for name in (p.name, *p.aliases)}
"""Every spelling that requests may use."""


def spelled(engine: str) -> dict[str, str]:
    """The fields of :class:`Sampling` that an engine elsewhere takes as they are, and its name of each."""
    rows = [(p.field, has.partition("=")) for p in PARAMETERS for has in p.elsewhere.split()]
    return {field: theirs or field for field, (name, _, theirs) in rows if name == engine}


def validate(sampling: Sampling) -> None:
    """Raise InvalidRequest naming the first field that cannot mean anything."""
    check_fields(sampling)
    if any(not text or "\0" in text for text in sampling.dry_sequence_breakers):
        raise InvalidRequest("dry_sequence_breakers", "a breaker cannot be empty or hold a NUL character")
    if any("\0" in text for text in sampling.banned_phrases):
        raise InvalidRequest("banned_phrases", "a phrase cannot hold a NUL character")
    notation(sampling)


def notation(sampling: Sampling) -> str | None:
    """The field that holds a constraint; raises InvalidRequest when more than one does."""
    given = [name for name in ("grammar", "json_schema", "regex") if getattr(sampling, name) is not None]
    if len(given) > 1:
        raise InvalidRequest(given[1], f"only one constraint is possible, and {given[0]} is given")
    return given[0] if given else None


def read_schema(text: str) -> dict[str, Any]:
    """Return a JSON schema whose objects have no other keys than it names, unless it says so.

    llama.cpp and OpenAI's strict mode read schemas like this: a small model that may add keys never ends an
    object. Raises InvalidRequest for text that is no schema.
    """
    try:
        schema: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequest("json_schema", f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidRequest("json_schema", "a schema is a JSON object")
    return cast("dict[str, Any]", _closed(schema))


_OPENING = {
    "additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref",
}  # fmt: skip
_LEFT = {"allOf", "enum", "const", "default", "examples"}
"""What describes one object together, or is no schema."""


def _closed(schema: Any) -> Any:
    """Return a schema with ``additionalProperties`` false for each object with properties of its own."""
    if isinstance(schema, list):
        return [_closed(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    closed = {name: value if name in _LEFT else _closed(value) for name, value in given.items()}
    if isinstance(closed.get("properties"), dict) and not _OPENING & closed.keys():
        closed["additionalProperties"] = False
    return closed


SAMPLERS: Mapping[str, tuple[str, ...]] = {
    "penalties": ("e",),
    "dry": ("d",),
    "top_n_sigma": ("s", "top-n-sigma"),
    "top_k": ("k", "top-k"),
    "typ_p": ("y", "typical_p", "typical-p", "typical", "typ-p", "typ"),
    "top_p": ("p", "top-p", "nucleus"),
    "min_p": ("m", "min-p"),
    "xtc": ("x",),
    "temperature": ("t", "temp"),
    "adaptive_p": ("a", "adaptive-p"),
}
"""Samplers that have a place in an order; for each llama.cpp's letter and its other spellings."""

DEFAULT_ORDER = (
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
)  # fmt: skip
"""The order in which they act where none is given."""

_SPELLINGS = {spelling: name for name, others in SAMPLERS.items() for spelling in (name, *others)}


def sampler_order(names: Iterable[str]) -> tuple[str, ...]:
    """Canonical sampler names in the order given; unknown ones are skipped. A plain string is letters."""
    return tuple(_SPELLINGS[name] for name in names if name in _SPELLINGS)
