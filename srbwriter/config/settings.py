"""Settings: what holds, where it was said, and what the program remembers of it.

Reads the four places a setting can come from and ranks them: flag > environment > the writer's file >
remembered > default. What is remembered lies beside the writer's own file, which is only read. Knows a table
of keys and where the files lie; knows no face and no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from srbwriter import paths
from srbwriter.config.keys import RETIRED, Key
from srbwriter.config.kinds import PATH

T = TypeVar("T")

Source = Literal["flag", "environment", "file", "remembered", "default"]

CONFIG_VARIABLE = "SRBWRITER_CONFIG"
"""Names another file than the one in the config folder."""

_PREFIX = "SRBWRITER_"
_RETIRED = {row.name: row for row in RETIRED if row.name}


class ConfigError(Exception):
    """A setting cannot be used. The message names the place, the key and what was expected."""


class UnknownKey(ConfigError):
    """A name that is no key. The message names the nearest one."""

    def __init__(self, place: str, name: str, nearest: str | None) -> None:
        self.place, self.name, self.nearest = place, name, nearest
        super().__init__(f"{place}: unknown key {name}" + (f"; did you mean {nearest}?" if nearest else ""))


class WrongValue(ConfigError):
    """A value that its key does not take."""

    def __init__(self, place: str, key: Key[Any], value: object) -> None:
        self.place, self.key, self.value = place, key, value
        super().__init__(f"{place}: {key.name} = {value!r}: expected {key.expected}")


class Table:
    """The keys of the program, by name.

    ``late`` makes the keys of whole sections, which take long to load, when one of them is asked for by name
    or section. Until then a loop over the table goes past them.
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

    def nearest(self, name: str) -> str | None:
        """The key that ``name`` was probably meant to be: of its own section, or else of any."""
        section, _, leaf = name.rpartition(".")
        for rows in (self.section(section), self):
            by_leaf = {key.name.partition(".")[2]: key.name for key in rows}
            if found := _most_like(leaf, by_leaf):
                return by_leaf[found]
        return None


class Setting(NamedTuple):
    """A value, and who said it."""

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

    def section(self, name: str) -> dict[str, Any]:
        """Every setting of a section, by its name within the section."""
        return {key.name.partition(".")[2]: self[key] for key in self.table.section(name)}


def load(
    table: Table, flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> Settings:
    """Rank everything that was said into one Settings.

    Args:
        table: the keys of the program.
        flags: values from the command line, already checked, by key name.
        environment: usually ``os.environ``.
        file: the writer's file if the command line named one.

    Raises:
        ConfigError: the writer's file or a variable says what no key takes, or a named file cannot be read.
    """
    remembered, complaints = read_overlay(table)
    retired: list[str] = []
    written = dict(_read_file(table, environment, file, retired))
    variables, unknown = _read_environment(table, environment)
    ranked: tuple[tuple[Source, Mapping[str, Any]], ...] = (
        ("remembered", remembered), ("file", written), ("environment", variables), ("flag", flags)
    )  # fmt: skip
    found = {name: Setting(value, source) for source, values in ranked for name, value in values.items()}
    return Settings(table, found, (*complaints, *retired, *unknown))


def read_overlay(table: Table) -> tuple[dict[str, Any], list[str]]:
    """What the program remembered, and complaints: its own file is never a reason not to start."""
    file = paths.overlay_file()
    try:
        document = _parse(file)
    except FileNotFoundError:
        return {}, []
    except ConfigError as error:
        return {}, [str(error)]
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for name, value in _leaves(document):
        if name in _RETIRED:
            continue  # nobody wrote it by hand
        try:
            values[name] = _checked(table, str(file), name, value)
        except ConfigError as error:
            complaints.append(str(error))
    return values, complaints


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


def _read_file(
    table: Table, environment: Mapping[str, str], named: Path | None, notices: list[str]
) -> Iterator[tuple[str, Any]]:
    if named is None and environment.get(CONFIG_VARIABLE):
        named = paths.expanded(environment[CONFIG_VARIABLE])
    file = named or paths.config_file()
    try:
        document = _parse(file)
    except FileNotFoundError:
        if named is None:
            return
        raise ConfigError(f"{file}: there is no such file") from None
    for name, value in _leaves(document):
        if name in _RETIRED:
            notices.append(f"{file}: {name}: {_RETIRED[name].notice}")
            continue
        checked = _checked(table, str(file), name, value)
        # A relative path in a file means beside the file, wherever the program was started.
        yield name, file.parent / checked if table[name].kind is PATH else checked


def _parse(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"{file}: {error}") from error


def _leaves(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, content in document.items():
        if isinstance(content, dict):
            for name, value in cast(dict[str, Any], content).items():
                yield f"{section}.{name}", value
        else:
            yield section, content


def _checked(table: Table, place: str, name: str, value: object) -> Any:
    if name not in table:
        raise UnknownKey(place, name, table.nearest(name))
    try:
        return table[name].read_toml(value)
    except ValueError:
        raise WrongValue(place, table[name], value) from None


def _read_environment(table: Table, environment: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Values of our variables, and a complaint for each that starts like ours and is none, or is retired."""
    by_variable = table.by_variable(environment)
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        key = by_variable.get(variable)
        retired = next((row for row in _RETIRED.values() if row.env == variable), None)
        if retired is not None:
            unknown.append(f"environment variable {variable}: {retired.notice}")
            continue
        if key is None:
            unknown.append(str(UnknownKey("environment", variable, _most_like(variable, by_variable))))
            continue
        try:
            values[key.name] = key.read_text(text)
        except ValueError:
            raise WrongValue(f"environment variable {variable}", key, text) from None
    return values, unknown


def _most_like(name: str, names: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=0.7)), None)
