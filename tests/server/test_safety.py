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
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.engine.types import Request
from srbwriter.server import ServerError, ServerSettings
from srbwriter.server.settings import check_exposure
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .rows import ENDPOINTS
from .wire import BROWSER

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
        for row in ENDPOINTS:
            for path in row.paths:
                answer = http.request(row.method, re.sub(r"\{.*?\}", "1", path))
                assert (answer.status_code == 401) is not row.public, path
                if not row.public:
                    reply = answer.json()
                    assert ("detail" in reply) is (row.dialect.name == "kobold") and (
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


def test_origins_can_be_named(serve: Serve) -> None:
    local, mine, other = "http://localhost:1", "https://a.example", "https://b.example"
    for origins, taken, refused in (
        (("https://a.example", "localhost"), (mine, local), (other,)),
        (("https://a.example/, localhost",), (mine, local), (other,)),
        (("null",), ("null", local), (other,)),
        (("*",), ("null", other), ()),
    ):
        with httpx.Client(base_url=serve(cors_origins=origins).url) as http:
            for origin in taken:
                answer = http.post("/completion", json=BODY, headers={"Origin": origin})
                assert answer.status_code == 200, (origins, origin)
                assert answer.headers["access-control-allow-origin"] == origin
            for origin in refused:
                answer = http.post("/completion", json=BODY, headers={"Origin": origin})
                assert answer.status_code == 403, (origins, origin)


def test_a_rebound_name_is_refused(client: httpx.Client) -> None:
    for host in ("localhost", "127.0.0.1:9090", "[::1]:80", "LOCALHOST:1"):
        assert client.get("/health", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example", "", "["):
        assert client.get("/health", headers={"Host": host}).status_code == 403, host


def test_serving_others_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.com"):
        with pytest.raises(ServerError, match="--api-key"):
            check_exposure(ServerSettings(host=(host,)))
        check_exposure(ServerSettings(host=(host,), api_keys=("k",)))
        check_exposure(ServerSettings(host=(host,), insecure=True))
        check_exposure(ServerSettings(host=(host,), unix_socket=Path("/x")))
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"):
        check_exposure(ServerSettings(host=(host,)))


@settings(max_examples=25)
@given(key=st.sampled_from(("s3cret", "s3cre", "s3crett", "S3cret", "")) | st.text("s3cret!", max_size=8),
       before=st.sampled_from(("", "Bearer ", "bearer ", "Bearer  ", "Basic ")))  # fmt: skip
def test_only_equal_keys_open(locked: httpx.Client, key: str, before: str) -> None:
    answer = locked.get("/v1/models", headers={"Authorization": (before + key).strip()})
    assert (answer.status_code == 200) is (key == "s3cret" and before != "Basic ")


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


def test_what_others_write_with_the_same_engine_is_shown_nowhere(
    serve: Serve, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.hold = 1
    engine.script = lambda prompt, branch: " hidden" * 9
    paths = ("/slots", "/health?include_slots=1", "/props", "/metrics", "/v1/models", "/srb/v1/requests")
    with caplog.at_level(logging.DEBUG), httpx.Client(base_url=serve(metrics=True).url) as http:
        generation = engine.submit(Request("a secret of the writer", n=2))
        assert next(iter(generation.events(1, 30)))
        shown = [http.get(path).text for path in paths]
        assert len(json.loads(shown[0])) == len(json.loads(shown[1])["slots"]) == 64
    engine.release()
    generation.wait(30)
    assert not any(word in text for word in ("secret", "hidden") for text in (*shown, caplog.text))


def test_paths_that_are_not_there_are_answered_in_their_dialect(client: httpx.Client) -> None:
    assert client.get("/srb/v1/nothing").json() == {"error": "File Not Found"}
    error = client.get("/v1/nothing").json()["error"]
    assert (error["message"], "param" in error) == ("File Not Found", True)
    assert client.get("/v1/models/other").json()["error"]["message"].startswith("there is no model other")
    assert client.put("/srb/v1/completions").json() == {"error": "Method Not Allowed"}


def test_a_folder_of_ones_own_and_nothing_outside_it(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    with httpx.Client(base_url=serve(static_path=tmp_path / "site", api_keys=("k",)).url) as http:
        assert http.get("/").text == "mine"
        assert http.get("/v1/models").status_code == 401
        for path in ("/../secret", "/%2e%2e/secret", "/..%2fsecret", "//etc/passwd"):
            assert http.get(path).status_code in (404, 401)
    with httpx.Client(base_url=serve(page=False).url, headers=BROWSER) as http:  # or no page at all
        assert (http.get("/").status_code, http.get("/docs").status_code) == (404, 200)


def test_only_the_pages_own_files_are_served(client: httpx.Client) -> None:
    for name in ("../gate.py", "..%2fgate.py", "%00", "nothing.js", "style.py", "a/b.css"):
        assert client.get(f"/page/{name}").status_code == 404


def test_pages_ask_nobody_else(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/page/style.css", "/page/write.js", "/page/api.js", "/page/docs.js"):
        answer = client.get(path, headers=BROWSER)
        assert answer.status_code == 200
        assert "http://" not in answer.text and "https://" not in answer.text and "//cdn" not in answer.text
    page = client.get("/", headers=BROWSER)
    assert "default-src 'self'" in page.headers["content-security-policy"]


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
