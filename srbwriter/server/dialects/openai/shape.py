"""The parts of OpenAI's answers: finish reasons, usage, logprobs in both of their shapes.

Logprobs carry the legacy arrays and the chat list at once, because clients of the same path read either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import FinishReason, TokenLogprob
from srbwriter.server.tokens import Written, token_text

LEAST = -9999.0
"""Stands for minus infinity, which JSON cannot write; vLLM's choice."""

_BY_LENGTH = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT})


def finish_reason(reason: FinishReason | None) -> str:
    """``stop``, ``length``, or ``error`` for a choice that could not go on beside others that could."""
    if reason is FinishReason.ERROR:
        return "error"
    return "length" if reason in _BY_LENGTH else "stop"


def problem(branch: Branch) -> dict[str, str]:
    """What is added to a choice that could not go on: why, in words."""
    return {} if branch.error is None else {"error": str(branch.error)}


def usage(generations: Iterable[Generation]) -> dict[str, Any]:
    """Tokens of all prompts, each once, and of all branches."""
    prompt = completion = cached = 0
    for generation in generations:
        prompt += len(generation.prompt_ids)
        cached += generation.cached_tokens
        completion += sum(len(branch.ids) for branch in generation.branches)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


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
