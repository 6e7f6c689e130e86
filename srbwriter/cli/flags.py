"""Command-line flags, made from the table of configuration keys."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn, cast

from srbwriter.cli.exits import Exit, Failure
from srbwriter.config import Key, Table
from srbwriter.config.keys import SECTIONS
from srbwriter.config.kinds import SWITCH, TEXTS

WITHOUT_EFFECT = (
    (("--cont-batching", "-cb", "--no-cont-batching", "-nocb"), "all requests are batched", 0),
    (("--threads-http",), "one event loop serves every connection; the number is not used", 1),
    (("--embedding", "--embeddings"), "requests for embeddings are always answered, beside all others", 0),
    (("--rerank", "--reranking"), "texts are not ranked here; llama-server does that", 0),
)
"""Flags of llama-server that its scripts give and that set nothing here: why, and how many words follow."""


class Parser(argparse.ArgumentParser):
    """A parser of the program. Nothing is abbreviated; text is laid out as written; errors are Failures."""

    def __init__(self, prog: str, description: str = "", epilog: str = "", **options: Any) -> None:
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=32),
            allow_abbrev=False,
            **options,
        )
        self.set_defaults(remarks=())

    def every_argument(self) -> Iterator[argparse.Action]:
        """Yield its arguments, and those of the commands below it."""
        for action in self._actions:
            yield action
            if action.nargs == argparse.PARSER:
                for below in cast("dict[str, Parser]", action.choices).values():
                    yield from below.every_argument()

    def error(self, message: str) -> NoReturn:
        problem = message.removeprefix("argument ")
        raise Failure(f"{problem} — `{self.prog} --help` shows the usage", Exit.USAGE)


def add_actions(target: argparse.ArgumentParser) -> Callable[[str, str], argparse.ArgumentParser]:
    """Return what adds an action to a command, which ``arguments.action`` is then: a name and a summary."""
    group = target.add_subparsers(
        dest="action", metavar="ACTION", title="actions, each with a --help", parser_class=Parser
    )

    return lambda name, summary: group.add_parser(name, help=summary, description=summary)


def exit_codes() -> str:
    return "exit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in Exit)


def add_keys(target: argparse.ArgumentParser, table: Table, sections: Collection[str]) -> None:
    """Add the flags of ``sections``, a titled group for each, and those of them that have no effect."""
    for section in sections:
        group = target.add_argument_group(SECTIONS[section])
        for key in table:  # keys of late sections have no flags
            if key.section == section and key.flags:
                _add_key(group, key)
        if section == "model":
            words = "address of a model file, which is fetched if it is not here"
            group.add_argument("--model-url", "-mu", metavar="URL", help=words)
    for flags, words, values in WITHOUT_EFFECT if "server" in sections else ():
        target.add_argument(
            *flags, dest="remarks", action=_Say, nargs=values, const=words, help=argparse.SUPPRESS,
            default=argparse.SUPPRESS,
        )  # fmt: skip


def chosen(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """Return the settings that were given as flags, by key name."""
    given = {name: value for name, value in vars(arguments).items() if name in table}
    return {name: tuple(value) if table[name].kind is TEXTS else value for name, value in given.items()}


def default_text(key: Key[Any]) -> str:
    """Return the default of a setting as config.toml has it; "" if it has none."""
    value = key.default
    if isinstance(value, tuple):
        return str(list(cast("tuple[Any, ...]", value))).replace("'", '"') if value else ""
    if isinstance(value, str):
        return f'"{value}"' if value else ""
    return "" if value is None else str(value).lower()  # a number, or true or false


def spellings(key: Key[Any]) -> tuple[str, ...]:
    """Return the flags of a setting, also those that switch it off."""
    negations = [f"--no-{flag[2:]}" for flag in key.flags if key.kind is SWITCH and flag.startswith("--")]
    return (*key.flags, *negations)


def _add_key(group: Any, key: Key[Any]) -> None:
    def read(text: str) -> Any:
        try:
            return key.read_text(text)
        except ValueError:
            raise argparse.ArgumentTypeError(key.complaint(text)) from None

    words = key.help + (f": {', '.join(key.kind.choices)}" if key.kind.choices else "")
    words += f" (default {default})" if (default := default_text(key)) else ""
    # A value that is not on the command line may come from elsewhere, so flags have no defaults here.
    options: dict[str, Any] = {"dest": key.name, "default": argparse.SUPPRESS}
    options["help"] = words.replace("%", "%%")
    if key.kind is SWITCH:
        group.add_argument(*key.flags, action=argparse.BooleanOptionalAction, **options)
    else:
        action = "extend" if key.kind is TEXTS else "store"  # texts add up
        group.add_argument(*key.flags, type=read, action=action, metavar=key.kind.metavar, **options)


class _Say(argparse.Action):
    """Collects the message about a flag that sets nothing."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        namespace.remarks = (*namespace.remarks, f"{option}: {self.const}")
