"""The parts of llama.cpp's answers: settings, timings, probabilities, the final object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.parameters import SAMPLERS
from srbwriter.engine.types import FinishReason
from srbwriter.server.tokens import Written, token_text

from .ask import Ask

_STOP_TYPES = {
    FinishReason.EOG: "eos",
    FinishReason.LENGTH: "limit",
    FinishReason.CONTEXT: "limit",
    FinishReason.STOP: "word",
    FinishReason.LINE: "word",
    FinishReason.SENTENCE: "word",
    FinishReason.PARAGRAPH: "word",
}
_LEAST = -9999.0


def stop_type(reason: FinishReason | None) -> str:
    return "none" if reason is None else _STOP_TYPES.get(reason, "none")


def settings_object(ask: Ask, seed: int | None = None, stream: bool = False) -> dict[str, Any]:
    """``generation_settings`` in the names that llama.cpp gives them; every number finite."""
    sampling, stop = ask.sampling, ask.stop
    names = (
        "temperature",
        "dynatemp_range",
        "dynatemp_exponent",
        "top_k",
        "top_p",
        "min_p",
        "top_n_sigma",
        "typical_p",
        "xtc_probability",
        "xtc_threshold",
        "repeat_last_n",
        "repeat_penalty",
        "presence_penalty",
        "frequency_penalty",
        "dry_multiplier",
        "dry_base",
        "dry_allowed_length",
        "dry_penalty_last_n",
        "mirostat",
        "mirostat_tau",
        "mirostat_eta",
        "adaptive_target",
        "adaptive_decay",
        "min_keep",
    )
    n_predict = -1 if stop.max_tokens is None else stop.max_tokens
    return {
        **{name: getattr(sampling, name) for name in names},
        "seed": seed if seed is not None else (sampling.seed if sampling.seed is not None else 2**32 - 1),
        "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        "samplers": list(sampling.samplers if sampling.samplers is not None else SAMPLERS),
        "logit_bias": [
            {"bias": None if math.isinf(bias) else bias, "token": token}
            for token, bias in sampling.logit_bias
        ],
        "grammar": sampling.grammar or "",
        "json_schema": sampling.json_schema or "",
        "stop": list(stop.strings),
        "max_tokens": n_predict,
        "n_predict": n_predict,
        "min_tokens": stop.min_tokens,
        "n_keep": ask.options["n_keep"],
        "n_discard": 0,
        "ignore_eos": stop.ignore_eog,
        "stream": stream,
        "n_probs": ask.n_probs,
        "post_sampling_probs": ask.post_sampling_probs,
        "timings_per_token": ask.timings_per_token,
        "lora": [{"id": id, "scale": scale} for id, scale in ask.options["lora"] or ()],
    }


def timings(generation: Generation, branch: Branch) -> dict[str, Any]:
    """Milliseconds and rates; the rate of writing leaves out the first token, whose time is the prompt's."""
    prompt = len(generation.prompt_ids) - generation.cached_tokens
    begun = branch.started_at or generation.submitted_at
    prompt_ms = max(0.0, (begun - generation.submitted_at) * 1000)
    written = len(branch.ids)
    predicted_ms = max(0.0, (branch.changed_at - begun) * 1000) if written > 1 else 0.0
    return {
        "cache_n": generation.cached_tokens,
        "prompt_n": prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, prompt),
        "prompt_per_second": _ratio(prompt * 1000, prompt_ms),
        "predicted_n": written,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": _ratio(predicted_ms, written - 1),
        "predicted_per_second": _ratio((written - 1) * 1000, predicted_ms),
    }


def _ratio(a: float, b: float) -> float:
    return a / b if a > 0 and b > 0 else 0.0


def probabilities(engine: Backend, tokens: Sequence[Written], post: bool) -> list[dict[str, Any]]:
    """``completion_probabilities`` in today's shape, with the 2024 one beside it."""
    return [_probability(engine, token, post) for token in tokens if token.logprob is not None]


def _probability(engine: Backend, token: Written, post: bool) -> dict[str, Any]:
    known = token.logprob
    assert known is not None
    top = [(id, logprob) for id, logprob in known.top if not post or math.exp(logprob) > 0]
    return {
        **_entry(engine, token.id, known.logprob, post),
        "top_probs" if post else "top_logprobs": [_entry(engine, id, logprob, post) for id, logprob in top],
        "content": token_text(engine, token.id),
        "probs": [{"tok_str": token_text(engine, id), "prob": math.exp(logprob)} for id, logprob in top],
    }


def _entry(engine: Backend, id: int, logprob: float, post: bool) -> dict[str, Any]:
    value = {"prob": math.exp(logprob)} if post else {"logprob": max(logprob, _LEAST)}
    return {"id": id, "token": token_text(engine, id), "bytes": list(engine.token_bytes(id)), **value}


def final_object(
    engine: Backend,
    generation: Generation,
    branch: Branch,
    ask: Ask,
    *,
    index: int,
    slot: int,
    model: str,
    stream: bool,
) -> dict[str, Any]:
    """The last object of a branch, which in a stream has no content."""
    reason = branch.finish_reason
    kind = stop_type(reason)
    return {
        "index": index,
        "content": "" if stream else branch.text,
        "tokens": list(branch.ids) if ask.return_tokens and not stream else [],
        "id_slot": slot,
        "stop": True,
        "model": model,
        "tokens_predicted": len(branch.ids),
        "tokens_evaluated": len(generation.prompt_ids),
        "generation_settings": settings_object(ask, branch.seed, stream),
        "prompt": b"".join(map(engine.token_bytes, generation.prompt_ids)).decode("utf-8", "replace"),
        "has_new_line": "\n" in branch.text,
        "truncated": generation.truncated,
        "stop_type": kind,
        "stopping_word": branch.stop_text or "",
        **({} if branch.error is None else {"error": str(branch.error)}),
        "stopped_eos": kind == "eos",
        "stopped_limit": kind == "limit",
        "stopped_word": kind == "word",
        "tokens_cached": len(generation.prompt_ids) + len(branch.ids),
        "timings": timings(generation, branch),
    }


def select(value: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Only ``fields``; ``a/b`` takes b out of a and puts it at the top, as llama.cpp does."""
    if not fields:
        return dict(value)
    chosen: dict[str, Any] = {}
    for path in fields:
        found: Any = value
        for part in path.split("/"):
            found = found.get(part) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if found is not None:
            chosen[path.rsplit("/", 1)[-1]] = found
    return chosen
