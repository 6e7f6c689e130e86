"""Formats of files and folders, opened documents, and the errors of importers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from srbwriter.story.model import StoryDraft, as_object

Kind = Literal["png", "zip", "rtf", "json", "jsonl", "text"]

AS_TEXT = "`srbwriter import --format text` takes it as it stands"


class FormatError(ValueError):
    """A file is invalid. The message names the file, the place in it, and what was expected there."""

    def __init__(self, file: str, place: str, expected: str) -> None:
        super().__init__(f"{file}: at {place}: expected {expected}")
        self.file = file
        self.place = place
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of a file that could not be read as it is; ``words`` describe the repair."""

    place: str
    words: str


class NotForUs(FormatError):
    """A sound file that cannot become a story here.  Says what it is, and what can be done about it."""

    def __init__(self, file: str, problem: str, cure: str, place: str = "byte 0") -> None:
        super().__init__(file, place, f"a file to import; it {problem} — {cure}")
        self.args = (f"{file} {problem} — {cure}",)


@dataclass(frozen=True, slots=True)
class Document:
    """An opened file.

    ``value`` is the parsed JSON; for ``jsonl`` it is the list of parsed lines, numbered in ``lines``.
    ``names`` are those of the files in an archive, ``mimetype`` is what it says of itself.
    ``faults`` grows while the file is opened and read: what had to be left out, and was not the whole.
    """

    name: str
    data: bytes
    kind: Kind
    text: str = ""
    value: Any = None
    lines: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    mimetype: str = ""
    faults: list[Fault] = field(default_factory=list[Fault], compare=False)

    @property
    def keys(self) -> frozenset[str]:
        """The top-level keys of a JSON object, of the first line for JSON lines; else empty."""
        return frozenset(self.object)

    @property
    def object(self) -> dict[str, Any]:
        """The top-level JSON object, the first line for JSON lines; else empty."""
        return as_object(self.value[0] if self.kind == "jsonl" else self.value)


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table of formats.

    ``matches`` looks at the keys of a file, never at its name.  ``read`` raises
    :class:`FormatError`; ``write`` cannot fail on a checked draft.
    ``keeps_bin`` says that deleted nodes are written too. Any text can be read in a format that is
    ``of_text``; one that ``takes_the_rest`` is tried after all others.
    """

    name: str
    label: str
    extension: str
    matches: Callable[[Document], bool] | None = None
    read: Callable[[Document], StoryDraft] | None = None
    write: Callable[[StoryDraft], bytes] | None = None
    keeps_bin: bool = False
    of_text: bool = False
    takes_the_rest: bool = False

    @property
    def can_import(self) -> bool:
        return self.read is not None

    @property
    def can_export(self) -> bool:
        return self.write is not None


@dataclass(frozen=True, slots=True)
class Folder:
    """Files that become one story. Each is read on request.

    ``name`` is for messages. ``files`` are paths below the folder with ``/`` between parts, in the order in
    which people number them; hidden ones are not among them. ``hidden`` are the names of hidden folders at
    the top; ``named`` are files that the writer named one by one. ``read_bytes`` may raise :class:`OSError`.
    """

    name: str
    title: str
    files: tuple[str, ...]
    read_bytes: Callable[[str], bytes]
    hidden: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()


ReadFile = Callable[[str], StoryDraft]
"""Reads the story in one file of a folder, in its detected format. Raises :class:`FormatError`."""


@dataclass(frozen=True, slots=True)
class FolderFormat:
    """A format whose stories are folders; it reads the files by a function that it is given.

    One that ``takes_the_rest`` is for any folder, if the writer asks for one story of its files.
    """

    name: str
    label: str
    extension: str
    matches: Callable[[Folder], bool]
    read: Callable[[Folder, ReadFile], StoryDraft]
    takes_the_rest: bool = False
