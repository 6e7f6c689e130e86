"""A relay that drops, delays and corrupts what a server says, by a seeded chance."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading

_CHUNK = 4096


class Relay:
    """Listens from its making until :meth:`close`, and lets nothing through unharmed for long."""

    def __init__(self, port: int, seed: int = 1, between: tuple[int, int] = (300, 6000)) -> None:
        self._port, self._between, self._chance = port, between, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lock = threading.Lock()
        self.dropped = self.corrupted = self.delayed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def faults(self) -> int:
        return self.dropped + self.corrupted + self.delayed

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self._harm, args=(server, client), daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                target.sendall(data)
        except OSError:
            pass
        finally:
            _end(target)

    def _harm(self, source: socket.socket, target: socket.socket) -> None:
        try:
            left = self._chance.randint(*self._between)
            while data := source.recv(_CHUNK):
                if len(data) < left:
                    target.sendall(data)
                    left -= len(data)
                elif not self._fault(target, data, left):
                    break
                else:
                    left = self._chance.randint(*self._between)
        except OSError:
            pass
        finally:
            _end(source)
            _end(target)

    def _fault(self, target: socket.socket, data: bytes, place: int) -> bool:
        """Do something to ``data`` at ``place``; False where the connection is at its end."""
        kind = self._chance.choice(("drop", "drop", "corrupt", "delay"))
        with self._lock:
            self.dropped += kind == "drop"
            self.corrupted += kind == "corrupt"
            self.delayed += kind == "delay"
        match kind:
            case "drop":
                target.sendall(data[:place])
                return False
            case "corrupt":
                # Bytes that no text has: what could pass for text, only TLS keeps out.
                wrong = b"\xff" * min(self._chance.randint(1, 4), len(data) - place)
                target.sendall(data[:place] + wrong + data[place + len(wrong) :])
            case _:
                target.sendall(data[:place])
                select.select([], [], [], 0.02)  # the rest of an event comes later than its beginning
                target.sendall(data[place:])
        return True


def _end(connection: socket.socket) -> None:
    """Close it, so that whoever waits for it wakes up."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
