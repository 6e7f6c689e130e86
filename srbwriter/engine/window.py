"""How many tokens of context a model gets unless a number is given, and what of a prompt fits them.

Numbers only; loads nothing.
"""

from __future__ import annotations

from .types import ContextOverflow, Request, for_each

DEFAULT_WINDOW = 8192  # tokens; long enough for chapters, small enough for a laptop's memory
SPARE_CELLS = 4096  # room beyond one window for branches and parked prefixes
_END = 4  # tokens of a prompt's end that remain at least, as in llama.cpp's server


def window_and_cells(n_ctx: int | None, n_ctx_train: int) -> tuple[int, int]:
    """Return the tokens that one branch may use, and the tokens that the cache holds for all branches.

    Args:
        n_ctx: the number that the user chose; None leaves it to the model.
        n_ctx_train: tokens that the model was trained for; 0 if unknown.
    """
    if n_ctx:
        return n_ctx, n_ctx
    window = min(n_ctx_train or DEFAULT_WINDOW, DEFAULT_WINDOW)
    return window, window + SPARE_CELLS


def fit(ids: list[int], request: Request, window: int) -> list[int]:
    """The prompt, shortened if it must be and may be, so that one token more fits the window.

    To what the request itself calls its context it is always shortened, with room for what it may write.

    Raises ContextOverflow with the counts. Truncation takes whole half windows out of the middle,
    so that the kept tail stays where it is while a text grows (llama.cpp's server cuts likewise).
    """
    may_cut = request.overflow != "error"
    if request.context is not None and request.context < window:
        most = max((stop.max_tokens or 0 for stop in for_each(request.stop, 1)), default=0)
        window, may_cut = max(request.context - most, request.context // 2, 1) + 1, True
    if len(ids) < window:
        return ids
    if not may_cut:
        raise ContextOverflow(len(ids), window)
    # Some of the end stays in any case; with n_keep -1, as much as of the beginning.
    keep = window // 2 if request.n_keep < 0 else min(request.n_keep, max(window - _END, window // 2))
    block = max((window - keep) // 2, 1)
    gone = ((len(ids) - keep - block) // block) * block
    shorter = ids[:keep] + ids[keep + gone :]
    return shorter if len(shorter) < window else shorter[:keep] + shorter[keep + len(shorter) - window + 1 :]
