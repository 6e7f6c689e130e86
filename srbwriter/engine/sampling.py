"""Sampling → native sampler chains: one template per parameter set and model, one chain per branch.

The order is llama.cpp's own (``common/common.h``): bias, penalties, DRY, top-n-sigma, top-k, typical, top-p,
min-p, XTC, temperature, selector. Knows nothing of scheduling, text or grammars; constraints stay outside the
chain because a chain in which a grammar rejects every candidate aborts the process.

A chain has a random state and may have learnt state (mirostat's and adaptive-p's estimates of the text). A
branch that continues keeps its chain; one whose settings change gets a new chain, from another seed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from .native import samplers as native
from .native.library import library
from .native.samplers import NEGATIVE_INFINITY, Sampler
from .parameters import DEFAULT_ORDER, sampler_order, validate
from .seeds import derive_seed
from .types import InvalidRequest, Request, Sampling, Stop

if TYPE_CHECKING:
    from .model import Model


class Chain:
    """The sampler of one branch. ``pointer`` goes to ``llama_sampler_sample``, which also accepts.

    Args:
        members: the samplers in order, the selector last; the chain owns them.
        memories: those of ``members`` that look back at the text.
        length: how many tokens they look back.
        learns: whether the chain has to accept picked tokens.
        greedy: whether it takes the likeliest token.
        draws: whether another may choose from what it leaves, by chance or the likeliest.
    """

    def __init__(
        self, members: Sequence[Sampler], memories: Sequence[Sampler], n_vocab: int,
        *, length: int, learns: bool, greedy: bool, draws: bool,
    ) -> None:  # fmt: skip
        self.pointer: Sampler = native.join(members)
        weakref.finalize(self, native.free, self.pointer).atexit = False
        self._memories, self._n_vocab = tuple(memories), n_vocab
        self.length, self.greedy, self.draws = length, greedy, draws
        self._accept = library().llama_sampler_accept if learns else None

    def pick(self, logits: NDArray[np.float32]) -> int:
        """Sample from a row of logits, which stays as it is; :meth:`accept` the token afterwards.

        Tokens at minus infinity are not chosen while another is left; when the samplers leave nothing,
        the likeliest token of the row is taken.
        """
        token = native.candidates(self._n_vocab).pick(self.pointer, logits)
        return token if token >= 0 else int(np.argmax(np.nan_to_num(logits, nan=NEGATIVE_INFINITY)))

    def distribution(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """What :meth:`pick` chooses from, and with which chances; a greedy chain takes the first of the best.

        Not for mirostat and adaptive-p, which choose and learn in one.
        """
        tokens, left = native.candidates(self._n_vocab).left_by(self.pointer, logits)
        if not len(tokens):
            return np.array([np.argmax(np.nan_to_num(logits, nan=NEGATIVE_INFINITY))]), np.ones(1)
        chances = np.exp(left - left.max())
        return tokens, chances / chances.sum()

    def accept(self, token: int) -> None:
        """Remember a token that was picked; not one from ``llama_sampler_sample``."""
        if self._accept is not None:
            self._accept(self.pointer, token)

    def remember(self, ids: Sequence[int]) -> None:
        """Replace the history of the penalties by the end of ``ids``. The random state stays."""
        for sampler in self._memories:
            native.reset(sampler)
            native.accept_all(sampler, ids[-self.length :])


_UNTRUNCATED = frozenset({"penalties", "dry", "temperature"})  # what greedy and mirostat keep

PREFILTER = 4096
"""Candidates that sorting samplers get to see of a large vocabulary when nothing truncates before them.

Sorting 128k candidates costs 7 to 20 ms a token, the 4096 best 0.4 ms. The tokens beyond weigh next to
nothing in a trained model; an explicit ``samplers`` order is not touched.
"""
_LARGE_VOCABULARY = 4 * PREFILTER
_SORTING = frozenset({"typical", "top_p", "xtc", "temp_ext", "mirostat"})
_TRUNCATING = frozenset({"top_k", "min_p", "top_p", "typical"})

_GREEDY_BELOW = 1e-6  # dividing logits by less overflows to infinity
_TYPICAL_FLOOR = 1e-30  # a candidate of probability 0 makes typical's entropy NaN
_MIROSTAT_M = 100  # tokens mirostat 1 estimates from; llama.cpp's constant
_WHOLE_CONTEXT = 131072  # tokens of history at most; a ring buffer of the history's size is copied per branch


@dataclass(slots=True)
class _Stage:
    """A sampler of the chain: made from a seed, or cloned from a prototype that has a history."""

    name: str
    make: Callable[[int], Sampler]
    seeded: bool = False
    prototype: Sampler = None


def check_sampling(sampling: Sampling, model: Model) -> None:
    """Raise InvalidRequest for settings that mean nothing, or that the model cannot sample by."""
    if not isinstance(cast("object", sampling), Sampling):
        raise InvalidRequest("sampling", f"{sampling!r} is not a Sampling")
    validate(sampling)
    _logit_bias(sampling, model)
    try:
        hash(sampling)  # branches that sample alike are found by it
    except TypeError:
        raise InvalidRequest("sampling", "its sequences must be tuples") from None


def check_rules(model: Model, _: Request, samplings: Sequence[Sampling], __: Sequence[Stop]) -> None:
    """Raise InvalidRequest for settings that branches of a request cannot sample by."""
    for sampling in samplings:
        check_sampling(sampling, model)


class SamplerTemplate:
    """Chains for any number of branches that sample alike; made once, since DRY's scan takes long.

    ``n_ctx`` tokens are the whole context, and ``history_length`` before the next one matter. ``banned``
    tokens are never chosen. :func:`check_sampling` has let the settings pass.
    """

    def __init__(
        self, sampling: Sampling, model: Model, n_ctx: int = _WHOLE_CONTEXT, banned: Sequence[int] = ()
    ) -> None:
        forbidden = tuple((token, NEGATIVE_INFINITY) for token in banned)
        self.sampling = replace(_within(sampling, n_ctx), logit_bias=sampling.logit_bias + forbidden)
        self._model = model
        self._stages: list[_Stage] = []
        weakref.finalize(self, _free_prototypes, self._stages).atexit = False
        self._stages += self._members()
        self._selector = _selector(self.sampling, model)
        names = {stage.name for stage in self._stages if stage.prototype}
        lengths = {"penalties": self.sampling.repeat_last_n, "dry": self.sampling.dry_penalty_last_n}
        self.history_length = max((n for name, n in lengths.items() if name in names), default=0)

    def prime(self, ids: Sequence[int]) -> None:
        """Make ``ids``, the end of the prompt, the history that every chain begins with."""
        for stage in self._stages:
            if stage.prototype:
                native.reset(stage.prototype)
                native.accept_all(stage.prototype, ids)

    def new(self, seed: int, ids: Sequence[int] = ()) -> Chain:
        """Return a chain for one branch that has seen the primed history and ``ids``.

        Equal seeds choose equally. Seeded samplers are created, as a clone would repeat its twin.
        """
        stages = [*self._stages, self._selector]
        members: list[Sampler] = []
        for k, stage in enumerate(stages):
            if stage.prototype:
                members.append(native.clone(stage.prototype))
                native.accept_all(members[-1], ids)
            else:
                members.append(stage.make(derive_seed(seed, (k + 1) % len(stages)) if stage.seeded else 0))
        return Chain(
            members, [member for member, stage in zip(members, stages, strict=True) if stage.prototype],
            self._model.n_vocab, length=self.history_length, greedy=self._selector.name == "greedy",
            learns=self.history_length > 0 or self._selector.name == "adaptive_p",
            draws=self._selector.name in ("greedy", "dist"),
        )  # fmt: skip

    def _members(self) -> list[_Stage]:
        """The stages before the selector; those that do nothing are left out."""
        sampling, model = self.sampling, self._model
        names = DEFAULT_ORDER
        if sampling.samplers is not None:
            names = sampler_order(sampling.samplers)
        elif sampling.mirostat or sampling.temperature <= _GREEDY_BELOW:
            names = [name for name in DEFAULT_ORDER if name in _UNTRUNCATED]
        members = _logit_bias(sampling, model)
        for name in names:
            members += _stages_of(name, sampling, model)
        if sampling.samplers is None and model.n_vocab >= _LARGE_VOCABULARY:
            members = _prefiltered(members, sampling.mirostat > 0 and sampling.temperature > _GREEDY_BELOW)
        return members


def _free_prototypes(stages: list[_Stage]) -> None:
    for stage in stages:
        if stage.prototype:
            native.free(stage.prototype)
    stages.clear()


def _prefiltered(members: list[_Stage], mirostat: bool) -> list[_Stage]:
    """Put a top-k before the first sampler that would sort the whole vocabulary."""
    for i, stage in enumerate(members):
        if stage.name in _SORTING:
            return [*members[:i], _stage("top_k", PREFILTER), *members[i:]]
        if stage.name in _TRUNCATING:
            return members
    return [*members, _stage("top_k", PREFILTER)] if mirostat else members


def _stage(sampler: str, *args: object) -> _Stage:
    return _Stage(sampler, lambda _: native.make(sampler, *args))


def _seeded(sampler: str, *args: object) -> _Stage:
    return _Stage(sampler, lambda seed: native.make(sampler, *args, seed), seeded=True)


def _remembering(name: str, prototype: Sampler) -> _Stage:
    return _Stage(name, lambda _: native.clone(prototype), prototype=prototype)


def _within(s: Sampling, n_ctx: int) -> Sampling:
    """The same with windows no longer than the context: llama.cpp asks for the memory of all they name."""
    whole = min(n_ctx, _WHOLE_CONTEXT)
    penalties, dry = (whole if n < 0 else min(n, whole) for n in (s.repeat_last_n, s.dry_penalty_last_n))
    return replace(s, repeat_last_n=penalties, dry_penalty_last_n=dry)


def _logit_bias(s: Sampling, model: Model) -> list[_Stage]:
    biases = dict.fromkeys(model.suppress, NEGATIVE_INFINITY)
    for token, bias in s.logit_bias:
        if not 0 <= token < model.n_vocab:
            raise InvalidRequest("logit_bias", f"token id {token} is not in 0 … {model.n_vocab - 1}")
        biases[token] = biases.get(token, 0.0) + bias
    if not biases:
        return []
    if sum(bias == NEGATIVE_INFINITY for bias in biases.values()) >= model.n_vocab:
        raise InvalidRequest("logit_bias", "no token is left to choose from")
    pairs = native.logit_biases(biases.items())
    return [_Stage("logit_bias", lambda _: native.make("logit_bias", model.n_vocab, len(pairs), pairs))]


def _stages_of(name: str, s: Sampling, model: Model) -> list[_Stage]:
    """Return the stages of one sampler in an order; none where its settings let it do nothing."""
    penalties = s.repeat_penalty, s.frequency_penalty, s.presence_penalty
    match name:
        case "penalties" if penalties != (1.0, 0.0, 0.0) and s.repeat_last_n:
            made = native.make("penalties", model.n_vocab, s.repeat_last_n, *penalties)
            return [_remembering("penalties", made)]
        case "dry" if s.dry_multiplier and s.dry_penalty_last_n:
            made = native.make_dry(
                model.vocab, s.dry_multiplier, s.dry_base, s.dry_allowed_length, s.dry_penalty_last_n,
                s.dry_sequence_breakers,
            )  # fmt: skip
            return [_remembering("dry", made)]
        case "top_n_sigma" if s.top_n_sigma > 0:
            return [_stage("top_n_sigma", s.top_n_sigma)]
        case "top_k" if s.top_k > 0:
            return [_stage("top_k", s.top_k)]
        case "typ_p" if s.typical_p < 1.0:
            floor = _Stage("floor", lambda _: native.make("min_p", _TYPICAL_FLOOR, 0))
            return [floor, _stage("typical", s.typical_p, s.min_keep)]
        case "top_p" if s.top_p < 1.0:
            return [_stage("top_p", s.top_p, s.min_keep)]
        case "min_p" if (share := s.min_p) > 0:
            return [_stage(name, share, s.min_keep)]
        case "xtc" if s.xtc_probability > 0 and s.xtc_threshold <= 0.5:
            return [_seeded("xtc", s.xtc_probability, s.xtc_threshold, s.min_keep)]
        case "temperature" if s.temperature > _GREEDY_BELOW:  # below, the selector is greedy
            if s.dynatemp_range > 0:
                return [_stage("temp_ext", s.temperature, s.dynatemp_range, s.dynatemp_exponent)]
            return [_stage("temp", s.temperature)] if s.temperature != 1.0 else []
        case _:  # adaptive_p, too: a selector, it stands last whatever the order says
            return []


def _selector(s: Sampling, model: Model) -> _Stage:
    aim = s.mirostat_tau, s.mirostat_eta
    if s.temperature <= _GREEDY_BELOW:
        return _stage("greedy")
    if s.mirostat == 1:
        return _Stage(
            "mirostat", lambda seed: native.make("mirostat", model.n_vocab, seed, *aim, _MIROSTAT_M), True
        )
    if s.mirostat:
        return _Stage("mirostat", lambda seed: native.make("mirostat_v2", seed, *aim), seeded=True)
    if s.adaptive_target >= 0:
        return _seeded("adaptive_p", s.adaptive_target, s.adaptive_decay)
    return _seeded("dist")
