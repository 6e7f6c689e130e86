"""Who may use the server, and that nothing malformed hurts it."""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from srbwriter.server import ServerError, ServerSettings
from srbwriter.server.auth import check_exposure
from srbwriter.server.dialects import kobold, webui
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .rows import DIALECTS

BODY = {"model": "m", "prompt": "Once", "max_tokens": 2}
KEY = {"Authorization": "Bearer s3cret"}


@pytest.fixture
def locked(serve: Serve) -> Iterator[httpx.Client]:
    """A client of a server with one key."""
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url, timeout=30) as http:
        yield http


def test_without_a_key_any_authorization_is_taken(client: httpx.Client) -> None:
    for value in ("Bearer DUMMY_KEY", "Bearer undefined", "nonsense"):
        assert client.post("/v1/completions", json=BODY, headers={"Authorization": value}).status_code == 200


def test_a_key_opens(serve: Serve) -> None:
    with httpx.Client(base_url=serve(api_keys=("s3cret", "other")).url) as http:
        for headers in (
            KEY, {"Authorization": "s3cret"}, {"X-Api-Key": "s3cret"}, {"Authorization": "bearer other"}
        ):  # fmt: skip
            assert http.post("/v1/completions", json=BODY, headers=headers).status_code == 200, headers


def test_no_key_no_answer(serve: Serve, engine: FakeEngine) -> None:
    wrong: tuple[dict[str, str], ...] = (
        {}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer"}, {"X-Api-Key": "s3cre"},
        {"Authorization": "Basic s3cret"},
    )  # fmt: skip
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url) as http:
        for headers in wrong:
            for path in ("/slots", "/v1/models", "/srb/v1/requests", "/metrics"):
                assert http.get(path, headers=headers).status_code == 401
            for path in ("/v1/completions", "/completion"):
                answer = http.post(path, json=BODY, headers=headers)
                error = answer.json()["error"]
                assert answer.status_code == error["code"] == 401
                assert (error["message"], error["type"]) == ("Invalid API Key", "authentication_error")
        for path in ("/health", "/v1/health", "/", "/docs", "/openapi.json", "/page/style.css"):
            assert http.get(path).status_code == 200
    assert engine.submitted == []


def test_every_endpoint_asks_for_a_key_but_those_that_are_open(serve: Serve, engine: FakeEngine) -> None:
    """In the words of its own dialect."""
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url, timeout=30) as http:
        for dialect, row in [(one, row) for one in DIALECTS for row in one.endpoints]:
            for path in row.paths:
                answer = http.request(row.method, re.sub(r"\{.*?\}", "1", path))
                assert (answer.status_code == 401) is not row.public, path
                if not row.public:
                    reply = answer.json()
                    assert ("detail" in reply) is (dialect in (kobold.DIALECT, webui.OLDER)) and (
                        "error" in reply or "detail" in reply
                    )
    assert engine.submitted == []


def test_every_preflight_is_answered(serve: Serve) -> None:
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url) as http:
        headers = {"Origin": "null", "Access-Control-Request-Headers": "authorization, content-type"}
        answer = http.options("/completion", headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["access-control-allow-origin"] == "null"
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "Authorization" in answer.headers["access-control-allow-headers"]
        answer = http.post("/completion", json=BODY, headers={**KEY, "Origin": "https://example.com"})
        assert answer.headers["access-control-allow-origin"] == "https://example.com"
        assert answer.headers["vary"] == "Origin"


def test_without_a_key_only_pages_of_this_machine_may(client: httpx.Client) -> None:
    for origin, allowed in (
        ("http://localhost:3000", True), ("http://127.0.0.1", True), ("http://[::1]:8080", True),
        ("https://example.com", False), ("null", False), ("http://localhost.example.com", False),
        ("http://[", False),
    ):  # fmt: skip
        answer = client.post("/completion", json=BODY, headers={"Origin": origin})
        assert (answer.status_code == 200) is allowed, origin
        read = client.get("/v1/models", headers={"Origin": origin})
        assert read.status_code == 200
        for one in (answer, read):
            assert ("access-control-allow-origin" in one.headers) is allowed, origin
        if origin == "null":
            assert "--cors-origins null" in answer.json()["error"]["message"]


def test_a_rebound_name_is_refused(client: httpx.Client) -> None:
    for host in ("localhost", "127.0.0.1:9090", "[::1]:80", "LOCALHOST:1"):
        assert client.get("/health", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.sock", "", "["):
        assert client.get("/health", headers={"Host": host}).status_code == 403, host


def test_serving_others_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.com"):
        with pytest.raises(ServerError, match="--api-key"):
            check_exposure(ServerSettings(host=(host,)))
        check_exposure(ServerSettings(host=(host,), api_keys=("k",)))
        check_exposure(ServerSettings(host=(host,), insecure=True))
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "x.sock", "/x"):
        check_exposure(ServerSettings(host=(host,)))


def test_the_log_holds_no_text_and_no_key(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """And a path cannot write lines of its own into it."""
    caplog.set_level(logging.DEBUG)
    handle = serve(api_keys=("s3cret",), access_log=True, log_format="json")
    with httpx.Client(base_url=handle.url) as http:
        answer = http.post("/completion?q=hidden", json={"prompt": "my secret story"}, headers=KEY)
    handle.stop(10)  # the line is written after the answer
    server = [record for record in caplog.records if record.name.startswith(("srbwriter", "uvicorn"))]
    (line,) = [json.loads(r.getMessage()) for r in server if r.name == "srbwriter.server.access"]
    assert line["id"] == answer.headers["x-request-id"]
    assert (line["method"], line["path"], line["status"]) == ("POST", "/completion", 200)
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    said = [record.getMessage() for record in server]
    assert not any(word in text for text in said for word in ("story", "s3cret", "hidden", "mat"))
    caplog.clear()
    handle = serve(access_log=True)
    assert httpx.get(f"{handle.url}/nothing%0Aelse").status_code == 404
    handle.stop(10)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "srbwriter.server.access"]
    assert "\n" not in line and "/nothing\\nelse 404" in line


def test_paths_that_are_not_there_are_answered_in_their_dialect(client: httpx.Client) -> None:
    error = client.get("/srb/v1/nothing").json()["error"]
    assert error == "there is no /srb/v1/nothing here; perhaps /srb/v1/next"
    error = client.get("/v1/nothing").json()["error"]
    assert error["message"] == "there is no /v1/nothing here; perhaps /v1/completions"
    assert client.get("/v1/models/other").json()["error"]["message"].startswith("there is no model other")
    assert client.put("/srb/v1/completions").json() == {"error": "Method Not Allowed"}


def test_tls(serve: Serve, certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    handle = serve(ssl_key_file=key, ssl_cert_file=cert)
    assert handle.url.startswith("https://")
    context = ssl.create_default_context(cafile=str(cert))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with httpx.Client(base_url=handle.url, verify=context) as http:
        assert http.get("/health").status_code == 200


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    import trustme

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(key))
    for part in issued.cert_chain_pems:
        part.write_to_path(str(cert), append=True)
    return key, cert
