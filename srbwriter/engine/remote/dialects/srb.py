"""Another srbwriter: rich event lines, and its verbs on the branches of a running request."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from ...parameters import PARAMETERS
from ...types import FinishReason, ModelInfo, Priority, RemoteError, Request, TokenLogprob
from ..options import RemoteOptions
from ..problems import garbage, own_words
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from .base import (
    Completion,
    Dialect,
    PromptEvaluated,
    RequestId,
    Rewound,
    StreamEvent,
    Tokens,
    ask_llama_tokens,
    begins_one,
    decoded,
    sampler_fields,
)

_COMPLETIONS = "/srb/v1/completions?sse=1&rich=1"
_VOCABULARY = "/srb/v1/vocabulary"
_NAMES = {p.field: p.name for p in PARAMETERS if p.record == "sampling"}


class Logprob(msgspec.Struct, gc=False):
    id: int
    logprob: float
    top: list[tuple[int, float]]


class Event(msgspec.Struct, gc=False):
    event: str
    index: int = -1
    text: str | None = None
    ids: list[int] | None = None
    logprobs: list[Logprob] = msgspec.field(default_factory=list[Logprob])
    reason: str = ""
    cached: int = 0
    chars: int = 0
    done: int = 0
    total: int = -1
    id: str = ""
    error: Any = None


class Srb(Dialect):
    """One srbwriter that serves."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self._decoder = msgspec.json.Decoder(Event)
        self._pieces: list[bytes] = []
        self._special: list[bytes] = []
        self._sorted: list[bytes] = []
        self._whole = True  # they tell their whole vocabulary

    async def probe(self) -> Profile:
        card: dict[str, Any] = await self.transport.ask("GET", "/srb/v1/model")
        names = {field.name for field in fields(ModelInfo)}
        info = ModelInfo(**{name: value for name, value in card["info"].items() if name in names})
        n_ctx = min(self.options.n_ctx or card["n_ctx"], card["n_ctx"])
        info = replace(info, n_ctx=n_ctx)
        fim, lacking = card["fim"], dict[str, str](card.get("lacks", {}))
        return Profile(
            "srb", f"srbwriter {card['version']}", info, bos=card["bos"], eos=card["eos"],
            eog=frozenset(card["eog"]), fim=(fim[0], fim[1], fim[2]) if fim else None,
            add_bos=card["add_bos"], ids=True, many=int(card["max_n"]),
            logprobs=int(card.get("max_logprobs", 1 << 20)), lacking=lacking,
            sampling=ALL_SAMPLING - lacking.keys(),
            stops=frozenset({"min_tokens", "ignore_eog"}) - lacking.keys(),
            request=frozenset({"cache_prompt", "penalty_prompt", "siblings", "repulsion"}),
            handles=True,
            prompt_logprobs=bool(card.get("scores")),
            ahead="ahead" in card.get("priorities", ()),
        )  # fmt: skip

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, request = completion.sampling, completion.request
        body: dict[str, Any] = {
            "prompt": completion.ids,
            "n": completion.n,
            "seed": list(completion.seeds),
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
            body["logprobs"] = request.logprobs
        if request.priority > Priority.NORMAL:
            body["priority"] = request.priority.name.lower()
        if not request.cache_prompt:
            body["cache_prompt"] = False
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        if request.penalty_prompt is not None:
            body["penalty_prompt"] = request.penalty_prompt  # token ids by now
        if completion.whole and request.siblings != "independent":  # who is rolled again is drawn by itself
            body["siblings"] = request.siblings
        if completion.whole and request.repulsion:
            body["repulsion"] = request.repulsion
        return _COMPLETIONS, body | sampler_fields(sampling)

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        event = decoded(self._decoder, data, self.transport.where)
        match event.event:
            case "stream":
                if event.index < 0 or event.text is None or event.ids is None:
                    raise garbage(self.transport.where, data)
                known = tuple(TokenLogprob(e.id, e.logprob, tuple(e.top)) for e in event.logprobs)
                return (Tokens(event.index, event.text, tuple(event.ids), known),)
            case "stop" if event.index >= 0:
                return (Tokens(event.index, "", (), (), _reason(event), str(event.error or "")),)
            case "start" | "queue":
                return (RequestId(event.id),) if event.id else ()
            case "prompt":
                return (PromptEvaluated(event.cached),) if event.done == event.total else ()
            case "error":
                raise RemoteError(self.transport.where, own_words(data) or "it failed")
            case "cut" if event.index >= 0:
                return (Rewound(event.index, event.chars),)
            case "state" | "banned" | "added" | "done":
                return ()
            case _:
                raise garbage(self.transport.where, data)

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        return await ask_llama_tokens(self.transport, text, parse_special)

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        if not await self._knows_all():
            body = {"ids": list(ids), "special": special}
            response = await self.transport.ask("POST", _VOCABULARY, body)
            return [base64.b64decode(piece) for piece in response["pieces"]]
        table = self._special if special else self._pieces
        return [table[token] for token in ids]

    async def begins_a_token(self, text: str) -> bool:
        if not await self._knows_all():
            return await super().begins_a_token(text)
        return begins_one(text, self._sorted)

    async def _knows_all(self) -> bool:
        """Fetch the whole vocabulary, once; a srbwriter in front of another engine may not know it."""
        if self._whole and not self._pieces:
            try:
                response = await self.transport.ask("GET", _VOCABULARY, None, self.options.silent_seconds)
            except RemoteError as error:
                if error.status != 501:
                    raise
                self._whole = False
                return False
            self._pieces, self._special = (
                [base64.b64decode(piece) for piece in response[name]] for name in ("pieces", "special")
            )
            self._sorted = sorted(self._pieces)
        return self._whole

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        heals = {"prompt": [*ids, begun], "heal": True} if begun else {"prompt": list(ids)}
        body = heals | {"k": request.next_logprobs or 0, "ids": list(request.next_ids)}
        answer = await self._next(body, request)
        return [(int(token["id"]), float(token["logprob"])) for token in answer["tokens"]]

    async def score(self, ids: Sequence[int], request: Request) -> Sequence[TokenLogprob]:
        body = {"prompt": list(ids), "k": request.prompt_logprobs or 0, "from": max(request.score_from, 1)}
        entries = msgspec.convert((await self._next(body, request))["prompt"], list[Logprob])
        return [TokenLogprob(one.id, one.logprob, tuple(one.top)) for one in entries]

    async def _next(self, body: dict[str, Any], request: Request) -> Any:
        return await self.transport.ask("POST", "/srb/v1/next", body, self.options.silent_seconds)

    async def promote(self, request: str) -> None:
        await self.transport.read("POST", f"/srb/v1/requests/{request}/promote", {})

    async def steer(self, request: str, index: int, verb: str) -> None:
        await self.transport.read("POST", f"/srb/v1/requests/{request}/branches/{index}/{verb}", {})


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


def _reason(event: Event) -> FinishReason:
    try:
        return FinishReason(event.reason)
    except ValueError:
        return FinishReason.STOPPED
