"""llama.cpp's samplers as checked handles: nothing that is NULL gets into a chain, none lacks a selector.

A NULL sampler in a chain is a segmentation fault and a chain without a selector an abort, so every handle
is made, cloned and joined here. Knows no parameter names and no defaults; :mod:`srbwriter.engine.sampling`
decides what a chain is made of.
"""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..types import NativeError
from .library import L, library

Sampler: TypeAlias = Any
"""A ``llama_sampler *``: false when NULL, never None."""

_c: Any = L  # llama_cpp's declarations are not typed

NEGATIVE_INFINITY = float("-inf")

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


def make(name: str, *args: Any) -> Sampler:
    """A new sampler by the last part of its C name (``top_k``, ``dist``, …). Raises NativeError."""
    return _checked(getattr(library(), f"llama_sampler_init_{name}")(*args), name)


def make_dry(
    vocab: int, multiplier: float, base: float, allowed_length: int, last_n: int, breakers: Sequence[str]
) -> Sampler:
    """DRY looks for every breaker in every token of the vocabulary: some 6 ms a breaker at 128k tokens."""
    raw = [breaker.encode() for breaker in breakers]
    array = (C.c_char_p * len(raw))(*raw)
    return make("dry", vocab, multiplier, base, allowed_length, last_n, array, len(raw))


def logit_biases(biases: Iterable[tuple[int, float]]) -> Any:
    """Return (token id, bias) pairs as llama.cpp's array; ids must be within the vocabulary.

    A sampler made from it keeps a copy.
    """
    pairs = [_c.llama_logit_bias(token, bias) for token, bias in biases]
    return (_c.llama_logit_bias * len(pairs))(*pairs)


def clone(sampler: Sampler) -> Sampler:
    """A copy with its own history. Never for adaptive-p: its clone reads past the end of its buffer."""
    return _checked(library().llama_sampler_clone(sampler), "clone")


def free(sampler: Sampler) -> None:
    """Free a sampler, or a chain with all its members."""
    library().llama_sampler_free(sampler)


def reset(sampler: Sampler) -> None:
    """Forget the history."""
    library().llama_sampler_reset(sampler)


def accept_all(sampler: Sampler, ids: Iterable[int]) -> None:
    """Let a sampler or chain see tokens that were written."""
    accept = library().llama_sampler_accept
    for token in ids:
        accept(sampler, token)


def join(members: Sequence[Sampler]) -> Sampler:
    """A chain that owns ``members``, of which the last is the selector."""
    lib = library()
    params = _c.llama_sampler_chain_default_params()
    params.no_perf = True
    chain = _checked(lib.llama_sampler_chain_init(params), "chain")
    for sampler in members:
        lib.llama_sampler_chain_add(chain, _checked(sampler, "chain_add"))
    return chain


def _checked(pointer: Sampler, name: str) -> Sampler:
    if not pointer:
        raise NativeError(f"llama_sampler {name}", "NULL")
    return pointer


_POINTER: Any = C.POINTER(_c.llama_token_data)  # pyright: ignore[reportUnknownVariableType]


class Candidates:
    """One candidate array of vocabulary size, filled again for every pick."""

    __slots__ = ("_array", "_data", "_finite", "_ids", "_native", "_order")

    def __init__(self, n_vocab: int) -> None:
        self._array = np.zeros(n_vocab, dtype=_CANDIDATE)
        self._ids = self._array["id"]
        self._finite = np.zeros(n_vocab, dtype=np.bool_)
        self._order = np.arange(n_vocab, dtype=np.int32)
        self._data: Any = C.cast(self._array.ctypes.data, _POINTER)
        self._native: Any = _c.llama_token_data_array()

    def pick(self, chain: Sampler, logits: NDArray[np.float32]) -> int:
        """Sample from a row of logits without changing it; -1 when the chain selected nothing."""
        native = self._apply(chain, logits)
        if not 0 <= native.selected < native.size:
            return -1
        return int(native.data[native.selected].id)  # read through the struct: XTC moves the pointer

    def left_by(
        self, chain: Sampler, logits: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The tokens that a chain leaves of a row, and the logits it made of theirs."""
        native = self._apply(chain, logits)
        moved = C.cast(native.data, C.c_void_p).value or 0
        first = (moved - self._array.ctypes.data) // _CANDIDATE.itemsize
        left = self._array[first : first + native.size]
        return left["id"].astype(np.int64), left["logit"].astype(np.float64)

    def _apply(self, chain: Sampler, logits: NDArray[np.float32]) -> Any:
        """Let a chain work on a row.

        Tokens at minus infinity stay out of the array when few others are left: samplers spend time on
        them, and some go wrong (typical's entropy becomes NaN).
        """
        native = self._native
        native.data = self._data
        finite = np.not_equal(logits, NEGATIVE_INFINITY, out=self._finite)
        n = int(np.count_nonzero(finite))
        native.size, native.selected, native.sorted = n, -1, False
        if n == 0:
            return native
        if n <= logits.size // 8:
            allowed = np.flatnonzero(finite)
            self._ids[:n] = allowed
            self._array["logit"][:n] = logits[allowed]
        else:
            native.size = logits.size
            self._ids[:] = self._order
            self._array["logit"] = logits
        library().llama_sampler_apply(chain, C.byref(native))
        return native


_local = threading.local()


def candidates(n_vocab: int) -> Candidates:
    """This thread's array for vocabularies of that size."""
    arrays: dict[int, Candidates] = _local.__dict__.setdefault("arrays", {})
    if n_vocab not in arrays:
        arrays[n_vocab] = Candidates(n_vocab)
    return arrays[n_vocab]
