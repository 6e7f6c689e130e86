"""Requests and events in the words of this program, and what every dialect shares."""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from ...parameters import read_schema
from ...types import FinishReason, ModelInfo, RemoteError, Request, Sampling, TokenLogprob
from .. import pseudo_tokenizer
from ..options import RemoteOptions
from ..problems import garbage, own_words
from ..profile import Profile
from ..transport import Transport

T = TypeVar("T")

PROBE = (
    "Once upon a time, in 1984, “she” didn't say: naïve café? — не́т! 東京で猫が眠る。 🐈\n\n"
    "\tThe quick brown fox jumps over the lazy dog; 3.14159 == π… unbelievably antidisestablishmentarianism."
)
"""A text whose tokens tell vocabularies apart."""

_BEGUN_WORD = re.compile(r" [^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Completion:
    """One request for text: ``len(seeds)`` branches that continue ``ids`` in the same way."""

    ids: tuple[int, ...]
    sampling: Sampling
    seeds: tuple[int, ...]
    max_tokens: int | None  # that each may still write; None: no limit
    min_tokens: int
    ignore_eog: bool
    request: Request  # for what concerns no single branch
    whole: bool = True  # these are all branches of ``request``, and none has begun

    @property
    def n(self) -> int:
        """Number of branches."""
        return len(self.seeds)


class Tokens(NamedTuple):
    """Text of one branch with the ids that spell it, and why the branch ended if it has."""

    branch: int
    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: FinishReason | None = None
    problem: str = ""  # where ``finish`` is an error


class Rewound(NamedTuple):
    """The server has rewound a branch to ``chars`` characters of what it wrote."""

    branch: int
    chars: int


class PromptEvaluated(NamedTuple):
    """The server has evaluated the prompt; ``cached`` tokens of it were in its cache."""

    cached: int


class RequestId(NamedTuple):
    """The server's name of the request, for verbs on its branches."""

    id: str


StreamEvent: TypeAlias = "Tokens | Rewound | PromptEvaluated | RequestId"


class Dialect:
    """The requests and answers of one kind of server. Methods raise RemoteError.

    Those with a body here do what most servers need.
    """

    def __init__(self, transport: Transport, options: RemoteOptions) -> None:
        self.transport, self.options = transport, options

    async def probe(self) -> Profile:
        """Ask what the server is and can do."""
        raise NotImplementedError

    def encode(self, completion: Completion) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the request."""
        raise NotImplementedError

    def parse(self, data: bytes) -> Sequence[StreamEvent]:
        """Parse the data of one event. Raises RemoteError for garbage, and for an error that it reports."""
        raise NotImplementedError

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        """Return the ids of ``text``: pseudo tokens, unless the server has a tokenizer to ask."""
        return pseudo_tokenizer.encode(text)

    async def tokenize_continuation(self, text: str) -> list[int]:
        """Return the ids of ``text`` after other text.

        SentencePiece vocabularies put a space before any text; a line break in front takes the space, and its
        tokens are removed again.
        """
        lead, ids = await self.tokenize("\n", False), await self.tokenize("\n" + text, False)
        return ids[len(lead) :] if ids[: len(lead)] == lead else await self.tokenize(text, False)

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        """Return what each of ``ids`` writes; nothing for control tokens unless ``special``."""
        return [pseudo_tokenizer.piece(token).encode("utf-8", "replace") for token in ids]

    async def begins_a_token(self, text: str) -> bool:
        """Whether a token begins with ``text``.

        Where the vocabulary is not known, a word that has begun is taken for one, and completed as a whole.
        """
        return _BEGUN_WORD.fullmatch(text) is not None

    async def text(self, ids: Sequence[int]) -> str | None:
        """Return the text of ``ids`` as a whole; None where it is that of their pieces."""
        return None

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return one prompt from chat messages; None where it is to be rendered here."""
        return None

    async def score(self, ids: Sequence[int], request: Request) -> Sequence[TokenLogprob]:
        """Return the log-probabilities of ``ids`` for ``request``, if the profile has them.

        They begin with its ``score_from``, or with the second token: the first one has none.
        """
        return ()

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        """Return the likeliest tokens after ``ids`` for ``request``, then those of its ``next_ids``.

        Tokens of ``next_ids`` that the server does not report are left out. The likeliest tokens spell
        ``begun`` or the beginning of it, where the server reports enough of them.
        """
        return ()

    async def promote(self, request: str) -> None:
        """Raise a prefetch request to the foreground. ``request`` came as a :class:`RequestId`."""

    async def steer(self, request: str, index: int, verb: str) -> None:
        """``stop``, ``kill``, ``pause`` or ``resume`` one branch of a request."""


_TEMPLATE = ("add_generation_prompt", "continue_final_message")


def template_fields(messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request for a chat template; options that no server names go to the template."""
    fields = {name: value for name, value in options.items() if name in _TEMPLATE and value is not None}
    if fields.get("continue_final_message"):
        fields["add_generation_prompt"] = False
    others = {name: value for name, value in options.items() if name not in _TEMPLATE}
    return {"messages": list(messages), **fields, **({"chat_template_kwargs": others} if others else {})}


def sampler_fields(sampling: Sampling) -> dict[str, Any]:
    """Return the fields that llama.cpp and srbwriter spell alike, where they are set."""
    found: dict[str, Any] = {}
    if sampling.samplers is not None:
        found["samplers"] = list(sampling.samplers)
    if sampling.logit_bias:
        found["logit_bias"] = [[i, False if b == -math.inf else b] for i, b in sampling.logit_bias]
    for name in ("grammar", "json_schema", "regex"):
        if value := getattr(sampling, name):
            found[name] = read_schema(value) if name == "json_schema" else value
    return found


async def ask_llama_tokens(
    transport: Transport, text: str, parse_special: bool, add_special: bool = False
) -> list[int]:  # fmt: skip
    """Return the ids of ``text`` from the ``/tokenize`` that llama-server and srbwriter have."""
    body = {"content": text, "add_special": add_special, "parse_special": parse_special}
    return [int(token) for token in (await transport.ask("POST", "/tokenize", body))["tokens"]]


def begins_one(text: str, pieces: Sequence[bytes]) -> bool:
    """Whether one of the sorted ``pieces`` begins with ``text``."""
    begun = text.encode("utf-8", "replace")
    place = bisect_left(pieces, begun)
    return place < len(pieces) and pieces[place].startswith(begun)


def probe_fingerprint(ids: Sequence[int]) -> str:
    """Return the name of a vocabulary of which only the tokens of :data:`PROBE` are known."""
    text = b",".join(b"%d" % token for token in (0, *ids))  # stories have names that begin with this 0
    return f"probe-{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def is_control(text: str) -> bool:
    """Whether a token that is written so looks like a control token; servers do not say."""
    return text.startswith("<|") and text.endswith("|>") or text in ("<s>", "</s>", "<unk>", "<pad>")


def decoded(decoder: msgspec.json.Decoder[T], data: bytes, where: str) -> T:
    """Decode an event's JSON. Raises RemoteError for garbage, and for an error that it reports.

    Required fields must be present: a garbled name would otherwise lose a token. For the same reason all of
    the data has to be UTF-8, also in ignored fields.
    """
    try:
        return decoder.decode(data.decode())
    except UnicodeDecodeError:
        raise garbage(where, data) from None
    except msgspec.DecodeError:  # of which errors of validation are some
        words = (
            own_words(data) if data.startswith(b'{"error"') or data.startswith(b'{"object":"error"') else ""
        )
        raise RemoteError(where, words) if words else garbage(where, data) from None


def model_info(name: str, path: str, n_ctx: int, vocab: str, **more: Any) -> ModelInfo:
    """Return the ModelInfo of a model whose file is on another machine."""
    unknown: dict[str, Any] = {
        "description": "", "architecture": "", "n_params": 0, "size": 0, "n_vocab": 2**31 - 1, "n_embd": 0,
        "n_ctx_train": n_ctx, "chat_template": None, "metadata": {},
    }  # fmt: skip
    return ModelInfo(path=path, name=name, n_ctx=n_ctx, vocab=vocab, **{**unknown, **more})


def not_found(error: RemoteError) -> bool:
    """Whether the server answered that it has no such route or model."""
    return error.status in (400, 403, 404, 405, 422, 500, 501)
