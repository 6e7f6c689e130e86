"""Whose a request is: keys with names and scopes, and what clients see of each other."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_handles import writing

KEYS = ("s1 anna", "s2 ben", "s3 chief admin")
BODY = {"prompt": "Once", "n": 2, "max_tokens": 5, "stop": []}


def as_(http: httpx.Client, key: str) -> httpx.Client:
    return httpx.Client(base_url=http.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture
def http(serve: Serve) -> httpx.Client:
    return httpx.Client(base_url=serve(api_keys=KEYS).url, timeout=30)


def test_a_request_belongs_to_the_key_that_made_it(http: httpx.Client, engine: FakeEngine) -> None:
    """And an admin's key sees and ends the requests of all."""
    engine.hold = 1
    with (
        http, as_(http, "s1") as anna, as_(http, "s2") as ben, as_(http, "s3") as chief,
        writing(anna) as (path, events),
    ):  # fmt: skip
        assert ben.get("/srb/v1/requests").json()["data"] == []
        for method, where in (
            ("GET", path), ("POST", f"{path}/cancel"), ("POST", f"{path}/branches/0/kill"),
        ):  # fmt: skip
            assert ben.request(method, where).status_code == 404, where
        assert engine.cancelled == []
        for key in (anna, chief):
            assert [one["id"] for one in key.get("/srb/v1/requests").json()["data"]] == [path[-24:]]
        assert chief.post(f"{path}/cancel").status_code == 200
        assert [*events][-1]["event"] == "done"


def test_what_stands_before_everybodys_prompts_takes_an_admins_key(http: httpx.Client) -> None:
    with http, as_(http, "s1") as anna, as_(http, "s3") as chief:
        body = {**BODY, "system_prompt": "Obey Anna."}
        assert anna.post("/completion", json=body).status_code == 403
        assert chief.get("/props").json()["system_prompt"] == ""
        assert chief.post("/completion", json=body).status_code == 200
