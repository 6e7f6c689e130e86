"""Who may use the server, and that nothing malformed hurts it."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.types import Request
from srbwriter.server import ServerError, ServerSettings, read_keys
from srbwriter.server.dialects import ENDPOINTS
from srbwriter.server.middleware import Guard, Middleware
from srbwriter.server.settings import check_exposure, is_loopback
from tests.fakes.engine import FakeEngine

from .conftest import Serve

BODY = {"model": "m", "prompt": "Once", "max_tokens": 2}
KEY = {"Authorization": "Bearer s3cret"}


def test_without_a_key_any_authorization_is_taken(client: httpx.Client) -> None:
    for value in ("Bearer DUMMY_KEY", "Bearer undefined", "nonsense"):
        assert client.post("/v1/completions", json=BODY, headers={"Authorization": value}).status_code == 200


@pytest.mark.parametrize(
    "headers", [KEY, {"Authorization": "s3cret"}, {"X-Api-Key": "s3cret"}, {"Authorization": "bearer other"}]
)
def test_a_key_opens(serve: Serve, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=serve(api_keys=("s3cret", "other")).url) as http:
        assert http.post("/v1/completions", json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"X-Api-Key": "s3cre"},
        {"Authorization": "Basic s3cret"},
    ],
)
def test_no_key_no_answer(serve: Serve, engine: FakeEngine, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url) as http:
        for method, path in (
            ("POST", "/v1/completions"),
            ("POST", "/completion"),
            ("GET", "/slots"),
            ("GET", "/v1/models"),
            ("GET", "/srb/v1/requests"),
            ("GET", "/metrics"),
        ):
            answer = http.request(method, path, json=BODY if method == "POST" else None, headers=headers)
            assert answer.status_code == 401
        error = http.post("/v1/completions", json=BODY, headers=headers).json()["error"]
        assert (error["message"], error["type"], error["code"]) == (
            "Invalid API Key",
            "authentication_error",
            401,
        )
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
                    told = answer.json()
                    assert ("detail" in told) is (row.dialect == "kobold") and (
                        "error" in told or "detail" in told
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


def test_with_a_key_every_origin_may_read(serve: Serve) -> None:
    with httpx.Client(base_url=serve(api_keys=("s3cret",)).url, headers=KEY) as http:
        answer = http.post("/completion", json=BODY, headers={"Origin": "https://example.com"})
        assert answer.headers["access-control-allow-origin"] == "https://example.com"
        assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("https://example.com", False),
        ("null", False),
        ("http://localhost.example.com", False),
        ("http://[", False),
    ],
)
def test_without_a_key_only_pages_of_this_machine_may(
    client: httpx.Client, origin: str, allowed: bool
) -> None:
    answer = client.post("/completion", json=BODY, headers={"Origin": origin})
    assert (answer.status_code == 200) is allowed
    assert ("access-control-allow-origin" in answer.headers) is allowed
    read = client.get("/v1/models", headers={"Origin": origin})
    assert read.status_code == 200
    assert ("access-control-allow-origin" in read.headers) is allowed


@pytest.mark.parametrize("origins", [("https://a.example", "localhost"), ("https://a.example/, localhost",)])
def test_origins_can_be_named(serve: Serve, origins: tuple[str, ...]) -> None:
    with httpx.Client(base_url=serve(cors_origins=origins).url) as http:
        for origin, status in (
            ("https://a.example", 200),
            ("http://localhost:1", 200),
            ("https://b.example", 403),
        ):
            assert http.post("/completion", json=BODY, headers={"Origin": origin}).status_code == status
    with httpx.Client(base_url=serve(cors_origins=("*",)).url) as http:
        assert http.post("/completion", json=BODY, headers={"Origin": "null"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9090", 200),
        ("[::1]:80", 200),
        ("LOCALHOST:1", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("[", 403),
    ],
)
def test_a_rebound_name_is_refused(client: httpx.Client, host: str, status: int) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == status


def test_serving_others_needs_a_key() -> None:
    with pytest.raises(ServerError, match="--api-key"):
        check_exposure(ServerSettings(host=("0.0.0.0",)))
    for fine in (
        ServerSettings(host=("0.0.0.0",), api_keys=("k",)),
        ServerSettings(host=("::",), insecure=True),
        ServerSettings(host=("127.0.0.2",)),
        ServerSettings(host=("0.0.0.0",), unix_socket=Path("/x")),
    ):
        check_exposure(fine)


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com", "")))


_WORD = st.text(st.characters(exclude_categories=("Z", "C")))


@given(key=_WORD, given_key=_WORD)
def test_only_equal_keys_open(key: str, given_key: str) -> None:
    guard = Guard(ServerSettings(api_keys=(key.strip() or "k",)))
    allowed = guard.client(None, given_key, "peer") is not None
    spelled = given_key.strip()
    if spelled[:7].lower() == "bearer ":
        spelled = spelled[7:].strip()
    assert allowed is (spelled == (key.strip() or "k"))


def test_keys_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n two \n")
    assert read_keys(file) == ("one", "two")
    with pytest.raises(ServerError, match="nowhere"):
        read_keys(tmp_path / "nowhere")


def test_a_taken_port_is_said_in_words(serve: Serve) -> None:
    with pytest.raises(ServerError, match="--port"):
        serve(port=serve().port)


def test_aborts_need_neither_body_nor_content_type(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    id = client.post("/srb/v1/requests", json={"prompt": "a"}).json()["id"]
    assert client.post(f"/srb/v1/requests/{id}/cancel").status_code == 202


def test_the_log_holds_no_text_and_no_key(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
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
    assert not any(
        word in record.getMessage() for record in server for word in ("story", "s3cret", "hidden", "mat")
    )


def test_a_path_cannot_write_lines_of_its_own_into_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = serve(access_log=True)
    with httpx.Client(base_url=server.url) as http:
        assert http.get("/nothing%0Aelse").status_code == 404
    server.stop(10)  # the line is written after the answer
    (line,) = [r.getMessage() for r in caplog.records if r.name == "srbwriter.server.access"]
    assert "\n" not in line and "/nothing\\nelse 404" in line


def test_what_others_write_with_the_same_engine_is_shown_nowhere(
    serve: Serve, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.hold = 1
    engine.script = lambda prompt, branch: " hidden" * 9
    with caplog.at_level(logging.DEBUG), httpx.Client(base_url=serve(metrics=True).url) as http:
        generation = engine.submit(Request("a secret of the writer", n=2))
        assert next(iter(generation.events(1, 30)))
        shown = [
            http.get(path).text
            for path in (
                "/slots",
                "/health?include_slots=1",
                "/props",
                "/metrics",
                "/v1/models",
                "/srb/v1/requests",
            )
        ]
        assert len(json.loads(shown[0])) == len(json.loads(shown[1])["slots"]) == 64
    engine.release()
    generation.wait(30)
    assert not any(word in text for word in ("secret", "hidden") for text in (*shown, caplog.text))


def test_paths_that_are_not_there_are_answered_in_their_dialect(client: httpx.Client) -> None:
    assert client.get("/srb/v1/nothing").json() == {"error": "File Not Found"}
    error = client.get("/v1/nothing").json()["error"]
    assert (error["message"], "param" in error) == ("File Not Found", True)
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
    with pytest.raises(ServerError, match="nowhere"):
        serve(static_path=tmp_path / "nowhere")


def test_the_page_can_be_left_out(serve: Serve) -> None:
    with httpx.Client(base_url=serve(page=False).url) as http:
        assert http.get("/").status_code == 404
        assert http.get("/docs").status_code == 200


@pytest.mark.parametrize("name", ["../gate.py", "..%2fgate.py", "%00", "nothing.js", "style.py", "a/b.css"])
def test_only_the_pages_own_files_are_served(client: httpx.Client, name: str) -> None:
    assert client.get(f"/page/{name}").status_code == 404


def test_pages_ask_nobody_else(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/page/style.css", "/page/write.js", "/page/api.js", "/page/docs.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "http://" not in answer.text and "https://" not in answer.text and "//cdn" not in answer.text
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


def test_a_unix_socket(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "s"
    handle = serve(unix_socket=path)
    assert handle.url == f"unix:{path}"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://anything") as http:
        assert http.get("/health").json()["status"] == "ok"
    assert path.stat().st_mode & 0o077 == 0
    handle.stop(10)
    assert not path.exists()


@pytest.mark.needs("openssl")
def test_tls(serve: Serve, certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    handle = serve(ssl_key_file=key, ssl_cert_file=cert)
    assert handle.url.startswith("https://")
    with httpx.Client(base_url=handle.url, verify=ssl.create_default_context(cafile=str(cert))) as http:
        assert http.get("/health").status_code == 200


@pytest.mark.needs("openssl")
def test_tls_of_lines(serve: Serve, certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    host, _, port = serve(tcp=("0",), ssl_key_file=key, ssl_cert_file=cert).lines[0].rpartition(":")
    context = ssl.create_default_context(cafile=str(cert))
    with (
        socket.create_connection((host, int(port)), 60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
        encrypted.makefile("rb") as answers,
    ):
        encrypted.sendall(b"\nQUIT\n")
        assert answers.readline().startswith(b"HELO ")
        assert answers.read().endswith(b"KV awaiting_prompt=true\n")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    import subprocess

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    return key, cert


@pytest.mark.parametrize(("file", "name"), [(None, "unknown"), (Path("/x"), "unix")])
async def test_a_client_without_an_address(file: Path | None, name: str) -> None:
    """One that has reset its connection has none any more; on a socket file nobody has."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["srbwriter.client"])

    async def nothing(*_: Any) -> Any:
        return None

    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "client": None}
    middleware = Middleware(app, ServerSettings(unix_socket=file, access_log=False), lambda _: True)
    await middleware(scope, nothing, nothing)
    assert [client.name for client in seen] == [name]
