"""Command-line flags, made from the table of configuration keys.

Knows argparse and the table; knows no command and no face.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from srbwriter.cli.exits import Exit
from srbwriter.config import Key, Table, keys
from srbwriter.config.keys import RETIRED, SECTIONS
from srbwriter.config.kinds import SWITCH, TEXTS

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


def parser(program: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """A parser in the manner of this program: nothing abbreviated, text laid out as written."""
    made = argparse.ArgumentParser(
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
    group = target.add_subparsers(dest="action", metavar="ACTION", title="actions, each with a --help")

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
                help=argparse.SUPPRESS,
            )  # fmt: skip
    target.add_argument(*MEANINGLESS, action="store_true", help=argparse.SUPPRESS)
    if "server" in sections:
        for spellings, remark in REMARKS.items():
            target.add_argument(
                *spellings,
                dest="remarks",
                action=_Remark,
                nargs=remark.arguments,
                const=remark.sentence,
                help=argparse.SUPPRESS,
            )
    for retired in RETIRED:
        if retired.section in sections:
            target.add_argument(
                *retired.flags, dest="remarks", action=_Remark, nargs=retired.values, const=retired.notice,
                default=argparse.SUPPRESS, help=argparse.SUPPRESS,
            )  # fmt: skip
    for flags, reason in REFUSED.items():
        target.add_argument(*flags, nargs="?", action=_Refuse, help=argparse.SUPPRESS, const=reason)


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
        type=_reader(key),
        default=argparse.SUPPRESS,
        action=_Model if key is keys.MODEL else _Collect if key.kind is TEXTS else "store",
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


def _reader(key: Key[Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return key.read_text(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {key.expected}") from None

    return read


class _Collect(argparse.Action):
    """Gathers the values of a flag that may be given several times."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), *values))


class _Model(argparse.Action):
    """The first is the model; those that are named after it are more of them for the server."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        if not hasattr(namespace, self.dest):
            setattr(namespace, self.dest, values)
            return
        more = "server.more_models"
        setattr(namespace, more, (*getattr(namespace, more, ()), str(values)))


class _Remark(argparse.Action):
    """Gathers what is to be said about flags without effect."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        namespace.remarks = (*getattr(namespace, "remarks", ()), f"{option}: {self.const}")


class _Refuse(argparse.Action):
    """Ends the program with the reason why a flag is not taken."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None
    ) -> NoReturn:
        parser.error(f"{option}: {self.const}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with room for flags of two spellings."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
