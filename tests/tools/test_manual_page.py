"""The manual page that is packed is the one that the tables give."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from srbwriter.cli.commands import COMMANDS
from tools.manual_page import page

FILE = Path(__file__).parents[2] / "share/man/man1/srbwriter.1"


def test_the_page_is_up_to_date() -> None:
    assert FILE.read_text() == page() + "\n", "make it anew: just pages"


@pytest.mark.needs("groff")
def test_it_is_set_without_a_complaint() -> None:
    run = ["groff", "-man", "-ww", "-Tascii", "-P-bcu", str(FILE)]
    shown = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--model" in shown.stdout and "srbwriter export orchard -o orchard.epub" in shown.stdout
    assert all(command in shown.stdout for command in COMMANDS)
