"""Sampling → native sampler chains: one template per parameter set and model, one chain per branch.

The order is llama.cpp's own (``common/common.h``): bias, penalties, DRY, top-n-sigma, top-k, typical, top-p,
min-p, XTC, temperature, selector. Knows nothing of scheduling, text or grammars; constraints stay outside the
chain because a chain in which a grammar rejects every candidate aborts the process.

A chain has chance of its own (where its random numbers have got to) and may have learnt (mirostat's and
adaptive-p's idea of the text). A branch that goes on goes on with it: made anew from the same seed it would
draw the same numbers again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .native import samplers as native
from .native.library import library
from .native.samplers import NEGATIVE_INFINITY, Sampler
from .parameters import DEFAULT_ORDER, sampler_order, validate
from .types import InvalidRequest, Sampling

_MASK64 = 0xFFFFFFFFFFFFFFFF
_BYTES, _BYTES_A_TOKEN = 12_000, 16  # of a chain: two Mersenne twisters; buffers and counts of the history

State: TypeAlias = "tuple[object, ...]"
"""Name and arguments of a sampler with chance or learning of its own; empty for one that has neither."""


def derive_seed(seed: int, k: int) -> int:
    """The k-th seed that follows from ``seed``, for one sampler; never 0xFFFFFFFF, llama.cpp's "random".

    SplitMix64 (Steele, Lea and Flood, 2014), so that neighbouring seeds give unrelated streams.
    """
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return (z ^ (z >> 31)) & 0xFFFFFFFE


class Chain:
    """The sampler of one branch. ``pointer`` goes to ``llama_sampler_sample``, which also accepts.

    Args:
        members: the samplers in order, the selector last; the chain owns them.
        states: what each of ``members`` has that must not be lost.
        memories: those of ``members`` that look back at the text.
        length: how many tokens they look back.
        learns: whether the chain has to be told of tokens that were picked.
        greedy: whether it takes the likeliest token.
        kind: chains of one kind are made of the same samplers, that llama.cpp's graph knows; None of others.
    """

    __slots__ = (
        "__weakref__",
        "_accept",
        "_free",
        "_members",
        "_memories",
        "_n_vocab",
        "_states",
        "greedy",
        "kind",
        "length",
        "pointer",
        "rests",
    )

    def __init__(
        self, members: Sequence[Sampler], states: Sequence[State], memories: Sequence[Sampler], n_vocab: int,
        *, length: int, learns: bool, greedy: bool, kind: Hashable = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.pointer: Sampler = native.join(members[:-1], members[-1])
        self._free = weakref.finalize(self, native.free, self.pointer)
        self._free.atexit = False
        self._members, self._states, self._memories = list(members), list(states), tuple(memories)
        self._n_vocab = n_vocab
        self.length, self.greedy = length, greedy
        self.rests = 0  # number of its rest in :class:`Resting`; 0 while it is in use
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
        """Look back at the end of ``ids`` instead of what was seen so far. Chance goes on as it is."""
        for sampler in self._memories:
            native.reset(sampler)
            native.accept_all(sampler, ids[-self.length :])

    def lend(self, seat: Sampler) -> None:
        """Let another chain of this kind be where this one is."""
        for place, member in enumerate(self._members):
            if self._states[place] or member in self._memories:
                native.copy_state(self.pointer, seat, place)

    def take_back(self, seat: Sampler, token: int) -> None:
        """Be where another chain of this kind has got to, which has drawn ``token``."""
        for place, state in enumerate(self._states):
            if state:
                native.copy_state(seat, self.pointer, place)
        self.accept(token)

    def give(self, wanted: Iterable[State]) -> Mapping[State, Sampler]:
        """Hand over the samplers with these states; the chain can only be closed afterwards."""
        given: dict[State, Sampler] = {}
        for state in wanted:
            if state and state in self._states and state not in given:
                place = self._states.index(state)
                given[state] = native.take_out(self.pointer, place)
                del self._states[place], self._members[place]
        return given

    @property
    def size(self) -> int:
        """Bytes it takes, about."""
        return _BYTES + _BYTES_A_TOKEN * self.length

    def close(self) -> None:
        """Free the native chain; closing twice does nothing."""
        self.pointer = None
        self._free()


class Resting:
    """Chains of branches that have ended and may go on, within a budget of bytes: the oldest are let go.

    Belongs to the engine's thread. Holds none of them: one whose branch nobody knows any more is freed.
    """

    def __init__(self, most: int = 32 * 2**20) -> None:
        self._most = most
        self._bytes = 0
        self._count = 0
        self._chains: list[tuple[weakref.ref[Chain], int, int]] = []  # with the number of its rest, and bytes

    def add(self, chain: Chain) -> None:
        """``chain`` is not in use until somebody sets its ``rests`` to 0."""
        self._count += 1
        chain.rests = self._count
        self._chains.append((weakref.ref(chain), self._count, chain.size))
        self._bytes += chain.size
        if self._bytes > self._most:
            self._let_go()

    def _let_go(self) -> None:
        known = [(ref(), number, size) for ref, number, size in self._chains]
        still = [(c, number, size) for c, number, size in known if c is not None and c.rests == number]
        total = sum(size for _, _, size in still)
        while total > self._most // 2:
            chain, _, size = still.pop(0)
            chain.close()
            total -= size
        self._chains = [(weakref.ref(chain), number, size) for chain, number, size in still]
        self._bytes = total


_UNTRUNCATED = frozenset({"penalties", "dry", "infill", "temperature"})  # what greedy and mirostat keep

PREFILTER = 4096
"""Candidates that sorting samplers get to see of a large vocabulary when nothing truncates before them.

Sorting 128k candidates costs 7 to 20 ms a token, the 4096 best 0.4 ms. The tokens beyond weigh next to
nothing in a trained model; an explicit ``samplers`` order is not touched.
"""
_LARGE_VOCABULARY = 4 * PREFILTER
_SORTING = frozenset({"typ_p", "top_p", "xtc", "dynatemp", "mirostat"})
_TRUNCATING = frozenset({"top_k", "min_p", "top_p", "typ_p", "infill"})

_IN_GRAPH = frozenset({"logit_bias", "penalties", "top_k", "top_p", "min_p", "temperature", "dist"})
"""Samplers that llama.cpp's graph knows and that choose there as on the processor. Dynamic temperature and
``min_keep`` do not; of greedy nobody could tell that logits are no numbers."""

_INFILL_CANDIDATES = 64  # infill compares all candidates pairwise
_INFILL_PIECE = 512  # bytes; its buffer does not grow, a longer piece ends the process
_GREEDY_BELOW = 1e-6  # dividing logits by less overflows to infinity
_TYPICAL_FLOOR = 1e-30  # a candidate of probability 0 makes typical's entropy NaN
_MIROSTAT_M = 100  # tokens mirostat 1 estimates from; llama.cpp's constant
_WHOLE_CONTEXT = 131072  # tokens of history at most; a ring buffer of the history's size is copied per branch


class SamplerModel(Protocol):
    """What samplers need to know of a model."""

    @property
    def vocab(self) -> int: ...  # llama_vocab *
    @property
    def n_vocab(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]: ...
    @property
    def suppress(self) -> tuple[int, ...]: ...  # never sampled
    @property
    def special_pieces(self) -> Sequence[bytes]: ...  # text of every token, control tokens written out


@dataclass(slots=True)
class _Stage:
    """A place in the chain: made afresh from a seed, or cloned from a prototype that has a history.

    What has a ``state`` goes on where it is, in whatever chain comes next.
    """

    name: str
    make: Callable[[int], Sampler]
    prototype: Sampler = None
    state: State = ()


def check_for(sampling: Sampling, model: SamplerModel) -> None:
    """Raises InvalidRequest for values outside their ranges and for what the model cannot do."""
    validate(sampling)
    if sampling.infill or "infill" in sampler_order(sampling.samplers or ()):
        _check_infill(model)
    _logit_bias(sampling, model)


class SamplerTemplate:
    """Chains for any number of branches that sample alike; made once, since DRY's scan takes long.

    ``n_ctx`` tokens are the whole context. ``banned`` tokens are never chosen. Raises InvalidRequest for
    values outside their ranges and for what the model cannot do.
    """

    def __init__(
        self, sampling: Sampling, model: SamplerModel, n_ctx: int = _WHOLE_CONTEXT, banned: Sequence[int] = ()
    ) -> None:
        check_for(sampling, model)
        forbidden = tuple((token, NEGATIVE_INFINITY) for token in banned)
        self.sampling = replace(_within(sampling, n_ctx), logit_bias=sampling.logit_bias + forbidden)
        self._model = model
        self._stages: list[_Stage] = []
        try:
            self._stages += self._members()
            self._selector = _selector(self.sampling, model)
        except BaseException:
            self.close()
            raise
        self.history = any(stage.prototype for stage in self._stages)
        self._remembers = self.history or self._selector.name == "adaptive_p"
        names = {stage.name for stage in (*self._stages, self._selector)}
        in_graph = names <= _IN_GRAPH and self._selector.name == "dist" and sampling.min_keep <= 1
        self._kind = self.sampling if in_graph else None

    @property
    def history_length(self) -> int:
        """How many tokens before the next one matter."""
        names = {stage.name for stage in self._stages if stage.prototype}
        lengths = {"penalties": self.sampling.repeat_last_n, "dry": self.sampling.dry_penalty_last_n}
        return max((n for name, n in lengths.items() if name in names), default=0)

    def prime(self, ids: Sequence[int]) -> None:
        """Make ``ids``, the end of the prompt, the history that every chain begins with."""
        for stage in self._stages:
            if stage.prototype:
                native.reset(stage.prototype)
                native.accept_all(stage.prototype, ids)

    def new(self, seed: int, ids: Sequence[int] = (), before: Chain | None = None) -> Chain:
        """A chain of its own for one branch, that has seen the primed history and ``ids``.

        Equal seeds choose equally. Seeded samplers are made afresh, as a clone would repeat its twin; those
        that the chain ``before``, which is closed, has alike go on with their chance and what they learnt.
        """
        stages = [*self._stages, self._selector]
        going_on = {} if before is None else dict(before.give(stage.state for stage in stages))
        members: list[Sampler] = []
        try:
            for k, stage in enumerate(stages):
                if stage.prototype:
                    members.append(native.clone(stage.prototype))
                    native.accept_all(members[-1], ids)
                elif stage.state in going_on:
                    members.append(going_on.pop(stage.state))
                else:
                    own = derive_seed(seed, (k + 1) % len(stages)) if stage.state else 0
                    members.append(stage.make(own))
        except BaseException:
            for sampler in (*members, *going_on.values()):
                native.free(sampler)
            raise
        finally:
            if before is not None:
                before.close()
        return Chain(
            members, [stage.state for stage in stages],
            [member for member, stage in zip(members, stages, strict=True) if stage.prototype],
            self._model.n_vocab, length=self.history_length, learns=self._remembers,
            greedy=self._selector.name == "greedy", kind=self._kind,
        )  # fmt: skip

    def close(self) -> None:
        """Free the prototypes; chains made from them live on. Closing twice does nothing."""
        for stage in self._stages:
            if stage.prototype:
                native.free(stage.prototype)
        self._stages = []

    def _members(self) -> list[_Stage]:
        """The stages before the selector; those that do nothing are left out."""
        sampling, model = self.sampling, self._model
        names = _names(sampling)
        stages = [_logit_bias(sampling, model), *(_BUILDERS[name](sampling, model) for name in names)]
        members = [stage for group in stages for stage in group]
        if sampling.samplers is None and model.n_vocab >= _LARGE_VOCABULARY:
            members = _prefiltered(members, sampling.mirostat > 0 and sampling.temperature > _GREEDY_BELOW)
        return members


def _names(sampling: Sampling) -> Sequence[str]:
    if sampling.samplers is not None:
        return sampler_order(sampling.samplers)
    if sampling.mirostat or sampling.temperature <= _GREEDY_BELOW:
        return [name for name in DEFAULT_ORDER if name in _UNTRUNCATED]
    return DEFAULT_ORDER


def _prefiltered(members: list[_Stage], mirostat: bool) -> list[_Stage]:
    """Put a top-k before the first sampler that would sort the whole vocabulary."""
    cheap = partial(native.make, "top_k", PREFILTER)
    for i, stage in enumerate(members):
        if stage.name in _SORTING:
            return [*members[:i], _Stage("top_k", lambda _: cheap()), *members[i:]]
        if stage.name in _TRUNCATING:
            return members
    return [*members, _Stage("top_k", lambda _: cheap())] if mirostat else members


def _stage(name: str, sampler: str, *args: object) -> _Stage:
    return _Stage(name, lambda _: native.make(sampler, *args))


def _seeded(name: str, sampler: str, *args: object) -> _Stage:
    return _Stage(name, lambda seed: native.make(sampler, *args, seed), state=(sampler, *args))


def _remembering(name: str, prototype: Sampler) -> _Stage:
    return _Stage(name, lambda _: native.clone(prototype), prototype)


def _within(s: Sampling, n_ctx: int) -> Sampling:
    """The same with windows no longer than the context: llama.cpp asks for the memory of all they name."""
    whole = min(n_ctx, _WHOLE_CONTEXT)
    penalties, dry = (whole if n < 0 else min(n, whole) for n in (s.repeat_last_n, s.dry_penalty_last_n))
    return replace(s, repeat_last_n=penalties, dry_penalty_last_n=dry)


def _logit_bias(s: Sampling, model: SamplerModel) -> list[_Stage]:
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
    return [_Stage("logit_bias", lambda _: native.make_logit_bias(model.n_vocab, pairs))]


def _penalties(s: Sampling, model: SamplerModel) -> list[_Stage]:
    neutral = s.repeat_penalty == 1.0 and s.frequency_penalty == 0.0 and s.presence_penalty == 0.0
    if neutral or s.repeat_last_n == 0:
        return []
    strengths = (s.repeat_penalty, s.frequency_penalty, s.presence_penalty)
    return [_remembering("penalties", native.make("penalties", model.n_vocab, s.repeat_last_n, *strengths))]


def _dry(s: Sampling, model: SamplerModel) -> list[_Stage]:
    if s.dry_multiplier == 0.0 or s.dry_penalty_last_n == 0:
        return []
    prototype = native.make_dry(
        model.vocab, s.dry_multiplier, s.dry_base, s.dry_allowed_length, s.dry_penalty_last_n,
        s.dry_sequence_breakers,
    )  # fmt: skip
    return [_remembering("dry", prototype)]


def _top_n_sigma(s: Sampling, _: SamplerModel) -> list[_Stage]:
    return [_stage("top_n_sigma", "top_n_sigma", s.top_n_sigma)] if s.top_n_sigma > 0 else []


def _top_k(s: Sampling, _: SamplerModel) -> list[_Stage]:
    return [_stage("top_k", "top_k", s.top_k)] if s.top_k > 0 else []


def _typical(s: Sampling, _: SamplerModel) -> list[_Stage]:
    if s.typical_p >= 1.0:
        return []
    floor = _stage("floor", "min_p", _TYPICAL_FLOOR, 0)
    return [floor, _stage("typ_p", "typical", s.typical_p, s.min_keep)]


def _top_p(s: Sampling, _: SamplerModel) -> list[_Stage]:
    return [_stage("top_p", "top_p", s.top_p, s.min_keep)] if s.top_p < 1.0 else []


def _xtc(s: Sampling, _: SamplerModel) -> list[_Stage]:
    active = s.xtc_probability > 0 and s.xtc_threshold <= 0.5
    return [_seeded("xtc", "xtc", s.xtc_probability, s.xtc_threshold, s.min_keep)] if active else []


def _temperature(s: Sampling, _: SamplerModel) -> list[_Stage]:
    if s.temperature <= _GREEDY_BELOW:
        return []  # the selector is greedy
    if s.dynatemp_range > 0:
        return [_stage("dynatemp", "temp_ext", s.temperature, s.dynatemp_range, s.dynatemp_exponent)]
    return [_stage("temperature", "temp", s.temperature)] if s.temperature != 1.0 else []


def _infill(s: Sampling, model: SamplerModel) -> list[_Stage]:
    if not s.infill and s.samplers is None:
        return []
    return [_stage("top_k", "top_k", _INFILL_CANDIDATES), _stage("infill", "infill", model.vocab)]


def _check_infill(model: SamplerModel) -> None:
    lib = library()
    if lib.llama_vocab_eot(model.vocab) < 0 and lib.llama_vocab_eos(model.vocab) < 0:
        raise InvalidRequest("infill", "this model has no token that ends a text")
    if max(map(len, model.special_pieces)) > _INFILL_PIECE:
        raise InvalidRequest("infill", f"this model has tokens of more than {_INFILL_PIECE} bytes")


def _nothing(_: Sampling, __: SamplerModel) -> list[_Stage]:
    return []


_BUILDERS: dict[str, Callable[[Sampling, SamplerModel], list[_Stage]]] = {
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": _top_n_sigma,
    "top_k": _top_k,
    "typ_p": _typical,
    "top_p": _top_p,
    "min_p": lambda s, _: [_stage("min_p", "min_p", s.min_p, s.min_keep)] if s.min_p > 0 else [],
    "xtc": _xtc,
    "temperature": _temperature,
    "infill": _infill,
    "adaptive_p": _nothing,  # a selector: it stands last whatever the order says
}


def _selector(s: Sampling, model: SamplerModel) -> _Stage:
    if s.temperature <= _GREEDY_BELOW:
        return _stage("greedy", "greedy")
    if s.mirostat:
        return _mirostat(s, model)
    if s.adaptive_target >= 0:
        return _seeded("adaptive_p", "adaptive_p", s.adaptive_target, s.adaptive_decay)
    return _seeded("dist", "dist")


def _mirostat(s: Sampling, model: SamplerModel) -> _Stage:
    aim = s.mirostat_tau, s.mirostat_eta
    if s.mirostat == 1:
        return _Stage(
            "mirostat",
            lambda seed: native.make("mirostat", model.n_vocab, seed, *aim, _MIROSTAT_M),
            state=("mirostat", *aim),
        )
    return _Stage(
        "mirostat", lambda seed: native.make("mirostat_v2", seed, *aim), state=("mirostat_v2", *aim)
    )
