"""A client of the line protocol over a raw socket."""

from __future__ import annotations

import socket
from collections.abc import Sequence

READY = "KV awaiting_prompt=true"
BUSY = "KV awaiting_prompt=false"


class LineClient:
    """Sends lines, and reads them up to the one that says ready."""

    def __init__(self, address: str, *, greet: bool = True) -> None:
        """``greet``: begin with an empty line, which is passed over, and read the greeting."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rb")
        self.greeting = self.ask("") if greet else []

    def __enter__(self) -> LineClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, *lines: str) -> None:
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def line(self) -> str:
        """The next line; nothing where the server has closed the connection."""
        return self.file.readline().decode().removesuffix("\n")

    def until(self, last: str) -> list[str]:
        lines = [self.line()]
        while not lines[-1].startswith(last):
            assert lines[-1], lines
            lines.append(self.line())
        return lines

    def until_ready(self) -> list[str]:
        """Lines before the next that says ready."""
        return self.until(READY)[:-1]

    def ask(self, line: str) -> list[str]:
        self.send(line)
        return self.until_ready()

    def rest(self) -> str:
        """All that comes until the server closes."""
        return self.file.read().decode()


def known(lines: Sequence[str]) -> dict[str, str]:
    """The KV lines."""
    pairs = (line.removeprefix("KV ").partition("=") for line in lines if line.startswith("KV "))
    return {name: value for name, _, value in pairs}


def output(lines: Sequence[str], word: str = "OUTPUT") -> str:
    """The text of the OUTPUT lines, as it is escaped."""
    return "".join(line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} "))
