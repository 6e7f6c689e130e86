"""Bounds of one request, and checks against them. Only those of a body's JSON are in another module.

llama.cpp does not check a number: it allocates memory for a window of two thousand million tokens for every
branch, and the system ends the process. Bounds of a single parameter are at its field in
:mod:`srbwriter.engine.types`, made from these.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, cast

from .errors import InvalidRequest, OutOfRange

TOKENS = 1_000_000
"""Most tokens that a branch may write, or a sampler look back; no context is larger."""

PROMPT_CHARS = 4_000_000
"""Characters of a prompt, or of a text to be made tokens; it takes less than a second."""

PROMPT_IDS = TOKENS
PROMPTS = 128
"""Prompts of one request."""

TEXTS = 2048
"""Texts of one request for embeddings."""

BRANCHES = 1024
"""Branches that a request may have had in all, those that were added later included."""

LOGPROBS = 100
"""Likeliest tokens reported for each token of a text."""

STOPS, STOP_CHARS, STOPS_CHARS = 256, 1000, 20_000
"""Stop texts; characters of one, and of all together: every token is compared with all of them."""

PHRASES, PHRASE_CHARS, PHRASES_CHARS = 2048, 200, 100_000
"""Banned phrases; characters of one, and of all together: a list made elsewhere has a thousand."""

IDS = 4096
"""Tokens that end a text, or of which it is asked how likely they are."""

BIASES = 65_536
"""Tokens that are made likelier or less likely; half of a large vocabulary."""

BREAKERS, BREAKER_CHARS = 64, 40
"""DRY's breakers. Its start takes longer with each, and llama.cpp cuts longer ones off."""

SAMPLERS = 32
CONSTRAINT_CHARS = 65_536
"""Characters of a grammar, a JSON schema or a regular expression: half a second of work at the worst."""

LIST, LIST_CHARS = 256, 1000
"""Texts of a list that no other bound is for, and characters of each."""

MESSAGES = 4096
"""Messages of a conversation."""


def check_range(name: str, value: float, low: float | None, high: float | None) -> None:
    """Raise OutOfRange for a number below ``low`` or above ``high``; None is no bound."""
    if (low is not None and value < low) or (high is not None and value > high):
        raise OutOfRange(name, value, low, high)


def check_list(name: str, values: Sequence[object]) -> None:
    """Raise InvalidRequest for more than ``LIST`` values, or a text of more than ``LIST_CHARS``."""
    if len(values) > LIST:
        raise InvalidRequest(name, f"{len(values)} entries, {LIST} are possible")
    if any(isinstance(value, str) and len(value) > LIST_CHARS for value in values):
        raise InvalidRequest(name, f"a text of more than {LIST_CHARS} characters")


def check_prompt(field: str, chars: int, ids: int = 0) -> None:
    """Raise InvalidRequest for a text or a list of token ids that is too long."""
    if chars > PROMPT_CHARS:
        raise InvalidRequest(field, f"it has {chars} characters, {PROMPT_CHARS} are possible")
    if ids > PROMPT_IDS:
        raise InvalidRequest(field, f"it has {ids} token ids, {PROMPT_IDS} are possible")


def check_ids(name: str, ids: Any, n_vocab: int) -> None:
    """Raise InvalidRequest for field ``name`` unless ``ids`` are ids of the vocabulary."""
    if not isinstance(ids, Iterable) or isinstance(ids, Set | Mapping):
        raise InvalidRequest(name, f"{reprlib.repr(cast('object', ids))} is not a sequence of token ids")
    try:
        wrong = next((t for t in cast("Iterable[Any]", ids) if not 0 <= operator.index(t) < n_vocab), None)
    except TypeError:
        raise InvalidRequest(name, f"{reprlib.repr(cast('object', ids))} holds what is no token id") from None
    if wrong is not None:
        raise InvalidRequest(name, f"token id {wrong} is not in 0 … {n_vocab - 1}")


def one_or_each(name: str, given: Any, n: int) -> tuple[Any, ...]:
    """One for all branches, or one for each. Raises InvalidRequest for another number."""
    if not isinstance(given, tuple):
        return (given,)
    several = cast("tuple[Any, ...]", given)
    if len(several) != n:
        raise InvalidRequest(name, f"one for each of {n} branches, got {len(several)}")
    return several
