"""Settings that suit the bundled model: they hold where nobody said otherwise, and only with that model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srbwriter.demo
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.demo import bundled_model
from srbwriter.engine.types import Priority, Request, Sampling
from srbwriter.session import Session
from srbwriter.session.rewriting import passage_at
from srbwriter.session.sampling import RememberedKnobs
from srbwriter.session.wishes import ask_wish

from .conftest import ready, write_round, written
from .test_rewriting import variants

SHIPPED = Path(srbwriter.demo.__file__).with_name("storyteller.gguf")
OPENING = "Once upon a time there was a fox. The fox lived in the wood."


@contextmanager
def opened(file: Path, **flags: Any) -> Iterator[Session]:
    said = {
        "model.path": SHIPPED, "model.ctx_size": 1024, "model.gpu_layers": 0, "model.cache_disk": 0,
        "generation.n": 2, "generation.max_tokens": 8, **{n.replace("__", "."): v for n, v in flags.items()},
    }  # fmt: skip
    with closing(Session.open(load(every_key(), said, {}), file)) as session:
        ready(session)
        if not session.text():
            session.story.append(OPENING)
        yield session


def submitted(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that reach the engine from now on."""
    requests: list[Request] = []
    submit = type(session.engine).submit

    def seen(engine: Any, request: Request) -> Any:
        requests.append(request)
        return submit(engine, request)

    monkeypatch.setattr(type(session.engine), "submit", seen)
    return requests


def test_they_hold_where_nobody_said_otherwise(file: Path) -> None:
    with opened(file, sampling__temperature=1.1, sampling__dry_base=2.0) as session:
        sampling = session.sampling
        assert (sampling.dry_multiplier, sampling.dry_sequence_breakers) == (0.8, ("*",))
        assert (sampling.temperature, sampling.dry_base) == (1.1, 2.0)
        assert session.stop.ignore_eog
        assert session.usual.of_model == {
            "dry_allowed_length", "dry_multiplier", "dry_sequence_breakers", "ignore_eog",
        }  # fmt: skip


def test_what_the_writer_changes_stays_with_the_story(file: Path) -> None:
    with opened(file) as session:
        knobs = RememberedKnobs(session, load(every_key(), {}, {}))
        session.sampling = replace(session.sampling, dry_multiplier=0.0)
        session.stop = replace(session.stop, ignore_eog=False)
        knobs.keep()
    with opened(file) as session:
        RememberedKnobs(session, load(every_key(), {}, {})).recall()
        assert session.sampling.dry_multiplier == 0.0
        assert not session.stop.ignore_eog


def test_another_model_has_its_own(file: Path) -> None:
    with opened(file) as session:
        session.sampling = replace(session.sampling, temperature=0.5)
        session.load_model(bundled_model())
        ready(session)
        assert session.sampling == Sampling(temperature=0.5)
        assert not session.stop.ignore_eog and not session.usual.of_model
        session.load_model(SHIPPED)
        assert session.sampling.dry_multiplier == 0.8 and session.stop.ignore_eog


def test_only_a_plain_continuation_is_kept_from_ending_the_story(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(file) as session:
        requests = submitted(session, monkeypatch)
        write_round(session)
        ask_wish(session, "more rain")
        session.round.generation.wait(240)  # type: ignore[union-attr]
        asked = [one for one in requests if one.priority is Priority.NORMAL]  # those ahead are plain
        assert [request.stop.ignore_eog for request in asked] == [True, False]  # type: ignore[union-attr]
        written(session)
        ask_wish(session, "less rain", index=0)
        session.round.generation.wait(240)  # type: ignore[union-attr]
        assert not session.round.branches[0].stop_rule.ignore_eog  # type: ignore[union-attr]


def test_rewriting_fills_no_gap(file: Path) -> None:
    with opened(file) as session:
        assert session.engine is not None and session.engine.fim is not None
        prefix = session.engine.fim[0]
        found = variants(session, passage_at(OPENING, 5, 5))
        assert prefix not in found.generation.prompt_ids
