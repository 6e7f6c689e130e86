"""The API's description: complete, and true under generated requests."""

from __future__ import annotations

from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.server.app import describe
from tests.server.rows import DIALECTS

LABELS = [
    f"{method.upper()} {path}" for path, methods in describe(DIALECTS)["paths"].items() for method in methods
]


@cache
def operations() -> dict[str, Any]:
    """What schemathesis reads in the description, by method and path."""

    from schemathesis import openapi

    schema = openapi.from_dict(describe(DIALECTS))
    return {result.ok().label: result.ok() for result in schema.get_all_operations()}


def test_every_endpoint_is_described(client: httpx.Client) -> None:
    value = client.get("/openapi.json").json()
    assert value["openapi"].startswith("3.1")
    operations = [op for path in value["paths"].values() for op in path.values()]
    assert len({op["operationId"] for op in operations}) == len(operations)
    assert all(op["summary"] and op["tags"] for op in operations)
    assert "/v1/completions" in value["paths"] and "/srb/v1/requests/{id}" in value["paths"]


@pytest.mark.parametrize("label", LABELS[::10])
@given(data=st.data())
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
def test_generated_requests_are_answered(label: str, client: httpx.Client, data: st.DataObject) -> None:
    """Whatever the description allows, and what it does not: no 500, no hang, errors as JSON."""
    from schemathesis import GenerationMode

    mode = data.draw(st.sampled_from(GenerationMode))
    case = data.draw(operations()[label].as_strategy(generation_mode=mode))
    kwargs: dict[str, Any] = case.as_transport_kwargs(base_url=str(client.base_url))
    answer = client.request(
        kwargs["method"],
        kwargs["url"],
        params=kwargs.get("params"),
        headers=kwargs.get("headers"),
        content=kwargs.get("data"),
        **({"json": kwargs["json"]} if "json" in kwargs else {}),
    )
    assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text
    if answer.status_code >= 400:
        assert {"error", "detail"} & set(answer.json())
