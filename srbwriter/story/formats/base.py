"""What a format is, and the one error that reading a file raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from srbwriter.story.formats.document import Document
from srbwriter.story.model import StoryDraft


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table of formats.

    ``matches`` looks at the keys of a file, never at its name.  ``read`` raises
    :class:`~srbwriter.story.formats.errors.FormatError`; ``write`` cannot fail on a checked draft.
    ``keeps_bin`` says that deleted nodes are written too.
    """

    name: str
    label: str
    extension: str
    matches: Callable[[Document], bool] | None = None
    read: Callable[[Document], StoryDraft] | None = None
    write: Callable[[StoryDraft], bytes] | None = None
    keeps_bin: bool = False

    @property
    def can_import(self) -> bool:
        return self.read is not None

    @property
    def can_export(self) -> bool:
        return self.write is not None
