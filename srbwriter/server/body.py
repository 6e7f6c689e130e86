"""Read the fields of one JSON body, in any spelling, into an engine's request.

Clients send whole settings objects. An unknown or null field is ignored, a number out of range is clamped,
and a value without a meaning is a 400 that names the field. Spellings, kinds and ranges come from the
engine's table of parameters. This module adds what only HTTP bodies have: biases by text, constraints under
many names, one seed per branch. A dialect with defaults of its own lists them in one mapping.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.compat import read_foreign
from srbwriter.engine.parameters import (
    DEFAULT_ORDER,
    PARAMETERS,
    Parameter,
    is_number,
    sampler_order,
)
from srbwriter.engine.types import (
    Overflow,
    Prompt,
    Request,
    Sampling,
    Stop,
)
from srbwriter.server.errors import ApiError, bad, missing
from srbwriter.server.prompts import is_integer, read_penalty_prompt, wants_bos
from srbwriter.server.schemas import OF_DIALECTS
from srbwriter.server.services import Services

SEED_LIMIT = 2**32

ALIASES: Mapping[str, tuple[str, ...]] = {parameter.name: parameter.aliases for parameter in PARAMETERS}
"""Other spellings of a field by its canonical name, from the engine's table."""

E = TypeVar("E")

_TABLE = {parameter.name: parameter for parameter in PARAMETERS}
_EMPTY_IS_NONE = {
    "top_logprobs",
    *(row.name for row in PARAMETERS if row.kind in ("int", "float", "choice", "ids", "biases")),
}
"""Parameters that have no empty value: clients with an empty box send ``""`` or ``[]``."""


class Fields:
    """The fields of one request by canonical name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def raw(self, name: str) -> Any:
        """Return the value under the first spelling of ``name`` that is present and not null, or None."""
        return self.found(name)[1]

    def found(self, name: str) -> tuple[str, Any]:
        """Like ``raw``, with the spelling that the client used, for error messages."""
        for spelling in (name, *ALIASES.get(name, ())):
            value = self.values.get(spelling)
            if value is not None and not (name in _EMPTY_IS_NONE and value in ("", [])):
                return spelling, value
        return name, None

    def has(self, name: str) -> bool:
        return self.raw(name) is not None

    def number(self, name: str, default: float) -> float:
        """Return a finite number."""
        spelling, value = self.found(name)
        return default if value is None else _number(spelling, value)

    def integer(self, name: str, default: int) -> int:
        """Return a whole number; a fraction is cut off."""
        return int(self.number(name, default))

    def size(self, name: str, default: int, low: int | None = None, *, like: str = "") -> int:
        """Return a whole number within the range of a parameter: of ``name``, or of ``like`` in its place.

        ``low`` is a minimum in place of the parameter's. Raises OutOfRange for more than the maximum.
        """
        spelling, value = self.found(name)
        if value is None:
            return default
        return int(_TABLE[like or name].fit(int(_number(spelling, value)), spelling, low))

    def flag(self, name: str, default: bool = False) -> bool:
        spelling, value = self.found(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return bool(value)
        if isinstance(value, str) and value.lower() in ("true", "false", "1", "0", ""):
            return value.lower() in ("true", "1")
        raise bad(spelling, f"Field '{spelling}': expected true or false")

    def text(self, name: str, default: str = "") -> str:
        spelling, value = self.found(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise bad(spelling, f"Field '{spelling}': expected text")
        return value

    def need_text(self, name: str) -> str:
        """Return a text that must be present; it may be empty. Raises ApiError (400)."""
        if not self.has(name):
            raise missing(name)
        return self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text or a list of texts as a tuple without empty ones.

        Raises InvalidRequest above the bounds.
        """
        spelling, value = self.found(name)
        if value is None:
            return ()
        items: Sequence[Any] = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise bad(spelling, f"Field '{spelling}': expected a text or a list of texts")
        return _checked(name, spelling, tuple(item for item in cast("Sequence[str]", items) if item))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers. Raises InvalidRequest above the bounds."""
        spelling, value = self.found(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(is_integer(item) for item in cast("list[Any]", value)):
            raise bad(spelling, f"Field '{spelling}': expected a list of whole numbers")
        return _checked(name, spelling, tuple(cast("list[int]", value)))

    def seed(self) -> int | None:
        """Return the seed, or None to draw one; -1 and 2³² - 1 mean that too."""
        spelling, value = self.found("seed")
        if value is None:
            return None
        number = int(_number(spelling, value))
        return None if number < 0 or number == SEED_LIMIT - 1 else number % SEED_LIMIT

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        spelling, value = self.found(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise bad(spelling, f"Field '{spelling}': expected an object")
        return cast("dict[str, Any]", value)


def _checked(name: str, spelling: str, values: tuple[E, ...]) -> tuple[E, ...]:
    """Return the values of a list. Raises InvalidRequest where they are too many or too long."""
    parameter = _TABLE.get(name)
    if parameter is not None:
        parameter.check(values, spelling)
    else:
        limits.check_list(spelling, values)
    return values


def _number(name: str, value: Any) -> float | int:
    """A finite number of JSON, or one written as text. Raises ApiError (400)."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _no_number(name) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _no_number(name)
    if not abs(value) < 2**63:  # neither is what is not finite
        raise _no_number(name)
    return value


def _no_number(name: str) -> ApiError:
    return bad(name, f"Field '{name}': expected a number")


# ---- constraints

_FORMS = ("grammar", "json_schema", "regex")


class Form(NamedTuple):
    """One constraint of a request."""

    spelling: str  # the field that the client sent
    notation: str  # the field of Sampling
    text: str


def schema_text(name: str, schema: Any) -> str:
    """Return a JSON schema as text. Raises ApiError (400) when it is none."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        raise bad(name, f"Field '{name}': expected a JSON schema")
    return json.dumps(schema)


def read_form(fields: Fields) -> Form | None:
    """Return the constraint of a request, or None for free text. Raises ApiError (400) for several."""
    given = list(dict.fromkeys([*_plain(fields), *_response_format(fields)]))
    for other in given[1:]:
        if other[1:] != given[0][1:]:
            raise bad(
                other.spelling,
                f"Field '{other.spelling}': only one constraint is possible, "
                f"and {given[0].spelling} is given",
            )
    return given[0] if given else None


def _plain(fields: Fields) -> Iterator[Form]:
    for notation in _FORMS:
        for spelling in (notation, *ALIASES[notation]):
            value = fields.values.get(spelling)
            if not _is_neutral(value):
                read = schema_text if notation == "json_schema" else _constraint_text
                yield Form(spelling, notation, read(spelling, value))


def _constraint_text(name: str, value: Any) -> str:
    return Fields({name: value}).text(name)


def _is_neutral(value: Any) -> bool:
    """Whether a value means no constraint: null, empty, 0 or false. ``{}`` is the schema of any JSON."""
    return not value and value != {}


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


_MOST_BANS = 8 * limits.BIASES  # characters
_BANS = ("custom_token_bans", "banned_tokens")
"""Token ids that are never chosen. Under the second name KoboldCpp takes texts, and others token ids."""


# ---- one loop over the table


def _set_values(fields: Fields, rows: Iterable[Parameter], base: object) -> dict[str, Any]:
    """Return the parameters that a body sets in any spelling, by the field of the record."""
    return {
        row.field: _READERS.get(row.name, _value)(fields, row, getattr(base, row.field, row.default))
        for row in rows
        if fields.has(row.name)
    }


def _value(fields: Fields, row: Parameter, default: Any) -> Any:
    """Return a value of the parameter's kind, within its range.

    Raises OutOfRange for a size that is too large.
    """
    if row.kind == "bool":
        return fields.flag(row.name, default)
    if row.kind == "texts":
        return fields.texts(row.name)
    if row.kind == "ids":
        return fields.integers(row.name) or default
    if row.kind == "choice":
        return _choice(fields, row)
    if row.kind == "text":
        return fields.text(row.name) or default
    if row.kind == "int":
        return fields.size(row.name, default)
    return float(row.fit(fields.number(row.name, default or 0.0)))


def _choice(fields: Fields, row: Parameter) -> str | None:
    text = fields.text(row.name)
    if not text and row.optional:
        return None
    if text not in row.choices:
        words = f"{', '.join(row.choices[:-1])} or {row.choices[-1]}"
        raise bad(row.name, f"Field '{row.name}': expected {words}")
    return text


def _limit(fields: Fields, row: Parameter, default: int | None) -> int | None:
    """Return the limit in tokens, or None for no limit. Of several spellings the first that is no -1 holds.

    llama.cpp's settings hold the limit twice, and clients send them back with only one of the two changed.
    """
    limit: int | None = None
    for spelling in (row.name, *row.aliases):
        number = Fields({spelling: fields.values.get(spelling)}).integer(row.name, -1)
        limits.check_range(spelling, number, -1, row.maximum)  # -1 is no limit
        if limit is None and number >= 0:
            limit = number
    return limit


def _dry_base(fields: Fields, row: Parameter, default: float) -> float:
    """Return DRY's base; less than 1 means the default, as in llama.cpp."""
    return row.default if fields.number(row.name, default) < 1.0 else _value(fields, row, default)


def _breakers(fields: Fields, row: Parameter, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list of texts; some clients send the list as JSON text."""
    value = fields.raw(row.name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except RecursionError:
            raise bad(row.name, f"Field '{row.name}': nested too deeply") from None
        except ValueError:
            value = [value]
    if not isinstance(value, list):
        return default
    texts = [item for item in cast("list[Any]", value) if isinstance(item, str) and "\0" not in item]
    return Fields({row.name: texts}).texts(row.name) or default


def _phrases(fields: Fields, row: Parameter, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases of all spellings: a text, a list, or a list as JSON text. Token ids are left out."""
    texts: list[str] = []
    for spelling in (row.name, *row.aliases):
        value = _listed(fields.values.get(spelling))
        if value and not (spelling in _BANS and _are_ids(value)):
            texts += Fields({spelling: value}).texts(row.name)
    return Fields({row.name: list(dict.fromkeys(texts))}).texts(row.name)


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


def _samplers(fields: Fields, row: Parameter, default: Any) -> tuple[str, ...] | None:
    """Return an order of samplers from names or letters; unknown ones are skipped."""
    value = fields.raw(row.name)
    items: list[Any] = list(value) if isinstance(value, str) else []
    if isinstance(value, list):
        items = cast("list[Any]", value)
    order = tuple(dict.fromkeys(sampler_order(item for item in items if isinstance(item, str))))
    return order or default


_READERS: Mapping[str, Callable[[Fields, Parameter, Any], Any]] = {
    "seed": lambda fields, row, default: fields.seed(),
    "top_k": lambda fields, row, default: max(_value(fields, row, default), 0),
    "max_tokens": _limit,
    "max_seconds": lambda fields, row, default: _value(fields, row, default) or default,
    "context": lambda fields, row, default: (
        _value(fields, row, default) if fields.number(row.name, 0) else None
    ),
    "dry_base": _dry_base,
    "dry_sequence_breakers": _breakers,
    "banned_phrases": _phrases,
    "samplers": _samplers,
}
"""Parameters that bodies write otherwise than their kind says."""

_BY_DIALECTS = OF_DIALECTS | {"n", "add_bos"}  # which each dialect reads itself, or that clients cannot have

_SAMPLING = [
    row for row in PARAMETERS if row.record == "sampling" and row.kind != "biases" and row.name not in _FORMS
]
_STOP = [row for row in PARAMETERS if row.record == "stop"]
_OPTIONS = [row for row in PARAMETERS if row.record == "request" and row.name not in _BY_DIALECTS]


def read_sampling(fields: Fields, base: Sampling, engine: Backend) -> Sampling:
    """Return the sampling of a request; ``base`` holds for fields that it leaves out.

    Raises ApiError (400).
    """
    changes = _set_values(fields, _SAMPLING, base)
    if biases := read_biases(fields, engine):
        changes["logit_bias"] = tuple({**dict(base.logit_bias), **dict(biases)}.items())
    if changes.get("samplers") == default_order(False) and base.samplers is None:
        infill = changes.get("infill", base.infill)
        changes["samplers"] = changes["samplers"] if infill else None
    if form := read_form(fields):
        changes |= {**dict.fromkeys(_FORMS), form.notation: form.text}
    emulated = read_foreign(fields.values)
    if "samplers" in changes:
        emulated.pop("samplers", None)
    return replace(base, **{**changes, **emulated})


def default_order(infill: bool) -> tuple[str, ...]:
    """Return the samplers that act where a request names none, in their order."""
    return tuple(name for name in DEFAULT_ORDER if infill or name != "infill")


def read_stop(fields: Fields, base: Stop) -> Stop:
    """Return the stop rule of a request; ``base`` holds for fields that it leaves out.

    Raises ApiError (400).
    """
    changes = _set_values(fields, _STOP, base)
    if (milliseconds := fields.number("t_max_predict_ms", 0.0)) > 0:
        changes["max_seconds"] = milliseconds / 1000
    return replace(base, **changes)


def read_options(
    fields: Fields, context_shift: bool, engine: Backend, overflow: Overflow = "error"
) -> dict[str, Any]:
    """Return the other fields of a Request: cache, overflow, healing. Raises ApiError (400)."""
    usual = {row.field: row.default for row in _OPTIONS}
    usual["overflow"] = "shift" if context_shift else overflow
    return {
        **usual,
        **_set_values(fields, _OPTIONS, None),
        "penalty_prompt": read_penalty_prompt(fields.raw("penalty_prompt"), engine),
    }


def read_n(fields: Fields, default: int, limit: int) -> int:
    """Return the number of branches. Raises OutOfRange above ``limit``."""
    n = fields.integer("n", default)
    limits.check_range("n", n, 1, limit)
    return n


def seeded(request: Request) -> tuple[Sampling, ...]:
    """Return a Sampling for each branch of a request; only the seeds differ."""
    return branch_samplings(cast("Sampling", request.sampling), request.n)


def branch_samplings(sampling: Sampling, n: int) -> tuple[Sampling, ...]:
    """Return n samplings: an explicit seed counts up from branch to branch, as llama.cpp's children do."""
    if sampling.seed is None:
        return (sampling,) * n
    return tuple(replace(sampling, seed=(sampling.seed + k) % SEED_LIMIT) for k in range(n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """A body without its prompt: a request to the engine, and what the reply shall hold."""

    request: Request  # as yet without a prompt, and its seed is the first branch's
    stream: bool = False
    post_sampling_probs: bool = False
    timings_per_token: bool = False
    return_progress: bool = False
    verbose: bool = False

    @property
    def n(self) -> int:
        return self.request.n

    @property
    def logprobs(self) -> int | None:
        return self.request.logprobs

    def more(self, kind: type[P], **own: Any) -> P:
        """Return a copy of the dialect's class ``kind``, with that class's ``own`` fields."""
        return kind(**{**{name: getattr(self, name) for name in ("request", *_SWITCHES)}, **own})

    def of_prompt(self, prompt: Prompt, **changes: Any) -> Request:
        """Return the request for one prompt; ``changes`` are fields of it."""
        fields = {"add_bos": wants_bos(prompt), **changes, "prompt": prompt}
        return replace(self.request, **fields, sampling=seeded(self.request))


P = TypeVar("P", bound=Params)
T = TypeVar("T", Sampling, Stop)


def _with_usual(base: T, record: str, usual: Mapping[str, Any]) -> T:
    """Return ``base`` with a dialect's defaults, except where the server was started with other values."""
    rows = (row for row in PARAMETERS if row.record == record and row.name in usual)
    return replace(
        base, **{row.field: usual[row.name] for row in rows if getattr(base, row.field) == row.default}
    )


def read_params(
    fields: Fields, services: Services, usual: Mapping[str, Any] = MappingProxyType({})
) -> Params:
    """Read the fields that every dialect has. Raises ApiError (400).

    A text without a limit gets the server's ``n_predict``, or none. ``usual`` are a dialect's defaults by
    name.
    """
    engine, settings = services.engine, services.settings
    limit = settings.n_predict
    stop = Stop(max_tokens=limit if limit >= 0 else None)
    request = Request(
        "",
        n=read_n(fields, 1, services.max_n),
        sampling=read_sampling(fields, _with_usual(settings.sampling, "sampling", usual), engine),
        stop=read_stop(fields, _with_usual(stop, "stop", usual)),
        **read_options(fields, settings.context_shift, engine, usual.get("overflow", "error")),
    )
    return Params(request=request, **{name: fields.flag(name) for name in _SWITCHES})


_SWITCHES = ("stream", "post_sampling_probs", "timings_per_token", "return_progress", "verbose")
"""Fields about the reply that every dialect has."""


def stop_also(request: Request, texts: Sequence[str]) -> Request:
    """Return the request with more stop texts."""
    stop = cast("Stop", request.stop)
    return replace(request, stop=replace(stop, strings=(*stop.strings, *texts))) if texts else request


def read_biases(fields: Fields, engine: Backend) -> tuple[tuple[int, float], ...]:
    """Return the biases of ``logit_bias`` (pairs or an object, by id or by text) and of the banned tokens."""
    value = fields.raw("logit_bias")
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        pairs = [_pair(item) for item in cast("list[Any]", value)]
    elif value is not None:
        raise bad("logit_bias", "Field 'logit_bias': expected an object or a list of pairs")
    if len(cast("Sized", value or ())) > limits.BIASES:
        raise bad("logit_bias", f"Field 'logit_bias': at most {limits.BIASES} entries")
    biases: dict[int, float] = {}
    n_vocab = engine.info.n_vocab
    for key, bias in pairs:
        amount = _bias(bias)
        for token in _tokens(key, engine, n_vocab):
            biases[token] = biases.get(token, 0.0) + amount
    for token in _bans(fields):
        if token < n_vocab:
            biases[token] = -math.inf
    if len(biases) > limits.BIASES:
        raise bad("logit_bias", f"Field 'logit_bias': at most {limits.BIASES} tokens")
    return tuple(biases.items())


def _bans(fields: Fields) -> Iterable[int]:
    """Return the ids of banned tokens: from a list, or from a text with commas."""
    for name in _BANS:
        value = _listed(fields.raw(name))
        if name == "custom_token_bans" or _are_ids(value):
            yield from _banned_ids(name, value)


def _banned_ids(name: str, value: Any) -> Iterable[int]:
    items: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    if not isinstance(value, list):
        text = Fields({name: value}).text(name)
        if len(text) > _MOST_BANS:
            raise bad(name, f"Field '{name}': {len(text)} characters, {_MOST_BANS} are possible")
        parts = text.replace(" ", "").split(",")
        items = [int(part) for part in parts if part.isdecimal() and len(part) < 12]
    if not all(map(is_integer, items)):
        raise bad(name, f"Field '{name}': expected token ids")
    return [item for item in items if item >= 0]


def _pair(item: Any) -> tuple[Any, Any]:
    pair = cast("list[Any]", item) if isinstance(item, list) else []
    if len(pair) == 2:
        return pair[0], pair[1]
    if isinstance(item, dict):
        entry = cast("Mapping[str, Any]", item)
        return entry.get("token"), entry.get("bias")
    raise bad("logit_bias", "Field 'logit_bias': expected pairs of a token and a number or false")


def _bias(value: Any) -> float:
    if value is False or value is None:
        return -math.inf
    if is_number(value):
        return float(value)
    raise bad("logit_bias", "Field 'logit_bias': expected pairs of a token and a number or false")


def _tokens(key: Any, engine: Backend, n_vocab: int) -> list[int]:
    """Return the token ids of a key of ``logit_bias``; none for ids outside the vocabulary."""
    if isinstance(key, str):
        if len(key) > limits.LIST_CHARS:
            raise bad("logit_bias", f"Field 'logit_bias': a text of more than {limits.LIST_CHARS} characters")
        if not key.removeprefix("-").isdecimal() or len(key) > 12:
            return engine.tokenize(key)
        key = int(key)
    if not is_integer(key):
        raise bad("logit_bias", "Field 'logit_bias': a token is an id or a text")
    return [key] if 0 <= key < n_vocab else []
