"""``srbwriter lines``: the line protocol on standard input and output, for programs that start this one."""

from __future__ import annotations

import argparse
import contextlib

from srbwriter import launch
from srbwriter.cli import serve
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_keys
from srbwriter.cli.models import fetch_named_model
from srbwriter.config import Settings, Table

DESCRIPTION = """\
Hold a conversation in lines of text on standard input and output: commands in, KV and OUTPUT lines out.

  srbwriter lines
  printf 'PROMPT Once upon a time,\\n' | srbwriter lines --temp 0.9
  srbwriter lines --preload persona.txt --reverse-prompt "User:"

A server with --tcp speaks the same over TCP; docs/lines.md has the commands."""

_OF_SERVER = (serve.PRELOAD, serve.ALIAS, serve.CONTEXT_SHIFT)


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter lines [options]"
    add_keys(parser, table, ("generation", "sampling", "model", "log"), _OF_SERVER)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.server.lines import run_standard
    from srbwriter.server.settings import ServerError

    fetch_named_model(settings)
    with contextlib.closing(launch.loader(settings, notify=say)) as loader:
        try:
            options = serve.server_settings(settings)
            loader.start()
            return run_standard(loader, options)
        except ServerError as error:
            raise Failure(str(error), Exit.USAGE) from error
