"""The log: one rotating file in the state folder, native faults, and reports of crashes.

Every room logs through the standard library's ``logging``; only this module says where it goes. The engine
routes llama.cpp's own lines into the logger ``srbwriter.native``. This room knows paths and nothing above
it, and what a writer types never goes into a log.
"""

from __future__ import annotations

import faulthandler
import logging
import platform
import time
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from srbwriter import paths

log = logging.getLogger("srbwriter")

_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"

_handler: logging.Handler | None = None
_faults: TextIO | None = None


class _Formatter(logging.Formatter):
    """Lines of the log. A record with the attribute ``whole`` is a line already, such as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if getattr(record, "whole", False) else super().format(record)


class _OwnFile(RotatingFileHandler):
    """A log that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=paths.open_own)


def start(level: str = "info") -> str | None:
    """Send the log to its file, and native faults to theirs beside it.

    Args:
        level: the least severe level that is kept: debug, info, warning or error.

    Returns:
        None, or why there is no log in words; a folder that cannot be written never stops the program.
    """
    global _handler, _faults
    stop()
    complaint = None
    try:
        paths.make_folder(paths.log_dir())
        _handler = _OwnFile(paths.log_file(), maxBytes=1_000_000, backupCount=3, encoding="utf-8")
        if not faulthandler.is_enabled():  # otherwise the parent process watches already
            # It stays open: a crash cannot open files.
            _faults = open(fault_file(), "a", encoding="utf-8", opener=paths.open_own)  # noqa: SIM115
            faulthandler.enable(_faults)
    except OSError as error:
        _handler = logging.NullHandler()  # without any, Python would print warnings over the screen
        complaint = f"no log is kept: {paths.log_file()}: {error.strerror}"
    _handler.setFormatter(_Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(_handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    return complaint


def stop() -> None:
    """Close what :func:`start` opened."""
    global _handler, _faults
    if _handler is not None:
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(_handler)
        _handler.close()
        _handler = None
    if _faults is not None:
        faulthandler.disable()
        _faults.close()
        _faults = None


def fault_file() -> Path:
    """Where the Python stacks go when native code crashes the process."""
    return paths.log_dir() / "faults.log"


def write_crash_report(error: BaseException) -> Path | None:
    """Write ``error`` with its stack into a file of its own; None if even that is impossible."""
    from srbwriter.version import __version__

    head = f"srbwriter {__version__}, Python {platform.python_version()}, {platform.platform()}"
    report = "\n".join((head, time.strftime("%Y-%m-%d %H:%M:%S %z"), *traceback.format_exception(error)))
    file = paths.log_dir() / f"crash-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    try:
        paths.write_atomic(file, report.encode("utf-8", "replace"))
    except OSError:
        return None
    return file
