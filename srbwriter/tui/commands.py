"""Commands: declared where they are handled, and known here to everything that shows or runs them.

Bindings, command palette, key line, help, the leader's menu and the page of keys in the documentation are all
loops over :data:`COMMANDS`, which the modules of ``srbwriter.tui.actions`` fill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from textual.binding import Binding, BindingsMap, BindingType

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

LEADER = "ctrl+g"
DIGITS = "1,2,3,4,5,6,7,8,9"
ANYWHERE = ".anywhere"
"""Ends the id of the binding that works with any focus."""
_NO_KEY = "no_key_"


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Keys are comma-separated names as Textual spells them.

    ``keys`` work while a pane has the focus, and behind the leader everywhere; ``anywhere`` work with any
    focus, so they are never characters. ``hint`` is the label on the key line; a command without one is not
    shown there. ``vim`` replaces ``keys`` in the vim keymap. A ``numbered`` command has one key for each
    digit and is told which. ``handler`` takes the write screen, and a numbered one the number as well.
    """

    id: str
    group: str
    title: str
    help: str
    handler: Handler
    keys: str = ""
    anywhere: str = ""
    hint: str = ""
    vim: str = ""
    numbered: bool = False


COMMANDS: dict[str, Command] = {}
"""Every command by its id, in the order of menus, help and documentation."""


def command(
    group: str, title: str, keys: str = "", *, anywhere: str = "", hint: str = "", vim: str = "",
    numbered: bool = False,
) -> Callable[[H], H]:  # fmt: skip
    """Declare the function below as what a command does: its name is the id, its docstring the help."""

    def declare(handler: H) -> H:
        name, words = handler.__name__.rstrip("_"), " ".join((handler.__doc__ or "").split())
        COMMANDS[name] = Command(name, group, title, words, handler, keys, anywhere, hint, vim, numbered)
        return handler

    return declare


def groups() -> list[str]:
    """The groups of commands, in order."""
    return list(dict.fromkeys(command.group for command in COMMANDS.values()))


# ---- keys


def plain_bindings() -> list[BindingType]:
    """What works while a branch has the focus."""
    return [binding for command in COMMANDS.values() for binding in _plain(command)]


def _plain(command: Command) -> list[Binding]:
    if not command.numbered:
        return [_binding(command, command.keys, command.id)]
    keys = _split(command.keys)
    return [
        _binding(command, key, f"{command.id}.{number}", f", {number}") for number, key in enumerate(keys, 1)
    ]


def anywhere_bindings() -> list[BindingType]:
    """What works with any focus."""
    return [
        _binding(command, command.anywhere, command.id + ANYWHERE, priority=True)
        for command in COMMANDS.values()
    ]


def _binding(command: Command, keys: str, id: str, number: str = "", priority: bool = False) -> Binding:
    """A command without keys has a name that no key has: a keymap changes bindings and adds none."""
    action = f"screen.run('{command.id}'{number})"
    return Binding(keys or f"{_NO_KEY}{id}", action, command.title, show=False, priority=priority, id=id)


def keymap(kind: str, own: Mapping[str, str]) -> dict[str, str]:
    """Keys by the id of a binding: those of the keymap ``kind``, and above them the writer's ``own``.

    One of the writer's own that never types a character works with any focus, too.
    """
    usual = {c.id: c.vim for c in COMMANDS.values() if c.vim} if kind == "vim" else {}
    found: dict[str, str] = {}
    for id, keys in (usual | {id: keys for id, keys in own.items() if keys}).items():
        given = _split(keys)
        if id in COMMANDS and COMMANDS[id].numbered:
            found.update({f"{id}.{number}": key for number, key in enumerate(given, 1)})
        else:
            found[id] = ",".join(given)
        if controls := [key for key in given if is_control(key)]:
            found[id + ANYWHERE] = ",".join(controls)
    return found


def meanings(bindings: Sequence[BindingType], keymap: Mapping[str, str]) -> dict[str, Binding]:
    """What each key does that ``bindings`` really have under a keymap."""
    known = BindingsMap(bindings)
    known.apply_keymap(dict(keymap))
    return {key: some[-1] for key, some in known.key_to_bindings.items() if not key.startswith(_NO_KEY)}


def keys_by_command(bindings: Sequence[BindingType], keymap: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys of commands that ``bindings`` really have under a keymap."""
    found: dict[str, list[str]] = defaultdict(list)
    for key, binding in meanings(bindings, keymap).items():
        found[(binding.id or "").partition(".")[0]].append(key)
    return found


def is_control(key: str) -> bool:
    """True for a key that never types a character."""
    function_key = len(key) > 1 and key[0] == "f" and key[1:].isdigit()
    return key.startswith("ctrl+") or function_key or key == "escape"


def _split(keys: str) -> list[str]:
    """The names of keys, written out: ``question_mark`` for ``?``."""
    names = [key.strip() for key in keys.split(",")]
    bindings = Binding.make_bindings([Binding(name, "", "") for name in names if name])
    return [binding.key for binding in bindings]
