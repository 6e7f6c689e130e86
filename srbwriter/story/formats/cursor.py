"""Reading JSON of other programs; every error names its exact place.

A cursor points to an object and knows the path to it. ``need_*`` raise when a field is missing or wrong; the
other methods treat a wrong value like an unknown field: it is not read.

A part that can be left out without losing the rest of a file is left out with a notice: ``good_*`` read the
valid members of a list or an object, and add a notice for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from srbwriter.story.formats.base import Document, Fault, FormatError
from srbwriter.story.model import JsonObject

LONGEST_PLACE = 300
"""Characters of a place that are shown; in a deeply nested tree only its end says anything."""


class Cursor:
    """A JSON object, and where it is in which file: ``step`` below the cursor ``above``."""

    __slots__ = ("_above", "_step", "_value", "faults", "file")

    def __init__(
        self,
        value: Any,
        file: str,
        step: str = "",
        above: Cursor | None = None,
        faults: list[Fault] | None = None,
    ) -> None:
        self.file = file
        self.faults: list[Fault] = above.faults if above else [] if faults is None else faults
        self._step = step
        self._above = above
        if not isinstance(value, dict):
            raise self.error("an object")
        self._value = cast(JsonObject, value)

    @property
    def place(self) -> str:
        """The way from the top, as in ``nodes[3].text``."""
        steps: list[str] = []
        here: Cursor | None = self
        while here is not None:
            steps.append(here._step)
            here = here._above
        place = ".".join(step for step in reversed(steps) if step)
        return place if len(place) <= LONGEST_PLACE else "…" + place[-LONGEST_PLACE:]

    def error(self, expected: str, key: str | None = None) -> FormatError:
        return FormatError(self.file, self._place_of(key), expected)

    def add_notice(self, words: str, key: str | None = None) -> None:
        """Add a notice that this value, or a field of it, had to be changed."""
        self.faults.append(Fault(self._place_of(key), words))

    def leave_out(self, error: FormatError) -> None:
        """Add a notice that this object could not be read, for that reason."""
        where = "" if error.place == self._place_of(None) else f" at {error.place}"
        self.add_notice(f"left out; expected {error.expected}{where}")

    def _place_of(self, key: str | None) -> str:
        return ".".join(filter(None, [self.place, key])) or "the top level"

    def raw(self, key: str) -> Any:
        """The value as it is, ``None`` when missing."""
        return self._value.get(key)

    def need_text(self, key: str) -> str:
        value = self.raw(key)
        if not isinstance(value, str):
            raise self.error("a text", key)
        return value

    def need_object(self, key: str) -> Cursor:
        return Cursor(self.raw(key), self.file, key, self)

    def good_objects(self, key: str, *, needed: bool = False) -> list[Cursor]:
        """Return the objects of a list.

        Other values are left out with a notice.  Raises if it is ``needed``.
        """
        return [cursor for _, cursor in self._good(key, list, needed=needed)]

    def good_entries(self, key: str, *, needed: bool = False) -> list[tuple[str, Cursor]]:
        """The objects of an object by their names; the rest as with :meth:`good_objects`."""
        return self._good(key, dict, needed=needed)

    def good_members(self, key: str) -> list[tuple[str, Cursor]]:
        """The objects of a list by their places in it, or of an object by their names; the rest as above."""
        if self._is(key, dict):
            return self._good(key, dict, needed=False)
        return [
            (step.removeprefix(f"{key}[").removesuffix("]"), cursor)
            for step, cursor in self._good(key, list, needed=False)
        ]

    def good_texts(self, key: str) -> list[str]:
        """Return the texts of a list; each other value becomes an empty text, with a notice."""
        texts: list[str] = []
        for step, value in self._steps(key, list):
            if not isinstance(value, str):
                self.add_notice("left out; expected a text", step)
            texts.append(value if isinstance(value, str) else "")
        return texts

    def good_text(self, key: str) -> str:
        """Return the text, or an empty one with a notice where it is missing or no text."""
        if not self._is(key, str):
            self.add_notice("expected a text; it is left empty", key)
        return self.text(key)

    def object(self, key: str) -> Cursor | None:
        return self.need_object(key) if self._is(key, dict) else None

    def inner(self, key: str) -> Cursor:
        """The object; an empty one if it is missing or wrong."""
        value = self._value.get(key)
        return Cursor(value if isinstance(value, dict) else {}, self.file, key, self)

    def text(self, key: str, default: str = "") -> str:
        return self.raw(key) if self._is(key, str) else default

    def texts(self, key: str) -> list[str]:
        """The texts of a list; ``[]`` unless every member is one."""
        value = self._value.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast(list[Any], value)):
            return []
        return list(cast(list[str], value))

    def flag(self, key: str, default: bool = False) -> bool:
        return self.raw(key) if self._is(key, bool) else default

    def integer(self, key: str) -> int | None:
        return self.raw(key) if type(self._value.get(key)) is int else None

    def number(self, key: str) -> float | None:
        return float(self.raw(key)) if type(self._value.get(key)) in (int, float) else None

    def ident(self, key: str) -> str | None:
        """An id, which may be written as a text or a number."""
        value = self._value.get(key)
        return str(self.raw(key)) if isinstance(value, str | int) and not isinstance(value, bool) else None

    def link(self, key: str) -> str | None:
        """Return the id of another node, or ``None``; any other value adds a notice."""
        found = self.ident(key)
        if found is None and self._value.get(key) is not None:
            self.add_notice("expected the id of a node, or null; it is put at the top", key)
        return found

    def all(self) -> JsonObject:
        """Every field."""
        return self._value

    def _is(self, key: str, kind: type) -> bool:
        return isinstance(self._value.get(key), kind)

    def _good(self, key: str, kind: type, *, needed: bool) -> list[tuple[str, Cursor]]:
        if needed and not self._is(key, kind):
            raise self.error("a list" if kind is list else "an object", key)
        good: list[tuple[str, Cursor]] = []
        for step, value in self._steps(key, kind):
            if isinstance(value, dict):
                good.append((step.removeprefix(f"{key}."), Cursor(value, self.file, step, self)))
            else:
                self.add_notice("left out; expected an object", step)
        return good

    def _steps(self, key: str, kind: type) -> Iterator[tuple[str, Any]]:
        """Return the members of a list or an object with their paths.

        A field of another kind adds a notice.
        """
        value = self._value.get(key)
        if not isinstance(value, kind):
            if value is not None:
                self.add_notice(f"left out; expected {'a list' if kind is list else 'an object'}", key)
        elif isinstance(value, dict):
            for name, member in cast(JsonObject, self.raw(key)).items():
                yield f"{key}.{name}", member
        else:
            for index, member in enumerate(cast(list[Any], self.raw(key))):
                yield f"{key}[{index}]", member


def line_cursors(document: Document) -> list[Cursor]:
    """Return a cursor on the object in each line; a document that is one object counts as its only line.

    Lines that are no objects are left out with a notice.  Raises :class:`FormatError` if no line is one.
    """
    if document.kind == "json":
        return [Cursor(document.value, document.name, "line 1", faults=document.faults)]
    cursors: list[Cursor] = []
    for number, value in zip(document.lines, document.value, strict=True):
        if isinstance(value, dict):
            cursors.append(Cursor(value, document.name, f"line {number}", faults=document.faults))
        else:
            document.faults.append(Fault(f"line {number}", "left out; expected an object"))
    if not cursors:
        raise FormatError(document.name, "line 1", "an object")
    return cursors


def top(document: Document) -> Cursor:
    """The cursor on the top-level object of a JSON document."""
    return Cursor(document.value, document.name, faults=document.faults)
