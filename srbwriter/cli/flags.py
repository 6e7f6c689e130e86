"""Command-line flags, made from the table of configuration keys.

Knows argparse and the table; knows no command and no face.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from srbwriter.cli.exits import Exit
from srbwriter.config import Key, Table, keys
from srbwriter.config.keys import RETIRED, SECTIONS
from srbwriter.config.kinds import ADDRESSES, SWITCH, TEXTS, most_like

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
"""Flags of llama.cpp that must not be ignored silently, and why they are not taken."""


OTHER_SPELLINGS = {
    "--slots-endpoint-disable": ("server.slots", False),
    "--log-disable": ("server.access_log", False),
}
"""Flags of llama-server that say what one of ours says: the key and the value."""

MEANINGLESS = ("--cont-batching", "-cb", "--no-mmproj")
"""Flags of llama-server that ask for what is always done."""


class Remark(NamedTuple):
    """What is said at start about a flag of llama-server that is taken without effect."""

    arguments: int
    sentence: str


REMARKS = {
    ("--no-cont-batching", "-nocb"): Remark(0, "requests of all clients are always batched"),
    ("--threads-http",): Remark(1, "one event loop serves every connection; the number is not used"),
    ("--embedding", "--embeddings"): Remark(
        0, "requests for embeddings are always answered, beside all others"
    ),
    ("--rerank", "--reranking"): Remark(
        0, "requests to rank texts are always answered where the model has a head for it"
    ),
}
"""Flags of llama-server that must not stop a script written for it, and what is said about each."""


_HIDDEN = argparse.SUPPRESS


class Parser(argparse.ArgumentParser):
    """Collects what is wrong with a command line in ``problems``, instead of ending at the first of it."""

    def __init__(self, problems: list[str] | None = None, **options: Any) -> None:
        self.problems: list[str] = [] if problems is None else problems
        self.elsewhere: Collection[str] = ()  # flags that other commands take
        self._needed: list[argparse.Action] = []
        super().__init__(**options)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Read a command line, as far as it can be read; ``problems`` says what is wrong with it."""
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

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument; whether one is missing is told together with everything else."""
        action = super().add_argument(*names, **options)
        if action.required:
            self._needed.append(action)
            action.required = False
        return action

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]: it has overloads
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Parse what is known. All other words are problems, and so nothing is left of them."""
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
        shown = (name for name, action in self._option_string_actions.items() if action.help != _HIDDEN)
        near = most_like(flag, shown)
        cure = f"; did you mean {near}?" if near else f" — `{self.prog} --help` lists those there are"
        return f"unknown flag {flag}{cure}"

    def error(self, message: str) -> NoReturn:
        """Stop where argparse cannot go on, such as at a flag without its value."""
        error = sys.exc_info()[1]
        named = (error.argument_name or "") if isinstance(error, argparse.ArgumentError) else ""
        flags = [name for name in named.split("/") if name.startswith("-")]
        action = self._option_string_actions.get(flags[0]) if flags else None
        if isinstance(action, _Store):
            message = f"{flags[0]}: its value is missing: expected {action.key.expected}"
        if found := _CHOICE.fullmatch(message):
            message = _not_a_choice(*found.groups())
        raise _Stop(message.removeprefix("argument "), flags)


_CHOICE = re.compile(r"argument (.+?): invalid choice: '(.*)' \(choose from (.+)\)", re.DOTALL)
"""What argparse says of a word that is no action of a command."""


def _not_a_choice(name: str, word: str, listed: str) -> str:
    choices = [choice.strip("'") for choice in listed.split(", ")]
    near = most_like(word, choices)
    cure = f"did you mean {near}?" if near else f"expected one of {', '.join(choices)}"
    return f"{name}: {word!r}: {cure}"


class _Stop(Exception):  # noqa: N818
    """Where argparse cannot go on."""

    def __init__(self, message: str, flags: Sequence[str]) -> None:
        self._flags = flags
        super().__init__(message)

    def without(self, words: Sequence[str]) -> list[str]:
        """``words`` less the flags that lack their values."""
        after = [*words[1:], "-"]
        pairs = zip(words, after, strict=True)
        return [word for word, then in pairs if not (word in self._flags and then.startswith("-"))]


def parser(program: str, description: str, epilog: str = "") -> Parser:
    """A parser in the manner of this program: nothing abbreviated, text laid out as written."""
    made = Parser(
        prog=program,
        description=description,
        epilog=epilog or exit_codes(),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    made.set_defaults(remarks=())  # about flags that were given and have no effect
    return made


def joined(argv: Sequence[str]) -> list[str]:
    """Flags of llama-server that take two values, or one or none, in the one form that is read here."""
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
    """Adds an action of a command: its name, what it does in one line, and more about it for ``--help``."""

    def __call__(self, name: str, summary: str, more: str = "", /) -> argparse.ArgumentParser: ...


def add_actions(target: argparse.ArgumentParser) -> AddAction:
    """Give a command actions, as in ``srbwriter models add``; the chosen one is ``arguments.action``."""
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
            epilog=exit_codes(),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    return add


def exit_codes() -> str:
    return "exit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in Exit)


def add_keys(
    target: argparse.ArgumentParser, table: Table, sections: Collection[str], more: Sequence[Key[Any]] = ()
) -> None:
    """Add the flags of ``sections``, one titled group for each, of ``more``, and those that are refused."""
    # What is not given on the command line may be said elsewhere, so these have no defaults here.
    for section in sections:
        group = target.add_argument_group(SECTIONS[section])
        for key in table:  # those of late sections have no flags
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
        if retired.section in sections:
            target.add_argument(
                *retired.flags, dest="remarks", action=_Remark, nargs=retired.values, const=retired.notice,
                default=argparse.SUPPRESS, help=_HIDDEN,
            )  # fmt: skip
    for flags, reason in REFUSED.items():
        target.add_argument(*flags, nargs="?", action=_Refuse, help=_HIDDEN, const=reason)


def chosen(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """The settings given as flags, by key name."""
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
        action=_Model if key is keys.MODEL else _Collect if key.kind in (TEXTS, ADDRESSES) else _Store,
        metavar=key.kind.metavar,
        help=help_text,
    )


def _extent(key: Key[Any]) -> str:
    """The choices and the default, for ``--help``."""
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
    """Keeps the value of a key's flag, or says why it is none."""

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
    """Gathers the values of a flag that may be given several times."""

    def keep(self, namespace: argparse.Namespace, value: Any) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), *value))


class _Model(_Store):
    """The first is the model; those that are named after it are more of them for the server."""

    def keep(self, namespace: argparse.Namespace, value: Any) -> None:
        if not hasattr(namespace, self.dest):
            setattr(namespace, self.dest, value)
            return
        more = "server.more_models"
        setattr(namespace, more, (*getattr(namespace, more, ()), str(value)))


def report(parser: argparse.ArgumentParser, problem: str) -> None:
    """Add to what is wrong with the command line."""
    if not isinstance(parser, Parser):
        parser.error(problem)
    parser.problems.append(problem)


class _Remark(argparse.Action):
    """Gathers what is to be said about flags without effect."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        namespace.remarks = (*getattr(namespace, "remarks", ()), f"{option}: {self.const}")


class _Refuse(argparse.Action):
    """Says why a flag is not taken."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None
    ) -> None:
        report(parser, f"{option}: {self.const}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with room for flags of two spellings."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
