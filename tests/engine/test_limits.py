"""Whatever a request names has a bound, and what is beyond it is refused in words before anything runs."""

from __future__ import annotations

import pytest

from srbwriter.engine import limits
from srbwriter.engine.engine import Engine
from srbwriter.engine.sampling import SamplerTemplate
from srbwriter.engine.types import InvalidRequest, Request, Sampling

from .support import PROMPT, SHORT, drive, finish, fixture_of, small_engine

engine = fixture_of(small_engine)


@pytest.mark.parametrize("name", ["repeat_last_n", "dry_penalty_last_n"])
def test_a_window_takes_no_more_than_the_context(engine: Engine, name: str) -> None:
    sampling = Sampling(repeat_penalty=1.2, dry_multiplier=1.0, **{name: limits.TOKENS})
    template = SamplerTemplate(sampling, engine.model, 300)
    assert getattr(template.sampling, name) == 300
    template.close()


def test_a_request_cannot_gather_branches_without_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BRANCHES", 3)
    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
    generation.add_branch(1)
    drive(engine, lambda: len(generation.branches) == 3)
    with pytest.raises(InvalidRequest, match="3 are possible"):
        generation.add_branch(1)
    finish(engine, generation)
