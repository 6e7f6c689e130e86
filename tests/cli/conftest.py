"""The command line, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from srbwriter import cli
from tests.engine.scripted import Scripted


class Outcome(NamedTuple):
    """What one run of the program left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def server() -> Iterator[Scripted]:
    """An engine elsewhere that writes a script."""
    with closing(Scripted("vllm")) as it:
        yield it


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run_main(*arguments: str) -> Outcome:
        try:
            code = cli.main(arguments)
        except SystemExit as ended:  # of --help and --version
            code = int(ended.code or 0)
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return run_main
