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
from srbwriter.config.keys import MAX_N, RETIRED, Key, N
from srbwriter.config.kinds import PATH
from srbwriter.demo import BUNDLED_VARIABLE

T = TypeVar("T")

Source = Literal["flag", "environment", "file", "remembered", "of this model", "default"]

_PREFIX = "SRBWRITER_"

CONFIG_VARIABLE = f"{_PREFIX}CONFIG"
"""Names another file than the one in the config folder."""

NO_SETTINGS = frozenset({f"{_PREFIX}URL", f"{_PREFIX}KEY", BUNDLED_VARIABLE})
"""Variables that are no settings: those of clients, such as in ``examples/``, and the bundled model's."""

_NOTICES = {row.name: row.notice for row in RETIRED}
_NO_COMMAND = "the write screen has no command of this name, so this has no effect; leave it out"


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
    """A value, its kind of source, and its place."""

    value: Any
    source: Source
    place: str = ""


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

    def place(self, key: Key[Any]) -> str:
        """Return where a setting was said: a flag, a variable, or a line of a file; "" for a default."""
        setting = self._found.get(key.name)
        return "" if setting is None else setting.place

    def with_defaults(self, defaults: Mapping[str, Setting]) -> Settings:
        """Return these settings with other ``defaults``, by name, for what nobody has said."""
        said = {n: s for n, s in self._found.items() if s.source not in ("of this model", "default")}
        return Settings(self.table, {**defaults, **said}, self.warnings)

    def section(self, name: str) -> dict[str, Any]:
        """Return every setting of a section, by its name within the section."""
        return {key.name.partition(".")[2]: self[key] for key in self.table.section(name)}


def load(
    table: Table, flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None,
    problems: Iterable[str] = (),
) -> Settings:  # fmt: skip
    """Rank all sources into one Settings.

    Args:
        table: the keys of the program.
        flags: values from the command line, already checked, by key name.
        environment: usually ``os.environ``.
        file: the writer's file if the command line named one.
        problems: problems of the command line, to be reported together with the others.

    Raises:
        ConfigError: with all unknown keys, refused values, contradictions, and files that cannot be read.
    """
    problems, notices, complaints = list(problems), list[str](), list[str]()
    found = _read_file(table, paths.overlay_file(), "remembered", complaints, complaints) or {}
    place, named = "--config", file
    if named is None and environment.get(CONFIG_VARIABLE):
        place, named = CONFIG_VARIABLE, paths.expanded(environment[CONFIG_VARIABLE])
    said = _read_file(table, named or paths.config_file(), "file", problems, notices)
    if said is None and named is not None:
        problems.append(f"{place}: {named}: there is no such file — correct the path")
    found |= said or {}
    found |= _read_environment(table, environment, problems, notices)
    for name, value in flags.items():
        found[name] = Setting(value, "flag", next(iter(table[name].flags), name))
    settings = Settings(table, found, (*complaints, *notices))
    n, most = settings[N], settings[MAX_N]
    if n > most and settings.source(N) not in ("default", "remembered"):
        place = f" ({settings.place(MAX_N)})" if settings.place(MAX_N) else ""
        words = f"{settings.place(N)}: {N.name} = {n} is above {MAX_N.name} = {most}{place}"
        problems.append(f"{words} — lower it, or raise the other")
    if problems:
        raise ConfigError(*problems)
    return settings


def read_overlay(table: Table) -> tuple[dict[str, Any], list[str]]:
    """Read what the program remembered, and complaints: its own file is never a reason not to start."""
    complaints: list[str] = []
    found = _read_file(table, paths.overlay_file(), "remembered", complaints, [])
    return {name: setting.value for name, setting in (found or {}).items()}, complaints


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
        if name in _NOTICES:
            if source == "file":
                notices.append(f"{place}: {name}: {_NOTICES[name]}")
        elif name in table:
            key = table[name]
            try:
                read = key.read_toml(value)
            except ValueError:
                problems.append(f"{place}: {name} = {key.complaint(value)}")
                continue
            # A relative path in a file means beside the file, wherever the program was started.
            read = file.parent / read if source == "file" and key.kind is PATH else read
            found[name] = Setting(read, source, place)
        elif name.startswith("keys."):
            notices.append(f"{place}: {name}: {_NO_COMMAND}")
        else:
            problems.append(f"{place}: unknown key {name} — leave it out")
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
        text, dotted = environment[variable], variable.removeprefix(_PREFIX).lower().replace("_", ".", 1)
        if key := by_variable.get(variable):
            try:
                found[key.name] = Setting(key.read_text(text), "environment", variable)
            except ValueError:
                problems.append(f"{variable} = {key.complaint(text)}")
        elif dotted in _NOTICES or dotted.startswith("keys."):
            notices.append(f"{variable}: {_NOTICES.get(dotted, _NO_COMMAND)}")
        elif variable != CONFIG_VARIABLE and variable not in NO_SETTINGS:
            problems.append(f"unknown variable {variable} — leave it out")
    return found


def remember(table: Table, values: Mapping[Key[Any], Any]) -> None:
    """Write ``values`` into the overlay, atomically; None makes the program forget a key.

    Raises:
        OSError: the state folder cannot be written; the overlay is then as it was.
    """
    import tomli_w

    remembered, _ = read_overlay(table)
    remembered.update({key.name: value for key, value in values.items()})
    document: dict[str, dict[str, Any]] = {}
    for name, value in remembered.items():
        if value is not None:
            section, _, leaf = name.partition(".")
            plain: Any = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
            document.setdefault(section, {})[leaf] = os.fspath(plain) if isinstance(plain, Path) else plain
    paths.write_atomic(paths.overlay_file(), tomli_w.dumps(document).encode())
