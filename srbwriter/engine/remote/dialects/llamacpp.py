"""llama-server's own ``/completion``: token ids both ways, every sampler, several branches in one request.

Facts from its sources (tools/server, October 2026): ``return_tokens`` reports the ids, that of a text's end
included; child k is seeded seed + k; ``n_cmpl`` may be at most the number of slots. ``/tokenize`` accepts ids
in its content and returns their pieces, so that one request brings the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from ...parameters import spelled
from ...text import fingerprint
from ...types import FinishReason, RemoteError, Request, TokenLogprob
from ..options import RemoteOptions
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from .base import (
    Completion,
    Dialect,
    PromptEvaluated,
    StreamEvent,
    Tokens,
    ask_llama_tokens,
    begins_one,
    decoded,
    is_control,
    model_info,
    sampler_fields,
    template_fields,
)

_COMPLETION = "/completion"
_LIKELIEST = 1000  # tokens whose probability is asked for, to find certain ones among them
_SCALARS = tuple(spelled("llamacpp"))


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
    completion_probabilities: list[Score] | None = None
    prompt_progress: dict[str, float] | None = None


class LlamaCpp(Dialect):
    """One llama-server."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self._decoder = msgspec.json.Decoder(Event)
        self._pieces: list[bytes] = []
        self._sorted: list[bytes] = []  # of those that write text
        self._control = self._eog = frozenset[int]()

    async def probe(self) -> Profile:
        props: dict[str, Any] = await self.transport.ask("GET", "/props")
        card: dict[str, Any] = (await self.transport.ask("GET", "/v1/models"))["data"][0]
        meta = cast("dict[str, Any]", card.get("meta") or {})
        n_vocab, slots = int(meta.get("n_vocab") or 0), int(props.get("total_slots") or 1)
        window = int(props["default_generation_settings"]["n_ctx"])
        self._pieces = await self._written_out(range(n_vocab))
        bos, eos = (_only(self._pieces, str(props.get(name) or "")) for name in ("bos_token", "eos_token"))
        begun = await ask_llama_tokens(self.transport, "a", parse_special=False, add_special=True)
        ends = frozenset(i for i, piece in enumerate(self._pieces) if piece in _ENDS)
        self._eog = ends if eos is None else ends | {eos}
        marks = (i for i, piece in enumerate(self._pieces) if is_control(piece.decode("utf-8", "replace")))
        self._control = self._eog.union(marks, () if bos is None else (bos,))
        self._sorted = sorted(piece for i, piece in enumerate(self._pieces) if i not in self._control)
        # They call a model by its file where nobody gave it another name.
        name = PurePosixPath(str(card["id"])).name.removesuffix(".gguf")
        info = model_info(
            name, self.transport.where, min(self.options.n_ctx or window, window),
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
            request=frozenset({"cache_prompt"}), requests=slots, template=True,
        )  # fmt: skip

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, request = completion.sampling, completion.request
        body: dict[str, Any] = {
            "prompt": completion.ids,
            "stream": True,
            "return_tokens": True,
            "return_progress": True,
            "cache_prompt": request.cache_prompt,
            "n_predict": -1 if completion.max_tokens is None else completion.max_tokens,
            "n_cmpl": completion.n,
            "seed": completion.seeds[0],
            "ignore_eos": completion.ignore_eog,
            **{name: getattr(sampling, name) for name in _SCALARS},
            "repeat_last_n": max(sampling.repeat_last_n, 0)
            or (len(completion.ids) if sampling.repeat_last_n else 0),
            "dry_penalty_last_n": (
                self.options.n_ctx or 1 << 20
                if sampling.dry_penalty_last_n < 0
                else sampling.dry_penalty_last_n
            ),
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers) or ["\n"],
        }
        if request.logprobs is not None:
            body["n_probs"] = max(request.logprobs, 1)
        return _COMPLETION, body | sampler_fields(sampling)

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        event = decoded(self._decoder, data, self.transport.where)
        if (progress := event.prompt_progress) is not None:
            begins = event.index == 0 and progress["processed"] == progress["cache"]
            return (PromptEvaluated(int(progress["cache"])),) if begins else ()
        finish = _FINISH.get(event.stop_type, FinishReason.EOG) if event.stop else None
        logprobs = tuple(map(_logprob, event.completion_probabilities or ()))
        ids = () if event.stop else tuple(event.tokens)
        if ids and not event.content and ids[-1] in self._eog:
            ids = ids[:-1]  # the end itself
        return (Tokens(event.index, event.content, ids, logprobs[: len(ids)], finish),)

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        if messages[-1].get("role") == "assistant" and not options.get("continue_final_message"):
            return None  # which it would go on with
        body = template_fields(messages, options)
        try:
            return str((await self.transport.ask("POST", "/apply-template", body))["prompt"])
        except RemoteError as error:
            if error.again:
                raise
            return None  # ours says what is wrong with the messages, if anything is

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        """Return the requested tokens that are among the likeliest; the server reports no others."""
        best, start = request.next_logprobs or 0, begun.encode()
        most = _LIKELIEST if request.next_ids or start else max(best, 1)
        body = {"prompt": list(ids), "n_predict": 1, "n_probs": most, "cache_prompt": True, "stream": False}
        answer = await self.transport.ask("POST", _COMPLETION, body, self.options.silent_seconds)
        known = msgspec.convert(answer["completion_probabilities"], list[Score])
        top = list(_logprob(known[0]).top) if known else []
        likely = [pair for pair in top if self._spells(pair[0], start)][:best]
        return likely + [pair for pair in top if pair[0] in request.next_ids and pair not in likely]

    def _spells(self, token: int, text: bytes) -> bool:
        piece = self._pieces[token] if text else b""
        return piece.startswith(text) or bool(piece) and text.startswith(piece)

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        return await ask_llama_tokens(self.transport, text, parse_special)

    async def _written_out(self, ids: Sequence[int]) -> list[bytes]:
        body = {"content": list(ids), "with_pieces": True}
        answer = await self.transport.ask("POST", "/tokenize", body, self.options.silent_seconds)
        return [_bytes(entry["piece"]) for entry in answer["tokens"]]

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        hidden = frozenset[int]() if special else self._control
        return [b"" if token in hidden else self._pieces[token] for token in ids]

    async def begins_a_token(self, text: str) -> bool:
        return begins_one(text, self._sorted)


_FINISH = {"limit": FinishReason.LENGTH, "eos": FinishReason.EOG, "word": FinishReason.STOP}
_ENDS = frozenset({
    b"<|endoftext|>", b"<|im_end|>", b"<|eot_id|>", b"<|end_of_text|>", b"<end_of_turn>", b"<|end|>", b"</s>",
    b"<|eom_id|>", b"<|return|>", b"<|endofturn|>",
})  # fmt: skip
"""Names of tokens that end a text in the usual vocabularies; the server does not list its own."""


def _only(pieces: Sequence[bytes], name: str) -> int | None:
    """Return the one token that is written ``name``; None if there are several."""
    found = [token for token, piece in enumerate(pieces) if name and piece == name.encode()]
    return found[0] if found else None


def _bytes(piece: str | list[int]) -> bytes:
    return piece.encode() if isinstance(piece, str) else bytes(piece)


def _logprob(entry: Score) -> TokenLogprob:
    top = tuple(
        (each.id, each.logprob if each.logprob is not None else -9999.0) for each in entry.top_logprobs
    )
    return TokenLogprob(entry.id, entry.logprob if entry.logprob is not None else -9999.0, top)
