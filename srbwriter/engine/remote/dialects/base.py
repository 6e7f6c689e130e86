"""Requests and events in the words of this program, and what every dialect shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from ...parameters import read_schema
from ...types import FinishReason, ModelInfo, RemoteError, Request, Sampling
from ..options import RemoteOptions
from ..problems import garbage, own_words
from ..profile import Profile
from ..transport import Transport
from ..vocabulary import FINGERPRINT, SIZE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completion:
    """One request for text: ``n`` branches that continue ``text`` in one way, seeded from ``seed`` on."""

    text: str
    sampling: Sampling
    seed: int
    n: int
    max_tokens: int | None  # that each may still write; None: no limit
    min_tokens: int
    ignore_eog: bool
    request: Request  # for what concerns no single branch
    whole: bool = True  # these are all branches of ``request``, and none has begun


class Tokens(NamedTuple):
    """Text of one branch, and why the branch ended if it has.

    ``logprobs`` are those of the server's tokens, whose text may come later than they do.
    """

    branch: int
    text: str
    logprobs: tuple[float, ...] = ()
    finish: FinishReason | None = None
    problem: str = ""  # where ``finish`` is an error


class Rewound(NamedTuple):
    """The server has rewound a branch to ``chars`` characters of what it wrote."""

    branch: int
    chars: int


StreamEvent: TypeAlias = "Tokens | Rewound"


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

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return one prompt from chat messages; None where it is to be rendered here."""
        return None

    async def apply_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return what the ``/apply-template`` says that llama-server and srbwriter have."""
        body = template_fields(messages, options)
        try:
            return str((await self.transport.ask("POST", "/apply-template", body))["prompt"])
        except RemoteError as error:
            if error.again:
                raise
            return None  # ours says what is wrong with the messages, if anything is


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
    for name in ("grammar", "json_schema", "regex"):
        if value := getattr(sampling, name):
            found[name] = read_schema(value) if name == "json_schema" else value
    return found


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


def model_info(name: str, path: str, n_ctx: int, **more: Any) -> ModelInfo:
    """Return the ModelInfo of a model whose file is on another machine."""
    unknown: dict[str, Any] = {
        "description": "", "architecture": "", "n_params": 0, "size": 0, "n_vocab": SIZE, "n_embd": 0,
        "n_ctx_train": n_ctx, "chat_template": None, "metadata": {},
    }  # fmt: skip
    return ModelInfo(path=path, name=name, n_ctx=n_ctx, vocab=FINGERPRINT, **{**unknown, **more})


def not_found(error: RemoteError) -> bool:
    """Whether the server answered that it has no such route or model."""
    return error.status in (400, 403, 404, 405, 422, 500, 501)
