"""Prompts and token ids of a body, as the engine is given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.infill import infill_ids
from srbwriter.engine.limits import PROMPTS, check_prompt
from srbwriter.engine.types import Prompt, TokenRun
from srbwriter.server.errors import ApiError, bad, missing


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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


def refuse_media(values: Mapping[str, Any]) -> None:
    """Raise ApiError (501) for pictures and other media beside a text."""
    if values.get("image_data") or values.get("multimodal_data"):
        raise ApiError(501, "this model reads text only; no images or other media")


def wants_bos(prompt: Prompt) -> bool:
    """Whether the beginning token is to be put before a prompt; one of token ids is taken as it is."""
    return isinstance(prompt, str) or isinstance(next(iter(prompt), None), TokenRun)  # never runs and ids


def read_penalty_prompt(value: Any, engine: Backend) -> Prompt | None:
    """Return the text that penalties look back at: None for the prompt, "" for none.

    Raises ApiError (400).
    """
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
    """Return the token ids of mixed texts and ids; a text at the start may get the BOS token.

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


def fill(
    engine: Backend, prefix: Prompt, suffix: str, files: Sequence[tuple[str, str]] = (), field: str = "prompt"
) -> list[int]:
    """Return a fill-in-the-middle prompt as token ids: two texts, and other files as context.

    Raises NotSupported, and InvalidRequest that names ``field`` where they are too long.
    """
    check_prompt(field, len(prefix) + len(suffix) + sum(len(text) for _, text in files))
    return infill_ids(engine, prefix, suffix, files)
