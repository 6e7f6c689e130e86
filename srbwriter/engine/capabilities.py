"""What a backend can do, and why it cannot do the rest. Names only; knows no backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .types import NotSupported

if TYPE_CHECKING:
    from .parameters import Parameter

Feature = Literal[
    # fields of requests
    "cache_prompt", "heal", "logits_callback", "logprobs", "next_ids", "next_logprobs",
    "prompt_logprobs", "siblings", "without",
    # fields of Sampling and Stop that somebody asks about by name
    "banned_phrases", "grammar", "ignore_eog", "logit_bias", "min_tokens", "regex",
    # and the rest
    "chat_template",  # the model brings a template for chats
    "embeddings",
    "gap_filling",
    "look_ahead",  # requests that run only while nothing else is to be done
    "pause",  # a branch can be held still
    "session_files",
    "token_ids",  # tokens go in and come back as ids, else as text
]  # fmt: skip
"""What callers ask about by name; the type checker refuses a misspelt one."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do: everything but what ``missing`` names.

    ``missing`` maps a feature, or the field of a parameter, to the reason in words for the screen:
    "vLLM 0.9 does not know mirostat".
    """

    missing: Mapping[str, str] = field(default_factory=dict[str, str])

    def reason_for(self, feature: Feature | Parameter, /) -> str:
        """Return why ``feature`` is missing, in words; "" if it is there."""
        return self.missing.get(feature if isinstance(feature, str) else feature.field, "")

    def has(self, feature: Feature | Parameter, /) -> bool:
        return not self.reason_for(feature)

    def require(self, feature: Feature | Parameter, /, wanted: bool = True) -> None:
        """Raise NotSupported if ``feature`` is missing and ``wanted`` is true."""
        if wanted and (reason := self.reason_for(feature)):
            raise NotSupported(reason)
