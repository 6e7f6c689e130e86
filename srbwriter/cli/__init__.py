"""The command line: reads flags and settings, chooses the terminal app, the server or a command, and starts
it.

This is the only place where all parts of the program are put together. It makes no decisions about stories or
models, and imports no user interface, server or native library before one is needed.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

from srbwriter.cli import commands, flags
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.table import every_key
from srbwriter.config import ConfigError, Settings, keys, load

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        argv: the command line without the program's name; by default that of the process.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # no file may get a descriptor of a stream
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    gc.disable()  # what is made until a command runs, or until the app's first screen is up, is no garbage
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="surrogateescape")  # file names may be arbitrary bytes, and are printed unchanged
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            gc.enable()
            sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as head, has closed the pipe
        _drop_output()
        return Exit.OK
    except Exception as error:  # the last resort: every failure ends with a message
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _drop_output()
        return _report(error)


def _drop_output() -> None:
    """Discard the rest of the output, so that the interpreter does not complain at exit."""
    with contextlib.suppress(OSError, ValueError):  # not a file, or already closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> int:
    command = commands.COMMANDS.get(argv[0] if argv else "", commands.DEFAULT)
    brief = command is commands.DEFAULT and not {"-h", "--help", "--version"}.isdisjoint(argv)
    table = every_key(brief=brief)
    epilog = "" if command.name else f"{commands.listing()}\n\n{flags.exit_codes()}"
    parser = flags.Parser(f"srbwriter {command.name}".rstrip(), command.description, epilog)
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings file [SRBWRITER_CONFIG]")
    command.configure(parser, table)
    arguments, surplus = parser.parse_known_args(argv[1:] if command.name else argv)
    story: str | None = None if command.name else getattr(arguments, "story", None)
    if story in commands.COMMANDS:
        raise Failure(f"the command comes first: srbwriter {story} …", Exit.USAGE)
    if surplus and surplus[0].startswith("-"):
        parser.error(f"unknown flag {surplus[0]}")
    if surplus and story is not None:
        parser.error(f"no command is called {story}, and a title of several words needs quotes")
    if surplus:
        parser.error(f"{surplus[0]!r} is one word too many")
    chosen = flags.chosen(arguments, table)
    if address := getattr(arguments, "model_url", None):
        from srbwriter.cli.models import fetch

        chosen[keys.MODEL.name] = fetch(address)
    try:
        settings = load(table, chosen, os.environ, arguments.config)
    except ConfigError as error:
        if not command.examines:
            raise
        settings = load(table, chosen, {}, Path(os.devnull))
        settings.warnings = (*error.problems, *settings.warnings)
    if command.module != "app":
        gc.enable()
    if command.examines:
        return command.run(arguments, settings)
    with _log(settings, arguments.remarks):
        return command.run(arguments, settings)


@contextlib.contextmanager
def _log(settings: Settings, remarks: Sequence[str]) -> Generator[None]:
    """Open the log, and report problems with the settings that were not fatal, there and on the terminal."""
    from srbwriter import logs

    complaint = logs.start(settings[keys.LOG_LEVEL])
    for line in (*settings.warnings, *remarks, *filter(None, [complaint])):
        say(line)
        logs.log.warning("%s", line)
    try:
        yield
    except Exception as error:
        if _code(error) is None:
            logs.log.exception("%s", type(error).__name__)
        raise
    finally:
        logs.stop()


def _report(error: Exception) -> int:
    """Print what went wrong and return the exit code."""
    for line in error.problems if isinstance(error, ConfigError) else [str(error) or type(error).__name__]:
        say(line)
    code = _code(error)
    if code is None:
        from srbwriter import logs

        report = logs.write_crash_report(error)
        say("this is a defect of srbwriter" + (f"; details are in {report}" if report else ""))
    return code or Exit.ERROR


def _code(error: Exception) -> Exit | None:
    """Return the exit code of an expected error; None for a defect."""
    from srbwriter.engine.types import EngineError, ModelError
    from srbwriter.formats import FormatError
    from srbwriter.models.files import ModelsError
    from srbwriter.story import Refused, StoryError

    match error:
        case Failure():
            return error.code
        case ConfigError() | Refused():
            return Exit.USAGE
        case ModelError() | ModelsError():
            return Exit.MODEL
        case EngineError() | StoryError() | FormatError() | OSError():
            return Exit.ERROR
        case _:
            return None
