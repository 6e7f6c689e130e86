"""How each kind of server is asked, and what it answers.

OpenAI's way, which vLLM adds to, and llama-server's, which another srbwriter adds to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from ..backend import WITHOUT_CACHE
from ..capabilities import Capabilities
from ..parameters import OF_SAMPLING, spelled
from ..types import FinishReason, InvalidRequest, ModelInfo, RemoteError
from .transport import IS_IT_AN_ENGINE, Transport, own_words, unreadable
from .vocabulary import FINGERPRINT, SIZE, decode

if TYPE_CHECKING:
    from .branch import RemoteBranch

ENDS: Mapping[str, FinishReason] = {
    "stop": FinishReason.EOG, "eos": FinishReason.EOG, "word": FinishReason.EOG,
    "length": FinishReason.LENGTH, "limit": FinishReason.LENGTH,
}  # fmt: skip
"""Why a branch ended, by the server's word; any other is an error."""
_USUAL_WINDOW = 8192  # tokens, where a server does not say
_WINDOWS = ("n_ctx", "max_model_len", "context_length", "context_window", "n_ctx_train")
_UNLIMITED = 1 << 20  # tokens asked for where no limit is meant; OpenAI's own default is 16
_REPORT = re.compile(rb'\{\s*"(error"|object": ?"error")')
_SAMPLING = frozenset(row.field for row in OF_SAMPLING) - {"logit_bias"}
"""What can be said without token ids."""
_CONSTRAINTS = frozenset({"grammar", "json_schema", "regex"})
_PLAIN = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"})
_HERE = (
    "token_ids", "logit_bias", "without", "logprobs", "next_logprobs", "next_ids", "prompt_logprobs",
    "gap_filling", "logits_callback", "heal", "cache_prompt", "max_seconds",
)  # fmt: skip
"""What only an engine in this process can do."""


class TextChunk(msgspec.Struct, gc=False):
    """Text of one branch; ``finish_reason`` where it has ended, and the ``problem`` where that is an error.

    The fields without a default must be present: a garbled name would otherwise lose a token.
    """

    index: int
    text: str | None
    finish_reason: str | None = None
    problem: str = ""


# ---- OpenAI's, and vLLM's


class _Chunk(msgspec.Struct, gc=False):
    choices: list[TextChunk]


class RemoteDialect:
    """The requests and answers of one kind of server, and what its model can do.

    As written here OpenAI's ``/v1/completions``: text goes out, text comes back. ``many`` is how many equal
    branches are in one request at most, ``end`` the text of the token that ends a turn.
    """

    name, server, path = "openai", "this server", "/v1/completions"
    event: type[msgspec.Struct] = _Chunk
    many = 16
    lacks: frozenset[str] = _SAMPLING - _PLAIN | {"siblings", "min_tokens", "ignore_eog"}

    def __init__(self, transport: Transport, card: dict[str, Any], props: dict[str, Any]) -> None:
        """Read what a server says of its model (``card``), and of itself (``props``)."""
        self.where, self.model, most = transport.where, str(card["id"]), transport.options.n_ctx
        self.end, self._decoder = str(props.get("eos_token") or ""), msgspec.json.Decoder(self.event)
        self.many = int(props.get("total_slots") or self.many)
        if card.get("owned_by") == "koboldcpp":
            self.many = 1  # it ignores n
        meta: dict[str, Any] = card.get("meta") or {}
        known = {**card, **meta, **props.get("default_generation_settings", {})}
        said = next((int(known[name]) for name in _WINDOWS if isinstance(known.get(name), int | float)), 0)
        n_ctx, template = said or most or _USUAL_WINDOW, props.get("chat_template")
        is_file = self.model.endswith(".gguf")  # which llama-server says, if nobody named it
        self.info = ModelInfo(
            self.where, PurePosixPath(self.model).stem if is_file else self.model, device=self.where,
            n_ctx_train=n_ctx, n_ctx=min(most or n_ctx, n_ctx), n_vocab=SIZE, vocab=FINGERPRINT,
            chat_template=template,
        )  # fmt: skip
        them, lacks = self.server, self.lacks if template else self.lacks | {"chat_template"}
        self.capabilities = Capabilities({
            **{name: f"{name} needs a model here: {them} gets text, no token ids" for name in _HERE},
            "look_ahead": f"nothing is written ahead by {them}: it would go before what others ask for",
            "pause": f"{them} cannot be paused; stop the branch, and extend it later",
            **{name: f"{them} does not know {name}" for name in lacks},
            **WITHOUT_CACHE,
        })  # fmt: skip

    def lines(self) -> list[str]:
        """Return the facts that are shown to a person, one per line."""
        return [
            f"{self.server} ({self.name}), model {self.info.name}, {self.info.n_ctx} tokens",
            "has not: " + ", ".join(sorted(self.capabilities.missing)),
        ]

    def encode(self, first: RemoteBranch, n: int) -> dict[str, Any]:
        """Return the body of a request for ``n`` branches equal to ``first``."""
        sampling, penalties = first.branch.sampling, ("frequency_penalty", "presence_penalty")
        return {
            "model": self.model, "prompt": decode(first.path), "stream": True,
            "temperature": sampling.temperature, "top_p": sampling.top_p,
            "max_tokens": _UNLIMITED if first.left is None else first.left, "seed": first.next_seed,
            **({"n": n} if n > 1 else {}),
            **{name: value for name in penalties if (value := getattr(sampling, name))},
        }  # fmt: skip

    def parse(self, data: bytes) -> Sequence[TextChunk]:
        """Parse the data of one event. Raises RemoteError for garbage, and for an error that it reports."""
        if data == b"[DONE]":
            return ()
        try:
            return self.read(self._decoder.decode(data.decode()))  # UTF-8, also in ignored fields
        except ValueError:  # of which the errors of both are some
            if _REPORT.match(data) and (words := own_words(data)):
                raise RemoteError(self.where, words) from None
            raise unreadable(self.where, data) from None

    def read(self, event: Any) -> Sequence[TextChunk]:
        """Return what an ``event`` says."""
        return event.choices


class VLLM(RemoteDialect):
    """With its own samplers.

    vLLM 0.32 makes ``n`` requests of one for ``n`` branches, which share the prefix cache. So each branch has
    a request of its own here, and ends when its connection is closed.
    """

    name, server, many = "vllm", "vLLM", 1
    lacks = _SAMPLING - _PLAIN - {*spelled("vllm"), "repeat_last_n"} | {"siblings"}

    def encode(self, first: RemoteBranch, n: int) -> dict[str, Any]:
        sampling = first.branch.sampling
        return super().encode(first, n) | {
            **{theirs: getattr(sampling, ours) for ours, theirs in spelled("vllm").items()},
            "min_tokens": first.least, "max_tokens": first.left,
            "ignore_eos": first.branch.stop_rule.ignore_eog,
            "cache_salt": first.branch.generation.request.cache_salt or None,
        }  # fmt: skip


# ---- llama-server's, and our own


class _Piece(msgspec.Struct, gc=False):
    index: int
    content: str
    stop: bool
    stop_type: str = "none"
    error: str = ""
    prompt_progress: dict[str, float] | None = None


class LlamaCpp(RemoteDialect):
    """llama-server's own ``/completion``: every sampler, several branches in one request.

    Facts from its sources (tools/server, October 2026): child k is seeded seed + k; ``n_cmpl`` may be at most
    the number of slots; the beginning token is put before a text.
    """

    name, server, path, many = "llamacpp", "llama-server", "/completion", 1
    event = _Piece
    lacks = _CONSTRAINTS | {"banned_phrases", "min_tokens", "siblings"}

    def encode(self, first: RemoteBranch, n: int) -> dict[str, Any]:
        sampling, rule, window = first.branch.sampling, first.branch.stop_rule, self.info.n_ctx
        body: dict[str, Any] = {
            "prompt": decode(first.path),
            "stream": True,
            "return_progress": True,  # a sign of life while a long prompt is evaluated
            "n_predict": -1 if first.left is None else first.left,
            "n_cmpl": n,
            "seed": first.next_seed,
            # It knows no least number of tokens: without an end it writes at least as many.
            "ignore_eos": rule.ignore_eog or (first.least > 0 and "min_tokens" in self.lacks),
            **{name: getattr(sampling, name) for name in spelled("llamacpp")},
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers) or ["\n"],
        }
        for name in ("repeat_last_n", "dry_penalty_last_n"):  # -1 is the whole context here
            last = getattr(sampling, name)
            body[name] = window if last < 0 else min(last, window)
        if sampling.samplers is not None:
            body["samplers"] = list(sampling.samplers)
        return body

    def read(self, event: Any) -> Sequence[TextChunk]:
        if event.prompt_progress is not None:
            return ()
        return (TextChunk(event.index, event.content, event.stop_type * event.stop, event.error),)


class Srb(LlamaCpp):
    """Another srbwriter: with what llama-server lacks."""

    name, server, lacks = "srb", "another srbwriter", _CONSTRAINTS

    def encode(self, first: RemoteBranch, n: int) -> dict[str, Any]:
        sampling, request = first.branch.sampling, first.branch.generation.request
        body = super().encode(first, n) | {
            "min_tokens": first.least, "stop": [], "after_any": [], "cache_salt": request.cache_salt,
            "banned_phrases": list(sampling.banned_phrases),
        }  # fmt: skip
        if n == len(first.request.branches):  # who is rolled again is drawn by itself
            body["siblings"] = request.siblings
        return body


# ---- which one

_DIALECTS: Mapping[str, type[RemoteDialect]] = {
    "vllm": VLLM, "openai": RemoteDialect, "llamacpp": LlamaCpp, "srb": Srb
}  # fmt: skip


async def connect(transport: Transport) -> RemoteDialect:
    """Find out what the server is and can do. Raises RemoteError, and InvalidRequest for an unknown name."""
    options, where = transport.options, transport.where
    if options.dialect not in _DIALECTS and options.dialect != "auto":
        raise InvalidRequest("dialect", f"{options.dialect!r} is none of auto, {', '.join(_DIALECTS)}")
    answer: Any = await transport.ask("/v1/models")
    try:
        cards: list[dict[str, Any]] = [card for card in answer["data"] if "id" in card]
    except (KeyError, TypeError):
        cards = []
    owner = str(cards[0].get("owned_by", "")).lower() if cards else ""
    ours = bool(cards) and "engine_state" in cards[0]
    found = {"llamacpp": "srb" if ours else "llamacpp", "vllm": "vllm"}.get(owner, "openai")
    kind = found if options.dialect == "auto" else options.dialect
    if found != "openai" and kind not in (found, "openai") and (found, kind) != ("srb", "llamacpp"):
        is_one, is_none = _DIALECTS[found].server, _DIALECTS[kind].server
        problem = f"this is {is_one} (--dialect {found}), not {is_none}; leave --dialect out"
        raise RemoteError(where, problem, again=False)
    # llama-server and srbwriter have one model, whatever it is called
    native = kind in ("llamacpp", "srb")
    wanted = next((c for c in cards if native or not options.model or c["id"] == options.model), None)
    if wanted is None:
        names = ", ".join(str(card["id"])[:80] for card in cards[:8])
        cure = f"--connect-model takes one of these: {names}" if names else IS_IT_AN_ENGINE
        problem = f"it lists no model {options.model}".rstrip()
        raise RemoteError(where, f"{problem}; {cure}", again=False)
    return _DIALECTS[kind](transport, wanted, await transport.ask("/props") if native else {})
