"""An engine behind TLS: whose certificate is taken, and many branches beside each other."""

from __future__ import annotations

import gc
import ssl
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import FinishReason, RemoteError, Request, Sampling, Stop

from .scripted import PROMPT, STORY, Scripted
from .test_backend import WAIT, until

NO_END = Stop(max_tokens=None)
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[Scripted]:
    """One that would speak HTTP/2 if it were asked to, and then say nothing that makes sense."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with closing(Scripted(tls=context)) as it:
        yield it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio leaves open whose handshake was cancelled
        gc.collect()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


def test_a_certificate_of_nobody_known_is_refused_with_the_cure(server: Scripted) -> None:
    with pytest.raises(RemoteError, match="certificate is not trusted.*SSL_CERT_FILE.*--no-connect-verify"):
        RemoteEngine.connect(RemoteOptions(server.url))


def test_any_certificate_is_taken_if_that_is_said(server: Scripted) -> None:
    with RemoteEngine.connect(RemoteOptions(server.url, verify=False)) as engine:
        assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]


@pytest.mark.usefixtures("trusted")
def test_many_branches_and_one_that_is_left(server: Scripted) -> None:
    samplings = tuple(Sampling(temperature=0.5 + 0.01 * k) for k in range(16))  # a request for each
    server.hold.clear()
    with RemoteEngine.connect(RemoteOptions(server.url)) as engine:
        generation = engine.submit(Request(PROMPT, n=16, sampling=samplings, stop=NO_END))
        until(generation, lambda: all(branch.text for branch in generation.branches))
        assert server.most == 16
        for verb in (generation.branches[5].kill, generation.branches[6].reroll):
            verb()
            assert server.left.wait(WAIT)
            server.left.clear()
        server.hold.set()
        generation.wait(WAIT)
        for branch in generation.branches:
            assert branch.text == (STORY[:1] if branch.index == 5 else STORY)
        assert generation.branches[5].finish_reason is FinishReason.KILLED


@pytest.mark.usefixtures("trusted")
def test_who_is_left_before_it_answered_hears_of_it(server: Scripted) -> None:
    with RemoteEngine.connect(RemoteOptions(server.url)) as engine:
        for _ in range(100):
            together = [engine.submit(Request(PROMPT, stop=NO_END)) for _ in range(4)]
            for generation in together:
                generation.cancel()  # at any moment of asking, writing and reading
            for generation in together:
                generation.wait(WAIT)
        assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]
    assert server.rests(WAIT)
