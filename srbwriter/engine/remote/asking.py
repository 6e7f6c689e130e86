"""What is asked of the other side and what it answers, in no dialect yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..types import FinishReason, Request, Sampling, TokenLogprob


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


News: TypeAlias = "Piece | PromptRead | Named | Placed | Over"
