"""Command-line flags, made from the table of configuration keys."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, cast

from srbwriter.cli.exits import Exit, Failure
from srbwriter.config import Key, Table, keys
from srbwriter.config.keys import RETIRED, SECTIONS
from srbwriter.config.kinds import ADDRESS, SWITCH, TEXTS

OTHER_SPELLINGS = {
    "--slots-endpoint-disable": ("server.slots", False),
    "--log-disable": ("server.access_log", False),
}
"""Flags of llama-server that are equivalent to one of ours, with its key and value."""

MEANINGLESS = ("--cont-batching", "-cb", "--no-mmproj")
"""Flags of llama-server for behaviour that is always on here."""


class Foreign(NamedTuple):
    """Flags of llama.cpp that set nothing: refused, or with ``values`` after them accepted with a message."""

    flags: tuple[str, ...]
    words: str
    values: int | None = None


FOREIGN = (
    Foreign(
        ("--lora-base",),
        "llama.cpp no longer takes a base model for LoRA; apply the adapter to the model it was trained on",
    ),
    Foreign(
        ("--grp-attn-n", "-gan", "--grp-attn-w", "-gaw"),
        "self-extend moves cached cells, and branches share theirs; use a model with a longer context, and "
        "--ctx-size",
    ),
    Foreign(
        ("--mmproj", "-mm", "--mmproj-url", "-mmu"),
        "this program reads text only, so a projector for images or sound has nothing to do; leave it out",
    ),
)
FOREIGN_OF_SERVERS = (
    Foreign(("--no-cont-batching", "-nocb"), "requests of all clients are always batched", 0),
    Foreign(("--threads-http",), "one event loop serves every connection; the number is not used", 1),
    Foreign(
        ("--embedding", "--embeddings"), "requests for embeddings are always answered, beside all others", 0
    ),
    Foreign(("--rerank", "--reranking"), "texts are not ranked here; llama-server does that", 0),
)


class Parser(argparse.ArgumentParser):
    """A parser of the program. Values that a flag does not take are collected in ``problems`` of its result.

    Flags in ``elsewhere`` belong to other commands. Nothing is abbreviated; text is laid out as written.
    """

    def __init__(self, prog: str, description: str = "", epilog: str = "", **options: Any) -> None:
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=32),
            allow_abbrev=False,
            **options,
        )
        self.elsewhere: Collection[str] = ()

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse a command line. Raises Failure where argparse cannot go on, such as at a missing value."""
        arguments = argparse.Namespace(problems=(), remarks=())
        arguments, rest = self.parse_known_args(list(words), arguments)
        for before, word in zip(["", *rest], rest, strict=False):
            if word.startswith("-"):
                flag = word.partition("=")[0]
                unknown = f"unknown flag {flag} — `{self.prog} --help` lists those there are"
                not_here = f"`{self.prog}` does not take {flag} — leave it out"
                arguments.problems += (not_here if flag in self.elsewhere else unknown,)
            elif not before.startswith("-"):  # else it may be the value of an unknown flag
                arguments.problems += (
                    f"{word!r} is one word too many — `{self.prog} --help` shows the usage",
                )
        return arguments

    def keys_of_flags(self) -> Iterator[tuple[argparse.Action, Key[Any]]]:
        """Yield the flags that set settings, with the setting of each."""
        for action in self._actions:
            if isinstance(action, _Store):
                yield action, action.key

    def error(self, message: str) -> NoReturn:
        error = sys.exc_info()[1]
        named = (error.argument_name or "") if isinstance(error, argparse.ArgumentError) else ""
        flag = named.partition("/")[0]
        action = self._option_string_actions.get(flag)
        if isinstance(action, _Store):
            message = f"{flag}: its value is missing: expected {action.key.expected}"
        if needed := re.fullmatch(r"the following arguments are required: (.+)", message):
            message = f"{needed[1]} {'are' if ',' in needed[1] else 'is'} missing"
        if found := re.fullmatch(r"argument (.+?): invalid choice: ('.*') \(choose from (.+)\)", message):
            message = f"{found[1]}: {found[2]}: expected one of {found[3].replace(chr(39), '')}"
        message = message.removeprefix("argument ")
        raise Failure(f"{message} — `{self.prog} --help` shows the usage", Exit.USAGE)


def joined(argv: Sequence[str]) -> list[str]:
    """Rewrite flags of llama-server with a variable number of values into the form that is parsed here."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        flag, *rest = rest
        words.append(flag)
        if flag == _SCALED and len(rest) > 1 and re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", rest[1]):
            words.append(f"{rest[0]}:{rest[1]}")
            rest = rest[2:]
        elif flag in keys.NUMA.flags and (not rest or rest[0] not in keys.NUMA.kind.choices):
            words.append(keys.NUMA.kind.choices[0])
    return words


_SCALED = keys.LORA.flags[1]


def add_actions(target: argparse.ArgumentParser) -> Callable[..., argparse.ArgumentParser]:
    """Return what adds an action to a command: its name, a one-line summary, and more for ``--help``.

    The one that was chosen is ``arguments.action``, as in ``srbwriter models use``.
    """
    group = target.add_subparsers(
        dest="action", metavar="ACTION", title="actions, each with a --help", parser_class=Parser
    )

    def add(name: str, summary: str, more: str = "") -> argparse.ArgumentParser:
        description = f"{summary[0].upper()}{summary[1:]}.\n\n{more}".rstrip()
        return group.add_parser(name, help=summary, description=description)

    return add


def exit_codes() -> str:
    return "exit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in Exit)


def add_keys(
    target: argparse.ArgumentParser, table: Table, sections: Collection[str], more: Sequence[Key[Any]] = ()
) -> None:
    """Add the flags of ``sections`` (a titled group for each), the keys in ``more``, and refused flags."""
    # A value that is not on the command line may come from elsewhere, so flags have no defaults here.
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
    for section in sections:
        group = target.add_argument_group(SECTIONS[section])
        for key in table:  # keys of late sections have no flags
            if key.section == section and key.flags:
                _add_key(group, key)
    for key in more:
        _add_key(target, key)
    for flag, (name, value) in OTHER_SPELLINGS.items():
        if name in table and table[name].section in sections:
            target.add_argument(flag, dest=name, action="store_const", const=value, **hidden)
    target.add_argument(*MEANINGLESS, action="store_true", help=argparse.SUPPRESS)
    retired = (Foreign(row.flags, row.notice, row.values) for row in RETIRED if row.section in sections)
    of_servers = FOREIGN_OF_SERVERS if "server" in sections else ()
    for flags, words, values in (*FOREIGN, *of_servers, *retired):
        if flags:
            dest, nargs = ("problems", "?") if values is None else ("remarks", values)
            target.add_argument(*flags, dest=dest, action=_Say, nargs=nargs, const=words, **hidden)


def chosen(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """Return the settings that were given as flags, by key name."""
    return {name: value for name, value in vars(arguments).items() if name in table}


def _add_key(group: Any, key: Key[Any]) -> None:
    words, default = key.help + (f": {', '.join(key.kind.choices)}" if key.kind.choices else ""), key.default
    if default not in (None, (), ""):
        shown = {True: "yes", False: "no"}.get(default) if isinstance(default, bool) else str(default)
        if isinstance(default, tuple):
            shown = " ".join(map(repr, cast("tuple[Any, ...]", default)))
        words += f" (default {shown})"
    options: dict[str, Any] = {"dest": key.name, "default": argparse.SUPPRESS}
    options["help"] = words.replace("%", "%%")
    if key.kind is SWITCH:
        group.add_argument(*key.flags, action=argparse.BooleanOptionalAction, **options)
    else:
        group.add_argument(*key.flags, key=key, action=_Store, metavar=key.kind.metavar, **options)


class _Store(argparse.Action):
    """Stores the value of a key's flag, or why it is invalid. Texts add up; a second model is refused."""

    def __init__(self, key: Key[Any], **options: Any) -> None:
        self.key = key
        super().__init__(**options)

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest, None)
        problem = self.key.complaint(values)
        try:
            value = self.key.read_text(values)
        except ValueError:
            namespace.problems = (*getattr(namespace, "problems", ()), f"{option} {problem}")
            return
        if before is not None and (self.key is keys.MODEL or self.key.kind is ADDRESS):
            problem = f"{option} '{before}' and '{values}': expected {self.key.expected}"
            namespace.problems = (*getattr(namespace, "problems", ()), problem)
        setattr(namespace, self.dest, (*(before or ()), *value) if self.key.kind is TEXTS else value)


class _Say(argparse.Action):
    """Collects the message about a flag that sets nothing."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), f"{option}: {self.const}"))
