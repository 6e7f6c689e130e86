"""``srbwriter doctor``: finds problems of the machine and the files, and the commands to fix them."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence

from srbwriter.cli.columns import document, plain
from srbwriter.cli.doctor import files, machine
from srbwriter.cli.doctor.findings import Check, Examination, Finding, NoNative
from srbwriter.cli.exits import Exit
from srbwriter.cli.flags import add_keys
from srbwriter.config import Settings, Table
from srbwriter.version import __version__

DESCRIPTION = """\
Go over this machine and the program's files: what is well, what is not, and the command that mends it.
Nothing is changed. The exit code is 1 if something needs care.

  srbwriter doctor
  srbwriter doctor --json
  srbwriter doctor -m novelist"""

CHECKS: Sequence[tuple[str, Check]] = (*machine.CHECKS, *files.CHECKS)
"""Every check, in the order of the report."""

LIMIT_SECONDS = 120.0
"""Time limit of one check: a driver or a network disk may never answer."""

_MARKS = {"ok": "ok  ", "note": "note", "care": "CARE"}


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_keys(parser, table, ("model",))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    examination = Examination(settings)
    report: list[tuple[str, list[Finding]]] = []
    for name, check in CHECKS:
        found = examine(check, examination)
        report.append((name, found))
        if not arguments.json:
            _print_part(name, found)
    care = sum(finding.state == "care" for _, found in report for finding in found)
    if arguments.json:
        print(document({"version": __version__, "care": care, "checks": list(_as_json(report))}))
    else:
        things = "1 thing needs" if care == 1 else f"{care} things need"
        print(f"\n{things} care." if care else "\nNothing needs care.")
    return Exit.ERROR if care else Exit.OK


def examine(check: Check, examination: Examination) -> list[Finding]:
    """Run one check. If it fails or exceeds the time limit, that is a finding too."""
    found: list[Finding] = []

    def work() -> None:
        try:
            found.extend(check(examination))
        except NoNative as error:
            found.append(Finding("care", str(error), error.cure))
        except Exception as error:  # a failed check must not stop the others
            found.append(Finding("care", f"this check failed: {type(error).__name__}: {error}"))

    # A daemon thread, so that a check that hangs does not keep the program alive.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    if thread.is_alive():
        return [*found, Finding("care", f"this check did not end within {LIMIT_SECONDS:g} seconds")]
    return found


def _print_part(name: str, found: Sequence[Finding]) -> None:
    print(name)
    for finding in found:
        print(f"  {_MARKS[finding.state]}  {plain(finding.words)}")
        if finding.cure:
            print(f"          {plain(finding.cure)}")
    sys.stdout.flush()


def _as_json(report: Sequence[tuple[str, Sequence[Finding]]]) -> Iterator[dict[str, object]]:
    for name, found in report:
        yield {"name": name, "findings": [finding._asdict() for finding in found]}
