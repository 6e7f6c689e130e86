"""``/v1/completions`` as OpenAI has it: text goes out, text comes back. And vLLM and SGLang with more.

Facts of vLLM 0.32: a request for ``n`` branches becomes ``n`` requests there, which share the prefix cache.
So each branch has a request of its own here, and ends when its connection is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ...parameters import spelled
from ...types import FinishReason, RemoteError
from ..options import RemoteOptions
from ..problems import IS_IT_AN_ENGINE, misnumbered
from ..profile import Profile
from ..transport import Transport
from .base import Completion, Dialect, StreamEvent, Tokens, decoded, model_info, not_found, template_fields

COMPLETIONS = "/v1/completions"
USUAL_WINDOW = 8192  # tokens, where a server does not say
_PLAIN = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"})
_ENDED = b"[DONE]"
_UNLIMITED = 1 << 20  # tokens asked for where no limit is meant; OpenAI's own default is 16


class Logprobs(msgspec.Struct, gc=False):
    token_logprobs: list[float | None] = msgspec.field(default_factory=list[float | None])


class Choice(msgspec.Struct, gc=False):
    index: int
    text: str | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: Logprobs | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]


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
            description="counts of tokens are estimates",
        )
        many = 1 if card.get("owned_by") == "koboldcpp" else 16  # KoboldCpp ignores n
        return Profile(self.name, self.server, info, many=many, sampling=self.sampling, stops=self.stops)

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling = completion.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": completion.text,
            "stream": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": _UNLIMITED if completion.max_tokens is None else completion.max_tokens,
            "seed": completion.seed,
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
        return [_tokens_of(choice) for choice in chunk.choices]


class VLLM(OpenAI):
    """Its own samplers, log-probabilities and chat templates."""

    name = "vllm"
    sampling = _PLAIN | {*spelled("vllm"), "repeat_last_n", "grammar", "json_schema", "regex"}
    server = "vLLM"
    stops = frozenset({"min_tokens", "ignore_eog"})

    async def probe(self) -> Profile:
        card = await self.card()
        n_ctx = window_of(card) or USUAL_WINDOW
        n_ctx = min(self.options.n_ctx or n_ctx, n_ctx)
        info = model_info(self.model, self.transport.where, n_ctx, description=await self._version())
        return Profile(
            self.name, info.description, info, logprobs=True, sampling=self.sampling, stops=self.stops,
            template=True,
        )  # fmt: skip

    async def _version(self) -> str:
        try:
            answer = await self.transport.ask("GET", "/version")
            return f"{self.server} {answer['version']}"
        except (RemoteError, KeyError, TypeError):
            return self.server

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        sampling, asked = completion.sampling, completion.request
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": completion.text,
            "stream": True,
            **{theirs: getattr(sampling, ours) for ours, theirs in spelled("vllm").items()},
            "seed": completion.seed,
            "min_tokens": completion.min_tokens,
            "ignore_eos": completion.ignore_eog,
            "max_tokens": completion.max_tokens,
            **({"logprobs": 0} if asked.logprobs is not None else {}),
            **({"cache_salt": asked.cache_salt} if asked.cache_salt else {}),
        }
        constraints = {"grammar": sampling.grammar, "json": sampling.json_schema, "regex": sampling.regex}
        if found := {name: value for name, value in constraints.items() if value}:
            body["structured_outputs"] = found
        return COMPLETIONS, body

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return the text of the tokens that it makes of ``messages``, without those that begin any text."""
        try:
            ids = await self._tokens({"add_special_tokens": False, **template_fields(messages, options)})
        except RemoteError as error:
            if error.again:
                raise
            return None  # it has no template: ours is used
        begin = await self._tokens({"prompt": "", "add_special_tokens": True})
        ids = ids[len(begin) :] if ids[: len(begin)] == begin else ids
        body = {"model": self.model, "tokens": ids}
        return str((await self.transport.ask("POST", "/detokenize", body))["prompt"])

    async def _tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self.transport.ask("POST", "/tokenize", {"model": self.model, **body})
        return [int(token) for token in answer["tokens"]]


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


def _tokens_of(choice: Choice) -> Tokens:
    known = choice.logprobs.token_logprobs if choice.logprobs is not None else ()
    logprobs = tuple(value if value is not None else -9999.0 for value in known)
    return Tokens(choice.index, choice.text or "", logprobs, finish_of(choice))
