"""How each kind of server is asked, and what it answers: OpenAI's way and vLLM's, llama-server's, our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from .. import limits
from ..backend import WITHOUT_CACHE
from ..capabilities import Capabilities
from ..parameters import PARAMETERS, read_schema, spelled
from ..types import FinishReason, InvalidRequest, ModelInfo, Priority, RemoteError, Sampling
from .transport import IS_IT_AN_ENGINE, Transport, misnumbered, own_words, unreadable
from .vocabulary import FINGERPRINT, SIZE, decode

if TYPE_CHECKING:
    from .branch import RemoteBranch

Branches: TypeAlias = "Sequence[RemoteBranch]"

_USUAL_WINDOW = 8192  # tokens, where a server does not say
_UNLIMITED = 1 << 20  # tokens asked for where no limit is meant; OpenAI's own default is 16
_SAMPLING = frozenset(row.field for row in PARAMETERS if row.record == "sampling") - {"logit_bias"}
"""What can be said without token ids."""
_REPORT = re.compile(rb'\{"(error"|(object|event)": ?"error")')
_CONSTRAINTS = frozenset({"grammar", "json_schema", "regex"})
_PLAIN = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"})
_ONLY_OURS = frozenset({"siblings", "cache_prompt", "penalty_prompt"})
_ENDS = frozenset({"min_tokens", "ignore_eog"})
_OF_IDS = (
    "token_ids", "logit_bias", "without", "next_logprobs", "next_ids", "prompt_logprobs", "gap_filling",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """The model of a server, and what its engine can do: read once, and shown to the writer.

    Attributes:
        server: its name and version, as it says itself.
        many: equal branches in one request at most.
        template: it puts chats into words itself.
        lacks: features and fields of Sampling that it does not know.
        lacking: why it cannot, in its own words.
    """

    dialect: str
    server: str
    info: ModelInfo
    many: int = 1
    template: bool = False
    lacks: frozenset[str] = frozenset()
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])

    def lines(self) -> list[str]:
        """Return the facts that are shown to a person, one per line."""
        whose = "its own template there" if self.template else "ChatML, for want of its own template"
        return [
            f"{self.server} ({self.dialect}), model {self.info.name}, {self.info.n_ctx} tokens",
            f"chats are put into words by {whose}",
            "has not: " + ", ".join(sorted(self.capabilities.missing)),
        ]

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of the server, and why the rest cannot."""
        them = self.server
        missing = {
            **dict.fromkeys(_OF_IDS, f"text goes to {them} and comes back, no token ids"),
            "logits_callback": f"the logits stay with {them}; they cannot be changed from here",
            "look_ahead": f"nothing is written ahead by {them}: it would go before what others ask for",
            "pause": f"{them} cannot be paused; stop the branch, and extend it later",
            "heal": f"{them} is sent whole text, so a word that breaks off is left as it is",
            **{name: f"{them} does not know {name}" for name in self.lacks},
        }
        if not self.template:
            missing["chat_template"] = f"{them} does not report its chat template"
        return Capabilities({**missing, **self.lacking, **WITHOUT_CACHE})


class Tokens(NamedTuple):
    """Text of one branch, and why the branch ended if it has.

    ``logprobs`` are those of the server's tokens, whose text may come later than they do. With ``back_to``
    the server has rewound the branch to so many characters and tokens.
    """

    branch: int
    text: str
    logprobs: tuple[float, ...] = ()
    finish: FinishReason | None = None
    problem: str = ""  # where ``finish`` is an error
    back_to: tuple[int, int] | None = None


# ---- OpenAI's, and vLLM's


class _Logprobs(msgspec.Struct, gc=False):
    token_logprobs: list[float | None] = msgspec.field(default_factory=list[float | None])


class _Choice(msgspec.Struct, gc=False):
    index: int
    text: str | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: _Logprobs | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]


class Dialect:
    """The requests and answers of one kind of server, of which ``card`` lists the model.

    As written here OpenAI's ``/v1/completions``: text goes out, text comes back. Methods raise RemoteError.
    Required fields of an ``event`` must be present: a garbled name would otherwise lose a token.
    """

    event: type[msgspec.Struct] = _Chunk

    def __init__(self, transport: Transport, card: dict[str, Any]) -> None:
        self.transport, self.card, self.model = transport, card, str(card["id"])
        self.options, self.where = transport.options, transport.where
        self._decoder = msgspec.json.Decoder(self.event)

    async def probe(self) -> Profile:
        """Ask what the server can do."""
        info = self.info(_window_of(self.card) or self.options.n_ctx or _USUAL_WINDOW)
        many = 1 if self.card.get("owned_by") == "koboldcpp" else 16  # KoboldCpp ignores n
        lacks = _SAMPLING - _PLAIN | _ONLY_OURS | _ENDS | {"logprobs"}
        return Profile("openai", "this server", info, many=many, lacks=lacks)

    def encode(
        self, text: str, branches: Branches, least: int, most: int | None, ignore_eog: bool
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        """Return the path and the body of a request: equal branches, which continue ``text``.

        Each is to write ``least`` to ``most`` tokens; None is no limit.
        """
        sampling, penalties = branches[0].branch.sampling, ("frequency_penalty", "presence_penalty")
        return "/v1/completions", {
            "model": self.model,
            "prompt": text,
            "stream": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": _UNLIMITED if most is None else most,
            "seed": branches[0].next_seed,
            **({"n": len(branches)} if len(branches) > 1 else {}),
            **{name: value for name in penalties if (value := getattr(sampling, name))},
        }

    def parse(self, data: bytes) -> Sequence[Tokens]:
        """Parse the data of one event. Raises RemoteError for garbage, and for an error that it reports."""
        if data == b"[DONE]":
            return ()
        try:
            return self.read(self._decoder.decode(data.decode()))  # UTF-8, also in ignored fields
        except (UnicodeDecodeError, ValueError):  # of which msgspec's errors are some
            if _REPORT.match(data) and (words := own_words(data)):
                raise RemoteError(self.where, words) from None
            raise unreadable(self.where, data) from None

    def read(self, event: Any) -> Sequence[Tokens]:
        """Return what an ``event`` says. Raises ValueError for garbage."""
        choices: list[_Choice] = event.choices
        numbers = [choice.index for choice in choices]
        if len(set(numbers)) < len(numbers):
            raise misnumbered(self.where, f"it sends words for a branch twice at once ({numbers})")
        ends = {"length": FinishReason.LENGTH, "abort": FinishReason.ERROR, "error": FinishReason.ERROR}
        found: list[Tokens] = []
        for each in choices:
            reason = FinishReason.EOG if each.stop_reason is None else FinishReason.STOP
            finish = None if each.finish_reason is None else ends.get(each.finish_reason, reason)
            logprobs = _logprobs(each.logprobs.token_logprobs if each.logprobs else ())
            found.append(Tokens(each.index, each.text or "", logprobs, finish))
        return found

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return one prompt from chat messages; None where it is to be rendered here."""
        if messages[-1].get("role") == "assistant" and not options.get("continue_final_message"):
            return None  # which it would go on with
        body = _template_fields(messages, options)
        return str((await self.transport.ask("POST", "/apply-template", body))["prompt"])

    def info(self, n_ctx: int, **known: Any) -> ModelInfo:
        """Return the ModelInfo of a model elsewhere, with as large a window as it and the options allow."""
        unknown: dict[str, Any] = {
            "name": self.model, "description": "", "architecture": "", "n_params": 0, "size": 0,
            "n_embd": 0, "n_ctx_train": n_ctx, "chat_template": None, "metadata": {},
        }  # fmt: skip
        n_ctx = min(self.options.n_ctx or n_ctx, n_ctx)
        return ModelInfo(
            path=self.where, n_ctx=n_ctx, n_vocab=SIZE, vocab=FINGERPRINT, **{**unknown, **known}
        )


class VLLM(Dialect):
    """With its own samplers, log-probabilities and chat templates.

    vLLM 0.32 makes ``n`` requests of one for ``n`` branches, which share the prefix cache. So each branch has
    a request of its own here, and ends when its connection is closed.
    """

    async def probe(self) -> Profile:
        server = "vLLM"
        try:
            server += f" {(await self.transport.ask('GET', '/version'))['version']}"
        except (RemoteError, KeyError, TypeError):
            if self.card.get("owned_by") != "vllm":  # else a proxy hides it
                raise _other_server(self.where, "vllm", "another program") from None
        info = self.info(_window_of(self.card) or self.options.n_ctx or _USUAL_WINDOW)
        known = _PLAIN | {*spelled("vllm"), "repeat_last_n"} | _CONSTRAINTS
        return Profile("vllm", server, info, template=True, lacks=_SAMPLING - known | _ONLY_OURS)

    def encode(
        self, text: str, branches: Branches, least: int, most: int | None, ignore_eog: bool
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        path, body = super().encode(text, branches, least, most, ignore_eog)
        sampling, request = branches[0].branch.sampling, branches[0].request.asked
        body |= {theirs: getattr(sampling, ours) for ours, theirs in spelled("vllm").items()}
        body |= {"min_tokens": least, "max_tokens": most, "ignore_eos": ignore_eog}
        if request.logprobs is not None:
            body["logprobs"] = 0
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        constraints = {"grammar": sampling.grammar, "json": sampling.json_schema, "regex": sampling.regex}
        if found := {name: value for name, value in constraints.items() if value}:
            body["structured_outputs"] = found
        return path, body

    async def template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str | None:
        """Return the text of the tokens that it makes of ``messages``, without those that begin any text."""
        ids = await self._tokens({"add_special_tokens": False, **_template_fields(messages, options)})
        begin = await self._tokens({"prompt": "", "add_special_tokens": True})
        ids = ids[len(begin) :] if ids[: len(begin)] == begin else ids
        body = {"model": self.model, "tokens": ids}
        return str((await self.transport.ask("POST", "/detokenize", body))["prompt"])

    async def _tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self.transport.ask("POST", "/tokenize", {"model": self.model, **body})
        return [int(token) for token in answer["tokens"]]


def _logprobs(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(-9999.0 if value is None else value for value in values)  # which JSON has no number for


def _window_of(card: Mapping[str, Any]) -> int:
    """Return the context's tokens from one of the usual places of a model's card; 0 if none has them."""
    meta = cast("dict[str, Any]", card.get("meta") or {})
    places = [card.get(name) for name in ("max_model_len", "context_length", "context_window", "n_ctx")]
    places += [meta.get("n_ctx"), meta.get("n_ctx_train")]
    return next((int(value) for value in places if isinstance(value, int | float) and value > 0), 0)


def _template_fields(messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request for a chat template; options that no server names go to the template."""
    known = ("add_generation_prompt", "continue_final_message")
    asked = {name: value for name, value in options.items() if name in known and value is not None}
    if asked.get("continue_final_message"):
        asked["add_generation_prompt"] = False
    others = {name: value for name, value in options.items() if name not in known}
    return {"messages": list(messages), **asked, **({"chat_template_kwargs": others} if others else {})}


# ---- llama-server's


class _Score(msgspec.Struct, gc=False):
    logprob: float | None = None


class _Piece(msgspec.Struct, gc=False):
    index: int
    content: str
    stop: bool
    stop_type: str = "none"
    completion_probabilities: list[_Score] | None = None
    prompt_progress: dict[str, float] | None = None


class LlamaCpp(Dialect):
    """llama-server's own ``/completion``: every sampler, several branches in one request.

    Facts from its sources (tools/server, October 2026): child k is seeded seed + k; ``n_cmpl`` may be at most
    the number of slots; the beginning token is put before a text.
    """

    event = _Piece

    async def probe(self) -> Profile:
        props: dict[str, Any] = await self.transport.ask("GET", "/props")
        meta = cast("dict[str, Any]", self.card.get("meta") or {})
        slots = int(props.get("total_slots") or 1)
        info = self.info(
            int(props["default_generation_settings"]["n_ctx"]),
            name=PurePosixPath(self.model).name.removesuffix(".gguf"),  # its file's, if nobody named it
            description=str(meta.get("ftype") or ""), chat_template=props.get("chat_template") or None,
            **{name: int(meta.get(name) or 0) for name in ("n_embd", "n_params", "size")},
        )  # fmt: skip
        lacks = frozenset({"regex", "infill", "banned_phrases", "min_tokens", "loop_guard"})
        return Profile(
            "llamacpp", f"llama-server {props.get('build_info', '')}".strip(), info, many=slots,
            template=True, lacks=lacks | _ONLY_OURS - {"cache_prompt"},
        )  # fmt: skip

    def encode(
        self, text: str, branches: Branches, least: int, most: int | None, ignore_eog: bool
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        sampling, request = branches[0].branch.sampling, branches[0].request.asked
        window = min(_window_of(self.card) or limits.TOKENS, limits.TOKENS)
        body: dict[str, Any] = {
            "prompt": text,
            "stream": True,
            "return_progress": True,  # a sign of life while a long prompt is evaluated
            "cache_prompt": request.cache_prompt,
            "n_predict": -1 if most is None else most,
            "n_cmpl": len(branches),
            "seed": branches[0].next_seed,
            "ignore_eos": ignore_eog,
            **{name: getattr(sampling, name) for name in spelled("llamacpp")},
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers) or ["\n"],
        }
        for name in ("repeat_last_n", "dry_penalty_last_n"):  # -1 is the whole context here
            last = getattr(sampling, name)
            body[name] = window if last < 0 else min(last, window)
        if request.logprobs is not None:
            body["n_probs"] = 1
        return "/completion", body | _sampler_fields(sampling)

    def read(self, event: Any) -> Sequence[Tokens]:
        if event.prompt_progress is not None:
            return ()
        ends = {"limit": FinishReason.LENGTH, "word": FinishReason.STOP}
        finish = ends.get(event.stop_type, FinishReason.EOG) if event.stop else None
        known: Sequence[_Score] = event.completion_probabilities or () if finish is None else ()
        return (Tokens(event.index, event.content, _logprobs(one.logprob for one in known), finish),)


def _sampler_fields(sampling: Sampling) -> dict[str, Any]:
    """Return the fields that llama.cpp and srbwriter spell alike, where they are set."""
    found: dict[str, Any] = {} if sampling.samplers is None else {"samplers": list(sampling.samplers)}
    found |= {name: value for name in ("grammar", "regex") if (value := getattr(sampling, name))}
    if sampling.json_schema:
        found["json_schema"] = read_schema(sampling.json_schema)
    return found


# ---- our own


class _Event(msgspec.Struct, gc=False):
    event: str
    index: int = -1
    text: str | None = None
    logprobs: list[_Score] = msgspec.field(default_factory=list[_Score])
    reason: str = ""
    chars: int = 0
    tokens: int = 0
    error: Any = None


class Srb(Dialect):
    """Another srbwriter: rich event lines."""

    event = _Event

    async def probe(self) -> Profile:
        card: dict[str, Any] = await self.transport.ask("GET", "/srb/v1/model")
        names = {field.name for field in fields(ModelInfo)} - {"n_ctx", "n_vocab", "vocab", "path"}
        known = {name: value for name, value in card["info"].items() if name in names}
        info = self.info(card["n_ctx"], **known)
        return Profile(
            "srb", f"srbwriter {card['version']}", info, many=int(card["max_n"]),
            template=bool(info.chat_template), lacking=dict[str, str](card.get("lacks", {})),
        )  # fmt: skip

    def encode(
        self, text: str, branches: Branches, least: int, most: int | None, ignore_eog: bool
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        first, n = branches[0], len(branches)
        sampling, request = first.branch.sampling, first.request.asked
        apart = {"seed", "samplers", "logit_bias", "dry_sequence_breakers", "banned_phrases"} | _CONSTRAINTS
        body: dict[str, Any] = {
            "prompt": text,
            "parse_special": True,  # a chat template writes them
            "n": n,
            "seed": first.next_seed,
            "max_tokens": -1 if most is None else most,
            "min_tokens": least,
            "ignore_eos": ignore_eog,
            "stop": [],
            "after_any": [],
            "cache_prompt": request.cache_prompt,
            **{
                row.name: getattr(sampling, row.field)
                for row in PARAMETERS
                if row.record == "sampling" and row.field not in apart
            },
        }
        if sampling.dry_multiplier:
            body["dry_sequence_breakers"] = list(sampling.dry_sequence_breakers)
        if sampling.banned_phrases:
            body["banned_phrases"] = [list(sampling.banned_phrases)] * n
        if request.logprobs is not None:
            body["logprobs"] = 0
        if request.priority > Priority.NORMAL:
            body["priority"] = request.priority.name.lower()
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        if request.penalty_prompt is not None:
            body["penalty_prompt"] = decode(cast("list[int]", request.penalty_prompt))
        if first.at_prompt and n == len(first.request.branches):  # who is rolled again is drawn by itself
            body["siblings"] = request.siblings
        return "/srb/v1/completions?sse=1&rich=1", body | _sampler_fields(sampling)

    def read(self, event: Any) -> Sequence[Tokens]:
        match event.event:
            case "stream" if event.index >= 0 and event.text is not None:
                return (Tokens(event.index, event.text, _logprobs(one.logprob for one in event.logprobs)),)
            case "stop" if event.index >= 0:
                known = event.reason in {reason.value for reason in FinishReason}
                reason = FinishReason(event.reason) if known else FinishReason.STOPPED
                return (Tokens(event.index, "", (), reason, str(event.error or "")),)
            case "cut" if event.index >= 0:
                return (Tokens(event.index, "", back_to=(event.chars, event.tokens)),)
            case "start" | "queue" | "prompt" | "state" | "banned" | "added" | "done":
                return ()
            case _:
                raise ValueError(f"no event {event.event!r} is known, or it names no branch")


# ---- which one

_DIALECTS: dict[str, type[Dialect]] = {"vllm": VLLM, "openai": Dialect, "llamacpp": LlamaCpp, "srb": Srb}
_NAMES = {"vllm": "vLLM", "llamacpp": "llama-server", "srb": "another srbwriter"}


async def connect(transport: Transport) -> tuple[Dialect, Profile]:
    """Find out what the server is and can do. Raises RemoteError, and InvalidRequest for an unknown name."""
    options = transport.options
    if options.dialect not in _DIALECTS and options.dialect != "auto":
        raise InvalidRequest("dialect", f"{options.dialect!r} is none of auto, {', '.join(_DIALECTS)}")
    answer: Any = await transport.ask("GET", "/v1/models")
    listed: Any = cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    known = cast("list[Any]", listed) if isinstance(listed, list) else []
    cards: list[dict[str, Any]] = [card for card in known if isinstance(card, dict) and "id" in card]
    wanted = [card for card in cards if not options.model or card["id"] == options.model]
    owner = str(cards[0].get("owned_by", "")).lower() if cards else ""
    ours = bool(cards) and "engine_state" in cards[0]
    found = {"llamacpp": "srb" if ours else "llamacpp", "vllm": "vllm"}.get(owner, "openai")
    kind = found if options.dialect == "auto" else options.dialect
    speaks = {found, "openai", *(["llamacpp"] if found == "srb" else [])}
    if found in _NAMES and kind not in speaks:
        raise _other_server(transport.where, kind, f"{_NAMES[found]} (--dialect {found})")
    if not wanted and kind in ("llamacpp", "srb"):
        wanted = cards  # they have one model, whatever it is called
    if not wanted:
        names = ", ".join(str(card["id"])[:80] for card in cards[:8])
        cure = f"--connect-model takes one of these: {names}" if names else IS_IT_AN_ENGINE
        words = f"it lists no model {options.model}".rstrip()
        raise RemoteError(transport.where, f"{words}; {cure}", again=False)
    dialect = _DIALECTS[kind](transport, wanted[0])
    return dialect, await dialect.probe()


def _other_server(where: str, kind: str, found: str) -> RemoteError:
    """Return the error for a server that is another one than the options say."""
    return RemoteError(where, f"this is {found}, not {_NAMES[kind]}; leave --dialect out", again=False)
