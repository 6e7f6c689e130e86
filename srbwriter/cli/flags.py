"""Command-line flags, made from the table of configuration keys."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from srbwriter.cli.exits import Exit
from srbwriter.config import Key, Table, keys
from srbwriter.config.keys import RETIRED, SECTIONS
from srbwriter.config.kinds import ADDRESS, SWITCH, TEXTS

REFUSED = {
    ("--lora-base",): (
        "llama.cpp no longer takes a base model for LoRA; apply the adapter to the model it was trained on"
    ),
    ("--grp-attn-n", "-gan", "--grp-attn-w", "-gaw"): (
        "self-extend moves cached cells, and branches share theirs; "
        "use a model with a longer context, and --ctx-size"
    ),
    ("--mmproj", "-mm", "--mmproj-url", "-mmu"): (
        "this program reads text only, so a projector for images or sound has nothing to do; leave it out"
    ),
}
"""Flags of llama.cpp that are refused rather than ignored, with the reason."""


OTHER_SPELLINGS = {
    "--slots-endpoint-disable": ("server.slots", False),
    "--log-disable": ("server.access_log", False),
}
"""Flags of llama-server that are equivalent to one of ours, with its key and value."""

MEANINGLESS = ("--cont-batching", "-cb", "--no-mmproj")
"""Flags of llama-server for behaviour that is always on here."""


class Remark(NamedTuple):
    """The message about a flag of llama-server that is accepted without effect."""

    arguments: int
    sentence: str


REMARKS = {
    ("--no-cont-batching", "-nocb"): Remark(0, "requests of all clients are always batched"),
    ("--threads-http",): Remark(1, "one event loop serves every connection; the number is not used"),
    ("--embedding", "--embeddings"): Remark(
        0, "requests for embeddings are always answered, beside all others"
    ),
    ("--rerank", "--reranking"): Remark(0, "texts are not ranked here; llama-server does that"),
}
"""Flags of llama-server that are accepted without effect, with the message about each."""


_HIDDEN = argparse.SUPPRESS


class Parser(argparse.ArgumentParser):
    """An argument parser that collects all errors in ``problems`` instead of exiting at the first one."""

    def __init__(self, problems: list[str] | None = None, **options: Any) -> None:
        self.problems: list[str] = [] if problems is None else problems
        self.elsewhere: Collection[str] = ()  # flags of other commands
        self._needed: list[argparse.Action] = []
        super().__init__(**options)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse a command line as far as possible; errors are added to ``problems``."""
        left, stops = list(words), list[str]()
        while True:
            self.problems.clear()
            arguments = argparse.Namespace()
            try:
                self.parse_known_args(left, arguments)
            except _Stop as stop:
                stops.append(str(stop))
                before, left = left, stop.without(left)
                if left != before:
                    continue
            self.problems[:0] = stops
            return arguments

    def flags_of_keys(self) -> dict[argparse.Action, Key[Any]]:
        """Return the flags that set settings, with the setting of each."""
        found = self._option_string_actions.values()
        return {action: action.key for action in found if isinstance(action, _Store)}

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument; a missing required argument is reported together with all other errors."""
        action = super().add_argument(*names, **options)
        if action.required:
            self._needed.append(action)
            action.required = False
        return action

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]: it has overloads
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Parse the known arguments. Report all other words as problems; nothing is returned as unparsed."""
        arguments, rest = super().parse_known_args(args, namespace)
        for before, word in zip(["", *rest], rest, strict=False):
            if word.startswith("-"):
                self.problems.append(self._unknown(word.partition("=")[0]))
            elif not before.startswith("-"):  # else it may be the value of an unknown flag
                self.problems.append(f"{word!r} is one word too many — `{self.prog} --help` shows the usage")
        for action in self._needed:
            if getattr(arguments, action.dest, None) is None:
                cure = f"`{self.prog} --help` shows the usage"
                self.problems.append(f"{action.metavar or action.dest} is missing: {action.help} — {cure}")
        return arguments, []

    def _unknown(self, flag: str) -> str:
        if flag in self.elsewhere:
            return f"`{self.prog}` does not take {flag} — leave it out"
        return f"unknown flag {flag} — `{self.prog} --help` lists those there are"

    def error(self, message: str) -> NoReturn:
        """Stop parsing where argparse cannot continue, such as at a flag without a value."""
        error = sys.exc_info()[1]
        named = (error.argument_name or "") if isinstance(error, argparse.ArgumentError) else ""
        flags = [name for name in named.split("/") if name.startswith("-")]
        action = self._option_string_actions.get(flags[0]) if flags else None
        if isinstance(action, _Store):
            message = f"{flags[0]}: its value is missing: expected {action.key.expected}"
        if found := _CHOICE.fullmatch(message):
            name, word, listed = found.groups()
            message = f"{name}: {word!r}: expected one of {listed.replace(chr(39), '')}"
        raise _Stop(message.removeprefix("argument "), flags)


_CHOICE = re.compile(r"argument (.+?): invalid choice: '(.*)' \(choose from (.+)\)", re.DOTALL)
"""The message of argparse for a word that is not an action of a command."""


class _Stop(Exception):  # noqa: N818
    """Raised where argparse cannot continue."""

    def __init__(self, message: str, flags: Sequence[str]) -> None:
        self._flags = flags
        super().__init__(message)

    def without(self, words: Sequence[str]) -> list[str]:
        """Return ``words`` without the flags that lack their values."""
        after = [*words[1:], "-"]
        pairs = zip(words, after, strict=True)
        return [word for word, then in pairs if not (word in self._flags and then.startswith("-"))]


def parser(program: str, description: str, epilog: str = "") -> Parser:
    """Return a parser with the house style: no abbreviated flags, text laid out as written."""
    made = Parser(
        prog=program,
        description=description,
        epilog=epilog,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    made.set_defaults(remarks=())  # messages about flags without effect
    return made


def joined(argv: Sequence[str]) -> list[str]:
    """Rewrite flags of llama-server with a variable number of values into the form that is parsed here."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        flag, *rest = rest
        words.append(flag)
        if flag in _FILE_AND_SCALE and len(rest) > 1 and _is_number(rest[1]):
            words.append(f"{rest[0]}:{rest[1]}")
            rest = rest[2:]
        elif flag == _LAYERS and len(rest) > 1 and rest[0].isdecimal() and rest[1].isdecimal():
            words.append(f"{rest[0]},{rest[1]}")
            rest = rest[2:]
        elif flag == _NUMA and (not rest or rest[0] not in keys.NUMA.kind.choices):
            words.append(keys.NUMA.kind.choices[0])
    return words


_FILE_AND_SCALE = (keys.LORA.flags[1], keys.CONTROL_VECTORS.flags[1])
(_LAYERS,), (_NUMA,) = keys.CONTROL_VECTOR_LAYERS.flags, keys.NUMA.flags


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class AddAction(Protocol):
    """Adds an action to a command: its name, a one-line summary, and more text for ``--help``."""

    def __call__(self, name: str, summary: str, more: str = "", /) -> argparse.ArgumentParser: ...


def add_actions(target: argparse.ArgumentParser) -> AddAction:
    """Add actions to a command, as in ``srbwriter models add``; the chosen one is ``arguments.action``."""
    problems = target.problems if isinstance(target, Parser) else []

    class ActionParser(Parser):
        def __init__(self, **options: Any) -> None:
            super().__init__(problems, **options)

    group: Any = target.add_subparsers(
        dest="action", metavar="ACTION", title="actions, each with a --help", parser_class=ActionParser
    )

    def add(name: str, summary: str, more: str = "", /) -> argparse.ArgumentParser:
        return group.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{more}".rstrip(),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    return add


def exit_codes() -> str:
    return "exit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in Exit)


def add_keys(
    target: argparse.ArgumentParser, table: Table, sections: Collection[str], more: Sequence[Key[Any]] = ()
) -> None:
    """Add the flags of ``sections`` (a titled group for each), the keys in ``more``, and refused flags."""
    # A value that is not on the command line may come from elsewhere, so flags have no defaults here.
    for section in sections:
        group = target.add_argument_group(SECTIONS[section])
        for key in table:  # keys of late sections have no flags
            if key.section == section and key.flags:
                _add_key(group, key)
    for key in more:
        _add_key(target, key)
    for flag, (name, value) in OTHER_SPELLINGS.items():
        if name in table and table[name].section in sections:
            target.add_argument(
                flag, dest=name, action="store_const", const=value, default=argparse.SUPPRESS,
                help=_HIDDEN,
            )  # fmt: skip
    target.add_argument(*MEANINGLESS, action="store_true", help=_HIDDEN)
    if "server" in sections:
        for spellings, remark in REMARKS.items():
            target.add_argument(
                *spellings,
                dest="remarks",
                action=_Remark,
                nargs=remark.arguments,
                const=remark.sentence,
                help=_HIDDEN,
            )
    for retired in RETIRED:
        if retired.flags and retired.section in sections:
            target.add_argument(
                *retired.flags, dest="remarks", action=_Remark, nargs=retired.values, const=retired.notice,
                default=argparse.SUPPRESS, help=_HIDDEN,
            )  # fmt: skip
    for flags, reason in REFUSED.items():
        target.add_argument(*flags, nargs="?", action=_Refuse, help=_HIDDEN, const=reason)


def chosen(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """Return the settings that were given as flags, by key name."""
    return {name: value for name, value in vars(arguments).items() if name in table}


def _add_key(group: Any, key: Key[Any]) -> None:
    help_text = f"{key.help}{_extent(key)}".replace("%", "%%")
    if key.kind is SWITCH:
        switch = argparse.BooleanOptionalAction
        group.add_argument(
            *key.flags, dest=key.name, action=switch, default=argparse.SUPPRESS, help=help_text
        )
        return
    group.add_argument(
        *key.flags,
        dest=key.name,
        key=key,
        default=argparse.SUPPRESS,
        action=_Single if key is keys.MODEL else _STORES.get(key.kind, _Store),
        metavar=key.kind.metavar,
        help=help_text,
    )


def _extent(key: Key[Any]) -> str:
    """Return the choices and the default of a key, for ``--help``."""
    choices = ": " + ", ".join(key.kind.choices) if key.kind.choices else ""
    if key.default in (None, (), ""):
        return choices
    return f"{choices} (default {_shown(key.default)})"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(repr(item) for item in cast("tuple[Any, ...]", value))
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Store(argparse.Action):
    """Stores the value of a key's flag, or reports why the value is invalid."""

    def __init__(self, key: Key[Any], **options: Any) -> None:
        self.key = key
        super().__init__(**options)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        try:
            self.keep(namespace, self.key.read_text(values))
        except ValueError:
            report(parser, f"{option} {self.key.complaint(values)}")

    def keep(self, namespace: argparse.Namespace, value: Any) -> None:
        setattr(namespace, self.dest, value)


class _Collect(_Store):
    """Collects the values of a flag that may be given several times."""

    def keep(self, namespace: argparse.Namespace, value: Any) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), *value))


class _Single(_Store):
    """Accepts a flag once; a second value is an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        if hasattr(namespace, self.dest):
            both = f"'{getattr(namespace, self.dest)}' and '{values}'"
            report(parser, f"{option} {both}: expected {self.key.expected}")
        super().__call__(parser, namespace, values, option)


_STORES: dict[object, type[_Store]] = {TEXTS: _Collect, ADDRESS: _Single}


def report(parser: argparse.ArgumentParser, problem: str) -> None:
    """Add a problem to those of the command line."""
    if not isinstance(parser, Parser):
        parser.error(problem)
    parser.problems.append(problem)


class _Remark(argparse.Action):
    """Collects messages about flags without effect."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        namespace.remarks = (*getattr(namespace, "remarks", ()), f"{option}: {self.const}")


class _Refuse(argparse.Action):
    """Reports why a flag is refused."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None
    ) -> None:
        report(parser, f"{option}: {self.const}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """A help formatter with wide columns, for flags with two spellings."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
