"""``srbwriter write``: prints branches of one prompt to standard output, for pipes and plain terminals."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from srbwriter import launch
from srbwriter.cli.columns import document
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_keys
from srbwriter.config import Settings, Table, keys

if TYPE_CHECKING:
    from srbwriter.engine.generation import Cursor, Generation

_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def write_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter write [PROMPT] [options]"
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="?", default="-",
        help="text to continue; - or nothing reads standard input, less one newline at its end",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document when all is written")
    add_keys(parser, table, ("generation", "sampling", "instruments", "model", "log"))


def run_write(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Write branches of a prompt to standard output, the first one as it is written.

      srbwriter write "Once upon a time," -n 4
      srbwriter write "It was a dark night" -n 1 --boundary paragraph
      cat chapter.txt | srbwriter write -n 3 --json --seed 7
    """
    from srbwriter.engine.types import Request

    prompt = _read_prompt(arguments.prompt)
    settings = launch.suit_model(settings)
    sampling = launch.sampling(settings)
    request = Request(prompt, n=launch.branches(settings), sampling=sampling, stop=launch.stop(settings))
    if sys.stderr.isatty() and (hint := launch.model_hint(settings)):
        say(hint)
    with contextlib.closing(launch.loader(settings, notify=say)) as loader:
        engine = loader.wait()
        together = launch.draw_together(settings[keys.SIBLINGS], [sampling], engine.capabilities)
        generation = engine.submit(replace(request, **together))
        try:
            if not arguments.json:
                print_branches(generation, sys.stdout)
            generation.wait()
        except BaseException:
            generation.cancel()
            raise
        if arguments.json:
            branches = [
                {
                    "index": branch.index, "text": branch.text, "finish_reason": branch.finish_reason,
                    "tokens": len(branch.ids), "seed": branch.seed,
                }
                for branch in generation.branches
            ]  # fmt: skip
            name = launch.model_name(engine.info)
            print(document({"prompt": prompt, "model": name, "branches": branches}))
    return Exit.OK


def _read_prompt(argument: str) -> str:
    """Return the prompt argument, or all of standard input if it is ``-``.

    One newline at the end of piped text is removed, because the shell added it: models continue a finished
    line quite differently from an open one.
    """
    if argument == "-" and sys.stdin.isatty():
        raise Failure("there is no prompt: give one, or pipe one in", Exit.USAGE)
    try:
        prompt = argument if argument != "-" else sys.stdin.read().removesuffix("\n")
        prompt.encode()  # Python turns invalid bytes in an argument into lone surrogates
    except UnicodeError:
        raise Failure("the prompt is not UTF-8 text", Exit.USAGE) from None
    return prompt


def print_branches(generation: Generation, out: TextIO) -> None:
    """Print branches one after another: the first while it is written, the others when it has ended."""
    # A model can write escape sequences; a terminal would obey them, a file keeps the exact text.
    hidden = _CONTROL if out.isatty() else {}
    branches = generation.branches
    current, cursor = 0, None
    for _ in generation:
        while current < len(branches):
            branch, begun = branches[current], cursor is not None
            ended = not branch.live  # checked before reading, so that the last words are not missed
            if not begun and len(branches) > 1:
                print(f"{chr(10) if current else ''}--- {current + 1} of {len(branches)} ---", file=out)
            delta = branch.read(cursor)
            cursor: Cursor | None = delta.cursor
            out.write(delta.text.translate(hidden))
            out.flush()
            if not ended:
                break
            print(file=out, flush=True)
            current, cursor = current + 1, None
