"""Reading one JSON body leniently: aliases, nulls, numbers written as text, values out of range, prompts.

Clients send whole settings objects. What is unknown or null is not there, what is out of range is clamped
unless a caller asks for a refusal, and what cannot mean anything is a 400 that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.limits import PROMPTS, check_prompt
from srbwriter.engine.parameters import PARAMETERS
from srbwriter.engine.types import Prompt, TokenRun
from srbwriter.server.errors import ApiError, bad, missing, out_of_range

SEED_LIMIT = 2**32

ALIASES: Mapping[str, tuple[str, ...]] = {parameter.name: parameter.aliases for parameter in PARAMETERS}
"""Other spellings of a field by its canonical name: the engine's table, nothing of our own."""

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
        """The first spelling of ``name`` that is there and not null, or None."""
        return self.found(name)[1]

    def found(self, name: str) -> tuple[str, Any]:
        """Like ``raw``, with the spelling the client used, for errors it can understand."""
        for spelling in (name, *ALIASES.get(name, ())):
            value = self.values.get(spelling)
            if value is not None and not (name in _EMPTY_IS_NONE and value in ("", [])):
                return spelling, value
        return name, None

    def has(self, name: str) -> bool:
        return self.raw(name) is not None

    def number(self, name: str, default: float, low: float | None = None, high: float | None = None) -> float:
        """A finite number, clamped to the range."""
        spelling, value = self.found(name)
        if value is None:
            return default
        return min(
            max(_number(spelling, value), -math.inf if low is None else low),
            math.inf if high is None else high,
        )

    def integer(
        self, name: str, default: int, low: int | None = None, high: int | None = None, *, hard: bool = False
    ) -> int:
        """A whole number, clamped to the range, or refused outside of it when ``hard``."""
        spelling, value = self.found(name)
        if value is None:
            return default
        number = int(_number(spelling, value))
        if (low is not None and number < low) or (high is not None and number > high):
            if hard:
                raise out_of_range(spelling, number, "-inf" if low is None else low, high)
            number = low if low is not None and number < low else cast(int, high)
        return number

    def size(self, name: str, default: int, low: int = 0, *, like: str = "") -> int:
        """A whole number whose bound is the table's: more is refused, less than ``low`` is ``low``.

        ``like``: the row that it is another name of, in one dialect.
        """
        most = _TABLE[like or name].maximum
        spelling, value = self.found(name)
        if value is None:
            return default
        number = int(_number(spelling, value))
        if most is not None and number > most:
            raise out_of_range(spelling, number, low, int(most))
        return max(number, low)

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
        """A text that has to be there, if only an empty one."""
        if not self.has(name):
            raise missing(name)
        return self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A text or a list of texts, no more and no longer than the table allows; empty ones are dropped."""
        spelling, value = self.found(name)
        if value is None:
            return ()
        items: Sequence[Any] = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise bad(spelling, f"Field '{spelling}': expected a text or a list of texts")
        texts = tuple(item for item in cast("Sequence[str]", items) if item)
        self._check(name, spelling, texts)
        return texts

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers, no more than the table allows."""
        spelling, value = self.found(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(is_integer(item) for item in cast("list[Any]", value)):
            raise bad(spelling, f"Field '{spelling}': expected a list of whole numbers")
        numbers = tuple(cast("list[int]", value))
        self._check(name, spelling, numbers)
        return numbers

    def _check(self, name: str, spelling: str, values: tuple[Any, ...]) -> None:
        """Raises ApiError (400) for a list that is too long, or holds texts that are."""
        parameter = _TABLE.get(name)
        if parameter is not None:
            problem = parameter.problem(values)
        elif len(values) > limits.LIST:
            problem = f"{len(values)} entries, {limits.LIST} are possible"
        elif any(isinstance(value, str) and len(value) > limits.LIST_CHARS for value in values):
            problem = f"a text of more than {limits.LIST_CHARS} characters"
        else:
            return
        if problem:
            raise bad(spelling, f"Field '{spelling}': {problem}")

    def seed(self) -> int | None:
        """The seed, or None to draw one; -1 and its unsigned twin mean that too."""
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


def by_its_spelling(error: ApiError, sent: Mapping[str, Any]) -> ApiError:
    """The error about the field as the client spells it in ``sent``: an engine knows only one name of it."""
    name = error.field
    if name is not None and sent.get(name) is None:
        spellings = (*ALIASES.get(name, ()), *_IN_ONE_DIALECT.get(name, ()))
        error.field = next((other for other in spellings if sent.get(other) is not None), name)
        error.message = error.message.replace(f"'{name}'", f"'{error.field}'", 1)
    return error


_IN_ONE_DIALECT = {
    "next_ids": ("ids",), "prompt": ("input", "content"),
    "grammar": ("ebnf", "structured_outputs"),
    "json_schema": ("response_format", "structured_outputs"),
    "regex": ("regex_pattern", "guided_choice", "structured_outputs"),
}  # fmt: skip
"""Other names of a field that hold for some paths only or wrap it, and so are no spellings of it."""


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float | int:
    """A finite number of JSON, or one written as text. Raises ApiError (400)."""
    problem = bad(name, f"Field '{name}': expected a number")
    if isinstance(value, bool):
        raise problem
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise problem from None
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if not isinstance(value, float) or not math.isfinite(value) or abs(value) >= 2**63:
        raise problem
    return value


def read_prompts(value: Any, engine: Backend) -> list[Prompt]:
    """Every prompt of a request. Raises ApiError (400).

    A text, a list of ids, a list that mixes ids and text, or ``{"prompt_string": text}`` is one prompt;
    a list of texts, of lists or of such objects is many.
    """
    if value is None:
        raise missing("prompt")
    if not isinstance(value, list):
        return [_one(value, engine)]
    items = cast("list[Any]", value)
    if not items:
        raise bad("prompt", "Field 'prompt': an empty list")
    if any(is_integer(item) for item in items):
        return [_one(items, engine)]
    if len(items) > PROMPTS:
        raise bad("prompt", f"Field 'prompt': at most {PROMPTS} prompts, but got {len(items)}")
    return [_one(item, engine) for item in items]


def refuse_media(fields: Fields) -> None:
    """Raise ApiError (501) for pictures and other media beside a text."""
    if fields.raw("image_data") or fields.raw("multimodal_data"):
        raise ApiError(501, "this model reads text only; no images or other media")


def wants_bos(prompt: Prompt) -> bool:
    """Whether the beginning token is to be put before a prompt; one of token ids is taken as it is."""
    return isinstance(prompt, str) or isinstance(next(iter(prompt), None), TokenRun)  # never runs and ids


def read_penalty_prompt(fields: Fields, engine: Backend) -> Prompt | None:
    """What penalties look back at: None is the prompt, what is empty nothing. Raises ApiError (400)."""
    value = fields.raw("penalty_prompt")
    if value is None or value in ("", []):
        return None if value is None else ()
    if not isinstance(value, str | list):
        raise bad("penalty_prompt", "Field 'penalty_prompt': expected text or token ids")
    return _one(value, engine, "penalty_prompt")


def read_ids(field: str, value: Any, engine: Backend) -> list[int]:
    """Token ids of the vocabulary. Raises ApiError (400) that names ``field``."""
    if value is None:
        raise missing(field)
    if not isinstance(value, list):
        raise bad(field, f"Field '{field}': expected a list of token ids")
    ids = cast("list[Any]", value)
    check_prompt(field, 0, len(ids))
    most = engine.info.n_vocab
    for id in ids:
        if not is_integer(id) or not 0 <= id < most:
            raise bad(field, f"Field '{field}': {str(id)[:40]} is no token id of the vocabulary")
    return ids


def _one(value: Any, engine: Backend, field: str = "prompt") -> Prompt:
    if isinstance(value, str):
        check_prompt(field, len(value))
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.get("multimodal_data"):
            raise ApiError(501, "this model reads text only; no images or other media")
        text = fields.get("prompt_string")
        if isinstance(text, str):
            return _one(text, engine, field)
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        check_prompt(field, sum(len(item) for item in items if isinstance(item, str)), len(items))
        if all(is_integer(item) for item in items):
            return _checked(field, items, engine)
        return read_mixed(field, items, engine)
    raise bad(field, f"Field '{field}': expected text, token ids, or a list of these")


def _checked(field: str, ids: list[int], engine: Backend) -> list[int]:
    n_vocab = engine.info.n_vocab
    wrong = next((token for token in ids if not 0 <= token < n_vocab), None)
    if wrong is not None:
        raise bad(field, f"Field '{field}': token id {wrong} is not in the vocabulary")
    return ids


def read_mixed(
    field: str, value: list[Any], engine: Backend, add_bos: bool = True, parse_special: bool = False
) -> list[int]:
    """Texts and ids in one run; a text at the very start gets the beginning token, if that is wanted.

    Raises ApiError (400) that names ``field``.
    """
    if not all(is_integer(item) or isinstance(item, str) for item in value):
        raise bad(field, f"Field '{field}': expected text, token ids, or a list of these")
    check_prompt(field, sum(len(item) for item in value if isinstance(item, str)), len(value))
    ids: list[int] = []
    for place, item in enumerate(value):
        if isinstance(item, str):
            ids += engine.tokenize(item, add_bos=add_bos and place == 0, parse_special=parse_special)
        else:
            ids.append(item)
    return _checked(field, ids, engine)
