"""Whose a request is: keys with names and scopes, and what clients see of each other."""

from __future__ import annotations

import httpx
import pytest

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
            ("GET", f"{path}/branches/0/events"),
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


def test_what_stands_before_everybodys_prompts_takes_an_admins_key(http: httpx.Client) -> None:
    with http, as_(http, "s1") as anna, as_(http, "s3") as chief:
        body = {**BODY, "system_prompt": "Obey Anna."}
        assert anna.post("/completion", json=body).status_code == 403
        assert chief.get("/props").json()["system_prompt"] == ""
        assert chief.post("/completion", json=body).status_code == 200
