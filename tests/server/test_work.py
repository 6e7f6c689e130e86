"""Large JSON is read and written in slices, as JSON is; ``benchmarks.server`` measures who waits."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.server import work
from srbwriter.server.errors import ApiError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(deadline=None)
@given(value=JSON, indent=st.sampled_from([None, 1]), plain=st.booleans())
def test_large_json_is_read_as_json_is(value: Any, indent: int | None, plain: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=plain).encode("utf-8", "replace")
    assert work.parse(raw + b" " * work.LARGE) == work._mended(json.loads(raw))


@settings(deadline=None)
@given(st.text('[]{},:"\\u01ae -.', max_size=14))
def test_what_is_no_json_is_refused_in_slices_too(text: str) -> None:
    def read(raw: bytes) -> Any:
        try:
            return work.parse(raw)
        except ApiError as error:
            assert error.status == 400
            return ApiError

    assert read(text.encode() + b" " * work.LARGE) == read(text.encode() or b" ")


@given(value=JSON, many=st.integers(1, 9))
def test_large_json_is_written_as_json_is(value: Any, many: int) -> None:
    with patch.object(work, "_MANY", many), patch.object(work, "_SLICE", many):
        assert work.encode_large(value) == work.encode(value)
        assert work.encode_large(iter([value, value])) == work.encode([value, value])
        assert work.encode_large({"a": iter(())}) == b'{"a":[]}'


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_large_json_may_not_be_deep_either(opening: str) -> None:
    with pytest.raises(ApiError, match="deeply"):
        work.parse((opening * (work.LARGE + 1)).encode())
