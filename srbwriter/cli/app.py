"""``srbwriter``: starts the terminal app, or with ``--serve`` the HTTP server."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys

from srbwriter.cli import serve
from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.flags import add_keys
from srbwriter.config import Settings, Table
from srbwriter.config.keys import SECTIONS
from srbwriter.version import __version__


def app_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter [STORY] [options]\n       srbwriter COMMAND [options]"
    parser.add_argument("story", metavar="STORY", nargs="?", help="story to open: title, name or file")
    add_flags(parser, table)


def add_flags(parser: argparse.ArgumentParser, table: Table) -> None:
    """Add every argument that works without a command name, except the story."""
    parser.add_argument("--serve", action="store_true", help="serve over HTTP instead of opening the app")
    parser.add_argument("--version", action="version", version=f"srbwriter {__version__}")
    add_keys(parser, table, SECTIONS)


def run_app(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Write a story with many live branches of a language model on your own machine.

      srbwriter                                   open the terminal app with the bundled model
      srbwriter orchard                           open a story by its name or its file
      srbwriter open orchard                      the same, also if a command is called so
      srbwriter -m novelist.gguf --n 6            six branches from a model of your own
      srbwriter --port 9090                       the app, and the same engine over HTTP beside it
      srbwriter --serve --port 9090               only serve over HTTP
      srbwriter write "Once upon a time," -n 4    write four branches to standard output
    """
    if arguments.serve:
        if arguments.story is not None:
            raise Failure(f"--serve takes no story, but {arguments.story} was given", Exit.USAGE)
        gc.enable()
        return serve.run(settings)
    from srbwriter.cli.completion import theme_names
    from srbwriter.cli.stories import story_to_open
    from srbwriter.tui.options import THEME

    path = None if arguments.story is None else story_to_open(arguments.story)
    if settings.source(THEME) == "flag" and settings[THEME] not in (names := theme_names()):
        problem = f"--theme: there is no theme {settings[THEME]!r} — give one of {', '.join(names)}"
        raise Failure(problem, Exit.USAGE)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("the app needs a terminal; without one there are `srbwriter write` and --serve")
    from srbwriter import tui

    served = any(settings.source(key) == "flag" for key in serve.OPTIONS)
    beside = serve.server_beside(settings) if served else None
    code = tui.run(settings, path, beside)
    # Everything is closed and on the disk. Taking apart every module, as Python does at its end, would take
    # longer than all that, with the terminal given back and no prompt in it.
    atexit.register(_end_now, code)
    return code


open_arguments, run_open = app_arguments, run_app  # for a story that is called like a command


def _end_now(code: int) -> None:
    """End the process after what its other exit handlers would do for the files that are still open."""
    import logging  # which --help need not wait for

    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
