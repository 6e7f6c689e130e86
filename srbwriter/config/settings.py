"""Settings: their values, their sources, and the ones that the program remembers.

Reads the four sources of a setting and ranks them: flag > environment > the writer's file > remembered >
what suits the model > default. Remembered settings are kept beside the writer's own file, which is only read.
Uses a table of keys and the places of files; imports no face and no engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from srbwriter import paths
from srbwriter.config.keys import Key
from srbwriter.config.kinds import PATH
from srbwriter.demo import BUNDLED_VARIABLE

T = TypeVar("T")

Source = Literal["flag", "environment", "file", "remembered", "of this model", "default"]

_PREFIX = "SRBWRITER_"

CONFIG_VARIABLE = f"{_PREFIX}CONFIG"
"""Names another file than the one in the config folder."""

NO_SETTINGS = frozenset({f"{_PREFIX}URL", f"{_PREFIX}KEY", BUNDLED_VARIABLE})
"""Variables that are no settings: those of clients, such as in ``examples/``, and the bundled model's."""


class ConfigError(Exception):
    """Settings that cannot be used. ``problems`` has a line for each: the place, the problem, the cure."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Table:
    """The keys of the program, by name.

    ``late`` makes the keys of whole sections, which are slow to load, when one of them is looked up by name
    or section. Until then a loop over the table leaves them out.
    """

    def __init__(
        self, keys: Iterable[Key[Any]], late: Mapping[str, Callable[[], Iterable[Key[Any]]]] | None = None
    ) -> None:
        self._by_name = {key.name: key for key in keys}
        self._late = dict(late or {})

    def __iter__(self) -> Iterator[Key[Any]]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Key[Any]:
        self.section(name.partition(".")[0])
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        self.section(str(name).partition(".")[0])
        return name in self._by_name

    def section(self, name: str) -> list[Key[Any]]:
        if make := self._late.pop(name, None):
            self._by_name.update({key.name: key for key in make()})
        return [key for key in self if key.section == name]


class Setting(NamedTuple):
    """A value, and its kind of source."""

    value: Any
    source: Source


class Settings:
    """The settings that hold in this run. ``settings[keys.PORT]`` is a value of the key's own type."""

    def __init__(self, table: Table, found: Mapping[str, Setting], warnings: tuple[str, ...] = ()) -> None:
        self.table = table
        self.warnings = warnings
        self._found = dict(found)

    def __getitem__(self, key: Key[T]) -> T:
        setting = self._found.get(key.name)
        return key.default if setting is None else cast(T, setting.value)

    def source(self, key: Key[Any]) -> Source:
        setting = self._found.get(key.name)
        return "default" if setting is None else setting.source

    def with_defaults(self, defaults: Mapping[str, Setting]) -> Settings:
        """Return these settings with other ``defaults``, by name, for settings that are not set."""
        said = {n: s for n, s in self._found.items() if s.source not in ("of this model", "default")}
        return Settings(self.table, {**defaults, **said}, self.warnings)

    def section(self, name: str) -> dict[str, Any]:
        """Return every setting of a section, by its name within the section."""
        return {key.name.partition(".")[2]: self[key] for key in self.table.section(name)}


def load(
    table: Table, flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> Settings:  # fmt: skip
    """Rank all sources into one Settings.

    Args:
        table: the keys of the program.
        flags: values from the command line, already checked, by key name.
        environment: usually ``os.environ``.
        file: the writer's file if the command line named one.

    Raises:
        ConfigError: with all refused values, and files that cannot be read.
    """
    found, notices = _read_overlay(table)
    problems = list[str]()
    named = file or (paths.expanded(given) if (given := environment.get(CONFIG_VARIABLE)) else None)
    said = _read_file(table, named or paths.config_file(), "file", problems, notices)
    if said is None and named is not None:
        place = "--config" if file is not None else CONFIG_VARIABLE
        problems.append(f"{place}: {named}: there is no such file — correct the path")
    found |= said or {}
    found |= _read_environment(table, environment, problems, notices)
    found |= {name: Setting(value, "flag") for name, value in flags.items()}
    if problems:
        raise ConfigError(*problems)
    return Settings(table, found, tuple(notices))


def _read_overlay(table: Table) -> tuple[dict[str, Setting], list[str]]:
    """Read what the program remembered, with notices: its own file is never a reason not to start."""
    notices: list[str] = []
    found = _read_file(table, paths.overlay_file(), "remembered", notices, notices)
    return found or {}, notices


def _read_file(
    table: Table, file: Path, source: Source, problems: list[str], notices: list[str]
) -> dict[str, Setting] | None:
    """Read the values of a file, with problems and notices; None if there is no such file."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{file}: cannot be read ({error.strerror}) — check its permissions")
        return {}
    found: dict[str, Setting] = {}
    for name, value, place in _values(file, data, problems):
        if name not in table:
            notices.append(f"{place}: unknown key {name}, which has no effect — leave it out")
            continue
        key = table[name]
        try:
            read = key.read_toml(value)
        except ValueError:
            problems.append(f"{place}: {name} = {key.complaint(value)}")
            continue
        # A relative path in a file means beside the file, wherever the program was started.
        found[name] = Setting(file.parent / read if source == "file" and key.kind is PATH else read, source)
    return found


def _values(file: Path, data: bytes, problems: list[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield the values of a file: the name, ``section.key`` or ``key``, the value, and its place."""
    import tomllib

    try:
        text = data.decode("utf-8-sig")  # as Windows saves it
        values = tomllib.loads(text)
    except ValueError as error:
        cure = 'write one KEY = VALUE a line, and texts in "quotes"'
        problems.append(f"{file}: this is not TOML in UTF-8: {error} — {cure}")
        return
    for section, content in values.items():
        entries = cast("dict[str, Any]", content) if isinstance(content, dict) else {"": content}
        for leaf, value in entries.items():
            said = re.search(rf"(?ms)^\s*\[{re.escape(section)}\].*?^\s*{re.escape(leaf)}\s*=", text)
            line = f":{text.count(chr(10), 0, said.end()) + 1}" if said else ""
            yield f"{section}.{leaf}".removesuffix("."), value, f"{file}{line}"


def _read_environment(
    table: Table, environment: Mapping[str, str], problems: list[str], notices: list[str]
) -> dict[str, Setting]:
    """Read the variables that begin with our prefix."""
    names = [name for name in environment if name.startswith(_PREFIX)]
    if any(name.startswith(f"{_PREFIX}KEYS_") for name in names):
        table.section("keys")
    by_variable = {key.env: key for key in table}
    found: dict[str, Setting] = {}
    for variable in names:
        if key := by_variable.get(variable):
            try:
                found[key.name] = Setting(key.read_text(environment[variable]), "environment")
            except ValueError:
                problems.append(f"{variable} = {key.complaint(environment[variable])}")
        elif variable != CONFIG_VARIABLE and variable not in NO_SETTINGS:
            notices.append(f"unknown variable {variable}, which has no effect — leave it out")
    return found


def remember(table: Table, values: Mapping[Key[Any], Any]) -> None:
    """Write ``values`` into the overlay, atomically; None makes the program forget a key.

    Raises:
        OSError: the state folder cannot be written; the overlay is then as it was.
    """
    import tomli_w

    remembered = {name: setting.value for name, setting in _read_overlay(table)[0].items()}
    remembered.update({key.name: value for key, value in values.items()})
    document: dict[str, dict[str, Any]] = {}
    for name, value in remembered.items():
        if value is not None:
            section, _, leaf = name.partition(".")
            plain: Any = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
            document.setdefault(section, {})[leaf] = os.fspath(plain) if isinstance(plain, Path) else plain
    paths.write_atomic(paths.overlay_file(), tomli_w.dumps(document).encode())
