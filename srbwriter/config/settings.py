"""Settings: their values, their sources, and the ones that the program remembers.

Reads the four sources of a setting and ranks them: flag > environment > the writer's file > remembered >
what suits the model > default. Remembered settings are kept beside the writer's own file, which is only read.
Uses a table of keys and the places of files; imports no face and no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from srbwriter import paths
from srbwriter.config.document import Document
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

_RETIRED = {row.name: row for row in RETIRED if row.name}


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
        self._load(name.partition(".")[0])
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        self._load(str(name).partition(".")[0])
        return name in self._by_name

    def _load(self, section: str) -> None:
        if make := self._late.pop(section, None):
            self._by_name.update({key.name: key for key in make()})

    def by_variable(self, names: Iterable[str]) -> dict[str, Key[Any]]:
        """Keys by their environment variables; all that any of ``names`` may belong to."""
        for section in list(self._late):
            if any(name.startswith(f"{_PREFIX}{section.upper()}_") for name in names):
                self._load(section)
        return {key.env: key for key in self}

    def section(self, name: str) -> list[Key[Any]]:
        self._load(name)
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
        """Every setting of a section, by its name within the section."""
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
    reader = _Reader(table, list(problems))
    found, complaints = _read_remembered(table)
    found |= reader.file(environment, file)
    found |= reader.environment(environment)
    found |= {name: Setting(value, "flag", _flag(table, name)) for name, value in flags.items()}
    settings = Settings(table, found, (*complaints, *reader.notices))
    if problems := [*reader.problems, *_contradictions(settings)]:
        raise ConfigError(*problems)
    return settings


def _contradictions(settings: Settings) -> Iterator[str]:
    """Yield problems between values of this start that are each valid."""
    n, most = settings[N], settings[MAX_N]
    if n > most and settings.source(N) not in ("default", "remembered"):
        said = f"{settings.place(N)}: {N.name} = {n} is above {MAX_N.name} = {most}"
        place = settings.place(MAX_N)
        yield f"{said}{f' ({place})' if place else ''} — lower it, or raise the other"


def _flag(table: Table, name: str) -> str:
    key = table[name]
    return key.flags[0] if key.flags else name


def read_overlay(table: Table) -> tuple[dict[str, Any], list[str]]:
    """What the program remembered, and complaints: its own file is never a reason not to start."""
    found, complaints = _read_remembered(table)
    return {name: setting.value for name, setting in found.items()}, complaints


def _read_remembered(table: Table) -> tuple[dict[str, Setting], list[str]]:
    reader = _Reader(table, [])
    try:
        return reader.read(paths.overlay_file(), "remembered"), reader.problems
    except FileNotFoundError:
        return {}, []


class _Reader:
    """Reads files and variables. Collects errors in ``problems``, and retired settings in ``notices``."""

    def __init__(self, table: Table, problems: list[str]) -> None:
        self._table, self.problems = table, problems
        self.notices: list[str] = []

    def file(self, environment: Mapping[str, str], named: Path | None) -> dict[str, Setting]:
        """Read the writer's file, or the one that was named instead, which must exist."""
        place = "--config"
        if named is None and environment.get(CONFIG_VARIABLE):
            named, place = paths.expanded(environment[CONFIG_VARIABLE]), CONFIG_VARIABLE
        file = named or paths.config_file()
        try:
            found = self.read(file, "file")
        except FileNotFoundError:
            if named is not None:
                self.problems.append(f"{place}: {file}: there is no such file — correct the path")
            return {}
        for name, setting in found.items():
            if self._table[name].kind is PATH:
                # A relative path in a file means beside the file, wherever the program was started.
                found[name] = setting._replace(value=file.parent / setting.value)
        return found

    def read(self, file: Path, source: Source) -> dict[str, Setting]:
        """Read the values of a file. Raises FileNotFoundError."""
        try:
            document = Document(file, file.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as error:
            self.problems.append(f"{file}: cannot be read ({error.strerror}) — check its permissions")
            return {}
        self.problems += document.problems
        found: dict[str, Setting] = {}
        for name, value in document:
            place = document.place(name)
            if name in _RETIRED:
                self.notices.append(f"{place}: {name}: {_RETIRED[name].notice}")
                continue
            if name not in self._table:
                self.problems.append(f"{place}: unknown key {name} — leave it out")
                continue
            key = self._table[name]
            try:
                found[name] = Setting(key.read_toml(value), source, place)
            except ValueError:
                self.problems.append(f"{place}: {name} = {key.complaint(value)}")
        return found

    def environment(self, environment: Mapping[str, str]) -> dict[str, Setting]:
        """Read the variables that begin with our prefix."""
        by_variable = self._table.by_variable(environment)
        retired = {row.env: row for row in _RETIRED.values()}
        found: dict[str, Setting] = {}
        for variable, text in environment.items():
            if not variable.startswith(_PREFIX) or variable == CONFIG_VARIABLE or variable in NO_SETTINGS:
                continue
            if variable in retired:
                self.notices.append(f"{variable}: {retired[variable].notice}")
                continue
            key = by_variable.get(variable)
            if key is None:
                self.problems.append(f"unknown variable {variable} — leave it out")
                continue
            try:
                found[key.name] = Setting(key.read_text(text), "environment", variable)
            except ValueError:
                self.problems.append(f"{variable} = {key.complaint(text)}")
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
            document.setdefault(section, {})[leaf] = _plain(value)
    paths.write_atomic(paths.overlay_file(), tomli_w.dumps(document).encode())


def _plain(value: Any) -> Any:
    """The TOML form of a value: what :meth:`Key.read_toml` reads back as the same."""
    if isinstance(value, Path):
        return str(value)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
