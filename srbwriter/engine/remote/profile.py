"""The profile of a server: read once, when the connection is made, and shown to the writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ..backend import WITHOUT_CACHE
from ..capabilities import Capabilities, Feature
from ..types import ModelInfo, Sampling

ALL_SAMPLING = frozenset(field.name for field in fields(Sampling)) - {"logit_bias"}
"""What can be said without token ids."""
_OPTIONAL: tuple[Feature, ...] = ("cache_prompt", "penalty_prompt")
_TOGETHER: tuple[Feature, ...] = ("siblings", "repulsion")
_ENDS: tuple[Feature, ...] = ("min_tokens", "ignore_eog")
_CONSTRAINTS = ("grammar", "json_schema", "regex")


@dataclass(frozen=True, slots=True)
class Profile:
    """The model, and what its engine can do."""

    dialect: str
    server: str  # its name and version, as it says itself
    info: ModelInfo
    many: int = 1  # equal branches in one request at most
    logprobs: bool = False  # it tells how likely the tokens were that it wrote
    sampling: frozenset[str] = ALL_SAMPLING  # fields of Sampling that it understands
    stops: frozenset[str] = frozenset()  # of min_tokens, ignore_eog: those that it understands
    request: frozenset[str] = frozenset()  # fields of a request that concern no single branch
    requests: int = 0  # under way at once at most; 0: it does not say
    template: bool = False  # it puts chats into words itself
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])  # why, in their own words

    def lines(self) -> list[str]:
        """Return the facts that are shown to a person, one per line."""
        yes = [
            ("log-probabilities", self.logprobs),
            ("constraints", bool(self.sampling.intersection(_CONSTRAINTS))),
            ("branches that differ", "siblings" in self.request),
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
            "has: " + (", ".join(name for name, has in yes if has) or "text"),
            "has not: " + ", ".join([name for name, has in yes if not has] + lacking),
        ]

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of the server, and why the rest cannot."""
        them = self.server
        missing: dict[str, str] = {
            "logits_callback": f"the logits stay with {them}; they cannot be changed from here",
            "look_ahead": f"nothing is written ahead by {them}: it would go before what others ask for",
            "pause": f"{them} cannot be paused; stop the branch, and extend it later",
            "heal": f"{them} is sent whole text, so a word that breaks off is left as it is",
        }
        words = f"text goes to {them} and comes back, no token ids"
        of_ids: tuple[Feature, ...] = (
            "token_ids", "logit_bias", "without", "next_logprobs", "next_ids", "prompt_logprobs",
            "gap_filling",
        )  # fmt: skip
        missing |= dict.fromkeys(of_ids, words)
        if not self.logprobs:
            missing["logprobs"] = f"{them} reports no log-probabilities"
        if not self.template and not self.info.chat_template:
            missing["chat_template"] = f"{them} does not report its chat template"
        unknown = {*ALL_SAMPLING.difference(self.sampling), *set(_OPTIONAL).difference(self.request)}
        missing |= {name: f"{them} does not know {name}" for name in unknown}
        apart = f"the logits stay with {them}, so each branch is drawn by itself there"
        missing |= dict.fromkeys(set(_TOGETHER).difference(self.request), apart)
        missing |= dict.fromkeys(set(_ENDS).difference(self.stops), f"{them} cannot be told when not to end")
        return Capabilities({**missing, **self.lacking, **WITHOUT_CACHE})
