"""The in-process engine is a backend."""

from __future__ import annotations

import inspect

from srbwriter.engine.backend import Backend
from srbwriter.engine.engine import Engine


def test_the_engine_has_every_member_of_a_backend() -> None:
    names = [name for name in vars(Backend) if not name.startswith("_")]
    assert {"info", "submit", "tokenize", "apply_template", "close"} < set(names)
    for name in names:
        wanted, found = getattr(Backend, name), getattr(Engine, name, None)
        if isinstance(wanted, property):
            assert found is not None or name in inspect.getsource(Engine.__init__), name
            continue
        assert callable(found), name
        parameters = inspect.signature(wanted).parameters.values()
        by_name = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
        by_place = [None for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        inspect.signature(found).bind(*by_place, **by_name)
