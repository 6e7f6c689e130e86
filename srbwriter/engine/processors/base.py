"""What a branch asks of its processors, and of a draw that it shares with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..constraints import Constraint
    from ..generation import Buffer

    Logits: TypeAlias = "NDArray[np.float32]"

Branch_contra = TypeVar("Branch_contra", contravariant=True)


class LogitProcessor(Protocol[Branch_contra]):
    """Changes the logits that a token of one branch is chosen from."""

    def done(self, branch: Branch_contra) -> bool:
        """Whether it changes nothing any more, until the branch's text or its rules are changed."""
        ...

    def apply(self, logits: Logits, branch: Branch_contra) -> None:
        """Change ``logits``, a private copy of the row, in place."""
        ...


class SharedDraw(Protocol):
    """One branch's part in a draw that several branches share."""

    def draw(self, logits: Logits, constraint: Constraint | None) -> int | None:
        """Choose a token; None leaves the choice to the branch's own sampler chain."""
        ...

    def repel(self, logits: Logits) -> None:
        """Make tokens less likely that siblings chose at the same text."""
        ...

    def parted(self) -> bool:
        """Whether the branch's text differs from every other's, so that it may draw by itself."""
        ...


class SharedDraws(Protocol[Branch_contra]):
    """The draw of a request's branches."""

    def for_branch(self, branch: Branch_contra) -> SharedDraw:
        """Return the part of ``branch``, which begins anew."""
        ...

    def discard(self, buffer: Buffer) -> None:
        """Note how an attempt began that was rolled again."""
        ...
