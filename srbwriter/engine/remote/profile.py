"""What is known of the other side: asked once, when the connection is made, and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from ..types import ModelInfo, Sampling

ALL_SAMPLING = frozenset(field.name for field in fields(Sampling))
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
    logprobs: int = -1  # likeliest tokens told beside the chosen one at most; -1: nothing is
    prompt_logprobs: bool = False
    sampling: frozenset[str] = ALL_SAMPLING  # fields of Sampling that it understands
    stops: frozenset[str] = frozenset()  # of min_tokens, ignore_eog: those that it understands
    request: frozenset[str] = frozenset()  # fields of a request that concern no single branch
    requests: int = 0  # under way at once at most; 0: it does not say
    handles: bool = False  # one branch of a running request can be let go
    ahead: bool = False  # it knows requests that wait until nothing else is to be done
    anew: int = 0  # tokens to be read where a branch goes on in another request; -1: all; 0: it is not known
    template: bool = False  # it puts chats into words itself
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])  # why, in their own words

    def lines(self) -> list[str]:
        """What a person may want to know, one thing a line."""
        yes = [
            ("token ids in and out", self.ids),
            ("several branches in one request", self.many > 1),
            ("branches can be let go one by one", self.handles),
            ("log-probabilities", self.logprobs >= 0),
            ("log-probabilities of the prompt", self.prompt_logprobs),
            ("constraints", bool(self.sampling.intersection(CONSTRAINTS))),
            ("words completed", not self.lacks("heal")),
            ("writing ahead of picks", self.ahead),
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

    def lacks(self, name: str) -> str:
        """Why ``name`` (a verb, or a field of a request, sampling or stop) cannot be had; "" if it can."""
        them = self.server
        if name in self.lacking:
            return self.lacking[name]
        if name == "logits_callback":
            return f"the logits stay with {them}; they cannot be changed from here"
        if name in ("siblings", "repulsion") and name not in self.request:
            return f"the logits stay with {them}, so each branch is drawn by itself there"
        if name in ALL_SAMPLING:
            return "" if name in self.sampling else f"{them} does not know {name}"
        if name in ("min_tokens", "ignore_eog"):
            return "" if name in self.stops else f"{them} cannot be told when not to end"
        if name == "token_ids":
            return "" if self.ids else f"{them} tells no token ids"
        if name == "logprobs":
            return "" if self.logprobs >= 0 else f"{them} tells no log-probabilities"
        if name in ("next_logprobs", "next_ids"):
            told = self.ids and self.logprobs > 0
            return "" if told else f"{them} does not tell how likely tokens are that it did not choose"
        if name == "without":
            known = self.ids and "logit_bias" in self.sampling
            return "" if known else f"{them} cannot be told what not to write in one place alone"
        if name == "look_ahead":
            return (
                ""
                if self.ahead
                else f"{them} cannot be told to write only while nobody else asks for anything"
            )
        if name == "prompt_logprobs":
            return "" if self.prompt_logprobs else f"{them} tells no log-probabilities of a prompt"
        if name == "chat_template":
            told = self.template or self.info.chat_template
            return "" if told else f"{them} does not tell its chat template"
        if name in ("cache_prompt", "strict", "penalty_prompt", "lora"):
            return "" if name in self.request else f"{them} does not know {name}"
        if name == "heal" and not self.sampling.intersection(("grammar", "regex")):
            return f"{them} cannot be held to the end of a word, so one that breaks off is left as it is"
        return ""

    def spelling(self, sampling: Sampling, text: str) -> Sampling:
        """``sampling`` that begins with ``text``, which may be followed by anything."""
        if not text or any(getattr(sampling, name) for name in CONSTRAINTS):
            return sampling
        if "regex" in self.sampling:
            return replace(sampling, regex=re.sub(r"[][\\^$.|?*+(){}]", r"\\\g<0>", text) + r"[\s\S]*")
        return replace(sampling, grammar=f'root ::= "{text.translate(_ESCAPED)}" [^\\x00]*')
