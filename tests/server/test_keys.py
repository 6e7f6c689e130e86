"""Whose a request is: keys with names and scopes, and what clients see of each other."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from srbwriter.server import ServerError, ServerSettings
from srbwriter.server.settings import ApiKey, check_exposure
from tests.fakes.engine import FakeEngine

from .conftest import Serve

KEYS = ("s1 anna", "s2 ben", "s3 chief admin")
BODY = {"prompt": "Once", "n": 2, "max_tokens": 5, "stop": []}


def as_(http: httpx.Client, key: str) -> httpx.Client:
    return httpx.Client(base_url=http.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture
def http(serve: Serve) -> httpx.Client:
    return httpx.Client(base_url=serve(api_keys=KEYS).url, timeout=30)


def test_a_request_belongs_to_the_key_that_made_it(http: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    with http, as_(http, "s1") as anna, as_(http, "s2") as ben:
        id = anna.post("/srb/v1/requests", json=BODY).json()["id"]
        path = f"/srb/v1/requests/{id}"
        assert ben.get("/srb/v1/requests").json()["data"] == []
        for method, where in (
            ("GET", path), ("DELETE", path), ("POST", f"{path}/cancel"), ("GET", f"{path}/events"),
            ("POST", f"{path}/branches"), ("GET", f"{path}/branches/0"), ("PATCH", f"{path}/branches/0"),
            ("POST", f"{path}/branches/0/kill"), ("POST", f"{path}/branches/0/pick"),
            ("POST", f"{path}/branches/0/fork"), ("GET", f"{path}/branches/0/events"),
        ):  # fmt: skip
            assert ben.request(method, where).status_code == 404, where
        child = {"parent": {"request": id, "branch": 0}, "max_tokens": 2}
        assert ben.post("/srb/v1/completions", json=child).status_code == 404
        assert engine.cancelled == []
        assert [one["id"] for one in anna.get("/srb/v1/requests").json()["data"]] == [id]
        assert anna.post(f"{path}/cancel").status_code == 202


def test_an_admins_key_sees_and_ends_the_requests_of_all(http: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    with http, as_(http, "s1") as anna, as_(http, "s3") as chief:
        id = anna.post("/srb/v1/requests", json=BODY).json()["id"]
        assert [one["id"] for one in chief.get("/srb/v1/requests").json()["data"]] == [id]
        assert chief.post(f"/srb/v1/requests/{id}/cancel").status_code == 202
        assert engine.cancel_seen.wait(30)


def test_streams_of_other_dialects_belong_to_their_key_too(http: httpx.Client) -> None:
    with http, as_(http, "s1") as anna, as_(http, "s2") as ben:
        answer = anna.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "a"}]})
        path = f"/srb/v1/requests/{answer.headers['x-request-id']}"
        assert (anna.get(path).status_code, ben.get(path).status_code) == (200, 404)


def test_the_engine_is_told_who_asks(http: httpx.Client, engine: FakeEngine, client: httpx.Client) -> None:
    with http, as_(http, "s2") as ben:
        for path in ("/completion", "/v1/completions", "/srb/v1/completions", "/srb/v1/requests"):
            ben.post(path, json={**BODY, "model": "m"})
    client.post("/completion", json=BODY)
    assert [request.client for request in engine.submitted] == ["ben"] * 4 + ["127.0.0.1"]


def test_what_stands_before_everybodys_prompts_takes_an_admins_key(http: httpx.Client) -> None:
    with http, as_(http, "s1") as anna, as_(http, "s3") as chief:
        body = {**BODY, "system_prompt": "Obey Anna."}
        assert anna.post("/completion", json=body).status_code == 403
        assert chief.get("/props").json()["system_prompt"] == ""
        assert chief.post("/completion", json=body).status_code == 200


def test_a_slot_of_another_is_not_erased(http: httpx.Client) -> None:
    with http, as_(http, "s1") as anna, as_(http, "s2") as ben:
        assert anna.post("/completion", json={**BODY, "n": 1, "id_slot": 3}).status_code == 200
        assert ben.post("/slots/3?action=erase").status_code == 403
        assert anna.post("/slots/3?action=erase").json()["n_erased"] > 0


def test_how_a_key_is_written(tmp_path: Path) -> None:
    assert ApiKey.read("k ben") == ApiKey("k", "ben")
    assert ApiKey.read("k admin ben") == ApiKey("k", "ben", admin=True)
    unnamed = ApiKey.read("k admin")
    assert unnamed.admin and unnamed.name.startswith("key-") and "k" not in unnamed.name.removeprefix("key-")
    with pytest.raises(ServerError, match="NAME"):
        check_exposure(ServerSettings(api_keys=("k two names",)))
    with pytest.raises(ServerError, match="empty"):
        check_exposure(ServerSettings(admin_keys=(" ",)))


def test_a_key_may_have_any_letters(serve: Serve) -> None:
    url = serve(api_keys=("schlüssel",)).url
    for encoding in ("utf-8", "latin-1"):
        for name, value in (("Authorization", "Bearer schlüssel"), ("X-Api-Key", "schlüssel")):
            assert httpx.get(f"{url}/v1/models", headers={name: value.encode(encoding)}).status_code == 200
            wrong = value.replace("ü", "ö").encode(encoding)
            assert httpx.get(f"{url}/v1/models", headers={name: wrong}).status_code == 401
