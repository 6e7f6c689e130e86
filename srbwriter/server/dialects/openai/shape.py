"""Log-probabilities in OpenAI's answers.

They carry the legacy arrays and the chat list at once, because clients of the same path read either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srbwriter.engine.backend import Backend
from srbwriter.engine.types import TokenLogprob
from srbwriter.server.tokens import Written, token_text

LEAST = -9999.0
"""Stands for minus infinity, which JSON cannot write; vLLM's choice."""


def legacy_logprobs(engine: Backend, tokens: Sequence[Written], offset: int = 0) -> dict[str, Any]:
    """``tokens``, ``token_logprobs``, ``top_logprobs``, ``text_offset``; and ``content`` beside them."""
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob and finite(token.logprob.logprob) for token in tokens],
        "top_logprobs": [token.logprob and _top(engine, token.text, token.logprob) for token in tokens],
        "text_offset": [offset + token.start for token in tokens],
        "content": content_logprobs(engine, [token for token in tokens if token.logprob is not None]),
    }


def content_logprobs(engine: Backend, tokens: Sequence[Written]) -> list[dict[str, Any]]:
    """The list that chat answers carry."""
    return [
        {
            **_entry(engine, token.id, token.logprob.logprob),
            "top_logprobs": [_entry(engine, id, logprob) for id, logprob in token.logprob.top],
        }
        for token in tokens
        if token.logprob is not None
    ]


def finite(logprob: float) -> float:
    return max(logprob, LEAST)


def _top(engine: Backend, text: str, known: TokenLogprob) -> Mapping[str, float]:
    best = {token_text(engine, id): finite(logprob) for id, logprob in reversed(known.top)}
    best = dict(reversed(best.items()))
    best.setdefault(text or token_text(engine, known.id), finite(known.logprob))
    return best


def _entry(engine: Backend, id: int, logprob: float) -> dict[str, Any]:
    return {
        "id": id,
        "token": token_text(engine, id),
        "logprob": finite(logprob),
        "bytes": list(engine.token_bytes(id)),
    }
