"""``srbwriter``: the terminal app, or with ``--serve`` the HTTP server. Chooses the face and hands over."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from srbwriter import __version__
from srbwriter.cli import serve
from srbwriter.cli.commands import COMMANDS
from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.flags import add_keys
from srbwriter.config import Settings, Table
from srbwriter.config.keys import SECTIONS

DESCRIPTION = """\
Write a story with many live branches of a language model on your own machine.

  srbwriter                                   open the terminal app with the bundled model
  srbwriter -m novelist.gguf --n 6            six branches from a model of your own
  srbwriter --serve --port 9090               serve the same engine over HTTP
  srbwriter write "Once upon a time," -n 4    write four branches to standard output"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter [STORY] [options]\n       srbwriter COMMAND [options]"
    parser.add_argument("story", metavar="STORY", nargs="?", type=Path, default=None, help="story to open")
    parser.add_argument("--serve", action="store_true", help="serve over HTTP instead of opening the app")
    parser.add_argument("--version", action="version", version=f"srbwriter {__version__}")
    add_keys(parser, table, SECTIONS)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    story: Path | None = arguments.story
    if story is not None and str(story) in COMMANDS:
        raise Failure(f"the command comes first: srbwriter {story} …", Exit.USAGE)
    if getattr(arguments, "serve", False):
        return _serve(story, settings)
    if any(settings.source(key) == "flag" for key in serve.OPTIONS):
        raise Failure("--host, --port and other flags of the server go with --serve", Exit.USAGE)
    return _open(story, settings)


def _serve(story: Path | None, settings: Settings) -> int:
    if story is not None:
        raise Failure(f"--serve takes no story, but {story} was given", Exit.USAGE)
    return serve.run(settings)


def _open(story: Path | None, settings: Settings) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("the app needs a terminal; without one there are `srbwriter write` and --serve")
    from srbwriter import tui
    from srbwriter.story import StoryError

    try:
        return tui.run(settings, story)
    except StoryError as error:
        raise Failure(str(error)) from error
