"""Declaration and lookup of commands; every list of commands and keys is built from here.

Commands of the write screen are in :data:`COMMANDS`, filled by the modules of ``srbwriter.tui.actions`` with
:func:`command`; those of other screens are methods under :func:`action`. Bindings, the menu of commands, key
line, dialog feet, help and the documentation of keys are loops over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.keys import KEY_NAME_REPLACEMENTS, format_key, key_to_character
from textual.keys import Keys as KeyNames

if TYPE_CHECKING:
    from srbwriter.tui.app import App

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

INSTRUMENTS = "Instruments"
"""The group of features that depend on all branches running in one batch."""
THIS_BRANCH, PART, READING = "This branch", "Taking a part", "Reading a branch"
BRANCH_GROUPS = (THIS_BRANCH, PART, READING)
"""The groups of commands that act on the chosen branch."""
MENU = "ctrl+g"
"""The key of the menu of commands."""
DIGITS = "1,2,3,4,5,6,7,8,9"
AT_ONCE = ("pick_number", "go")
"""Commands on branches whose keys work as soon as branches are shown, before one is chosen."""
ANYWHERE = ".anywhere"
"""Suffix of the id of a binding that works with any focus."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Keys are comma-separated names in Textual's spelling.

    ``keys`` work while a pane has the focus. ``anywhere`` work with any focus, so they are never characters.
    A ``numbered`` command does something else for each of its keys. One that ``writes`` is refused in a
    read-only story. ``foot`` is its label in the footer, empty if it is not shown there. ``handler`` takes
    the write screen, the pane of the chosen branch if it ``needs_branch``, and the number of the key of a
    numbered command.
    """

    id: str
    group: str
    title: str
    help: str
    handler: Handler
    keys: str = ""
    anywhere: str = ""
    numbered: bool = False
    writes: bool = False
    foot: str = ""

    @property
    def needs_branch(self) -> bool:
        """Whether the command acts on the chosen branch."""
        return self.group in BRANCH_GROUPS


COMMANDS: dict[str, Command] = {}
"""Every command by its id, in the order of menus, help and documentation."""


def command(
    group: str, title: str, keys: str = "", *, anywhere: str = "", numbered: bool = False,
    writes: bool = False, foot: str = "",
) -> Callable[[H], H]:  # fmt: skip
    """Declare the decorated function as a command: its name is the id, its docstring the help."""

    def declare(handler: H) -> H:
        name, words = handler.__name__.rstrip("_"), " ".join((handler.__doc__ or "").split())
        COMMANDS[name] = Command(name, group, title, words, handler, keys, anywhere, numbered, writes, foot)
        return handler

    return declare


# ---- commands of other screens


def action(
    keys: str, words: str, *arguments: object, foot: bool = True, priority: bool = True,
) -> Callable[[H], H]:  # fmt: skip
    """Declare the decorated method ``action_…`` as the action of ``keys`` on its :class:`Keyed` screen.

    Args:
        keys: comma-separated, in Textual's spelling.
        words: the label, one to three words. The method's docstring is the help.
        arguments: the arguments of the method; it may be declared several times with different ones.
        foot: whether the screen's foot shows it.
        priority: whether the screen handles the key before the focused widget. Never set it for a character
            where text is typed.
    """

    def declare(method: H) -> H:
        action = f"{method.__name__.removeprefix('action_')}({', '.join(map(repr, arguments))})"
        help = " ".join((method.__doc__ or "").split())
        binding = Binding(keys, action, words, show=foot, priority=priority, tooltip=help)
        vars(method).setdefault("declared", []).insert(0, binding)  # decorators run from the bottom up
        return method

    return declare


class Keyed:
    """A screen or widget with keys declared by :func:`action`.

    It must come before Textual's class among the bases, because Textual reads the bindings when the class is
    created.
    """

    BINDINGS: ClassVar[list[BindingType]]

    def __init_subclass__(cls, **options: Any) -> None:
        declared = [b for method in vars(cls).values() for b in getattr(method, "declared", ())]
        declared += vars(cls).get("BINDINGS", ())
        cls.BINDINGS = declared  # pyright: ignore[reportConstantRedefinition]
        super().__init_subclass__(**options)


# ---- keys


def branch_bindings() -> list[BindingType]:
    """Return the bindings that work while a branch has the focus."""
    commands = (command for command in COMMANDS.values() if command.id not in AT_ONCE)
    return [binding for command in commands for binding in _plain(command)]


def screen_bindings() -> list[BindingType]:
    """Return the bindings that work with any focus, and those of :data:`AT_ONCE`."""
    found: list[BindingType] = []
    for command in COMMANDS.values():
        if command.id in AT_ONCE:
            found += _plain(command, priority=True)
        if command.anywhere:
            found.append(_binding(command, command.anywhere, command.id + ANYWHERE, priority=True))
    return found


def _plain(command: Command, priority: bool = False) -> Iterator[BindingType]:
    if not command.numbered:
        if command.keys:
            yield _binding(command, command.keys, command.id)
        return
    group = Binding.Group(command.foot, compact=True) if command.keys != DIGITS else None
    for number, key in enumerate(split(command.keys), 1):  # the first stands for all of them in the help
        yield _binding(
            command, key, f"{command.id}.{number}", f", {number}", priority=priority, system=number > 1,
            group=group, key_display=None if group else "1–9",
        )  # fmt: skip


def _binding(command: Command, keys: str, id: str, number: str = "", **more: Any) -> Binding:
    shown = bool(command.foot) and (command.keys != DIGITS or number == ", 1")
    action, words = f"screen.run('{command.id}'{number})", command.foot or command.title
    return Binding(keys, action, words, show=shown, id=id, tooltip=command.help, **more)


class Keys:
    """The keys of every command, with the writer's ``own`` ones by command in the place of the declared ones.

    Own keys that never type a character work with any focus where declared ones do.
    """

    def __init__(self, own: Mapping[str, str]) -> None:
        self.plain: dict[str, list[str]] = {}
        """The keys of each command that work on a branch."""
        self.anywhere: dict[str, list[str]] = {}
        """The keys of each command that work with any focus."""
        self.on_branch: dict[str, str] = {}
        """The command of each key on a chosen branch, with a dot and the number of a numbered one."""
        self.keymap: dict[str, str] = {}
        """The writer's own keys by the id of a binding."""
        self.unbound: dict[str, str] = {}
        """The writer's own keys that no binding can take over: they are bound anew."""
        self.lost: list[str] = []
        """Titles of commands that have lost their keys to others."""
        named = {id: split(keys) for id, keys in own.items()}
        first = [command for command in COMMANDS.values() if named.get(command.id)]
        for command in (*first, *(command for command in COMMANDS.values() if command not in first)):
            self._bind(command, named.get(command.id, []))

    def _bind(self, command: Command, own: list[str]) -> None:
        id, declared, controls = command.id, split(command.keys), list(filter(is_control, own))
        plain = own + declared[len(own) :] if command.numbered else own or declared
        anywhere = (controls or split(command.anywhere)) if command.anywhere else []
        if own and not command.keys:
            plain = []
            if rest := [key for key in own if key not in anywhere]:
                self.unbound[id] = ",".join(rest)
                self.on_branch |= dict.fromkeys(rest, id)
        if own and plain:
            numbered = {f"{id}.{number}": key for number, key in enumerate(own, 1)}
            self.keymap |= numbered if command.numbered else {id: ",".join(own)}
        if controls and anywhere:
            self.keymap[id + ANYWHERE] = ",".join(controls)
        taken = {key for keys in self.anywhere.values() for key in keys}
        self.anywhere[id] = [key for key in anywhere if key not in taken]
        self.plain[id] = [key for key in plain if key not in self.on_branch]
        for number, key in enumerate(plain, 1):
            self.on_branch.setdefault(key, f"{id}.{number}" if command.numbered else id)
        if (plain or anywhere) and not self.plain[id] + self.anywhere[id]:
            self.lost.append(command.title)


def is_control(key: str) -> bool:
    """Return whether a key never types a character."""
    function_key = len(key) > 1 and key[0] == "f" and key[1:].isdigit()
    return key.startswith("ctrl+") or function_key or key == "escape"


def key_name(key: str) -> str:
    """Return a key as it is shown: ``^n`` for ctrl+n, ``⏎`` for enter."""
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    if key[0] == "f" and key[1:].isdigit():
        return key.upper()
    name = format_key(key)
    sign = key_to_character(key) if name == key else None  # such as é, whose key has a Unicode name
    return sign if sign and sign.isprintable() and sign.strip() else name


def split(keys: str) -> list[str]:
    """Return key names in Textual's long spelling: ``question_mark`` for ``?``."""
    names = [key.strip() for key in keys.split(",")]
    bindings = Binding.make_bindings([Binding(name, "", "") for name in names if name])
    return [binding.key for binding in bindings]


# ---- the menu


class CommandProvider(Provider):
    """Every command by its title, its id or its help; it runs on the write screen."""

    def _entries(self) -> Iterator[tuple[str, Command]]:
        """Yield the words of each entry, and its command."""
        app: App = self.app  # pyright: ignore[reportAssignmentType, reportUnknownMemberType]
        for command in COMMANDS.values():
            if not command.numbered:
                keys = [*app.known_keys.plain[command.id], *app.known_keys.anywhere[command.id]]
                yield f"{command.title}   {' '.join(map(key_name, keys))}".rstrip(), command

    async def discover(self) -> Hits:
        for words, command in self._entries():
            yield DiscoveryHit(words, partial(self._run, command), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, command in self._entries():
            exact = 100.0 * (query.casefold() in (command.id, command.title.casefold()))
            if score := exact or max(matcher.match(words), 0.5 * matcher.match(command.help)):
                yield Hit(score, matcher.highlight(words), partial(self._run, command), help=command.help)

    def _run(self, command: Command) -> None:
        self.app.action_run_on_desk(command.id)  # type: ignore[attr-defined]


# ---- names of keys

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})


def check_keys(value: object) -> str:
    """Return ``value`` if it is empty or comma-separated key names. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError
    for name in filter(None, map(str.strip, value.split(","))):
        *modifiers, base = name.split("+") if len(name) > 1 else [name]
        known = len(base) == 1 or base in _special() or key_to_character(base) is not None
        if not (known and _MODIFIERS.issuperset(modifiers)):
            raise ValueError
    return value


@cache
def _special() -> frozenset[str]:
    """Return the names of keys that type nothing, and Textual's names of some that do."""
    names = {key.value.rpartition("+")[2] for key in KeyNames if key.value[0] != "<"}
    return frozenset({name for name in names if len(name) > 1} | set(KEY_NAME_REPLACEMENTS.values()))
