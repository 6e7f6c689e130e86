"""Log-probabilities from rows of raw logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .types import TokenLogprob

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .constraints import Constraint

_BLOCK = 256  # logits of which the highest is found in one go


def score(row: object, token: int, best: int) -> TokenLogprob:
    """Return the log-probability of ``token`` and of the ``best`` likeliest, from one row of raw logits.

    Softmax over the whole vocabulary, row by row: a row of 128k stays in the core's cache.
    """
    top = likeliest(row, best, (token,))
    return TokenLogprob(token, dict(top)[token], top[:best])


def likeliest(
    row: object, best: int, ids: Sequence[int], among: Constraint | None = None
) -> tuple[tuple[int, float], ...]:
    """Return the ``best`` likeliest tokens with log-probabilities, best first; then the others of ``ids``.

    Only what ``among`` allows is among the best.
    """
    logits = np.asarray(row, np.float32)
    peak = float(logits.max())
    total = peak + float(np.log(np.exp(logits - peak).sum()))
    chosen: list[int] = []
    if best > 0:
        allowed = logits
        if among is not None:
            allowed = logits.copy()
            among.mask(allowed)
        likely = _likely(allowed, min(best, len(logits)))
        chosen = likely[np.argsort(-allowed[likely], kind="stable")][:best].tolist()
        chosen = [token for token in chosen if allowed[token] > -np.inf] if among is not None else chosen
    chosen = list(dict.fromkeys([*chosen, *ids]))
    return tuple((token, float(logits[token]) - total) for token in chosen)


def _likely(logits: NDArray[np.float32], best: int) -> NDArray[np.intp]:
    """Return the places of the ``best`` highest, and some more: those above the peaks of as many blocks."""
    blocks = len(logits) // _BLOCK
    if blocks < 2 * best:
        return np.arange(len(logits))
    peaks = logits[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    return np.flatnonzero(logits >= np.partition(peaks, -best)[-best])
