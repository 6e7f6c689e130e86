"""What is asked of the other side and what it answers, in no dialect yet; and what every dialect does."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from ...types import FinishReason, ModelInfo, RemoteError, Request, Sampling, TokenLogprob
from .. import letters
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
class Ask:
    """One request: ``len(seeds)`` branches that go on alike from ``ids``."""

    ids: tuple[int, ...]
    sampling: Sampling
    seeds: tuple[int, ...]
    max_tokens: int | None  # that each may still write
    min_tokens: int
    ignore_eog: bool
    request: Request  # for what concerns no single branch
    scored: bool  # log-probabilities of the prompt are wanted
    whole: bool = True  # these are all branches of ``request``, and none has begun
    slot: int = -1  # where it is to run, of the places that they tell apart; -1: wherever they like

    @property
    def n(self) -> int:
        return len(self.seeds)


class Piece(NamedTuple):
    """News of one branch: text with the ids that spell it, and why it ended if it has."""

    lane: int
    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: FinishReason | None = None
    problem: str = ""  # where ``finish`` is an error


class TakenBack(NamedTuple):
    """A branch goes another way from there: only so many characters remain of what it wrote."""

    lane: int
    chars: int


class PromptRead(NamedTuple):
    """So many tokens of the prompt were in their cache."""

    cached: int


class Named(NamedTuple):
    """What the other side calls the request, for verbs on its branches."""

    id: str


class Placed(NamedTuple):
    """Where the first branch ran."""

    slot: int


class Over(NamedTuple):
    """The answer has come to its end."""


News: TypeAlias = "Piece | TakenBack | PromptRead | Named | Placed | Over"


class Dialect(Protocol):
    """One server, spoken to in one way; methods raise RemoteError.

    Those with a body do what most servers need.
    """

    def __init__(self, transport: Transport, options: RemoteOptions) -> None: ...

    async def probe(self) -> Profile:
        """Who is there."""
        ...

    def request(self, ask: Ask) -> tuple[str, dict[str, Any]]:
        """Path and body that ask for it."""
        ...

    def read(self, data: bytes) -> Sequence[News]:
        """What one event says. Raises RemoteError for garbage, and for an error that it tells."""
        ...

    async def tokenize(self, text: str, parse_special: bool) -> list[int]:
        """Ids of ``text``; of a vocabulary made up here, unless the server tells its own."""
        return letters.encode(text)

    async def pieces(self, ids: Sequence[int], special: bool) -> list[bytes]:
        """What each of ``ids`` writes; control tokens nothing unless ``special``."""
        return [letters.piece(token).encode("utf-8", "replace") for token in ids]

    async def begins_a_token(self, text: str) -> bool:
        """Whether there is a token that begins with ``text``.

        Where nobody tells the vocabulary, a word that has begun is taken for one, and completed as a whole.
        """
        return _BEGUN_WORD.fullmatch(text) is not None

    async def text(self, ids: Sequence[int]) -> str | None:
        """The text of ``ids`` as a whole; None where it is that of their pieces."""
        return None

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """One prompt from chat messages; None where it is to be rendered here."""
        return None

    async def score(self, ids: Sequence[int], request: Request) -> Sequence[TokenLogprob]:
        """Log-probabilities of ``ids`` as ``request`` wants them, if the profile says that they can be had.

        Those from its ``score_from`` on, or from the second: nothing foretells the first token.
        """
        return ()

    async def next(
        self, ids: Sequence[int], request: Request, begun: str = ""
    ) -> Sequence[tuple[int, float]]:
        """The likeliest tokens after ``ids`` as ``request`` wants them, then the others of its ``next_ids``.

        Those of these that the server tells nothing of are left out. The likeliest spell ``begun``, or the
        beginning of it, where the server tells enough for that.
        """
        return ()

    async def place(self, ids: Sequence[int], n: int) -> int:
        """Where ``n`` branches should go on from ``ids``; -1: wherever they like."""
        return -1

    def left(self, asked: int, slot: int, ids: Sequence[int]) -> None:
        """What was placed at ``asked`` is over; at ``slot``, if that is known, ``ids`` stand now."""

    async def promote(self, request: str) -> None:
        """A request that has a name is wanted now; it was asked ahead."""

    async def steer(self, request: str, index: int, verb: str) -> None:
        """``stop``, ``kill``, ``pause`` or ``resume`` one branch of a request that has a name."""


def scales(request: Request) -> dict[str, Any]:
    """The adapters that a request names, as llama.cpp and srbwriter are told of them."""
    if request.lora is None:
        return {}
    return {"lora": [{"id": number, "scale": scale} for number, scale in request.lora]}


def begins_one(text: str, pieces: Sequence[bytes]) -> bool:
    """Whether one of ``pieces``, which are sorted, begins with ``text``."""
    begun = text.encode("utf-8", "replace")
    place = bisect_left(pieces, begun)
    return place < len(pieces) and pieces[place].startswith(begun)


def probe_fingerprint(ids: Sequence[int], size: int = 0) -> str:
    """Names a vocabulary of which only the tokens of :data:`PROBE` are known."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(b",".join(b"%d" % token for token in (size, *ids)))
    return f"probe-{digest.hexdigest()}"


def is_control(text: str) -> bool:
    """Whether a token that is written so looks like one that adds nothing to a text; they do not tell."""
    return text.startswith("<|") and text.endswith("|>") or text in ("<s>", "</s>", "<unk>", "<pad>")


def decoded(decoder: msgspec.json.Decoder[T], data: bytes, where: str) -> T:
    """An event's JSON. Raises RemoteError for garbage, and for an error that it tells.

    What cannot be missing must be there: a name that is spoilt on the way would else be a token lost. For
    the same reason all of it has to be text, also what is passed over.
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
    """What can be told of a model whose file nobody here has seen."""
    unknown: dict[str, Any] = {
        "description": "", "architecture": "", "n_params": 0, "size": 0, "n_vocab": 2**31 - 1, "n_embd": 0,
        "n_ctx_train": n_ctx, "chat_template": None, "metadata": {},
    }  # fmt: skip
    return ModelInfo(path=path, name=name, n_ctx=n_ctx, vocab=vocab, **{**unknown, **more})


def not_found(error: RemoteError) -> bool:
    """Whether the server is there, but not what was asked for."""
    return error.status in (400, 403, 404, 405, 422, 500, 501)
