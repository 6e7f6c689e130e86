"""Fields of requests and options: what each means, its range, its other names, and the check of it.

A struct says all of that once, in the annotation of the field (:func:`knob`); :class:`Parameter` is that,
read back for the faces. Must not import anything heavy: the command line prints its help from the fields.
"""

from __future__ import annotations

import math
import re
import reprlib
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from threading import Lock
from types import NoneType
from typing import Any, Literal, TypeGuard, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError, structs

from . import limits
from .errors import InvalidRequest, OutOfRange

Kind = Literal["int", "float", "bool", "text", "choice", "texts", "ids", "biases"]
"""Shape of a value: the last three are tuples of strings, of token ids, of (token id, bias)."""

_INT64 = 2**63 - 1  # msgspec compares with no larger bound


def knob(
    group: str, title: str, help: str, low: float | None = None, high: float | None = None,
    step: float | None = None, *, most: int | None = None, aliases: str = "", flags: str = "", **more: Any,
) -> Meta:  # fmt: skip
    """Return the annotation of a field; see :class:`Parameter`. Names and flags are separated by spaces.

    ``most`` is the number of entries of a tuple, or of characters of a text.
    """
    extra = {"group": group, "maximum": high, "step": step, **more}
    extra |= {"aliases": tuple(aliases.split()), "flags": tuple(flags.split())}
    bounds: dict[str, Any] = {"ge": low, "max_length": most}
    if high is not None and high <= _INT64:
        bounds["le"] = high
    return Meta(title=title, description=help, extra=extra, **bounds)


@dataclass(frozen=True)
class Parameter:
    """One field of a request.

    ``name`` is what faces call it, ``field`` what ``record`` calls it, ``title`` what people do.
    ``step`` is a sensible increment for a control; ``flags`` follow llama-server where it has the same
    thing. ``most`` entries may a tuple have, ``longest`` characters a text, ``in_all`` all texts of a tuple.
    A ``size`` above its maximum is refused by every face; other numbers out of range may be bent into it.
    ``elsewhere`` names the engines of others that take the field as it is, each with its name of the field
    where that is another one: ``llamacpp vllm=repetition_penalty``. ``first`` marks the few that writers
    change first.
    """

    record: Literal["sampling", "stop", "request"]
    field: str
    hint: Any
    kind: Kind
    optional: bool  # None is a value: off, or left to the engine
    default: Any
    choices: tuple[str, ...]
    title: str
    help: str
    minimum: float | None
    maximum: float | None
    most: int | None
    longest: int | None
    group: str
    step: float | None
    aliases: tuple[str, ...]
    flags: tuple[str, ...]
    public: str = ""
    in_all: int | None = None
    size: bool = False
    elsewhere: str = ""
    first: bool = False

    @property
    def name(self) -> str:
        return self.public or self.field

    def check(self, value: Any, name: str = "") -> None:
        """Raise InvalidRequest for a value of another kind, OutOfRange for a number out of range.

        ``name`` is the spelling of the field that the error is to name.
        """
        name = name or self.name
        if self.kind in ("int", "float") and isinstance(value, int | float) and not isinstance(value, bool):
            limits.check_range(name, value, self.minimum, self.maximum)
        try:
            msgspec.convert(value, self.hint)
        except ValidationError:
            raise InvalidRequest(name, self._problem(value)) from None
        self.check_rest(value, name)

    def check_rest(self, value: Any, name: str = "") -> None:
        """Check what no annotation says of texts and biases. Raises InvalidRequest."""
        if self.kind == "biases" and any(bias != -math.inf and not is_number(bias) for _, bias in value):
            raise InvalidRequest(name or self.name, f"{reprlib.repr(value)} is not {_WORDS['biases']}")
        if self.kind not in ("text", "texts") or not value:
            return
        texts: tuple[str, ...] = (value,) if self.kind == "text" else value
        if self.in_all is not None and (length := sum(map(len, texts))) > self.in_all:
            problem = f"{length} characters in all, {self.in_all} are possible"
            raise InvalidRequest(name or self.name, problem)
        for text in texts:  # libraries take whole characters only
            if not text.isascii() and _HALF.search(text):
                problem = f"{reprlib.repr(text)} holds half of a surrogate pair, which is no character"
                raise InvalidRequest(name or self.name, problem)

    def clamp(self, value: float) -> float:
        """Return the nearest number in range."""
        value = value if self.minimum is None else max(value, self.minimum)
        return value if self.maximum is None else min(value, self.maximum)

    def fit(self, value: float, name: str = "", low: float | None = None) -> float:
        """Return the nearest number in range; raise OutOfRange for a size above its maximum.

        ``name`` is the spelling that the error is to name, ``low`` a minimum in place of the parameter's.
        """
        low = self.minimum if low is None else low
        if self.size and self.maximum is not None and value > self.maximum:
            raise OutOfRange(name or self.name, value, low, self.maximum)
        return max(self.clamp(value), value if low is None else low)

    def _problem(self, value: Any) -> str:
        """Return why a value is refused."""
        shown = reprlib.repr(value)
        if self.choices:
            return f"{shown} is not one of {', '.join(self.choices)}"
        entries = list(cast("list[Any]", value)) if isinstance(value, tuple | list) else [value]
        if self.most is not None and len(entries) > self.most:
            return f"{len(entries)} entries, {self.most} are possible"
        length = max((len(entry) for entry in entries if isinstance(entry, str)), default=0)
        if self.longest is not None and length > self.longest:
            return f"a text of {length} characters, {self.longest} are possible"
        return f"{shown} is not {_WORDS[self.kind]}"


_HALF = re.compile("[\ud800-\udfff]")
_WORDS: dict[Kind, str] = {
    "int": "a whole number",
    "float": "a finite number",
    "bool": "true or false",
    "text": "text",
    "choice": "text",
    "texts": "a sequence of texts",
    "ids": "a sequence of token ids",
    "biases": "a sequence of (token id, bias), where a bias is a finite number or minus infinity",
}
_KINDS: dict[Any, Kind] = {int: "int", float: "float", bool: "bool", str: "text"}
_KINDS_OF_TUPLES: dict[Any, Kind] = {str: "texts", int: "ids", tuple: "biases"}


@cache
def parameters_of(kind: type[Struct]) -> tuple[Parameter, ...]:
    """Return the fields of a struct that have a :func:`knob`, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = ((field, hints[field.name], _annotated(hints[field.name])) for field in structs.fields(kind))
    record = kind.__name__.lower()
    return tuple(
        _parameter(record, field, hint, inner)
        for field, hint, inner in found
        if inner is not None and inner.__metadata__[-1].title
    )


def _annotated(hint: Any) -> Any:
    """Return the part of a type that has a :func:`knob`; None where none has."""
    return next((part for part in (hint, *get_args(hint)) if hasattr(part, "__metadata__")), None)


def _parameter(record: Any, field: structs.FieldInfo, hint: Any, inner: Any) -> Parameter:
    base, meta = inner.__origin__, cast("Meta", inner.__metadata__[-1])
    choices, longest, most = (), meta.max_length if base is str else None, None
    if get_origin(base) is tuple:
        item = get_args(base)[0]
        most, longest = meta.max_length, item.__metadata__[0].max_length if _annotated(item) is item else None
        kind = _KINDS_OF_TUPLES[get_origin(item) or item] if longest is None else "texts"
    elif isinstance(base, type) and issubclass(base, IntEnum):
        kind, choices = "choice", tuple(member.name.lower() for member in base)
    else:
        kind = _KINDS.get(base, "choice")
        choices = get_args(base) if kind == "choice" else ()
    extra = cast("dict[str, Any]", meta.extra)
    return Parameter(
        record, field.name, hint, kind, NoneType in get_args(hint),
        None if field.default is NODEFAULT else field.default, choices,
        meta.title or "", meta.description or "", meta.ge, most=most, longest=longest, **extra,
    )  # fmt: skip


_LOOKING, _looked_at = Lock(), set[type[Struct]]()


def check_fields(value: Struct, plain: Any = None) -> None:
    """Raise InvalidRequest for the first field of a struct that cannot mean anything.

    ``plain`` are its values, where some of them have other types than the struct, such as paths.
    """
    kind = type(value)
    if kind not in _looked_at:
        with _LOOKING:  # msgspec 0.22 crashes where two threads are the first to convert into a struct
            with suppress(ValidationError):
                msgspec.convert({}, kind)
            _looked_at.add(kind)
    try:
        msgspec.convert(plain or structs.asdict(value), kind)
    except ValidationError as error:
        for parameter in parameters_of(kind):
            parameter.check(getattr(value, parameter.field))
        words, _, field = str(error).partition(" - at `$.")
        raise InvalidRequest(re.split(r"[.\[`]", field)[0], words.replace("`", "")) from None
    for row in parameters_of(kind):
        if row.kind in ("text", "texts", "biases") and (given := getattr(value, row.field)):
            row.check_rest(given)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a finite number that a float can hold; truths are none."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
