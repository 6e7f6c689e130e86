"""The profile of a server: read once, when the connection is made, and shown to the writer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from ..backend import WITHOUT_CACHE
from ..capabilities import Capabilities, Feature
from ..infill import NO_MARKS
from ..types import ModelInfo, Sampling

ALL_SAMPLING = frozenset(field.name for field in fields(Sampling))
_OPTIONAL: tuple[Feature, ...] = ("cache_prompt", "penalty_prompt")
_TOGETHER: tuple[Feature, ...] = ("siblings", "repulsion")
_ENDS: tuple[Feature, ...] = ("min_tokens", "ignore_eog")
CONSTRAINTS = ("grammar", "json_schema", "regex")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, slots=True)
class Profile:
    """The model, and what its engine can do."""

    dialect: str
    server: str  # its name and version, as it says itself
    info: ModelInfo
    bos: int | None = None
    eos: int | None = None
    eog: frozenset[int] = frozenset()
    fim: tuple[int, int, int] | None = None
    add_bos: bool = False
    ids: bool = False  # tokens go out and come back as ids; else text does
    many: int = 1  # equal branches in one request at most
    logprobs: int = -1  # likeliest tokens reported beside the chosen one, at most; -1: none, not even that
    prompt_logprobs: bool = False
    sampling: frozenset[str] = ALL_SAMPLING  # fields of Sampling that it understands
    stops: frozenset[str] = frozenset()  # of min_tokens, ignore_eog: those that it understands
    request: frozenset[str] = frozenset()  # fields of a request that concern no single branch
    requests: int = 0  # under way at once at most; 0: it does not say
    handles: bool = False  # one branch of a running request can be let go
    ahead: bool = False  # it knows requests that wait until nothing else is to be done
    template: bool = False  # it puts chats into words itself
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])  # why, in their own words

    def lines(self) -> list[str]:
        """Return the facts that are shown to a person, one per line."""
        yes = [
            ("token ids in and out", self.ids),
            ("branches can be let go one by one", self.handles or self.many == 1),
            ("log-probabilities", self.logprobs >= 0),
            ("log-probabilities of the prompt", self.prompt_logprobs),
            ("constraints", bool(self.sampling.intersection(CONSTRAINTS))),
            ("words completed", self.capabilities.has("heal")),
            ("writing the next branches while you read", self.ahead),
        ]
        families = ("adaptive", "dry", "dynatemp", "mirostat", "xtc")  # one word for all knobs of a sampler
        missing = ALL_SAMPLING - self.sampling
        lacking = sorted({next((f for f in families if name.startswith(f)), name) for name in missing})
        whose = "its own template there" if self.template else "its template here"
        if not self.template and not self.info.chat_template:
            whose = "ChatML, for want of its own template"
        return [
            f"{self.server} ({self.dialect}), model {self.info.name}, {self.info.n_ctx} tokens",
            f"chats are put into words by {whose}",
            "has: " + ", ".join(name for name, has in yes if has),
            "has not: " + ", ".join([name for name, has in yes if not has] + lacking),
        ]

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of the server, and why the rest cannot."""
        them, sampling = self.server, self.sampling
        apart = f"the logits stay with {them}, so each branch is drawn by itself there"
        unlikely = f"{them} does not report how likely tokens are that it did not choose"
        rows: tuple[tuple[bool, tuple[Feature, ...], str], ...] = (
            (False, ("logits_callback",), f"the logits stay with {them}; they cannot be changed from here"),
            (self.ids, ("token_ids",), f"{them} reports no token ids"),
            (self.logprobs >= 0, ("logprobs",), f"{them} reports no log-probabilities"),
            (self.ids and self.logprobs > 0, ("next_logprobs", "next_ids"), unlikely),
            (self.prompt_logprobs, ("prompt_logprobs",), f"{them} reports no log-probabilities of a prompt"),
            (self.ids and "logit_bias" in sampling, ("without",),
             f"{them} cannot be told what not to write in one place alone"),
            (self.ahead, ("look_ahead",),
             f"{them} cannot be told to write only while nobody else asks for anything"),
            (self.template or bool(self.info.chat_template), ("chat_template",),
             f"{them} does not report its chat template"),
            (bool(sampling.intersection(("grammar", "regex"))), ("heal",),
             f"{them} cannot be held to the end of a word, so one that breaks off is left as it is"),
            (self.fim is not None, ("gap_filling",), NO_MARKS),
        )  # fmt: skip
        missing: dict[str, str] = {name: why for there, names, why in rows if not there for name in names}
        unknown = {*ALL_SAMPLING.difference(sampling), *set(_OPTIONAL).difference(self.request)}
        missing |= {name: f"{them} does not know {name}" for name in unknown}
        missing |= dict.fromkeys(set(_TOGETHER).difference(self.request), apart)
        missing |= dict.fromkeys(set(_ENDS).difference(self.stops), f"{them} cannot be told when not to end")
        return Capabilities({**missing, **self.lacking, **WITHOUT_CACHE}, self.logprobs, remote=True)

    def spelling(self, sampling: Sampling, text: str) -> Sampling:
        """``sampling`` that begins with ``text``, which may be followed by anything."""
        if not text or any(getattr(sampling, name) for name in CONSTRAINTS):
            return sampling
        if "regex" in self.sampling:
            return replace(sampling, regex=re.sub(r"[][\\^$.|?*+(){}]", r"\\\g<0>", text) + r"[\s\S]*")
        return replace(sampling, grammar=f'root ::= "{text.translate(_ESCAPED)}" [^\\x00]*')
