"""Checks of the terminal: type, size, colours, keyboard protocol, character set."""

from __future__ import annotations

import contextlib
import locale
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Generator, Iterator, Sequence

from srbwriter.cli.doctor.findings import Check, Examination, Finding

ANSWER_SECONDS = 1.0
"""Time limit for the terminal's answer; a distant terminal takes a few tenths of a second."""

_LEAST_COLUMNS, _LEAST_LINES = 60, 16

_QUERY = b"\x1b[?u\x1b[c"
"""Queries the flags of the kitty keyboard protocol, then the device attributes, which every terminal has."""

_PROTOCOL, _ATTRIBUTES = re.compile(rb"\x1b\[\?\d+u"), re.compile(rb"\x1b\[\?[\d;]*c")


def check_terminal(_: Examination) -> Iterator[Finding]:
    """Check whether the app can run in this terminal, and how well."""
    yield from _character_set()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Finding(
            "note", "input or output is not a terminal, so size, colours and keyboard are not checked"
        )
        return
    name = os.environ.get("TERM", "")
    if name in ("", "dumb", "unknown"):
        yield Finding(
            "care", f"TERM is {name or 'not set'}: the app cannot be shown", "export TERM=xterm-256color"
        )
        return
    columns, lines = shutil.get_terminal_size()
    words = f"{name}, {columns} × {lines}"
    if columns < _LEAST_COLUMNS or lines < _LEAST_LINES:
        words += (
            f"; make the window larger: {_LEAST_COLUMNS} × {_LEAST_LINES} and more show branches side by side"
        )
        yield Finding("note", words)
    else:
        yield Finding("ok", words)
    yield from _colours(name)
    yield from _keyboard()


def _character_set() -> Iterator[Finding]:
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    named = next((os.environ[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(key)), "")
    found = locale.nl_langinfo(locale.CODESET)
    if found.upper().replace("-", "") != "UTF8":
        words = f"the locale {named or 'C'} has the character set {found}, and the app draws in UTF-8"
        yield Finding("care", words, "export LC_ALL=C.UTF-8")
        return
    yield Finding("ok", f"character set UTF-8 (locale {named or 'C'})")


def _colours(name: str) -> Iterator[Finding]:
    if os.environ.get("NO_COLOR"):
        yield Finding("note", "NO_COLOR is set, so the app has no colours", "unset NO_COLOR")
    elif os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        yield Finding("ok", "16 million colours")
    else:
        count = "256" if "256" in name else "16"
        words = f"{count} colours; if this terminal has 16 million, set COLORTERM"
        yield Finding("note", words, "export COLORTERM=truecolor")


def _keyboard() -> Iterator[Finding]:
    if _in_background():
        yield Finding("note", "this runs in the background, so the keyboard protocol is not checked")
        return
    answer = _ask(_QUERY, _ATTRIBUTES, ANSWER_SECONDS)
    if _PROTOCOL.search(answer):
        yield Finding("ok", "keyboard: the kitty protocol, so every key can be told from every other")
    elif answer:
        words = (
            "keyboard: no kitty protocol, so a few keys (shift+enter, ctrl+digits) cannot be told from others"
        )
        yield Finding("note", words)
    else:
        words = f"the terminal does not answer within {ANSWER_SECONDS:g} s; its keyboard protocol is unknown"
        yield Finding("note", words)


def _ask(query: bytes, end: re.Pattern[bytes], seconds: float) -> bytes:
    """Send ``query`` to the terminal; return the answer up to ``end``, or the part that arrived in time."""
    answer, deadline = b"", time.monotonic() + seconds
    try:
        with _raw(sys.stdin.fileno()) as descriptor:
            os.write(sys.stdout.fileno(), query)
            while not end.search(answer):
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                    break
                if not (data := os.read(descriptor, 1024)):
                    break
                answer += data
    except OSError:  # the terminal hung up
        pass
    return answer


def _in_background() -> bool:
    """Return whether this is a background job, which the shell stops if it changes the terminal's modes."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
    except OSError:  # not the controlling terminal, so no job control applies
        return False


@contextlib.contextmanager
def _raw(descriptor: int) -> Generator[int]:
    """Put the terminal into cbreak mode without echo, and restore it afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


CHECKS: Sequence[tuple[str, Check]] = (("terminal", check_terminal),)
