"""llama-server's own ``/completion``: every sampler, several branches in one request.

Facts from its sources (tools/server, October 2026): child k is seeded seed + k; ``n_cmpl`` may be at most the
number of slots; the beginning token is put before a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from ...parameters import spelled
from ...types import FinishReason
from ..options import RemoteOptions
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from .base import (
    Completion,
    Dialect,
    StreamEvent,
    Tokens,
    decoded,
    model_info,
    sampler_fields,
)

_SCALARS = tuple(spelled("llamacpp"))
_FINISH = {"limit": FinishReason.LENGTH, "eos": FinishReason.EOG, "word": FinishReason.STOP}


class Score(msgspec.Struct, gc=False):
    logprob: float | None = None


class Event(msgspec.Struct, gc=False):
    index: int
    content: str
    stop: bool
    stop_type: str = "none"
    completion_probabilities: list[Score] | None = None
    prompt_progress: dict[str, float] | None = None


class LlamaCpp(Dialect):
    """One llama-server."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self._decoder = msgspec.json.Decoder(Event)

    async def probe(self) -> Profile:
        props: dict[str, Any] = await self.transport.ask("GET", "/props")
        card: dict[str, Any] = (await self.transport.ask("GET", "/v1/models"))["data"][0]
        meta = cast("dict[str, Any]", card.get("meta") or {})
        slots = int(props.get("total_slots") or 1)
        window = int(props["default_generation_settings"]["n_ctx"])
        # They call a model by its file where nobody gave it another name.
        name = PurePosixPath(str(card["id"])).name.removesuffix(".gguf")
        info = model_info(
            name, self.transport.where, min(self.options.n_ctx or window, window),
            n_embd=int(meta.get("n_embd") or 0),
            n_params=int(meta.get("n_params") or 0), size=int(meta.get("size") or 0),
            n_ctx_train=int(meta.get("n_ctx_train") or window), description=str(meta.get("ftype") or ""),
            chat_template=props.get("chat_template") or None,
        )  # fmt: skip
        return Profile(
            "llamacpp", f"llama-server {props.get('build_info', '')}".strip(), info, many=slots,
            logprobs=True, sampling=ALL_SAMPLING - {"regex", "infill", "banned_phrases"},
            stops=frozenset({"ignore_eog"}),
            request=frozenset({"cache_prompt"}), requests=slots, template=True,
        )  # fmt: skip

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, request = completion.sampling, completion.request
        body: dict[str, Any] = {
            "prompt": completion.text,
            "stream": True,
            "return_progress": True,  # a sign of life while a long prompt is evaluated
            "cache_prompt": request.cache_prompt,
            "n_predict": -1 if completion.max_tokens is None else completion.max_tokens,
            "n_cmpl": completion.n,
            "seed": completion.seed,
            "ignore_eos": completion.ignore_eog,
            **{name: getattr(sampling, name) for name in _SCALARS},
            "repeat_last_n": max(sampling.repeat_last_n, 0)
            or (len(completion.text) if sampling.repeat_last_n else 0),
            "dry_penalty_last_n": (
                self.options.n_ctx or 1 << 20
                if sampling.dry_penalty_last_n < 0
                else sampling.dry_penalty_last_n
            ),
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers) or ["\n"],
        }
        if request.logprobs is not None:
            body["n_probs"] = 1
        return "/completion", body | sampler_fields(sampling)

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        event = decoded(self._decoder, data, self.transport.where)
        if event.prompt_progress is not None:
            return ()
        finish = _FINISH.get(event.stop_type, FinishReason.EOG) if event.stop else None
        known = event.completion_probabilities or () if finish is None else ()
        logprobs = tuple(score.logprob if score.logprob is not None else -9999.0 for score in known)
        return (Tokens(event.index, event.content, logprobs, finish),)

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        if messages[-1].get("role") == "assistant" and not options.get("continue_final_message"):
            return None  # which it would go on with
        return await self.apply_template(messages, **options)
