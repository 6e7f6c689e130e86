"""Variants side by side: what differs, what is shared, and what becomes of their branches."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineError, EngineOptions, InvalidRequest, NotSupported
from srbwriter.session import Session
from srbwriter.session.framing import REQUEST
from srbwriter.session.judging import Judging
from srbwriter.session.loops import Loops
from srbwriter.session.tokens import Tokens
from srbwriter.session.variants import Variant, Variants, read_variants
from srbwriter.story import Story
from srbwriter.tui.write.status import marks
from tests.engine.peers import served
from tests.engine.toy_models import make_lora, make_qwen
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, open_session, ready, written

TEXT = "Once upon a time there was a little fox.\n" * 30 + "One day he said"
RAIN = "It rains all day."
SHEET = f"as it is:\nrain: note = {RAIN}"


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file, TEXT) as opened:
        yield opened


def begin(session: Session, sheet: str = SHEET) -> list[str]:
    """The texts of a round of variants."""
    Variants.of(session).put_sheet(sheet)
    Variants.of(session).begin()
    return written(session)


def labels(session: Session) -> list[str]:
    return [branch.generation.request.label for branch in session.round.branches]


def prompt(session: Session, index: int) -> str:
    ids = session.round.branches[index].generation.prompt_ids
    return session.engine.detokenize(ids, special=True)


def test_each_variant_has_its_share_of_the_branches_and_its_own_prompt(session: Session) -> None:
    texts = begin(session)
    assert labels(session) == ["as it is", "as it is", "rain", "rain"] and all(texts)
    assert [branch.index for branch in session.round.branches] == [0, 1, 2, 3]
    assert [RAIN in prompt(session, index) for index in range(4)] == [False, False, True, True]
    nodes = [session.story.node(session.round.node_of(index)) for index in range(4)]
    assert [node.meta.get("variant") for node in nodes] == labels(session)
    assert [node.text for node in nodes] == texts
    assert not any(marks(session, index) for index in range(4)) and session.round.over


def test_what_prompts_share_is_evaluated_once(session: Session) -> None:
    begin(session, SHEET + "\nsun: note = The sun is shining.\nempty: note =")
    stats = session.engine.stats()
    lengths = [len(branch.generation.prompt_ids) for branch in session.round.branches]
    own = 3 * (len(session.engine.tokenize(TEXT[-130:])) + 12)  # a note is three lines before the end
    assert max(lengths) <= stats.prompt_rows <= min(lengths) + own < sum(lengths) / 2
    assert not stats.evaluated_again


def test_branches_of_a_variant_are_steered_and_added_under_it(session: Session) -> None:
    begin(session)
    session.steer(3, "reroll")
    session.steer(0, "kill")
    session.add_branches(2)
    session.add_branches(1)
    texts = written(session)
    found = labels(session)
    assert found[:4] == ["as it is", "as it is", "rain", "rain"] and found.count("as it is") == 4
    assert len(texts) == 7 and RAIN in prompt(session, found.index("rain", 4))
    node = session.story.node(session.round.node_of(3))
    assert node.meta["variant"] == "rain" and node.text == texts[3]
    session.round.locked.update({0, 1})
    session.reroll_all()
    again = written(session)
    assert again[:2] == texts[:2] and session.round.branches[2].buffer.revision == 1
    assert not Loops.of(session).repeats(session.round.branches[2])


def test_a_pick_goes_on_without_variants_and_going_back_shows_them(session: Session) -> None:
    texts = begin(session)
    here = session.node
    session.pick(2, go_on=True)
    assert session.text() == TEXT + texts[2] and RAIN not in prompt(session, 0)
    assert labels(session) == [""] * 4
    session.revisit(here)
    assert [branch.text for branch in session.round.branches] == texts
    session.steer(1, "extend")
    assert len(written(session)[1]) > len(texts[1])
    assert Judging.of(session).judge().total == 4


def test_a_stop_ends_all_of_them(session: Session) -> None:
    Variants.of(session).put_sheet(SHEET)
    session.stop = type(session.stop)(ignore_eog=True)
    Variants.of(session).begin()
    session.stop_all()
    written(session)
    assert {str(branch.finish_reason) for branch in session.round.branches} == {"stopped"}


def test_after_a_restart_branches_go_on_under_their_variants(file: Path, session: Session) -> None:
    texts = begin(session)
    session.close()
    again = Session(Story.open(file), EngineLoader(short_model(), OPTIONS, load_engine), options=OPTIONS)
    ready(again)
    assert labels(again) == ["as it is", "as it is", "rain", "rain"]
    again.steer(3, "extend")
    longer = written(again)
    assert longer[:3] == texts[:3] and longer[3].startswith(texts[3]) and longer[3] != texts[3]
    assert RAIN in prompt(again, 3) and RAIN not in prompt(again, 1)
    assert labels(again) == ["as it is", "as it is", "rain", "rain"]
    again.close()


def test_templates_frame_the_story_or_not(session: Session) -> None:
    begin(session, "chat: template = chatml\nbare: template = none\nbare: memory = A fable.")
    assert prompt(session, 0).partition("Once")[0].endswith("assistant\n") and REQUEST in prompt(session, 0)
    assert REQUEST not in prompt(session, 2) and "A fable." in prompt(session, 2)
    shown = session.round
    with pytest.raises(InvalidRequest, match="no template is called 'chatmail'; there are"):
        begin(session, "chat: template = chatmail")
    assert shown is not session.round


def test_adapters_are_chosen_by_name_or_number(tmp_path: Path, file: Path) -> None:
    model, warm = make_qwen(tmp_path / "base.gguf"), make_lora(tmp_path / "warm.gguf")
    options = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, lora=((str(warm), 1.0),))
    story = Story.create(file)
    story.append("the little king said no to the old bird")
    session = Session(story, EngineLoader(model, options), n=4, options=options)
    ready(session)
    begin(session, "usual:\nwarm: lora = warm.gguf:0.5\nby number: lora = 0\nnone: lora =")
    asked = [branch.generation.request.lora for branch in session.round.branches]
    assert asked == [None, ((0, 0.5),), ((0, 1.0),), ()]
    with pytest.raises(InvalidRequest, match=r"no adapter cold is loaded \(warm.gguf\)"):
        begin(session, "cold: lora = cold")
    session.close()


def test_another_engine_writes_a_variant(file: Path, session: Session) -> None:
    with load_engine(short_model(), OPTIONS) as engine, served(engine) as url:
        texts = begin(session, f"there: at = {url}/v1\nthere: note = {RAIN}\n{SHEET}")
        assert labels(session) == ["as it is", "rain", "there"] and all(texts)
        current = session.round
        assert list(current.elsewhere) == [current.branches[2].generation]
        node = session.story.node(current.node_of(2))
        assert (node.meta["variant"], node.model) == ("there", engine.info.name)
        with pytest.raises(NotSupported, match="Another model wrote this branch"):
            Tokens.of(session).branch_tokens(2)
        assert Judging.of(session).judge().total == 2
        session.steer(2, "extend")
        assert len(written(session)[2]) > len(texts[2])
        session.close()
    again = Session(Story.open(file), EngineLoader(short_model(), OPTIONS, load_engine), options=OPTIONS)
    ready(again)
    assert labels(again) == ["as it is", "rain", "there"]
    again.steer(2, "extend")
    written(again)
    assert labels(again) == ["as it is", "rain", ""] and RAIN in prompt(again, 2)
    again.pick(2)
    assert again.text().startswith(TEXT + texts[2])
    again.close()


def test_an_address_that_does_not_answer_is_reported_in_its_pane(session: Session) -> None:
    with socket.socket() as taken:  # bound, and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        Variants.of(session).put_sheet(f"there: at = {url}\nas it is:")
        Variants.of(session).begin()
        assert url in Variants.of(session).progress
        texts = written(session)
    assert Variants.of(session).progress == ""
    assert labels(session) == ["as it is", "as it is", "there"] and texts[2] == "" and all(texts[:2])
    branch = session.round.branches[2]
    assert url in str(branch.error) and branch.state.value == "failed"
    with pytest.raises(EngineError, match="Variants side by side asks again"):
        session.steer(2, "reroll")
    session.add_branches(1)
    written(session)
    assert labels(session)[3] == "as it is"


def test_nobody_waits_for_an_engine_after_a_stop(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        Variants.of(session).put_sheet(f"there: at = {url}\nas it is:")
        Variants.of(session).begin()
        assert session.long_work is Variants.of(session)
        session.long_work.stop()
        written(session)
        assert labels(session) == ["as it is", "as it is"] and session.long_work is None
        session.close()


def test_lines_of_a_label_are_one_variant() -> None:
    rain = "# a remark\nrain:  note = It rains: all = wet.\nrain: memory ="
    assert read_variants(f"{rain}\nas it is:\nfar: at = localhost:8080/v1") == (
        Variant("rain", note="It rains: all = wet.", memory=""),
        Variant("as it is"),
        Variant("far", at="http://localhost:8080"),
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("note = It rains.", "has no label"),
        ("It rains.", "has no label"),
        ("rain: It rains.", "is no condition"),
        ("rain: colour = blue", "Write one of note, memory, lora, template, at"),
        ("rain: at = http://", "is no address"),
        (f"{'rain' * 6}: note = x", "at most 20 characters"),
        ("\n".join(f"{number}:" for number in range(17)), "At most 16 variants"),
    ],
)
def test_a_line_that_is_no_variant_is_refused(session: Session, line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Variants.of(session).put_sheet(line)
    with pytest.raises(ValueError, match="There are no variants yet"):
        Variants.of(session).begin()
