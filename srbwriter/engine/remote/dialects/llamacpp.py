"""llama-server's own ``/completion``: token ids both ways, every sampler, several branches in one request.

Facts of its sources (tools/server, October 2026): the ids are told with ``return_tokens``, that of a text's
end among them; child k is seeded seed + k; ``n_cmpl`` may be as high as there are slots. ``/tokenize`` takes
ids among its content and tells their pieces, so that one question brings the whole vocabulary.

Of several branches the first runs in the slot that was asked for, or that has most of the prompt; the others
take the lowest free slots, whatever these hold, and leave them empty. What a slot holds is kept in memory
when a request that shares less than half of it takes that slot, but not when such a child does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ...parameters import spelled
from ...text import fingerprint
from ...tree import common_prefix
from ...types import FinishReason, RemoteError, Request, TokenLogprob
from ..options import RemoteOptions
from ..profile import ALL_SAMPLING, Profile
from ..transport import Transport
from .base import (
    Ask,
    Dialect,
    News,
    Piece,
    Placed,
    PromptRead,
    begins_one,
    decoded,
    is_control,
    model_info,
    not_found,
    scales,
)

_COMPLETION = "/completion"
_LIKELIEST = 1000  # tokens of which is told how likely they are, where certain ones are looked for
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
    id_slot: int = -1
    stop_type: str = "none"
    completion_probabilities: list[Score] | None = None
    prompt_progress: dict[str, float] | None = None


class Slots:
    """What stands in their slots, as far as it was put there from here, and which of them to ask for."""

    def __init__(self) -> None:
        self._held: dict[int, Sequence[int]] = {}
        self._under_way: list[int] = []  # where requests of ours were placed
        self._tasks: dict[int, int] = {}  # of each slot, its last one when it was looked at

    def choose(self, told: Sequence[Mapping[str, Any]], ids: Sequence[int], n: int) -> int:
        """The slot where ``n`` branches from ``ids`` cost least: tokens to be read, and those lost for later.

        -1 where they can choose better: nothing is known, or an empty slot would do (they look into their
        memory only for others).
        """
        length = {int(slot["id"]): int(slot.get("n_prompt_tokens") or 0) for slot in told}
        idle = [int(slot["id"]) for slot in told if not slot["is_processing"]]
        for slot in told:
            number, task = int(slot["id"]), int(slot.get("id_task", -1))
            changed = self._tasks.get(number, task) != task and number not in self._under_way
            if changed or length[number] < len(self._held.get(number, ())) - _UNREAD:
                self._held.pop(number, None)  # somebody else was there, or it was emptied
            self._tasks[number] = task
        if -1 in self._under_way or len(idle) < n:
            return -1
        free = [number for number in idle if number not in self._under_way]
        shared = {number: common_prefix(self._held.get(number, ()), ids, 0, len(ids)) for number in free}

        def cost(number: int) -> tuple[int, int]:
            children = [other for other in idle if other != number][: n - 1]
            lost = length[number] - shared[number] if 2 * shared[number] >= length[number] else 0
            read = len(ids) - shared[number]
            return read + lost + sum(length[child] for child in children), length[number]

        best = min(free, key=cost, default=-1)
        if best < 0 or not length[best]:
            return -1
        strange = any(length[each] and each not in self._held for each in idle if each != best)
        return -1 if strange and not shared[best] else best

    def begun(self, slot: int) -> None:
        """A request was sent there; -1: it is not known where it runs."""
        self._under_way.append(slot)

    def over(self, asked: int, slot: int, ids: Sequence[int]) -> None:
        """The request that asked for one ran at ``slot``, where ``ids`` stand now."""
        self._under_way.remove(asked)
        if slot >= 0:
            self._held[slot] = ids
            self._tasks.pop(slot, None)


class LlamaCpp(Dialect):
    """One llama-server."""

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        self.transport, self.options = transport, options
        self._decoder = msgspec.json.Decoder(Event)
        self._pieces: list[bytes] = []
        self._sorted: list[bytes] = []  # of those that write text
        self._control = self._eog = frozenset[int]()
        self._slots: Slots | None = Slots()  # None: they do not tell of theirs

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
        marks = (i for i, piece in enumerate(self._pieces) if is_control(piece.decode("utf-8", "replace")))
        self._control = self._eog.union(marks, () if bos is None else (bos,))
        self._sorted = sorted(piece for i, piece in enumerate(self._pieces) if i not in self._control)
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
            request=frozenset({"cache_prompt", "lora"}), requests=slots, template=True, anew=-1,
        )  # fmt: skip

    def request(self, ask: Ask) -> tuple[str, dict[str, Any]]:
        sampling, request = ask.sampling, ask.request
        body: dict[str, Any] = {
            "prompt": ask.ids,
            "id_slot": ask.slot,
            "stream": True,
            "return_tokens": True,
            "return_progress": True,
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
        return _COMPLETION, body | scales(request)

    def read(self, data: bytes) -> Sequence[News]:
        event = decoded(self._decoder, data, self.transport.where)
        if (progress := event.prompt_progress) is not None:
            begins = event.index == 0 and progress["processed"] == progress["cache"]
            return (PromptRead(int(progress["cache"])),) if begins else ()
        finish = _FINISH.get(event.stop_type, FinishReason.EOG) if event.stop else None
        logprobs = tuple(map(_logprob, event.completion_probabilities or ()))
        ids = () if event.stop else tuple(event.tokens)
        if ids and not event.content and ids[-1] in self._eog:
            ids = ids[:-1]  # the end itself
        piece = Piece(event.index, event.content, ids, logprobs[: len(ids)], finish)
        return (Placed(event.id_slot), piece) if event.stop and event.index == 0 else (piece,)

    async def place(self, ids: Sequence[int], n: int) -> int:
        slot = -1
        if self._slots is not None:
            try:
                slot = self._slots.choose(await self.transport.ask("GET", "/slots"), ids, n)
            except RemoteError as error:
                if not not_found(error):
                    raise
                self._slots = None
            else:
                self._slots.begun(slot)
        return slot

    def left(self, asked: int, slot: int, ids: Sequence[int]) -> None:
        if self._slots is not None:
            self._slots.over(asked, slot, ids)

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        if messages[-1].get("role") == "assistant" and not options["continue_final_message"]:
            return None  # which it would go on with
        fields = {name: value for name, value in options.items() if name in _TEMPLATE and value is not None}
        others = {name: value for name, value in options.items() if name not in _TEMPLATE}
        body = {"messages": list(messages), **fields, "chat_template_kwargs": others}
        try:
            return str((await self.transport.ask("POST", "/apply-template", body))["prompt"])
        except RemoteError as error:
            if error.again:
                raise
            return None  # ours says what is wrong with the messages, if anything is

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        """It tells its likeliest; those that are wanted are looked for among them."""
        best, start = request.next_logprobs or 0, begun.encode()
        most = _LIKELIEST if request.next_ids or start else max(best, 1)
        body = {"prompt": list(ids), "n_predict": 1, "n_probs": most, "cache_prompt": True, "stream": False}
        body |= scales(request)
        answer = await self.transport.ask("POST", _COMPLETION, body, self.options.silent_seconds)
        known = msgspec.convert(answer["completion_probabilities"], list[Score])
        told = list(_logprob(known[0]).top) if known else []
        likely = [pair for pair in told if self._spells(pair[0], start)][:best]
        return likely + [pair for pair in told if pair[0] in request.next_ids and pair not in likely]

    def _spells(self, token: int, text: bytes) -> bool:
        piece = self._pieces[token] if text else b""
        return piece.startswith(text) or bool(piece) and text.startswith(piece)

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

    async def begins_a_token(self, text: str) -> bool:
        return begins_one(text, self._sorted)


_TEMPLATE = ("add_generation_prompt", "continue_final_message", "tools")
_UNREAD = 2  # tokens at the end of what came that it need not have read
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
