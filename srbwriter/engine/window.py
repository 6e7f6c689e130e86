"""How many tokens of context a model gets unless a number is given. Numbers only; loads nothing."""

from __future__ import annotations

DEFAULT_WINDOW = 8192  # tokens; long enough for chapters, small enough for a laptop's memory
SPARE_CELLS = 4096  # room beyond one window for branches and parked prefixes


def window_and_cells(n_ctx: int | None, n_ctx_train: int) -> tuple[int, int]:
    """Tokens that one branch may use, and tokens that the cache holds for all of them.

    Args:
        n_ctx: the number asked for; None leaves it to the model.
        n_ctx_train: tokens that the model was trained for; 0 if it does not say.
    """
    if n_ctx:
        return n_ctx, n_ctx
    window = min(n_ctx_train or DEFAULT_WINDOW, DEFAULT_WINDOW)
    return window, window + SPARE_CELLS
