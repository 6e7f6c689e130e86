"""Another srbwriter: rich event lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import msgspec

from ...parameters import PARAMETERS
from ...types import FinishReason, ModelInfo, Priority, RemoteError
from ..options import RemoteOptions
from ..problems import garbage, own_words
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from ..vocabulary import FINGERPRINT, SIZE, decode
from .base import Completion, Dialect, Rewound, StreamEvent, Tokens, decoded, sampler_fields

_COMPLETIONS = "/srb/v1/completions?sse=1&rich=1"
_NAMES = {p.field: p.name for p in PARAMETERS if p.record == "sampling"}
_OWN = {
    "seed",
    "samplers",
    "logit_bias",
    "grammar",
    "json_schema",
    "regex",
    "dry_sequence_breakers",
    "banned_phrases",
}
"""Fields of Sampling that are not sent as they are."""


class Logprob(msgspec.Struct, gc=False):
    logprob: float


class Event(msgspec.Struct, gc=False):
    event: str
    index: int = -1
    text: str | None = None
    logprobs: list[Logprob] = msgspec.field(default_factory=list[Logprob])
    reason: str = ""
    chars: int = 0
    error: Any = None


class Srb(Dialect):
    """One srbwriter that serves."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self._decoder = msgspec.json.Decoder(Event)

    async def probe(self) -> Profile:
        card: dict[str, Any] = await self.transport.ask("GET", "/srb/v1/model")
        names = {field.name for field in fields(ModelInfo)}
        info = ModelInfo(**{name: value for name, value in card["info"].items() if name in names})
        n_ctx = min(self.options.n_ctx or card["n_ctx"], card["n_ctx"])
        info = replace(info, n_ctx=n_ctx, n_vocab=SIZE, vocab=FINGERPRINT)
        lacking = dict[str, str](card.get("lacks", {}))
        return Profile(
            "srb", f"srbwriter {card['version']}", info, many=int(card["max_n"]), lacking=lacking,
            logprobs="logprobs" not in lacking, sampling=ALL_SAMPLING - lacking.keys(),
            stops=frozenset({"min_tokens", "ignore_eog"}) - lacking.keys(),
            request=frozenset({"cache_prompt", "penalty_prompt", "siblings", "repulsion"}),
            template=bool(info.chat_template),
        )  # fmt: skip

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, request = completion.sampling, completion.request
        body: dict[str, Any] = {
            "prompt": completion.text,
            "parse_special": True,  # a chat template writes them
            "n": completion.n,
            "seed": completion.seed,
            "max_tokens": -1 if completion.max_tokens is None else completion.max_tokens,
            "min_tokens": completion.min_tokens,
            "ignore_eos": completion.ignore_eog,
            "stop": [],
            "after_any": [],
            **{name: getattr(sampling, field) for field, name in _NAMES.items() if field not in _OWN},
        }
        if sampling.dry_multiplier:
            body["dry_sequence_breakers"] = list(sampling.dry_sequence_breakers)
        if sampling.banned_phrases:
            body["banned_phrases"] = [list(sampling.banned_phrases)] * completion.n
        if request.logprobs is not None:
            body["logprobs"] = 0
        if request.priority > Priority.NORMAL:
            body["priority"] = request.priority.name.lower()
        if not request.cache_prompt:
            body["cache_prompt"] = False
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        if request.penalty_prompt is not None:
            body["penalty_prompt"] = decode(cast("list[int]", request.penalty_prompt))
        if completion.whole and request.siblings != "independent":  # who is rolled again is drawn by itself
            body["siblings"] = request.siblings
        if completion.whole and request.repulsion:
            body["repulsion"] = request.repulsion
        return _COMPLETIONS, body | sampler_fields(sampling)

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        event = decoded(self._decoder, data, self.transport.where)
        match event.event:
            case "stream":
                if event.index < 0 or event.text is None:
                    raise garbage(self.transport.where, data)
                return (Tokens(event.index, event.text, tuple(one.logprob for one in event.logprobs)),)
            case "stop" if event.index >= 0:
                return (Tokens(event.index, "", (), _reason(event), str(event.error or "")),)
            case "error":
                raise RemoteError(self.transport.where, own_words(data) or "it failed")
            case "cut" if event.index >= 0:
                return (Rewound(event.index, event.chars),)
            case "start" | "queue" | "prompt" | "state" | "banned" | "added" | "done":
                return ()
            case _:
                raise garbage(self.transport.where, data)

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        return await self.apply_template(messages, **options)


def _reason(event: Event) -> FinishReason:
    try:
        return FinishReason(event.reason)
    except ValueError:
        return FinishReason.STOPPED
