"""Read the fields of one JSON body, in any spelling, into an engine's request.

Clients send whole settings objects. An unknown or null field is ignored, a number out of range is clamped,
and a value without a meaning is a 400 that names the field. Spellings, kinds and ranges come from the
engine's table of parameters, and the engine checks what becomes of them. This module adds what only HTTP
bodies have: biases by text, constraints under many names, one seed per branch. A dialect with defaults of its
own lists them in one mapping.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.compat import IGNORED, REFUSED, read_foreign
from srbwriter.engine.parameters import (
    BY_NAME,
    DEFAULT_ORDER,
    OF_REQUEST,
    OF_SAMPLING,
    OF_STOP,
    PARAMETERS,
    Parameter,
    is_number,
    sampler_order,
)
from srbwriter.engine.types import Prompt, Request, Sampling, Stop

from .errors import bad, missing
from .prompts import is_integer, wants_bos
from .run import Services

SEED_LIMIT = 2**32

SPELLINGS: Mapping[str, tuple[str, ...]] = {parameter.name: parameter.aliases for parameter in PARAMETERS}
"""Other spellings of a field by its canonical name, from the engine's table."""

_TABLE = {parameter.name: parameter for parameter in PARAMETERS}
_NUMBERS_AND_LISTS = {
    row.name for row in PARAMETERS if row.kind in ("int", "float", "choice", "ids", "biases")
}
"""Parameters that have no empty text: clients with an empty box send ``""``."""


class Body:
    """The fields of one request by canonical name. Values of another kind are a 400 that names the field."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def raw(self, name: str) -> Any:
        """Return the value under the first spelling of ``name`` that is present and not null, or None."""
        return self.find(name)[1]

    def find(self, name: str) -> tuple[str, Any]:
        """Like ``raw``, with the spelling that the client used, for error messages."""
        for spelling in (name, *SPELLINGS.get(name, ())):
            value = self.values.get(spelling)
            if value is not None and not (name in _NUMBERS_AND_LISTS and value == ""):
                return spelling, value
        return name, None

    def only(self, spelling: str, name: str = "") -> Body:
        """Return the field of this very ``spelling`` alone, as if it were called ``name``."""
        return Body({name or spelling: self.values.get(spelling)})

    def has(self, name: str) -> bool:
        return self.raw(name) is not None

    def converted(self, name: str, kind: type[V], words: str, default: V) -> V:
        spelling, value = self.find(name)
        if value is None:
            return default
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise bad(spelling, f"expected {words}") from None

    def number(self, name: str, default: float) -> float:
        """Return a finite number, which may be written as text."""
        number = self.converted(name, float, "a number", default)
        if not abs(number) < 2**63:  # neither is what is not a number
            raise bad(self.find(name)[0], f"the number is too {'small' if number < 0 else 'large'}")
        return number

    def integer(self, name: str, default: int) -> int:
        """Return a whole number; a fraction is cut off."""
        return int(self.number(name, default))

    def size(self, name: str, default: int, low: int | None = None, *, like: str = "") -> int:
        """Return a whole number within the range of a parameter: of ``name``, or of ``like`` in its place.

        ``low`` is a minimum in place of the parameter's. Raises OutOfRange for more than the maximum.
        """
        if not self.has(name):
            return default
        return int(_TABLE[like or name].fit(self.integer(name, 0), self.find(name)[0], low))

    def flag(self, name: str, default: bool = False) -> bool:
        number = self.raw(name)
        if isinstance(number, int | float):
            return bool(number)
        return number != "" and self.converted(name, bool, "true or false", default)

    def text(self, name: str, default: str = "") -> str:
        return self.converted(name, str, "text", default)

    def need_text(self, name: str) -> str:
        """Return a text that must be present; it may be empty. Raises ApiError (400)."""
        if not self.has(name):
            raise missing(name)
        return self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text or a list of texts as a tuple without empty ones."""
        if isinstance(text := self.raw(name), str):
            return (text,) if text else ()
        texts = self.converted(name, tuple[str, ...], "a text or a list of texts", ())
        if name not in _TABLE:
            limits.check_list(name, texts)
        return tuple(filter(None, texts))

    def seed(self) -> int | None:
        """Return the seed, or None to draw one; -1 and 2³² - 1 mean that too."""
        value = self.raw("seed")
        number = value if is_integer(value) else self.integer("seed", -1)
        return None if number < 0 or number == SEED_LIMIT - 1 else number % SEED_LIMIT

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        return self.converted(name, dict[str, Any], "an object", None)  # type: ignore[arg-type]


V = TypeVar("V")


def misspelt(body: Body, own: Sequence[str]) -> str:
    """Return a note about unknown fields, each with the likeliest name; "" if there are none.

    ``own`` are the fields of the path beside the parameters.
    """
    read = (name for name, row in BY_NAME.items() if row.name not in OF_DIALECTS or row.name in own)
    known = {*own, *read, *REFUSED, *IGNORED, *_OF_EVERY_DIALECT}
    notes: list[str] = []
    for name in [name[:60] for name in body.values if name not in known][:5]:
        like = difflib.get_close_matches(name, known, 1)
        notes.append(f"there is no field {name!r}" + (f", perhaps {like[0]!r}" if like else ""))
    return "; ".join(notes)


# ---- constraints

_FORMS = ("grammar", "json_schema", "regex")


def schema_text(name: str, schema: Any) -> str:
    """Return a JSON schema as text. Raises ApiError (400) when it is none."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        raise bad(name, "expected a JSON schema")
    return json.dumps(schema)


def _read_form(body: Body) -> dict[str, str]:
    """Return the constraint of a request by its notation. Raises ApiError (400) for several."""
    given: list[tuple[str, str, str]] = []  # the client's name, the notation, the text
    for notation in _FORMS:
        for spelling in (notation, *SPELLINGS[notation]):
            value = body.values.get(spelling)
            if value or value == {}:  # which is the schema of any JSON
                schema = notation == "json_schema"
                text = schema_text(spelling, value) if schema else body.only(spelling).text(spelling)
                given.append((spelling, notation, text))
    if body.values.get("response_format"):
        name = "response_format"
        wanted = body.mapping(name) or {}
        kind, inner = wanted.get("type"), wanted.get("json_schema")
        if kind == "json_object":
            given.append((name, "json_schema", schema_text(name, wanted.get("schema") or {"type": "object"})))
        elif kind == "json_schema" and isinstance(inner, dict):
            given.append((name, "json_schema", schema_text(name, cast("Any", inner).get("schema") or {})))
        elif kind != "text":
            raise bad(name, "type must be text, json_object or json_schema, the last with a schema")
    for other in given[1:]:
        if other[1:] != given[0][1:]:
            raise bad(other[0], f"only one constraint is possible, and {given[0][0]} is given")
    return {**dict.fromkeys(_FORMS), given[0][1]: given[0][2]} if given else {}  # type: ignore[dict-item]


# ---- one loop over what a client sends


def _set_values(body: Body, rows: Mapping[str, Parameter], base: object) -> dict[str, Any]:
    """Return the parameters that a body sets in any spelling, by the field of the record."""
    sent = {row.name: row for spelling in body.values if (row := rows.get(spelling)) is not None}
    return {
        row.field: _READERS.get(row.name, _value)(body, row, getattr(base, row.field, row.default))
        for row in sent.values()
        if body.has(row.name)
    }


def _by_spelling(rows: Iterable[Parameter]) -> dict[str, Parameter]:
    return {spelling: row for row in rows for spelling in (row.name, *row.aliases)}


def _value(body: Body, row: Parameter, default: Any) -> Any:
    """Return a value of the parameter's kind; a number is bent into its range.

    Raises OutOfRange for a size that is too large.
    """
    match row.kind:
        case "bool":
            return body.flag(row.name, default)
        case "texts":
            return body.texts(row.name)
        case "ids":
            return body.converted(row.name, tuple[int, ...], "a list of whole numbers", ()) or default
        case "text":
            return body.text(row.name) or default
        case "int":
            return body.size(row.name, default)
        case "float":
            return float(row.fit(body.number(row.name, default or 0.0)))
        case _:
            text = body.text(row.name)
            if not text and row.optional:
                return None
            if text not in row.choices:
                raise bad(row.name, f"expected {', '.join(row.choices[:-1])} or {row.choices[-1]}")
            return text


def _limit(body: Body, row: Parameter, default: int | None) -> int | None:
    """Return the limit in tokens, or None for no limit. Of several spellings the first that is no -1 holds.

    llama.cpp's settings hold the limit twice, and clients send them back with only one of the two changed.
    OpenAI's newer name replaces its older one.
    """
    limit: int | None = None
    for spelling in ("max_completion_tokens", row.name, *row.aliases):
        number = body.only(spelling, row.name).integer(row.name, -1)
        limits.check_range(spelling, number, -1, row.maximum)  # -1 is no limit
        if limit is None and number >= 0:
            limit = number
    return limit


def _breakers(body: Body, row: Parameter, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list of texts; some clients send the list as JSON text."""
    value = _listed(body.raw(row.name))
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str) and item and "\0" not in item) or default


def _phrases(body: Body, row: Parameter, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases of all spellings: a text, a list, or a list as JSON text. Token ids are left out."""
    texts: list[str] = []
    for spelling in (row.name, *row.aliases):
        value = _listed(body.values.get(spelling))
        if value and not (spelling in _BANS and _are_ids(value)):
            texts += Body({spelling: value}).texts(spelling)
    return tuple(dict.fromkeys(texts))


def _listed(value: Any) -> Any:
    """Return the list that a JSON text holds; any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _are_ids(value: Any) -> bool:
    """Whether a list, or a text with commas, holds token ids only."""
    if isinstance(value, str):
        return all(part.strip().isdecimal() for part in value.split(","))
    return isinstance(value, list) and all(map(is_integer, cast("list[Any]", value)))


def _samplers(body: Body, row: Parameter, default: Any) -> tuple[str, ...] | None:
    """Return an order of samplers from names or letters; unknown ones are skipped."""
    value = body.raw(row.name)
    items = cast("Iterable[Any]", value if isinstance(value, list | str) else ())
    return tuple(dict.fromkeys(sampler_order(item for item in items if isinstance(item, str)))) or default


_READERS: Mapping[str, Callable[[Body, Parameter, Any], Any]] = {
    "seed": lambda body, row, default: body.seed(),
    "top_k": lambda body, row, default: max(_value(body, row, default), 0),
    "max_tokens": _limit,
    "max_seconds": lambda body, row, default: _value(body, row, default) or default,
    "context": lambda body, row, default: _value(body, row, default) if body.number(row.name, 0) else None,
    # below their ranges these two mean "as usual": llama.cpp says so of the first, KoboldAI of the second
    "dry_base": lambda body, row, default: (
        row.default if body.number(row.name, 1) < 1 else _value(body, row, 0)
    ),
    "repeat_penalty": lambda body, row, default: (
        _value(body, row, 0) if body.number(row.name, 1) > 0 else 1.0
    ),
    "dry_sequence_breakers": _breakers,
    "banned_phrases": _phrases,
    "samplers": _samplers,
}
"""Parameters that bodies write otherwise than their kind says."""

OF_DIALECTS = frozenset(
    "priority logprobs prompt_logprobs next_logprobs next_ids score_from begin without parse_special".split()
)
"""Parameters of a request that some dialects have, in their own way, and others do not."""

_SAMPLING = _by_spelling(row for row in OF_SAMPLING if row.kind != "biases" and row.name not in _FORMS)
_STOP = _by_spelling(OF_STOP)
_OPTIONS = _by_spelling(row for row in OF_REQUEST if row.name not in OF_DIALECTS | {"n", "add_bos"})
_OF_EVERY_DIALECT = (
    "model", "stream", "stream_options", "user", "response_format", "t_max_predict_ms",
    "do_sample", "dynatemp_low", "dynatemp_high", "dynamic_temperature", "sampler_order", "custom_token_bans",
)  # fmt: skip


def read_sampling(body: Body, base: Sampling, engine: Backend) -> Sampling:
    """Return the sampling of a request; ``base`` holds for fields that it leaves out.

    Raises ApiError (400).
    """
    changes = _set_values(body, _SAMPLING, base)
    if biases := _read_biases(body, engine):
        changes["logit_bias"] = tuple({**dict(base.logit_bias), **dict(biases)}.items())
    if changes.get("samplers") == DEFAULT_ORDER and base.samplers is None:
        changes["samplers"] = None
    foreign = read_foreign(body.values)
    if "samplers" in changes:
        foreign.pop("samplers", None)
    return replace(base, **{**changes, **_read_form(body), **foreign})


def read_stop(body: Body, base: Stop) -> Stop:
    """Return the stop rule of a request; ``base`` holds for fields that it leaves out.

    Raises ApiError (400).
    """
    changes = _set_values(body, _STOP, base)
    if (milliseconds := body.number("t_max_predict_ms", 0.0)) > 0:
        changes["max_seconds"] = milliseconds / 1000
    return replace(base, **changes)


def read_options(body: Body, overflow: str = "error") -> dict[str, Any]:
    """Return the other fields of a Request: cache, overflow, healing. Raises ApiError (400)."""
    return {"overflow": overflow, **_set_values(body, _OPTIONS, None)}


def read_n(body: Body, default: int, limit: int) -> int:
    """Return the number of branches. Raises OutOfRange above ``limit``."""
    n = body.integer("n", default)
    limits.check_range("n", n, 1, limit)
    return n


def branch_samplings(sampling: Sampling, n: int) -> tuple[Sampling, ...]:
    """Return n samplings: an explicit seed counts up from branch to branch, as llama.cpp's children do."""
    if sampling.seed is None:
        return (sampling,) * n
    return tuple(replace(sampling, seed=(sampling.seed + k) % SEED_LIMIT) for k in range(n))


T = TypeVar("T", Sampling, Stop)


def _with_usual(base: T, rows: Mapping[str, Parameter], usual: Mapping[str, Any]) -> T:
    """Return ``base`` with a dialect's defaults, except where the server was started with other values."""
    own = [(rows[name], value) for name, value in usual.items() if name in rows]
    return replace(
        base, **{row.field: value for row, value in own if getattr(base, row.field) == row.default}
    )


def read_request(body: Body, services: Services, usual: Mapping[str, Any] = MappingProxyType({})) -> Request:
    """Read the fields that every dialect has into a request, as yet without a prompt. Raises ApiError (400).

    A text without a limit gets the server's ``n_predict``, or none. ``usual`` are a dialect's defaults by
    name. The seed is the first branch's.
    """
    settings = services.settings
    stop = Stop(max_tokens=settings.n_predict if settings.n_predict >= 0 else None)
    return Request(
        "",
        n=read_n(body, 1, services.max_n),
        sampling=read_sampling(body, _with_usual(settings.sampling, _SAMPLING, usual), services.engine),
        stop=read_stop(body, _with_usual(stop, _STOP, usual)),
        **read_options(body, usual.get("overflow", "error")),
    )


def with_prompt(request: Request, prompt: Prompt, **changes: Any) -> Request:
    """Return the request for one prompt, with a seed for each branch; ``changes`` are fields of it."""
    fields = {"add_bos": wants_bos(prompt), **changes, "prompt": prompt}
    return replace(
        request, **fields, sampling=branch_samplings(cast("Sampling", request.sampling), request.n)
    )


def stop_also(request: Request, texts: Sequence[str]) -> Request:
    """Return the request with more stop texts."""
    stop = cast("Stop", request.stop)
    return replace(request, stop=replace(stop, strings=(*stop.strings, *texts))) if texts else request


# ---- biases

_MOST_BANS = 8 * limits.BIASES  # characters
_BANS = ("custom_token_bans", "banned_tokens")
"""Token ids that are never chosen. Under the second name KoboldCpp takes texts, and others token ids."""


def _read_biases(body: Body, engine: Backend) -> Iterable[tuple[int, float]]:
    """Return the biases of ``logit_bias`` (pairs or an object, by id or by text) and of the banned tokens."""
    name, value = "logit_bias", body.raw("logit_bias")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            pair = cast("list[Any]", item) if isinstance(item, list) else []
            if isinstance(item, dict):  # as in the settings that llama.cpp sends back: null is minus infinity
                entry = cast("dict[str, Any]", item)
                pair = [entry.get("token"), False if entry.get("bias") is None else entry["bias"]]
            if len(pair) != 2:
                raise bad(name, "expected pairs of a token and a number or false")
            pairs.append((pair[0], pair[1]))
    elif value is not None:
        raise bad(name, "expected an object or a list of pairs")
    if len(pairs) > limits.BIASES:
        raise bad(name, f"at most {limits.BIASES} entries")
    biases: dict[int, float] = {}
    for key, bias in pairs:
        if bias is None:  # as every null
            continue
        if not (bias is False or is_number(bias)):
            raise bad(name, "expected pairs of a token and a number or false")
        for token in _bias_tokens(key, engine):
            biases[token] = biases.get(token, 0.0) + (-math.inf if bias is False else float(bias))
    for token in _banned_ids(body):
        if token < engine.info.n_vocab:
            biases[token] = -math.inf
    if len(biases) > limits.BIASES:
        raise bad(name, f"at most {limits.BIASES} tokens")
    return biases.items()


def _bias_tokens(key: Any, engine: Backend) -> Sequence[int]:
    """Return the token ids of a key of ``logit_bias``; none for ids outside the vocabulary."""
    if isinstance(key, str):
        if len(key) > limits.LIST_CHARS:
            raise bad("logit_bias", f"a text of more than {limits.LIST_CHARS} characters")
        if not key.removeprefix("-").isdecimal() or len(key) > 12:
            return engine.tokenize(key)
        key = int(key)
    if not is_integer(key):
        raise bad("logit_bias", "a token is an id or a text")
    return [key] if 0 <= key < engine.info.n_vocab else []


def _banned_ids(body: Body) -> Iterable[int]:
    """Yield the ids of banned tokens: from a list, or from a text with commas."""
    for name in _BANS:
        value = _listed(body.raw(name))
        if isinstance(value, str) and len(value) > _MOST_BANS:
            raise bad(name, f"{len(value)} characters, {_MOST_BANS} are possible")
        if isinstance(value, list) and _are_ids(value):
            yield from (item for item in cast("list[int]", value) if item >= 0)
        elif isinstance(value, str) and (name == "custom_token_bans" or _are_ids(value)):
            parts = value.replace(" ", "").split(",")
            yield from (int(part) for part in parts if part.isdecimal() and len(part) < 12)
        elif value is not None and name == "custom_token_bans":
            raise bad(name, "expected token ids")
