"""Reads JSON of other programs: a field of the wrong kind is as one that is missing, and nothing raises."""

from __future__ import annotations

from typing import Any, cast

from srbwriter.story.model import JsonObject, as_list, as_object


class Fields:
    """A JSON object of unknown shape; an empty one for anything else."""

    def __init__(self, value: Any) -> None:
        self.all = as_object(value)

    def raw(self, key: str) -> Any:
        return self.all.get(key)

    def text(self, key: str) -> str:
        value = self.raw(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw(key)
        return value if isinstance(value, bool) else default

    def integer(self, key: str) -> int | None:
        value = self.raw(key)
        return value if type(value) is int and abs(value) < 2**53 else None

    def ident(self, key: str) -> str | None:
        """Return an id, which may be written as a text or a number."""
        value = self.raw(key)
        return str(value) if isinstance(value, str) or type(value) is int else None

    def texts(self, key: str) -> list[str]:
        """Return the texts of a list."""
        return [each for each in as_list(self.raw(key)) if isinstance(each, str)]

    def inner(self, key: str) -> Fields:
        return Fields(self.raw(key))

    def members(self, key: str) -> list[tuple[str, Fields]]:
        """Return the objects of a list by their places, or of an object by their names."""
        value = self.raw(key)
        pairs = as_object(value).items() or enumerate(as_list(value))
        return [(str(name), Fields(cast(JsonObject, each))) for name, each in pairs if isinstance(each, dict)]

    def objects(self, key: str) -> list[Fields]:
        return [each for _, each in self.members(key)]
