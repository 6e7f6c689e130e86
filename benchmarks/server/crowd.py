"""Many streaming clients, in a process of their own: ``python -m benchmarks.server.crowd`` reads a job.

Those that are timed speak llama.cpp's dialect, because its chunks name their tokens; over bare sockets,
because a client that is slower than the server would be measured instead. The job comes on standard input
and the result goes to standard output, both JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Job:
    """``bodies`` are sent all at once, or ``width`` at a time; some clients ``leave`` before the end.

    A body's ``key`` is the client's; its ``path`` is ``/completion`` if there is none. Answers of other paths
    are read to their end.
    """

    url: str
    bodies: list[dict[str, Any]]
    width: int = 0
    leave: float = 0.0  # share of clients that close their connection at a random moment
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds. ``gaps`` are between tokens of one branch, ``first`` from request to first token."""

    seconds: float
    tokens: int
    answered: int
    first: list[float]
    gaps: list[float]


def run(job: Job) -> Outcome:
    """Let a child process do the job."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.server.crowd"], input=json.dumps(asdict(job)), text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return Outcome(**json.loads(done.stdout))


class _Client:
    """One connection, one request."""

    def __init__(self, job: Job, body: dict[str, Any], rng: random.Random) -> None:
        address = urlsplit(job.url)
        self.host, self.port = address.hostname or "127.0.0.1", address.port or 80
        body = {**body}
        self.path = body.pop("path", "/completion")
        if self.path == "/completion":
            body["stream"] = True
        key = f"Authorization: Bearer {name}\r\n" if (name := body.pop("key", "")) else ""
        data = json.dumps(body).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\n{key}Connection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.request = head.encode() + data
        self.patience = rng.expovariate(20) if rng.random() < job.leave else None
        self.first = 0.0
        self.gaps: list[float] = []
        self.tokens = 0
        self.answered = False

    async def ask(self) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(self.request)
            async with asyncio.timeout(self.patience):
                if self.path == "/completion":
                    await self._read(reader)
                else:
                    self.answered = b" 200 " in (await reader.read()).partition(b"\r\n")[0]
        except TimeoutError:
            pass  # it left
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        begun = time.perf_counter()
        last: dict[int, float] = {}
        async for line in reader:
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            now = time.perf_counter()
            count = len(chunk["tokens"])
            if chunk["stop"]:
                self.answered = True
            elif count:
                self.first = self.first or now - begun
                before = last.get(chunk["index"])
                if before is not None:
                    self.gaps += [(now - before) / count] * count
                last[chunk["index"]] = now
                self.tokens += count


async def _all(job: Job) -> Outcome:
    rng = random.Random(job.seed)
    clients = [_Client(job, body, rng) for body in job.bodies]
    room = asyncio.Semaphore(job.width or len(clients))

    async def one(client: _Client) -> None:
        async with room:
            await client.ask()

    begun = time.perf_counter()
    await asyncio.gather(*map(one, clients))
    return Outcome(
        seconds=time.perf_counter() - begun,
        tokens=sum(client.tokens for client in clients),
        answered=sum(client.answered for client in clients),
        first=[client.first for client in clients if client.first],
        gaps=[gap for client in clients for gap in client.gaps],
    )


if __name__ == "__main__":
    json.dump(asdict(asyncio.run(_all(Job(**json.load(sys.stdin))))), sys.stdout)
