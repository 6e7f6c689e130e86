"""llama-server's own ``/completion``: token ids both ways, every sampler, several branches in one request.

Facts of its sources (tools/server, October 2026): the ids are told with ``return_tokens``, that of a text's
end among them; child k is seeded seed + k; ``n_cmpl`` may be as high as there are slots. ``/tokenize`` takes
ids among its content and tells their pieces, so that one question brings the whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ...text import fingerprint
from ...types import FinishReason, TokenLogprob
from ..asking import Ask, News, Piece, PromptRead
from ..options import RemoteOptions
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from .base import Dialect, decoded, model_info

_COMPLETION = "/completion"
_LIKELIEST = 1000  # tokens of which is told how likely they are, where certain ones are looked for
_SCALARS = (
    "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "typical_p",
    "top_n_sigma", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length",
    "repeat_penalty", "frequency_penalty", "presence_penalty", "mirostat", "mirostat_tau", "mirostat_eta",
    "adaptive_target", "adaptive_decay", "min_keep",
)  # fmt: skip


class Score(msgspec.Struct, gc=False):
    id: int
    logprob: float | None = None
    top_logprobs: list[Score] = msgspec.field(default_factory=list["Score"])


class Event(msgspec.Struct, gc=False):
    index: int
    content: str
    tokens: list[int]
    stop: bool
    stop_type: str = "none"
    timings: dict[str, float] | None = None
    completion_probabilities: list[Score] | None = None
    prompt_progress: dict[str, float] | None = None


class LlamaCpp(Dialect):
    """One llama-server."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        self.transport, self.options = transport, options
        self._decoder = msgspec.json.Decoder(Event)
        self._pieces: list[bytes] = []
        self._control = self._eog = frozenset[int]()

    async def probe(self) -> Profile:
        props: dict[str, Any] = await self.transport.ask("GET", "/props")
        card: dict[str, Any] = (await self.transport.ask("GET", "/v1/models"))["data"][0]
        meta = cast("dict[str, Any]", card.get("meta") or {})
        n_vocab, slots = int(meta.get("n_vocab") or 0), int(props.get("total_slots") or 1)
        window = int(props["default_generation_settings"]["n_ctx"])
        self._pieces = await self._written_out(range(n_vocab))
        bos, eos = (_only(self._pieces, str(props.get(name) or "")) for name in ("bos_token", "eos_token"))
        begun = await self._tokens("a", special=True)
        ends = frozenset(i for i, piece in enumerate(self._pieces) if piece in _ENDS)
        self._eog = ends if eos is None else ends | {eos}
        self._control = self._eog if bos is None else self._eog | {bos}
        info = model_info(
            str(card["id"]), self.transport.where, min(self.options.n_ctx or window, window),
            fingerprint(self._pieces), n_vocab=n_vocab, n_embd=int(meta.get("n_embd") or 0),
            n_params=int(meta.get("n_params") or 0), size=int(meta.get("size") or 0),
            n_ctx_train=int(meta.get("n_ctx_train") or window), description=str(meta.get("ftype") or ""),
            chat_template=props.get("chat_template") or None,
        )  # fmt: skip
        return Profile(
            "llamacpp", f"llama-server {props.get('build_info', '')}".strip(), info, bos=bos, eos=eos,
            eog=self._eog, add_bos=begun[:1] == [bos], ids=True, many=slots,
            logprobs=100, sampling=ALL_SAMPLING - {"regex", "infill", "banned_phrases"},
            stops=frozenset({"ignore_eog"}),
            request=frozenset({"cache_prompt", "lora"}), requests=slots,
        )  # fmt: skip

    def request(self, ask: Ask) -> tuple[str, dict[str, Any]]:
        sampling, request = ask.sampling, ask.request
        body: dict[str, Any] = {
            "prompt": ask.ids,
            "stream": True,
            "return_tokens": True,
            "cache_prompt": request.cache_prompt,
            "n_predict": -1 if ask.max_tokens is None else ask.max_tokens,
            "n_cmpl": ask.n,
            "seed": ask.seeds[0],
            "ignore_eos": ask.ignore_eog,
            **{name: getattr(sampling, name) for name in _SCALARS},
            "repeat_last_n": max(sampling.repeat_last_n, 0)
            or (len(ask.ids) if sampling.repeat_last_n else 0),
            "dry_penalty_last_n": (
                self.options.n_ctx or 1 << 20
                if sampling.dry_penalty_last_n < 0
                else sampling.dry_penalty_last_n
            ),
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers) or ["\n"],
        }
        if sampling.samplers is not None:
            body["samplers"] = list(sampling.samplers)
        if sampling.logit_bias:
            body["logit_bias"] = [[i, False if b == -math.inf else b] for i, b in sampling.logit_bias]
        if sampling.grammar:
            body["grammar"] = sampling.grammar
        if sampling.json_schema:
            body["json_schema"] = msgspec.json.decode(sampling.json_schema.encode())
        if request.logprobs is not None:
            body["n_probs"] = max(request.logprobs, 1)
        if request.lora is not None:
            body["lora"] = [{"id": number, "scale": scale} for number, scale in request.lora]
        return _COMPLETION, body

    def read(self, data: bytes) -> Sequence[News]:
        event = decoded(self._decoder, data, self.transport.where)
        if event.prompt_progress is not None:
            return ()
        finish = _FINISH.get(event.stop_type, FinishReason.EOG) if event.stop else None
        logprobs = tuple(map(_logprob, event.completion_probabilities or ()))
        ids = () if event.stop else tuple(event.tokens)
        if ids and not event.content and ids[-1] in self._eog:
            ids = ids[:-1]  # the end itself
        news: list[News] = [Piece(event.index, event.content, ids, logprobs[: len(ids)], finish)]
        if event.stop and event.timings is not None:
            news.insert(0, PromptRead(int(event.timings.get("cache_n", 0))))
        return news

    async def next(self, ids: Sequence[int], best: int, wanted: Sequence[int]) -> Sequence[tuple[int, float]]:
        """Of ``wanted`` it tells those among its own likeliest."""
        most = _LIKELIEST if wanted else max(best, 1)
        body = {"prompt": list(ids), "n_predict": 1, "n_probs": most, "cache_prompt": True, "stream": False}
        answer = await self.transport.ask("POST", _COMPLETION, body, self.options.silent_seconds)
        known = msgspec.convert(answer["completion_probabilities"], list[Score])
        told = list(_logprob(known[0]).top) if known else []
        return told[:best] + [pair for pair in told[best:] if pair[0] in wanted]

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        return await self._tokens(text, parse_special=parse_special)

    async def _tokens(self, text: str, special: bool = False, parse_special: bool = False) -> list[int]:
        body = {"content": text, "add_special": special, "parse_special": parse_special}
        answer = await self.transport.ask("POST", "/tokenize", body)
        return [int(token) for token in answer["tokens"]]

    async def _written_out(self, ids: Sequence[int]) -> list[bytes]:
        body = {"content": list(ids), "with_pieces": True}
        answer = await self.transport.ask("POST", "/tokenize", body, self.options.silent_seconds)
        return [_bytes(entry["piece"]) for entry in answer["tokens"]]

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        hidden = frozenset[int]() if special else self._control
        return [b"" if token in hidden else self._pieces[token] for token in ids]


_FINISH = {"limit": FinishReason.LENGTH, "eos": FinishReason.EOG, "word": FinishReason.STOP}
_ENDS = frozenset({
    b"<|endoftext|>", b"<|im_end|>", b"<|eot_id|>", b"<|end_of_text|>", b"<end_of_turn>", b"<|end|>", b"</s>",
    b"<|eom_id|>", b"<|return|>", b"<|endofturn|>",
})  # fmt: skip
"""Names of tokens that end a text in the usual vocabularies; the server does not list its own."""


def _only(pieces: Sequence[bytes], name: str) -> int | None:
    """The one token that is written ``name``."""
    found = [token for token, piece in enumerate(pieces) if name and piece == name.encode()]
    return found[0] if found else None


def _bytes(piece: str | list[int]) -> bytes:
    return piece.encode() if isinstance(piece, str) else bytes(piece)


def _logprob(entry: Score) -> TokenLogprob:
    top = tuple(
        (each.id, each.logprob if each.logprob is not None else -9999.0) for each in entry.top_logprobs
    )
    return TokenLogprob(entry.id, entry.logprob if entry.logprob is not None else -9999.0, top)
