"""``srbwriter write``: prints branches of one prompt to standard output, for pipes and plain terminals."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from srbwriter import launch
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_keys
from srbwriter.cli.models import fetch_named_model
from srbwriter.config import Settings, Table, keys

if TYPE_CHECKING:
    from srbwriter.engine.generation import Branch, Cursor, Generation

DESCRIPTION = """\
Write branches of a prompt to standard output, the first one as it is written.

  srbwriter write "Once upon a time," -n 4
  srbwriter write "It was a dark night" -n 1 --boundary paragraph
  cat chapter.txt | srbwriter write -n 3 --json --seed 7"""

_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter write [PROMPT] [options]"
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        default="-",
        help="text to continue; - or nothing reads standard input, less one newline at its end",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document when all is written")
    add_keys(parser, table, ("generation", "sampling", "instruments", "model", "log"))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.engine.types import Request

    prompt = _prompt(arguments.prompt, sys.stdin)
    fetch_named_model(settings)
    settings = launch.suit_model(settings)
    sampling = launch.sampling(settings)
    request = Request(
        prompt=prompt, n=launch.branches(settings), sampling=sampling, stop=launch.stop(settings)
    )
    if sys.stderr.isatty() and (hint := launch.model_hint(settings)):
        say(hint)
    with contextlib.closing(launch.loader(settings, notify=say)) as loader:
        engine = loader.wait()
        together = launch.draw_together(settings[keys.SIBLINGS], [sampling], engine.capabilities)
        generation = engine.submit(replace(request, **together))
        try:
            if not arguments.json:
                _Printer(generation, sys.stdout).follow()
            generation.wait()
        except BaseException:
            generation.cancel()
            raise
        if arguments.json:
            _print_json(prompt, engine.info.name, generation)
    return Exit.OK


def _prompt(argument: str, source: TextIO) -> str:
    """Return the prompt argument, or all of ``source`` if it is ``-``.

    One newline at the end of piped text is removed, because the shell added it: models continue a finished
    line quite differently from an open one.
    """
    try:
        prompt = argument if argument != "-" else _all_of(source)
        prompt.encode()  # Python turns invalid bytes in an argument into lone surrogates
    except UnicodeError:
        raise Failure("the prompt is not UTF-8 text", Exit.USAGE) from None
    return prompt


def _all_of(source: TextIO) -> str:
    if source.isatty():
        raise Failure("there is no prompt: give one, or pipe one in", Exit.USAGE)
    return source.read().removesuffix("\n")


def _print_json(prompt: str, model: str, generation: Generation) -> None:
    branches = [
        {
            "index": branch.index,
            "text": branch.text,
            "finish_reason": branch.finish_reason,
            "tokens": len(branch.ids),
            "seed": branch.seed,
        }
        for branch in generation.branches
    ]
    document = {"prompt": prompt, "model": model, "branches": branches}
    print(json.dumps(document, ensure_ascii=False, indent=2))


class _Printer:
    """Prints branches one after another: the first while it is written, the others when it has ended."""

    def __init__(self, generation: Generation, out: TextIO) -> None:
        self._generation = generation
        self._out = out
        # A model can write escape sequences; a terminal would obey them, a file keeps the exact text.
        self._hidden = _CONTROL if out.isatty() else {}
        self._current = 0
        self._cursor: Cursor | None = None

    def follow(self) -> None:
        """Print until every branch is done."""
        for _ in self._generation:
            self._catch_up()

    def _catch_up(self) -> None:
        branches = self._generation.branches
        while self._current < len(branches):
            branch = branches[self._current]
            ended = not branch.live  # checked before reading, so that the last words are not missed
            self._print_new_text(branch)
            if not ended:
                return
            print(file=self._out, flush=True)
            self._current, self._cursor = self._current + 1, None

    def _print_new_text(self, branch: Branch) -> None:
        if self._cursor is None and len(self._generation.branches) > 1:
            gap = "\n" if branch.index else ""
            print(f"{gap}--- {branch.index + 1} of {len(self._generation.branches)} ---", file=self._out)
        delta = branch.read(self._cursor)
        self._cursor = delta.cursor
        self._out.write(delta.text.translate(self._hidden))
        self._out.flush()
