"""Prompts as they come over the wire: text, token ids, both mixed, or several of them."""

from __future__ import annotations

from typing import Any, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.limits import PROMPTS, check_prompt
from srbwriter.engine.types import Prompt, TokenRun

from .body import Body, is_integer
from .errors import ApiError, bad


def read_prompts(value: Any, engine: Backend) -> list[Prompt]:
    """Every prompt of a request. Raises ApiError (400).

    A text, a list of ids, a list that mixes ids and text, or ``{"prompt_string": text}`` is one prompt;
    a list of texts, of lists or of such objects is many.
    """
    if value is None:
        raise bad("prompt", "Field 'prompt': missing")
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


def wants_bos(prompt: Prompt) -> bool:
    """Whether the beginning token is to be put before a prompt; one of token ids is taken as it is."""
    return isinstance(prompt, str) or isinstance(next(iter(prompt), None), TokenRun)  # never runs and ids


def read_penalty_prompt(body: Body, engine: Backend) -> Prompt | None:
    """What penalties look back at: None is the prompt, what is empty nothing. Raises ApiError (400)."""
    value = body.raw("penalty_prompt")
    if value is None or value in ("", []):
        return None if value is None else ()
    if not isinstance(value, str | list):
        raise bad("penalty_prompt", "Field 'penalty_prompt': expected text or token ids")
    return _one(value, engine)


def _one(value: Any, engine: Backend) -> Prompt:
    if isinstance(value, str):
        check_prompt("prompt", len(value))
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.get("multimodal_data"):
            raise ApiError(501, "this model reads text only; no images or other media")
        text = fields.get("prompt_string")
        if isinstance(text, str):
            return _one(text, engine)
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        check_prompt("prompt", sum(len(item) for item in items if isinstance(item, str)), len(items))
        if all(is_integer(item) for item in items):
            return _checked(items, engine)
        if all(is_integer(item) or isinstance(item, str) for item in items):
            return _mixed(items, engine)
    raise bad("prompt", "Field 'prompt': expected text, token ids, or a list of these")


def _checked(ids: list[int], engine: Backend) -> list[int]:
    n_vocab = engine.info.n_vocab
    wrong = next((token for token in ids if not 0 <= token < n_vocab), None)
    if wrong is not None:
        raise bad("prompt", f"Field 'prompt': token id {wrong} is not in the vocabulary")
    return ids


def _mixed(items: list[int | str], engine: Backend) -> list[int]:
    """Texts and ids in one run; a text at the very start gets the beginning token."""
    ids: list[int] = []
    for position, item in enumerate(items):
        ids += [item] if isinstance(item, int) else engine.tokenize(item, add_bos=position == 0)
    return _checked(ids, engine)
