"""What a branch was written with is recorded, and its seed is replayed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.backend import Backend
from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.provenance import Provenance, read_provenance
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import EngineOptions, NotSupported, Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.bans import Bans
from srbwriter.session.replay import KEPT, Replayed, Replayer, Replays, recorded_provenance, written_nodes
from srbwriter.session.sampling import Variety
from srbwriter.session.steering import Steering
from srbwriter.session.tokens import Tokens
from srbwriter.session.variants import Variants
from srbwriter.session.wishes import Wishes
from srbwriter.story import Story
from srbwriter.story.diff import Edit
from srbwriter.story.model import Settings
from tests.engine.scripted import Scripted
from tests.engine.support import exact_model
from tests.fakes.shared_model import load_engine

from .conftest import WAIT, ready, write_round, written

TEXT = "Once upon a time there was a little fox who lived in the woo"
"""It ends inside a word, which the first tokens complete."""
OPTIONS = EngineOptions(n_ctx=1024, gpu_layers=0, seed=5, flash_attn="on", threads=1, max_branches=8)
WAYS = [Variety(), Variety("distinct"), Variety("stratified")]


@contextmanager
def opened(file: Path, text: str = TEXT, model: Path | None = None, **more: Any) -> Generator[Session]:
    story = Story.open(file) if file.exists() else Story.create(file)
    if text:
        story.append(text)
    options = replace(OPTIONS, **more.pop("options", {}))
    usual = {"n": 4, "sampling": Sampling(temperature=0.3), "stop": Stop(max_tokens=24, ignore_eog=True)}
    asked: dict[str, Any] = usual | more
    loader = EngineLoader(model or exact_model(), options, load_engine)
    with closing(Session(story, loader, options=options, **asked)) as session:
        ready(session)
        yield session


def replayed(session: Session, engine: Engine | None = None) -> list[Replayed]:
    """The results of all nodes that the model wrote, in a fresh context if there is another engine."""
    session.keep()
    replayer = Replayer(session.story, engine or session.engine)  # type: ignore[arg-type]
    return [replayer.replay(node) for node in written_nodes(session.story)]


def verdicts(session: Session) -> list[str]:
    return [found.verdict for found in replayed(session)]


@pytest.mark.parametrize("variety", WAYS, ids=lambda way: way.siblings)
def test_a_round_is_replayed_by_another_engine(file: Path, variety: Variety) -> None:
    with opened(file, variety=variety, sampling=Sampling(xtc_probability=0.3, repeat_penalty=1.1)) as session:
        write_round(session)
        session.pick(1)
        write_round(session)
        with load_engine(exact_model(), OPTIONS) as engine:
            found = replayed(session, engine)
            first = [found[0], *found[-2:], next(one for one in found if one.node == session.story.current)]
        assert [one.verdict for one in first] == ["same"] * 4
        # The states of a text that was written are not those of the same text as a prompt, to the last bit.
        assert all(one.verdict != "unknown" and one.missing == 0 for one in found)
        assert all(one.tokens == 24 and not one.elsewhere for one in found)
        assert any(one.given for one in found) is (variety.siblings != "independent")
        for node in written_nodes(session.story):
            assert len(str(session.story.node(node).meta)) < 200
        [made] = set(recorded_provenance(session.story))
        assert made == read_provenance(session.engine)  # type: ignore[arg-type]


def test_it_is_replayed_in_the_session_without_a_trace(file: Path) -> None:
    with opened(file) as session:
        write_round(session)
        session.keep()
        replays, before = Replays.of(session), session.story.to_draft()
        found = replays.replay(2).result(WAIT)
        assert found.verdict == "same" and found.node == session.round.tracks[2].nodes[0][0]  # type: ignore[union-attr]
        assert found.words == "the seed gives the same 24 tokens here" and not replays.progress
        session.pick(3)
        session.typing.text(session.story.text(session.story.current) + " And")
        assert replays.replay().result(WAIT).node == session.round.tracks[3].nodes[0][0]  # type: ignore[union-attr]
        assert {node.id for node in before.nodes} <= {node.id for node in session.story.to_draft().nodes}


def test_a_part_that_was_picked_is_replayed(file: Path) -> None:
    """Its rest, which begins in the middle of the branch, is not."""
    with opened(file, n=1) as session:
        current = write_round(session)
        session.pick(0, upto=len(current.branches[0].text) // 2)
        first, rest = replayed(session)
        assert (first.verdict, first.tokens < 24, rest.verdict) == ("same", True, "unknown")
        assert "continues a branch" in rest.reason


def test_a_branch_that_was_rolled_again_has_its_own_seed(file: Path) -> None:
    with opened(file, n=2, variety=Variety("distinct")) as session:
        current = write_round(session)
        before = current.branches[0].text
        session.steer(0, "reroll")
        assert written(session)[0] != before
        assert verdicts(session) == ["same"] * 3  # the version before had ended, too
        node = session.story.node(current.tracks[0].nodes[0][0])
        assert node.seed == current.branches[0].seed
        assert Replays.of(session).replay(0).result(WAIT).verdict == "same"


def test_phrases_that_branches_go_back_before_are_kept(file: Path) -> None:
    with opened(file, n=3) as session:
        Bans.of(session).ban(("was", "the", "and"))
        current = write_round(session)
        assert any(branch.bans for branch in current.branches)
        session.keep()
        kept = [node for node in written_nodes(session.story) if session.story.node(node).meta.get(KEPT)]
        assert kept and {one.verdict for one in replayed(session) if one.node in kept} == {"same"}


def test_a_fork_at_a_token_is_replayed(file: Path) -> None:
    with opened(file, n=2) as session:
        write_round(session)
        session.pick(0)
        tokens = Tokens.of(session)
        text = tokens.of_story(session.prompter.assemble(session.story.current, Settings(), session.stop),
                               session.story.chars())  # fmt: skip
        tokens.ban(text, len(text.tokens) - 6)
        written(session)
        new = [session.story.node(track.nodes[0][0]) for track in session.round.tracks]
        replayer = Replayer(session.story, session.engine)  # type: ignore[arg-type]
        assert [replayer.replay(node.id).verdict for node in new] == ["same"] * 2
        assert all(node.meta[KEPT]["barred"] for node in new)


def test_a_prompt_that_lost_its_beginning_is_laid_out_again(file: Path) -> None:
    text = "The miller's wife had never seen the sea before, and so she went there. " * 30
    with opened(file, text, n=1, options={"n_ctx": 256}) as session:
        for _ in range(3):
            write_round(session)
            session.pick(0)
        with load_engine(exact_model(), OPTIONS) as larger:  # the window of that time is laid out in it
            found = replayed(session, larger)
        assert [one.reason for one in found] == [""] * 3
        assert all("n ctx: 256, here 1024" in one.elsewhere for one in found)


# ---- when it differs, or nothing can be said


def change_record(session: Session, node: int, **fields: object) -> None:
    story = session.story
    Replays.of(session).later(lambda: None).result(WAIT)  # a record that comes late has come
    story.put_meta(node, KEPT, {**story.node(node).meta[KEPT], **fields})


@pytest.mark.parametrize("closes", [False, True])
def test_branches_that_end_before_the_files_are_read_are_recorded(
    file: Path, closes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def slowly(engine: Backend) -> Provenance | None:
        assert gate.wait(WAIT)
        return read_provenance(engine)

    monkeypatch.setattr("srbwriter.session.replay.read_provenance", slowly)
    with opened(file, n=2) as session:
        current = write_round(session)
        nodes = [track.nodes[0][0] for track in current.tracks]
        assert not any(KEPT in session.story.node(node).meta for node in nodes)
        gate.set()
        if not closes:
            Replays.of(session).later(lambda: None).result(WAIT)
            assert [found.verdict for found in replayed(session)] == ["same", "same"]
    with closing(Story.open(file)) as story:
        assert all(KEPT in story.node(node).meta for node in nodes)


def test_the_first_token_that_differs_is_named(file: Path) -> None:
    with opened(file, "It rained. ", n=1) as session:
        current = write_round(session)
        ids = current.branches[0].ids
        node = current.tracks[0].nodes[0][0]
        for place in (0, 7):
            change_record(session, node, begun=place, barred=[ids[place]])
            [found] = replayed(session)
            assert (found.verdict, found.first, found.missing) == ("differs", place + 1, 0)
            assert f"from token {place + 1} of 24 on" in found.words


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("before", "its prompt would be another one now"),
        ("memory", "its prompt would be another one now"),
        ("edited", "its text was edited"),
        ("rewound", "how it began is not recorded"),
        ("settings", "how it began is not recorded"),
        ("damaged", "cannot be read"),
        ("repelled", "depended on those of its siblings"),
    ],
)
def test_it_says_why_nothing_can_be_said(file: Path, change: str, reason: str) -> None:
    variety = Variety("distinct", 2.0 if change == "repelled" else 0.0)
    stop = Stop(max_tokens=300 if change == "settings" else 24, ignore_eog=True)
    with opened(file, n=2, variety=variety, stop=stop) as session:
        current = session.generate()
        if change == "settings":  # long before it ends
            current.branches[0].set_sampling(Sampling(temperature=0.5))
        written(session)
        node, story = current.tracks[0].nodes[0][0], session.story
        match change:
            case "before":
                story.set_text("Twice" + TEXT[4:], story.current)
            case "memory":
                story.put_settings(story.current, Settings(memory="It is winter."))
            case "edited":
                session.pick(0)
                story.replace(Edit(len(TEXT) + 5, len(TEXT) + 6, "#"))
            case "rewound":
                session.steer(0, "rewind", tokens=5)
                written(session)
                node = current.tracks[0].nodes[0][0]
            case "damaged":
                change_record(session, node, conditions="none")
            case _:
                pass
        found = Replayer(story, session.engine).replay(node)  # type: ignore[arg-type]
        assert found.verdict == "unknown" and reason in found.reason and reason in found.words


def test_another_model_is_no_judge(file: Path) -> None:
    with opened(file, n=1) as session:
        write_round(session)
        with load_engine(bundled_model(), OPTIONS) as other:
            [found] = replayed(session, other)
        assert found.verdict == "unknown" and "another model file wrote it" in found.reason
        session.story.add(session.story.current, ["Imported."], "model")
        assert "its tokens are not known" in replayed(session)[-1].reason


def test_a_replay_stops_when_the_writer_says_so(file: Path) -> None:
    with opened(file, n=1, stop=Stop(max_tokens=600, ignore_eog=True)) as session:
        current = session.generate()
        current.generation.wait(WAIT)  # type: ignore[union-attr]
        session.keep()
        replayer = Replayer(session.story, session.engine)  # type: ignore[arg-type]
        replayer.stop()
        found = replayer.replay(current.tracks[0].nodes[0][0])
        assert found.verdict == "unknown" and found.reason == "the replay was stopped"


def test_an_engine_elsewhere_says_why_not(file: Path) -> None:
    with (
        closing(Scripted("vllm")) as server, RemoteEngine.connect(RemoteOptions(server.url)) as engine,
        Story.create(file) as story, pytest.raises(NotSupported, match="a seed does not bind"),
    ):  # fmt: skip
        Replayer(story, engine)


def test_the_record_of_a_machine_says_what_differs() -> None:
    with load_engine(exact_model(), OPTIONS) as engine:
        here = read_provenance(engine)
    assert here is not None and here == Provenance.from_json(asdict(here))
    assert here.differences(here) == () and Provenance.from_json({**asdict(here), "threads": "1"}) is None
    assert here.differences(replace(here, threads=2)) == ("threads: 1, here 2",)


@pytest.mark.parametrize("way", ["note", "wish", "variants"])
def test_a_branch_with_a_prompt_of_its_own_has_no_verdict(file: Path, way: str) -> None:
    with opened(file, n=2, stop=Stop(max_tokens=200, ignore_eog=True)) as session:
        if way == "variants":
            Variants.of(session).put_sheet("dry:\nwet: note = It rains.")
            Variants.of(session).begin()
        else:
            session.generate()
        if way == "note":
            Steering.of(session).put_note(1, "It rains.").result(WAIT)
        if way == "wish":
            Wishes.of(session).ask("more rain", 1)
        for generation in session.round.generations:  # type: ignore[union-attr]
            generation.wait(WAIT)
        session.keep()
        replayer = Replayer(session.story, session.engine)  # type: ignore[arg-type]
        for index in range(way != "variants", 2):
            found = replayer.replay(session.round.node_of(index))  # type: ignore[union-attr]
            assert found.verdict == "unknown" and "is not recorded" in found.reason
