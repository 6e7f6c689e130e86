"""From a body's fields to the engine's Request: the part that every dialect shares.

Spellings, kinds and ranges come from the engine's table of parameters; here is only what a wire adds:
clamping, biases by text, one seed a branch, values for each branch, LoRA adapters by number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict, TypeVar, cast

from srbwriter.engine import limits
from srbwriter.engine.adapters import MOST_ADAPTERS, Adapters
from srbwriter.engine.backend import Backend
from srbwriter.engine.compat import replace_gone
from srbwriter.engine.parameters import (
    BY_NAME,
    DEFAULT_ORDER,
    PARAMETERS,
    Parameter,
    is_number,
    sampler_order,
)
from srbwriter.engine.types import (
    InvalidRequest,
    Overflow,
    Priority,
    Prompt,
    Request,
    Sampling,
    Stop,
    Together,
)
from srbwriter.server.constraints import read_form
from srbwriter.server.context import Context
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import SEED_LIMIT, Fields, is_integer, read_penalty_prompt, wants_bos

_MOST_BANS = 8 * limits.BIASES  # characters
_BANS = ("custom_token_bans", "banned_tokens")
"""Token ids that are never chosen. Under the second name KoboldCpp takes texts, and tabbyAPI token ids."""


# ---- one loop over the table


def _told(fields: Fields, rows: Iterable[Parameter], base: object) -> dict[str, Any]:
    """The values that a body names in any spelling, by the field of the record. Raises ApiError (400)."""
    return {
        row.field: _READERS.get(row.name, _value)(fields, row, getattr(base, row.field, row.default))
        for row in rows
        if fields.has(row.name)
    }


def _value(fields: Fields, row: Parameter, default: Any) -> Any:
    """A value of the row's kind: bent into its range, or refused where it is a size."""
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
    if row.size:
        return fields.size(row.name, default, int(row.minimum or 0))
    value = row.clamp(fields.number(row.name, default or 0.0))
    return int(value) if row.kind == "int" else float(value)


def _choice(fields: Fields, row: Parameter) -> str | None:
    text = fields.text(row.name)
    if not text and row.optional:
        return None
    if text not in row.choices:
        words = f"{', '.join(row.choices[:-1])} or {row.choices[-1]}"
        raise bad(row.name, f"Field '{row.name}': expected {words}")
    return text


def _limit(fields: Fields, row: Parameter, default: int | None) -> int | None:
    """Tokens at most, None without end. Where two spellings differ, the one that says a number is meant.

    The settings that llama.cpp tells have the limit twice, and clients send them back with one changed.
    """
    told = [
        Fields({spelling: value}).integer(row.name, -1, -1, int(row.maximum or 0), hard=True)
        for spelling in (row.name, *row.aliases)
        if (value := fields.values.get(spelling)) is not None
    ]
    return next((number for number in told if number >= 0), None)


def _base(fields: Fields, row: Parameter, default: float) -> float:
    """Less than 1 means the usual one, as with llama.cpp."""
    return row.default if fields.number(row.name, default) < 1.0 else _value(fields, row, default)


def _breakers(fields: Fields, row: Parameter, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list, or a list written as JSON text, which some clients send."""
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
    """The texts of all spellings: one, a list, or a list written as JSON text. Token ids are no phrases."""
    texts: list[str] = []
    for spelling in (row.name, *row.aliases):
        value = _listed(fields.values.get(spelling))
        if value and not (spelling in _BANS and _are_ids(value)):
            texts += Fields({spelling: value}).texts(row.name)
    return Fields({row.name: list(dict.fromkeys(texts))}).texts(row.name)


def _listed(value: Any) -> Any:
    """What is written as JSON text is read; texts that are none stay, and so does everything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _are_ids(value: Any) -> bool:
    """Whether a list, or a text with commas, names tokens and not texts."""
    if isinstance(value, str):
        return all(part.strip().isdecimal() for part in value.split(","))
    return isinstance(value, list) and all(map(is_integer, cast("list[Any]", value)))


def _samplers(fields: Fields, row: Parameter, default: Any) -> tuple[str, ...] | None:
    """An order by name or by letter; unknown names are skipped."""
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
    "max_seconds": lambda fields, row, default: fields.number(row.name, 0.0, 0.0) or default,
    "context": lambda fields, row, default: (
        fields.size(row.name, 0, 2) if fields.number(row.name, 0) else None
    ),
    "dry_base": _base,
    "dry_sequence_breakers": _breakers,
    "banned_phrases": _phrases,
    "samplers": _samplers,
}
"""Rows that the wire writes otherwise than their kind says."""

OF_DIALECTS = frozenset(
    "priority logprobs prompt_logprobs next_logprobs next_ids score_from begin without parse_special".split()
)
"""Rows of a request that some dialects have, in their own way, and others do not."""
_BY_DIALECTS = OF_DIALECTS | {"n", "add_bos"}  # which each dialect reads itself, or that clients cannot have

PRIORITIES = ("normal", "background", "ahead")
"""What a client may ask for: as anybody, while nobody else writes, or while nothing at all is to be done."""

_FORMS = ("grammar", "json_schema", "regex")  # which .constraints reads
_SAMPLING = [
    row for row in PARAMETERS if row.record == "sampling" and row.kind != "biases" and row.name not in _FORMS
]
_STOP = [row for row in PARAMETERS if row.record == "stop"]
_OPTIONS = [row for row in PARAMETERS if row.record == "request" and row.name not in _BY_DIALECTS]


def read_sampling(fields: Fields, base: Sampling, engine: Backend) -> Sampling:
    """How the request wants its tokens chosen; ``base`` where it says nothing. Raises ApiError (400)."""
    changes = _told(fields, _SAMPLING, base)
    if biases := read_biases(fields, engine):
        changes["logit_bias"] = tuple({**dict(base.logit_bias), **dict(biases)}.items())
    if changes.get("samplers") == default_order(False) and base.samplers is None:
        infill = changes.get("infill", base.infill)
        changes["samplers"] = changes["samplers"] if infill else None
    if form := read_form(fields):
        changes |= {**dict.fromkeys(_FORMS), form.notation: form.text}
    emulated = _emulated(fields)
    if "samplers" in changes:
        emulated.pop("samplers", None)
    return replace(base, **{**changes, **emulated})


def _emulated(fields: Fields) -> dict[str, Any]:
    """Parameters for fields that llama.cpp does not know, and other programs send. Raises ApiError (400)."""
    try:
        return replace_gone(fields.values)
    except InvalidRequest as error:
        raise bad(error.field, f"Field '{error.field}': {error.problem}") from None


def default_order(infill: bool) -> tuple[str, ...]:
    """The samplers that act where a request names none, in their order."""
    return tuple(name for name in DEFAULT_ORDER if infill or name != "infill")


def read_priority(fields: Fields) -> Priority:
    """Who goes first: a client may stand back, and never push ahead. Raises ApiError (400)."""
    name = fields.text("priority", "normal")
    if name not in PRIORITIES:
        raise bad("priority", f"Field 'priority': expected one of {', '.join(PRIORITIES)}")
    return Priority[name.upper()]


def read_stop(fields: Fields, base: Stop) -> Stop:
    """When the request wants its branches to end; ``base`` where it says nothing. Raises ApiError (400)."""
    changes = _told(fields, _STOP, base)
    if milliseconds := fields.number("t_max_predict_ms", 0.0, 0.0):
        changes["max_seconds"] = milliseconds / 1000
    return replace(base, **changes)


class Options(TypedDict):
    """The rest of a Request that every dialect takes."""

    heal: bool
    n_keep: int
    overflow: Overflow
    cache_prompt: bool
    cache_salt: str
    strict: bool
    context: int | None
    penalty_prompt: Prompt | None
    lora: Scales | None
    siblings: Together
    repulsion: float


def read_options(
    fields: Fields, context_shift: bool, engine: Backend, overflow: Overflow = "error"
) -> Options:
    """What happens where prompt and text meet, and where the context ends. Raises ApiError (400)."""
    usual = {row.field: row.default for row in _OPTIONS}
    usual["overflow"] = "shift" if context_shift else overflow
    return cast(
        "Options",
        {
            **usual,
            **_told(fields, _OPTIONS, None),
            "penalty_prompt": read_penalty_prompt(fields, engine),
            "lora": read_lora(fields, engine),
        },
    )


def read_n(fields: Fields, default: int, limit: int) -> int:
    """How many branches; above ``limit`` a 400 that names it."""
    return fields.integer("n", default, 1, limit, hard=True)


def branch_samplings(sampling: Sampling, n: int) -> tuple[Sampling, ...]:
    """One Sampling a branch: an explicit seed counts up from branch to branch, as llama.cpp's children do."""
    if sampling.seed is None:
        return (sampling,) * n
    return tuple(replace(sampling, seed=(sampling.seed + k) % SEED_LIMIT) for k in range(n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """What a request asks for in every dialect, but for its prompt."""

    n: int
    sampling: Sampling
    stop: Stop
    options: Options
    logprobs: int | None = None
    post_sampling_probs: bool = False
    stream: bool = False
    timings_per_token: bool = False
    return_progress: bool = False
    verbose: bool = False

    def request(
        self, prompt: Prompt, n: int | None = None, *, parse_special: bool = False,
        add_bos: bool | None = None, logprobs: int | None = None, prompt_logprobs: int | None = None,
    ) -> Request:  # fmt: skip
        """For the engine; ``n`` branches instead of the request's own."""
        branches = n or self.n
        return Request(
            prompt=prompt,
            n=branches,
            sampling=branch_samplings(self.sampling, branches),
            stop=self.stop,
            logprobs=self.logprobs if logprobs is None else logprobs,
            prompt_logprobs=prompt_logprobs,
            add_bos=wants_bos(prompt) if add_bos is None else add_bos,
            parse_special=parse_special,
            **self.options,
        )


class Common(TypedDict):
    """Fields of Params that are read alike in every dialect."""

    n: int
    sampling: Sampling
    stop: Stop
    options: Options
    post_sampling_probs: bool
    stream: bool
    timings_per_token: bool
    return_progress: bool
    verbose: bool


T = TypeVar("T", Sampling, Stop)


def _with_usual(base: T, record: str, usual: Mapping[str, Any]) -> T:
    """``base`` with what is usual in a dialect, where the server was not started with something else."""
    rows = (row for row in PARAMETERS if row.record == record and row.name in usual)
    return replace(
        base, **{row.field: usual[row.name] for row in rows if getattr(base, row.field) == row.default}
    )


def read_common(fields: Fields, context: Context, usual: Mapping[str, Any] = MappingProxyType({})) -> Common:
    """Raises ApiError (400). Without a limit of its own a text has the server's, or none.

    ``usual``: what a dialect's clients mean by leaving a parameter out, by its name.
    """
    limit = context.settings.n_predict
    stop = Stop(max_tokens=limit if limit >= 0 else None)
    return Common(
        n=read_n(fields, 1, context.services.max_n),
        sampling=read_sampling(
            fields, _with_usual(context.settings.sampling, "sampling", usual), context.engine
        ),
        stop=read_stop(fields, _with_usual(stop, "stop", usual)),
        options=read_options(
            fields, context.settings.context_shift, context.engine, usual.get("overflow", "error")
        ),
        post_sampling_probs=fields.flag("post_sampling_probs"),
        stream=fields.flag("stream"),
        timings_per_token=fields.flag("timings_per_token"),
        return_progress=fields.flag("return_progress"),
        verbose=fields.flag("verbose"),
    )


# ---- values for each branch


def split_branches(fields: Fields) -> tuple[Fields, list[Fields] | None]:
    """Fields that hold for all branches, and those with a list of values, one a branch, as one body each.

    A list is one value a branch where the field takes a single value, and a list of lists (or nulls) where it
    takes a list. None where there is no such field. Raises ApiError (400) for lists of several lengths.
    """
    listed = {name: value for name, value in fields.values.items() if _for_each(name, value)}
    if not listed:
        return fields, None
    lengths = {len(value) for value in listed.values()}
    name = next(iter(listed))
    if len(lengths) > 1:
        raise bad(name, f"Fields {', '.join(listed)}: lists of values for each branch must be equally long")
    count = lengths.pop()
    n = fields.integer("n", count)
    if n != count:
        raise bad(name, f"Field '{name}': {count} values for {n} branches")
    common = {name: value for name, value in fields.values.items() if name not in listed}
    own = [{name: value[k] for name, value in listed.items()} for k in range(count)]
    return Fields({**common, "n": count}), [Fields(values) for values in own]


def _for_each(name: str, value: Any) -> bool:
    """Whether a field holds one value a branch."""
    parameter = BY_NAME.get(name)
    if parameter is None or parameter.record == "request" or not isinstance(value, list) or not value:
        return False
    items = cast("list[Any]", value)
    if parameter.kind in ("texts", "ids"):
        return all(item is None or isinstance(item, list) for item in items) and any(items)
    return parameter.kind != "biases" and len(items) <= limits.BRANCHES


def read_branches(
    fields: Fields, context: Context, n: int, sampling: Sampling, stop: Stop
) -> tuple[Fields, tuple[Sampling, ...], tuple[Stop, ...] | Stop]:
    """How each of n branches is written, from ``sampling`` and ``stop`` on. Raises ApiError (400).

    An explicit seed counts up from branch to branch, unless there is one for each.
    """
    fields, own = split_branches(fields)
    sampling, stop = read_sampling(fields, sampling, context.engine), read_stop(fields, stop)
    every = branch_samplings(sampling, n)
    if own is None:
        return fields, every, stop
    if len(own) != n:
        raise bad("n", f"Field 'n': values for {len(own)} branches, and there are {n}")
    pairs: Sequence[tuple[Fields, Sampling]] = list(zip(own, every, strict=True))
    return (
        fields,
        tuple(read_sampling(one, base, context.engine) for one, base in pairs),
        tuple(read_stop(one, stop) for one in own),
    )


def read_biases(fields: Fields, engine: Backend) -> tuple[tuple[int, float], ...]:
    """``logit_bias`` as pairs or as an object, by id or by text; and ``custom_token_bans``."""
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
    """Token ids that are never to be chosen: a list of them, or a text with commas."""
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
    """Ids that a key of ``logit_bias`` means; ids outside the vocabulary mean nothing."""
    if isinstance(key, str):
        if len(key) > limits.LIST_CHARS:
            raise bad("logit_bias", f"Field 'logit_bias': a text of more than {limits.LIST_CHARS} characters")
        if not key.removeprefix("-").isdecimal() or len(key) > 12:
            return engine.tokenize(key)
        key = int(key)
    if not is_integer(key):
        raise bad("logit_bias", "Field 'logit_bias': a token is an id or a text")
    return [key] if 0 <= key < n_vocab else []


Scales: TypeAlias = "tuple[tuple[int, float], ...]"


def read_lora(fields: Fields, engine: Backend) -> Scales | None:
    """The adapters that a request wants; None where it names none, or has a list for each branch.

    Raises ApiError: 400 for what means nothing, 501 where there are no adapters at all.
    """
    value = fields.raw("lora")
    if not value or _one_each(value):
        return None
    return _used(read_scales(value), engine)


def for_each_branch(request: Request, fields: Fields, engine: Backend) -> list[Request]:
    """``request``, or one for each of its branches where ``lora`` holds a list for each of them.

    What branches with the same adapters have in common is evaluated once all the same. Raises ApiError.
    """
    value = fields.raw("lora")
    if not _one_each(value):
        return [request]
    n = request.n
    if len(value) != n:
        raise bad("lora", f"Field 'lora': {len(value)} lists of adapters for {n} branches")
    sets = [_used(read_scales(entry), engine) if entry else None for entry in value]
    return [
        replace(
            request, n=1, sampling=_own(request.sampling, k), stop=_own(request.stop, k), lora=sets[k]
        )
        for k in range(n)
    ]  # fmt: skip


def _own(given: Any, k: int) -> Any:
    """What is the k-th branch's of one for all or one for each."""
    return cast("tuple[Any, ...]", given)[k] if isinstance(given, tuple) else given


def _one_each(value: Any) -> bool:
    entries: list[object] = cast("list[object]", value) if isinstance(value, list) else []
    lists = sum(1 for entry in entries if isinstance(entry, list))
    return lists > 0 and all(entry is None or isinstance(entry, list) for entry in entries)


def adapters_of(engine: Backend) -> Adapters | None:
    return getattr(engine, "adapters", None)


def need_adapters(engine: Backend) -> Adapters:
    """Raises ApiError (501) where there are none."""
    if adapters := adapters_of(engine):
        return adapters
    raise ApiError(501, "this server was started without LoRA adapters; give it some with --lora")


def _used(scales: Scales, engine: Backend) -> Scales:
    """Adapters at scale 0 are none, so that every server takes them."""
    used = tuple((number, scale) for number, scale in scales if scale)
    passed_on = not hasattr(engine, "adapters") and not engine.lacks("lora")  # who runs it knows its own
    if used and not passed_on:
        need_adapters(engine)
    return used


def read_scales(value: Any) -> Scales:
    """``[{"id": 0, "scale": 0.5}]``; a scale that is not there is 1. Raises ApiError (400)."""
    problem = bad("lora", "Field 'lora': expected a list of objects with id and scale")
    if not isinstance(value, list):
        raise problem
    entries = cast("Sequence[Any]", value)
    if len(entries) > MOST_ADAPTERS:
        raise bad("lora", f"Field 'lora': {len(entries)} adapters, {MOST_ADAPTERS} are possible")
    found: list[tuple[int, float]] = []
    for entry in entries:
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        number, scale = fields.get("id"), fields.get("scale", 1.0)
        if not is_integer(number) or not is_number(scale):
            raise problem
        found.append((cast(int, number), float(scale)))
    return tuple(found)
