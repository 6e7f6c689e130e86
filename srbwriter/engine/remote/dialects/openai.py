"""``/v1/completions`` as OpenAI has it: text goes out, text comes back. And vLLM and SGLang, which add to it.

Facts of vLLM 0.32: ``return_token_ids`` gives the ids of each chunk; the id that ends a text is among them,
with no text. A request for ``n`` branches becomes ``n`` requests there, which share the prefix cache; so each
branch has a request of its own here, and ends when its connection is closed. ``prompt_logprobs`` is not
streamed, so it is a separate request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ...parameters import spelled
from ...types import FinishReason, RemoteError, Request, TokenLogprob
from .. import pseudo_tokenizer
from ..options import RemoteOptions
from ..problems import IS_IT_AN_ENGINE, misnumbered
from ..profile import Profile
from ..transport import Transport
from .base import (
    PROBE,
    Completion,
    Dialect,
    PromptEvaluated,
    StreamEvent,
    Tokens,
    decoded,
    is_control,
    model_info,
    not_found,
    probe_fingerprint,
    template_fields,
)

COMPLETIONS = "/v1/completions"
USUAL_WINDOW = 8192  # tokens, where a server does not say
_PLAIN = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"})
_ENDED = b"[DONE]"
_BESIDE = 8  # questions about single tokens at the same time
_NAMED = 128  # tokens at most of which it tells how likely they are, where they are named
_UNLIMITED = 1 << 20  # tokens asked for where no limit is meant; OpenAI's own default is 16


class Logprobs(msgspec.Struct, gc=False):
    token_logprobs: list[float | None] = msgspec.field(default_factory=list[float | None])
    top_logprobs: list[dict[str, float] | None] | None = None
    tokens: list[str] = msgspec.field(default_factory=list[str])


class Choice(msgspec.Struct, gc=False):
    index: int
    text: str | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    logprobs: Logprobs | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]
    usage: dict[str, Any] | None = None


class OpenAI(Dialect):
    """Text only."""

    name = "openai"
    server = "this server"
    sampling = _PLAIN
    stops = frozenset[str]()

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self.model = options.model
        self._decoder = msgspec.json.Decoder(Chunk)

    async def card(self) -> dict[str, Any]:
        """Return the server's card of the configured model, or of its first one. Raises RemoteError."""
        listed, wanted = cards_of(await self.transport.ask("GET", "/v1/models")), self.options.model
        found = [card for card in listed if card["id"] == wanted or not wanted]
        if not found:
            names = ", ".join(str(card["id"])[:80] for card in listed[:8])
            cure = f"--connect-model takes one of these: {names}" if names else IS_IT_AN_ENGINE
            raise RemoteError(
                self.transport.where, f"{f'it lists no model {wanted}'.rstrip()}; {cure}", again=False
            )
        self.model = str(found[0]["id"])
        return found[0]

    async def probe(self) -> Profile:
        try:
            card = await self.card()
        except RemoteError as error:
            if not not_found(error) or not self.options.model:
                raise
            card = {"id": self.options.model}  # some serve completions and list nothing
        n_ctx = self.options.n_ctx or window_of(card) or USUAL_WINDOW
        info = model_info(
            self.model,
            self.transport.where,
            n_ctx,
            pseudo_tokenizer.FINGERPRINT,
            n_vocab=pseudo_tokenizer.SIZE,
            description="text only: counts of tokens are estimates",
        )
        many = 1 if card.get("owned_by") == "koboldcpp" else 16  # KoboldCpp ignores n
        return Profile(self.name, self.server, info, many=many, sampling=self.sampling, stops=self.stops)

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling = completion.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": pseudo_tokenizer.decode(completion.ids),
            "stream": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": _UNLIMITED if completion.max_tokens is None else completion.max_tokens,
            "seed": completion.seeds[0],
            **({"n": completion.n} if completion.n > 1 else {}),
            **{p: v for p in ("frequency_penalty", "presence_penalty") if (v := getattr(sampling, p))},
        }
        return COMPLETIONS, body

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        if data == _ENDED:
            return ()
        chunk = decoded(self._decoder, data, self.transport.where)
        numbers = [choice.index for choice in chunk.choices]
        if len(set(numbers)) < len(numbers):
            raise misnumbered(self.transport.where, f"it sends words for a branch twice at once ({numbers})")
        events: list[StreamEvent] = [self._tokens_of(choice) for choice in chunk.choices]
        if chunk.usage and (details := chunk.usage.get("prompt_tokens_details")):
            events.append(PromptEvaluated(int(details.get("cached_tokens") or 0)))
        return events

    def _tokens_of(self, choice: Choice) -> Tokens:
        text = choice.text or ""
        return Tokens(choice.index, text, tuple(pseudo_tokenizer.encode(text)), finish=finish_of(choice))


class VLLM(OpenAI):
    """Token ids in and out, its own samplers, its tokenizer."""

    name = "vllm"
    sampling = _PLAIN | {*spelled("vllm"), "repeat_last_n", "logit_bias", "grammar", "json_schema", "regex"}
    server = "vLLM"
    stops = frozenset({"min_tokens", "ignore_eog"})

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        super().__init__(transport, options)
        self._anchor: tuple[list[int], str] | None = None

    async def probe(self) -> Profile:
        card = await self.card()
        n_ctx = window_of(card) or USUAL_WINDOW
        n_ctx = min(self.options.n_ctx or n_ctx, n_ctx)
        ids = await self.tokenize(PROBE, False)
        plain = await self.tokenize("a", False)
        begun = await self._ask_tokens({"prompt": "a", "add_special_tokens": True})
        added = begun[: len(begun) - len(plain)] if begun[-len(plain) :] == plain else []
        info = model_info(
            self.model, self.transport.where, n_ctx, probe_fingerprint(ids), description=await self._version()
        )
        return Profile(
            self.name, info.description, info, bos=added[0] if added else None, add_bos=bool(added), ids=True,
            logprobs=20, prompt_logprobs=True, sampling=self.sampling,
            stops=self.stops, template=True,
        )  # fmt: skip

    async def _version(self) -> str:
        try:
            answer = await self.transport.ask("GET", "/version")
            return f"{self.server} {answer['version']}"
        except (RemoteError, KeyError, TypeError):
            return self.server

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, rule = completion.sampling, completion.request
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": completion.ids,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "add_special_tokens": False,
            **{theirs: getattr(sampling, ours) for ours, theirs in spelled("vllm").items()},
            "seed": completion.seeds[0],
            "min_tokens": completion.min_tokens,
            "ignore_eos": completion.ignore_eog,
            "max_tokens": completion.max_tokens,
            **({"logprobs": rule.logprobs} if rule.logprobs is not None else {}),
            **({"cache_salt": rule.cache_salt} if rule.cache_salt else {}),
        }
        if rule.logprobs is not None:
            body["return_tokens_as_token_ids"] = True
        if sampling.logit_bias:
            body["logit_bias"] = {str(token): max(bias, -100.0) for token, bias in sampling.logit_bias}
        constraints = {"grammar": sampling.grammar, "json": sampling.json_schema, "regex": sampling.regex}
        if found := {name: value for name, value in constraints.items() if value}:
            body["structured_outputs"] = found
        return COMPLETIONS, body

    def _tokens_of(self, choice: Choice) -> Tokens:
        text, ids = choice.text or "", tuple(choice.token_ids or ())
        finish = finish_of(choice)
        if choice.token_ids is None and finish is None:
            raise RemoteError(self.transport.where, "it tells no token ids; is it older than vLLM 0.11?")
        if finish is FinishReason.EOG and ids and not text:
            ids = ids[:-1]  # the end itself
        return Tokens(choice.index, text, ids, _logprobs(choice.logprobs, ids), finish)

    async def score(self, ids: Sequence[int], request: Request) -> Sequence[TokenLogprob]:
        return await self._score(ids, request.prompt_logprobs or 0, max(request.score_from, 1))

    async def _score(self, ids: Sequence[int], best: int, first: int) -> Sequence[TokenLogprob]:
        body = {
            "model": self.model, "prompt": list(ids), "max_tokens": 1, "prompt_logprobs": best,
            "add_special_tokens": False, "temperature": 0,
        }  # fmt: skip
        answer = await self.transport.ask("POST", COMPLETIONS, body, self.options.silent_seconds)
        rows = cast("list[dict[str, Any] | None]", answer["choices"][0]["prompt_logprobs"])
        return tuple(
            _scored(token, row or {}, best) for token, row in zip(ids[first:], rows[first:], strict=True)
        )

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        """Request log-probabilities of given tokens.

        An older vLLM does not report all of them; the others are scored as the end of a prompt.
        """
        best = request.next_logprobs or 0
        likely = (await self._likely(ids, logprobs=max(best, 1)))[:best]
        wanted = [token for token in dict.fromkeys(request.next_ids) if token not in dict(likely)]
        known = dict[int, float]()
        for start in range(0, len(wanted), _NAMED):
            named = wanted[start : start + _NAMED]
            known |= dict(await self._likely(ids, logprobs=1, logprob_token_ids=named))
        for token in wanted:
            if token not in known:
                known[token] = (await self._score((*ids, token), 0, len(ids)))[0].logprob
        return likely + [(token, known[token]) for token in wanted]

    async def _likely(self, ids: Sequence[int], **asked: Any) -> list[tuple[int, float]]:
        """Return tokens after ``ids`` with their log-probabilities, best first."""
        body = {
            "model": self.model, "prompt": list(ids), "max_tokens": 1, "add_special_tokens": False,
            "temperature": 0, "return_tokens_as_token_ids": True, **asked,
        }  # fmt: skip
        answer = await self.transport.ask("POST", COMPLETIONS, body, self.options.silent_seconds)
        tops: list[dict[str, float]] = answer["choices"][0]["logprobs"]["top_logprobs"]
        return sorted(((_token_id(name), value) for name, value in tops[0].items()), key=lambda one: -one[1])

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        return await self._ask_tokens({"prompt": text, "add_special_tokens": False})

    async def _ask_tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self.transport.ask("POST", "/tokenize", {"model": self.model, **body})
        return [int(token) for token in answer["tokens"]]

    async def text(self, ids: Sequence[int]) -> str | None:
        anchor, before = await self._letter()
        return (await self._text([*anchor, *ids])).removeprefix(before)

    async def _letter(self) -> tuple[list[int], str]:
        """Return the token of a letter, and its text."""
        if self._anchor is None:
            ids = (await self.tokenize("a", False))[:1]
            self._anchor = ids, await self._text(ids)
        return self._anchor

    async def _text(self, ids: Sequence[int]) -> str:
        answer = await self.transport.ask(
            "POST", "/detokenize", {"model": self.model, "tokens": list(ids)}
        )  # fmt: skip
        return str(answer["prompt"])

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        """Ask for each piece after a letter, so that a space at its beginning is not lost."""
        anchor, before = await self._letter()
        gate = asyncio.Semaphore(_BESIDE)

        async def piece(token: int) -> bytes:
            async with gate:
                text = (await self._text([*anchor, token])).removeprefix(before)
            return b"" if not special and is_control(text) else text.encode("utf-8", "replace")

        return await asyncio.gather(*map(piece, ids))

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        body = {"add_special_tokens": False, **template_fields(messages, options)}
        try:
            ids = await self._ask_tokens(body)
        except RemoteError as error:
            if error.again:
                raise
            return None  # it has no template: ours is used
        return await self._text(ids)


class SGLang(OpenAI):
    """SGLang, from its documentation, untested: OpenAI's completions with more samplers, text both ways."""

    name = "vllm"
    server = "SGLang"
    sampling = _PLAIN | {*spelled("sglang"), "top_k", "repeat_last_n", "json_schema", "regex"}
    stops = frozenset({"min_tokens", "ignore_eog"})

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        path, body = super().encode(completion)
        sampling = completion.sampling
        body |= {
            **{theirs: getattr(sampling, ours) for ours, theirs in spelled("sglang").items()},
            "top_k": sampling.top_k or -1,
            "min_tokens": completion.min_tokens,
            "ignore_eos": completion.ignore_eog,
            "stream_options": {"include_usage": True},
        }
        for name in ("json_schema", "regex"):
            if value := getattr(sampling, name):
                body[name] = value
        return path, body


def cards_of(answer: Any) -> list[dict[str, Any]]:
    """Return the models of a list; nothing where it is no such list."""
    listed: object = cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    cards = cast("list[object]", listed) if isinstance(listed, list) else []
    known = [cast("dict[str, Any]", card) for card in cards if isinstance(card, dict)]
    return [card for card in known if "id" in card]


def finish_of(choice: Choice) -> FinishReason | None:
    """Return why a choice ended; None while it is being written."""
    match choice.finish_reason:
        case None:
            return None
        case "length":
            return FinishReason.LENGTH
        case "abort" | "error":
            return FinishReason.ERROR
        case _:
            return FinishReason.EOG if choice.stop_reason is None else FinishReason.STOP


def window_of(card: Mapping[str, Any]) -> int:
    """Return the context's tokens from one of the usual places of a model's card; 0 if none has them."""
    meta = cast("dict[str, Any]", card.get("meta") or {})
    places = [card.get(name) for name in ("max_model_len", "context_length", "context_window", "n_ctx")]
    places += [meta.get("n_ctx"), meta.get("n_ctx_train")]
    return next((int(value) for value in places if isinstance(value, int | float) and value > 0), 0)


def _token_id(name: str) -> int:
    """Return the id in ``token_id:17``, as vLLM writes ids where it is asked to; -1 for anything else."""
    number = name.removeprefix("token_id:")
    return int(number) if number.isdecimal() else -1


def _logprobs(reported: Logprobs | None, ids: tuple[int, ...]) -> tuple[TokenLogprob, ...]:
    if reported is None:
        return ()
    tops = reported.top_logprobs or [None] * len(ids)
    found: list[TokenLogprob] = []
    for token, value, top in zip(ids, reported.token_logprobs, tops, strict=False):
        best = sorted((top or {}).items(), key=lambda item: -item[1])
        pairs = tuple((_token_id(name), float(logprob)) for name, logprob in best)
        found.append(TokenLogprob(token, float(value if value is not None else -9999.0), pairs))
    return tuple(found)


def _scored(token: int, row: Mapping[str, Any], best: int) -> TokenLogprob:
    pairs = sorted(((int(i), float(v["logprob"])) for i, v in row.items()), key=lambda pair: -pair[1])
    own = dict(pairs).get(token, -9999.0)
    return TokenLogprob(token, own, tuple(pairs[:best]))
