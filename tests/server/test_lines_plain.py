"""The older way in: a count, arguments with a NUL behind each, then plain text."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from srbwriter.engine.types import Stop
from srbwriter.server import ServerHandle
from tests.fakes.engine import STORY, FakeEngine

from .conftest import Serve
from .lines import LineClient


@pytest.fixture
def lines(serve: Serve) -> ServerHandle:
    return serve(tcp=("0",), head_seconds=20)


@pytest.fixture
def client(lines: ServerHandle) -> Iterator[LineClient]:
    with LineClient(lines.lines[0], greet=False) as one:
        yield one


def preamble(*arguments: str) -> bytes:
    return f"{len(arguments)}\n".encode() + "".join(f"{argument}\0" for argument in arguments).encode()


def heard(client: LineClient, text: str) -> None:
    """Wait for exactly ``text``."""
    assert client.file.read(len(text.encode())).decode() == text


def test_a_text_is_written_and_that_is_all(lines: ServerHandle) -> None:
    """A retired flag is accepted without effect, and space before the first argument is swallowed."""
    for sent in (preamble("-p", "Once"), preamble("--strict", "-p", "Once"), b"2\n  -p\0Once\0"):
        with LineClient(lines.lines[0], greet=False) as client:
            client.socket.sendall(sent)
            assert client.rest() == "Once" + STORY


def test_flags_of_sampling_reach_the_engine(client: LineClient, engine: FakeEngine) -> None:
    client.socket.sendall(
        preamble("-t", "6", "--color", "-n", "3", "--top_k", "5", "--repeat_penalty", "1.5", "--temp", "0.5",
                 "--seed", "9", "--ignore-eos", "--ctx_size", "9", "-p", "Once")
    )  # fmt: skip
    assert client.rest() == "Once there was a"
    request = engine.submitted[-1]
    assert isinstance(request.sampling, tuple)
    (sampling,) = request.sampling
    assert (sampling.top_k, sampling.repeat_penalty, sampling.temperature, sampling.seed) == (5, 1.5, 0.5, 9)
    assert request.stop == Stop(max_tokens=3, include_string=True, ignore_eog=True)
    assert request.overflow == "truncate"


def test_a_conversation(client: LineClient, engine: FakeEngine) -> None:
    """The prompt ends in the client's turn, so the client speaks first; the model's turn ends in it too."""
    engine.script = lambda prompt, branch: " It slept.\nUser: and so on"
    client.socket.sendall(preamble("-i", "-r", "User:", "-p", "A talk.\nUser:"))
    heard(client, "A talk.\nUser:")
    client.send(" the cat?")
    heard(client, " It slept.\nUser:")
    client.send(" the dog?")
    heard(client, " It slept.\nUser:")
    first, second = (engine.detokenize(one.prompt_ids) for one in engine.generations)
    assert first == "A talk.\nUser: the cat?\n"
    assert second == first + " It slept.\nUser: the dog?\n"
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest() == ""


UNREADABLE = (
    (b"999\n", "First line must be character count"),
    (b"2\n-p\0", "Failed to read arguments"),
    (b"2\n-p\0\xff\0", "Failed to read arguments"),
    (preamble("-m", "x.gguf"), "Failed to parse parameters"),
    (preamble("--model", "x.gguf"), "Failed to parse parameters"),
    (preamble("-f", "/etc/passwd"), "Failed to parse parameters"),
    (preamble("--prompt-cache", "x"), "Failed to parse parameters"),
    (preamble("-p"), "Failed to parse parameters"),
    (preamble("--temp", "hot"), "Failed to parse parameters"),
    (preamble("--n", "3"), "Failed to parse parameters"),
    (preamble("x"), "Failed to parse parameters"),
)


def test_what_cannot_be_read(lines: ServerHandle, engine: FakeEngine) -> None:
    for sent, line in UNREADABLE:
        with LineClient(lines.lines[0], greet=False) as client:
            client.socket.sendall(sent)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.rest().endswith(f"Error: {line}\n"), sent
            assert not engine.submitted, sent


def test_with_keys_auth_comes_first(serve: Serve) -> None:
    with LineClient(serve(tcp=("0",), api_keys=("s3cret",)).lines[0], greet=False) as client:
        client.socket.sendall(b"AUTH s3cret\n" + preamble("-n", "1", "-p", "Once"))
        assert client.rest() == "Once there"
