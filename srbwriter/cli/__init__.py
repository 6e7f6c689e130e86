"""The command line: the only place where the program is put together.

Reads flags and settings, picks a face and hands over. It decides nothing about stories or models, and
it loads no interface, server or native library before one is needed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from srbwriter import paths
from srbwriter.cli import commands, flags
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.table import every_key, overview
from srbwriter.config import ConfigError, Settings, Table, keys, load

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code.

    Args:
        argv: the command line without the program's name; that of the process by default.
    """
    _open_missing_streams()
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="surrogateescape")  # names of files may be any bytes, and are printed so
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read the output has read enough
        _drop_output()
        return Exit.OK
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:
            _drop_output()
            say("the output could not be written: the disk is full — free some space, or write it elsewhere")
            return Exit.ERROR
        return _report(error)
    except Exception as error:  # the last line of defence: every failure ends in words
        return _report(error)


def _open_missing_streams() -> None:
    """Send a standard stream that the caller has closed nowhere: Python has None in its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # nor does a file get its number
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _drop_output() -> None:
    """Send what is left of the output nowhere, or the interpreter complains while it shuts down."""
    with contextlib.suppress(OSError, ValueError):  # it is no file, or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> int:
    named = argv[0] if argv else ""
    command = commands.COMMANDS.get(named, commands.DEFAULT)
    face = command.load()
    program = f"srbwriter {command.name}".rstrip()
    brief = command is commands.DEFAULT and not {"-h", "--help", "--version"}.isdisjoint(argv)
    keys_of_all = overview() if brief else every_key()
    epilog = "" if command.name else f"{commands.listing()}\n\n"
    parser = flags.parser(program, face.DESCRIPTION, epilog + flags.exit_codes())
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings file [SRBWRITER_CONFIG]")
    parser.elsewhere = [flag for key in keys_of_all for flag in key.flags]
    face.configure(parser, keys_of_all)
    arguments = parser.read(flags.joined(argv[1:] if command.name else argv))
    if not command.name and (story := getattr(arguments, "story", None)) in commands.COMMANDS:
        raise Failure(f"the command comes first: srbwriter {story} …", Exit.USAGE)
    said = flags.chosen(arguments, keys_of_all)
    if command.examines and not parser.problems:
        return face.run(arguments, _settings_anyway(keys_of_all, said, arguments.config))
    settings = load(keys_of_all, said, os.environ, arguments.config, parser.problems)
    with _log(settings, arguments.remarks):
        return face.run(arguments, settings)


def _settings_anyway(table: Table, said: Mapping[str, Any], file: Path | None) -> Settings:
    """The settings; without the file and the variables, and with warnings, where those cannot be used."""
    try:
        return load(table, said, os.environ, file)
    except ConfigError as error:
        settings = load(table, said, {}, Path(os.devnull))
        settings.warnings = (*error.problems, *settings.warnings)
        return settings


@contextlib.contextmanager
def _log(settings: Settings, remarks: Sequence[str]) -> Generator[None]:
    """Keep a log, and say what was wrong with settings that did not stop us, there and on the terminal."""
    from srbwriter import logs

    paths.tighten_folders()
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
    """Say what went wrong, and return the exit code for it."""
    for line in error.problems if isinstance(error, ConfigError) else [str(error) or type(error).__name__]:
        say(line)
    code = _code(error)
    if code is None:
        from srbwriter import logs

        report = logs.write_crash_report(error)
        say("this is a defect of srbwriter" + (f"; details are in {report}" if report else ""))
    return code or Exit.ERROR


def _code(error: Exception) -> Exit | None:
    """The exit code of an error that speaks for itself; None for a defect."""
    from srbwriter.engine.types import EngineError, ModelError
    from srbwriter.models.files import ModelsError
    from srbwriter.story import StoryError
    from srbwriter.story.formats import FormatError
    from srbwriter.story.model import DraftError

    match error:
        case Failure():
            return error.code
        case ConfigError():
            return Exit.USAGE
        case ModelError() | ModelsError():
            return Exit.MODEL
        case EngineError() | StoryError() | DraftError() | FormatError() | OSError():
            return Exit.ERROR
        case _:
            return None
