"""KoboldCpp: one branch a request, text both ways, as its ``/api/extra/generate/stream`` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...parameters import spelled
from ...types import FinishReason
from .. import letters
from ..options import RemoteOptions
from ..profile import Profile
from ..transport import Transport
from .base import Ask, Dialect, News, Piece, decoded, model_info

_STREAM = "/api/extra/generate/stream"
_FIELDS = spelled("koboldcpp")
_OTHERS = {
    "seed", "grammar", "repeat_last_n", "dry_penalty_last_n", "dry_sequence_breakers", "banned_phrases",
}  # fmt: skip
_UNLIMITED = 1 << 14


class Event(msgspec.Struct, gc=False):
    token: str
    finish_reason: str | None


class KoboldCpp(Dialect):
    """One KoboldCpp."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        self.transport, self.options = transport, options
        self._decoder = msgspec.json.Decoder(Event)
        self._window = 0

    async def probe(self) -> Profile:
        version = await self.transport.ask("GET", "/api/extra/version")
        model = await self.transport.ask("GET", "/api/v1/model")
        window = int((await self.transport.ask("GET", "/api/extra/true_max_context_length"))["value"])
        self._window = min(self.options.n_ctx or window, window)
        info = model_info(
            str(model["result"]), self.transport.where, self._window, letters.FINGERPRINT,
            n_vocab=letters.SIZE, description="text only: counts of tokens are estimates",
        )  # fmt: skip
        return Profile(
            "koboldcpp", f"{version.get('result', 'KoboldCpp')} {version.get('version', '')}".strip(), info,
            sampling=frozenset({*_FIELDS, *_OTHERS}), stops=frozenset({"ignore_eog"}), requests=1,
        )  # fmt: skip

    def request(self, ask: Ask) -> tuple[str, dict[str, Any]]:
        sampling = ask.sampling
        last = self._window
        body: dict[str, Any] = {
            "prompt": letters.decode(ask.ids),
            "max_length": _UNLIMITED if ask.max_tokens is None else ask.max_tokens,
            "max_context_length": self._window,
            "sampler_seed": ask.seeds[0],
            "ban_eos_token": ask.ignore_eog,
            "bypass_eos": False,
            "trim_stop": True,
            **{theirs: getattr(sampling, ours) for ours, theirs in _FIELDS.items()},
            "rep_pen_range": last if sampling.repeat_last_n < 0 else sampling.repeat_last_n,
            "dry_penalty_last_n": last if sampling.dry_penalty_last_n < 0 else sampling.dry_penalty_last_n,
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        }
        if sampling.banned_phrases:
            body["banned_strings"] = list(sampling.banned_phrases)
        if sampling.grammar:
            body["grammar"] = sampling.grammar
        return _STREAM, body

    def read(self, data: bytes) -> Sequence[News]:
        event = decoded(self._decoder, data, self.transport.where)
        finish = None
        if event.finish_reason is not None and event.finish_reason != "null":
            finish = FinishReason.LENGTH if event.finish_reason == "length" else FinishReason.EOG
        return (Piece(0, event.token, tuple(letters.encode(event.token)), finish=finish),)
