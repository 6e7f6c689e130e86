"""How each kind of server is asked, and what it answers.

OpenAI's way, which vLLM adds to, and llama-server's, which another srbwriter adds to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from .. import limits
from ..backend import WITHOUT_CACHE
from ..capabilities import Capabilities
from ..parameters import OF_SAMPLING, spelled
from ..types import FinishReason, InvalidRequest, ModelInfo, RemoteError
from .transport import IS_IT_AN_ENGINE, Transport, own_words, unreadable
from .vocabulary import FINGERPRINT, SIZE

if TYPE_CHECKING:
    from .branch import RemoteBranch

Branches: TypeAlias = "Sequence[RemoteBranch]"

_USUAL_WINDOW = 8192  # tokens, where a server does not say
_UNLIMITED = 1 << 20  # tokens asked for where no limit is meant; OpenAI's own default is 16
_REPORT = re.compile(rb'\{"(error"|object": ?"error")')
_ENDS: Mapping[str, FinishReason] = {
    "stop": FinishReason.EOG, "eos": FinishReason.EOG, "word": FinishReason.EOG,
    "length": FinishReason.LENGTH, "limit": FinishReason.LENGTH,
}  # fmt: skip
_SAMPLING = frozenset(row.field for row in OF_SAMPLING) - {"logit_bias"}
"""What can be said without token ids."""
_CONSTRAINTS = frozenset({"grammar", "json_schema", "regex"})
_PLAIN = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"})
_HERE = (
    "token_ids", "logit_bias", "without", "logprobs", "next_logprobs", "next_ids", "prompt_logprobs",
    "gap_filling", "logits_callback", "heal", "cache_prompt", "max_seconds",
)  # fmt: skip
"""What only an engine in this process can do."""


class TextChunk(NamedTuple):
    """Text of one branch, and why the branch ended if it has, with the ``problem`` where that is an error."""

    branch: int
    text: str
    finish: FinishReason | None = None
    problem: str = ""


# ---- OpenAI's, and vLLM's


class _Choice(msgspec.Struct, gc=False):
    index: int
    text: str | None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]


class RemoteDialect:
    """The requests and answers of one kind of server, and what its model can do.

    As written here OpenAI's ``/v1/completions``: text goes out, text comes back. Methods raise RemoteError.
    Required fields of an ``event`` must be present: a garbled name would otherwise lose a token. ``many`` is
    how many equal branches are in one request at most, ``end`` the text of the token that ends a turn.
    """

    name, server, path = "openai", "this server", "/v1/completions"
    event: type[msgspec.Struct] = _Chunk
    info: ModelInfo
    many, end = 16, ""
    lacks: frozenset[str] = _SAMPLING - _PLAIN | {"siblings", "min_tokens", "ignore_eog", "chat_template"}

    def __init__(self, transport: Transport, card: dict[str, Any]) -> None:
        self.transport, self.card, self.model = transport, card, str(card["id"])
        self._decoder = msgspec.json.Decoder(self.event)

    async def probe(self) -> None:
        """Ask what the server can do."""
        self.set_info(self.model, _window_of(self.card) or self.transport.options.n_ctx or _USUAL_WINDOW)
        if self.card.get("owned_by") == "koboldcpp":
            self.many = 1  # it ignores n

    def set_info(self, name: str, n_ctx: int, chat_template: str | None = None) -> None:
        """Set the facts of the model, with as large a window as it and the options allow."""
        where, window = self.transport.where, min(self.transport.options.n_ctx or n_ctx, n_ctx)
        self.info = ModelInfo(
            where, name, device=where, n_ctx_train=n_ctx, n_ctx=window, n_vocab=SIZE, vocab=FINGERPRINT,
            chat_template=chat_template,
        )  # fmt: skip

    def lines(self) -> list[str]:
        """Return the facts that are shown to a person, one per line."""
        return [
            f"{self.server} ({self.name}), model {self.info.name}, {self.info.n_ctx} tokens",
            "has not: " + ", ".join(sorted(self.capabilities.missing)),
        ]

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of the server, and why the rest cannot."""
        them = self.server
        missing = {
            **{name: f"{name} needs a model here: {them} gets text, no token ids" for name in _HERE},
            "look_ahead": f"nothing is written ahead by {them}: it would go before what others ask for",
            "pause": f"{them} cannot be paused; stop the branch, and extend it later",
            **{name: f"{them} does not know {name}" for name in self.lacks},
        }
        return Capabilities({**missing, **WITHOUT_CACHE})

    def encode(self, text: str, branches: Branches, most: int | None, least: int) -> dict[str, Any]:
        """Return the body of a request for equal branches, which continue ``text``.

        Each is to write ``least`` to ``most`` tokens; None is no limit.
        """
        sampling, penalties = branches[0].branch.sampling, ("frequency_penalty", "presence_penalty")
        return {
            "model": self.model, "prompt": text, "stream": True,
            "temperature": sampling.temperature, "top_p": sampling.top_p,
            "max_tokens": _UNLIMITED if most is None else most, "seed": branches[0].next_seed,
            **({"n": len(branches)} if len(branches) > 1 else {}),
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
                raise RemoteError(self.transport.where, words) from None
            raise unreadable(self.transport.where, data) from None

    def read(self, event: Any) -> Sequence[TextChunk]:
        """Return what an ``event`` says."""
        choices: list[_Choice] = event.choices
        numbers = [choice.index for choice in choices]
        if len(set(numbers)) < len(numbers):
            raise self.faulty(f"words for a branch twice at once ({numbers})")
        return [TextChunk(each.index, each.text or "", _end(each.finish_reason)) for each in choices]

    def faulty(self, what: str) -> RemoteError:
        """Return the error for words that are no branch's."""
        return RemoteError(self.transport.where, f"the server is faulty: it sends {what}", again=False)


class VLLM(RemoteDialect):
    """With its own samplers.

    vLLM 0.32 makes ``n`` requests of one for ``n`` branches, which share the prefix cache. So each branch has
    a request of its own here, and ends when its connection is closed.
    """

    name, server, many = "vllm", "vLLM", 1
    lacks = _SAMPLING - _PLAIN - {*spelled("vllm"), "repeat_last_n"} | {"siblings", "chat_template"}

    def encode(self, text: str, branches: Branches, most: int | None, least: int) -> dict[str, Any]:
        first, request = branches[0].branch, branches[0].request.asked
        body = super().encode(text, branches, most, least)
        body |= {theirs: getattr(first.sampling, ours) for ours, theirs in spelled("vllm").items()}
        body |= {"min_tokens": least, "max_tokens": most, "ignore_eos": first.stop_rule.ignore_eog}
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        return body


def _end(reason: str | None) -> FinishReason | None:
    return _ENDS.get(reason, FinishReason.ERROR) if reason else None


def _window_of(card: Mapping[str, Any]) -> int:
    """Return the context's tokens from one of the usual places of a model's card; 0 if none has them."""
    known = {**card, **cast("dict[str, Any]", card.get("meta") or {})}
    names = ("max_model_len", "context_length", "context_window", "n_ctx", "n_ctx_train")
    return next((int(known[name]) for name in names if isinstance(known.get(name), int | float)), 0)


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

    name, server, path = "llamacpp", "llama-server", "/completion"
    event = _Piece
    lacks = _CONSTRAINTS | {"banned_phrases", "min_tokens", "siblings"}

    async def probe(self) -> None:
        props: dict[str, Any] = await self.transport.ask("GET", "/props")
        self.many, self.end = int(props.get("total_slots") or 1), str(props.get("eos_token") or "")
        self.lacks |= set[str]() if props.get("chat_template") else {"chat_template"}
        name = PurePosixPath(self.model).name.removesuffix(".gguf")  # its file's, if nobody named it
        self.set_info(name, int(props["default_generation_settings"]["n_ctx"]), props.get("chat_template"))

    def encode(self, text: str, branches: Branches, most: int | None, least: int) -> dict[str, Any]:
        first, sampling = branches[0], branches[0].branch.sampling
        window = min(_window_of(self.card) or limits.TOKENS, limits.TOKENS)
        body: dict[str, Any] = {
            "prompt": text,
            "stream": True,
            "return_progress": True,  # a sign of life while a long prompt is evaluated
            "n_predict": -1 if most is None else most,
            "n_cmpl": len(branches),
            "seed": first.next_seed,
            # It knows no least number of tokens: without an end it writes at least as many.
            "ignore_eos": first.branch.stop_rule.ignore_eog or (least > 0 and "min_tokens" in self.lacks),
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
        return (TextChunk(event.index, event.content, _end(event.stop_type * event.stop), event.error),)


class Srb(LlamaCpp):
    """Another srbwriter: with what llama-server lacks."""

    name, server, lacks = "srb", "another srbwriter", _CONSTRAINTS

    def encode(self, text: str, branches: Branches, most: int | None, least: int) -> dict[str, Any]:
        first, sampling, request = branches[0], branches[0].branch.sampling, branches[0].request.asked
        body = super().encode(text, branches, most, least)
        body |= {"min_tokens": least, "stop": [], "after_any": []}
        body |= {"banned_phrases": list(sampling.banned_phrases)}
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        all_of_them = len(branches) == len(first.request.branches)
        if first.at_prompt and all_of_them:  # who is rolled again is drawn by itself
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
    answer: Any = await transport.ask("GET", "/v1/models")
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
    free = not options.model or kind in ("llamacpp", "srb")
    wanted = next((card for card in cards if free or card["id"] == options.model), None)
    if wanted is None:
        names = ", ".join(str(card["id"])[:80] for card in cards[:8])
        cure = f"--connect-model takes one of these: {names}" if names else IS_IT_AN_ENGINE
        problem = f"it lists no model {options.model}".rstrip()
        raise RemoteError(where, f"{problem}; {cure}", again=False)
    dialect = _DIALECTS[kind](transport, wanted)
    await dialect.probe()
    return dialect
