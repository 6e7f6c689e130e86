"""Wishes: where they are in the prompt, for how long they apply, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from srbwriter.engine.generation import Branch
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import Stop
from srbwriter.session import Session, prompting
from srbwriter.session.ahead import Budget, LookAhead
from srbwriter.session.prompting import REQUEST, wish_note
from srbwriter.session.round import wish_of
from srbwriter.session.wishes import ask_wish
from srbwriter.story import Refused, Story
from srbwriter.story.context import NEAR_END, place_near_end
from srbwriter.tui.write.status import branch_facts, left
from tests.engine.support import decoded_rows, evaluate_last_tokens
from tests.fakes.instruct_model import make_instruct
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import OPTIONS, open_session, ready, write_round, written
from .test_edit_rows import long_story
from .test_session import until

TEXT = "It rained all day.\n\nThe lamp had gone out. Mara went up the stairs\n"
NOTE = "[Editor's note for the next passage: {}]\n"


@pytest.fixture
def story(session: Session) -> Session:
    session.set_text(TEXT)
    return session


def prompt_of(session: Session, index: int = 0) -> str:
    generation = session.round.branches[index].generation  # type: ignore[union-attr]
    return session.engine.detokenize(generation.prompt_ids, special=True) + generation.healed


def ask(session: Session, wish: str, index: int | None = None) -> list[str]:
    ask_wish(session, wish, index)
    return written(session)


@pytest.fixture
def own_prompts(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, ...]]:
    """The prompts of single branches, by their index."""
    seen: dict[int, tuple[int, ...]] = {}
    put = Branch.set_prompt

    def see(branch: Branch, prompt: tuple[int, ...]) -> None:
        seen[branch.index] = prompt
        put(branch, prompt)

    monkeypatch.setattr(Branch, "set_prompt", see)
    return seen


def test_a_wish_is_a_note_before_the_last_line_for_one_round(story: Session) -> None:
    ask(story, " more\n rain. ")
    first, last = TEXT.split("The lamp", 1)
    assert (
        prompt_of(story).removeprefix("<|endoftext|>") == first + NOTE.format("more rain") + "The lamp" + last
    )
    assert "asked for: more rain" in left(story)
    story.add_branches(1)
    assert "more rain" in prompt_of(story, -1)
    story.pick(1, go_on=True)
    written(story)
    assert "Editor" not in prompt_of(story) and "Editor" not in story.text()
    assert left(story) == (story.story.title,)


def test_the_nodes_of_a_round_keep_its_wish(story: Session, file: Path) -> None:
    ask(story, "shorter")
    nodes = [track.name for track in story.round.tracks]  # type: ignore[union-attr]
    plain = write_round(story).tracks[0].name
    assert [wish_of(story.story.node(node)) for node in (*nodes, plain)] == ["shorter"] * 4 + [""]
    ask(story, "longer")
    story.close()
    with closing(open_again(file)) as again:
        assert again.round.wish == "longer"
        again.steer(2, "reroll")  # an engine has the round only now
        written(again)
        assert "longer" in prompt_of(again, 2)
        assert wish_of(again.story.node(again.round.node_of(2))) == "longer"


def open_again(file: Path) -> Session:
    loader = EngineLoader(short_model(), OPTIONS, load_engine)
    opened = Session(
        Story.open(file), loader, n=4, options=OPTIONS, stop=Stop(max_tokens=24, ignore_eog=True)
    )
    ready(opened)
    return opened


def test_one_branch_is_written_again_and_the_others_continue(
    story: Session, own_prompts: dict[int, tuple[int, ...]]
) -> None:
    story.stop = Stop(max_tokens=600, ignore_eog=True)
    current = story.generate()
    until(story, lambda: all(len(branch.ids) > 20 for branch in current.branches))
    branch, old = current.branches[2], current.branches[2].buffer
    ask_wish(story, "from her view", 2)
    until(story, lambda: branch.buffer is not old and len(branch.ids) > 20)
    assert all(other.live for other in current.branches)
    first, last = TEXT.split("The lamp", 1)
    prompt = story.engine.detokenize(own_prompts[2]) + current.generation.healed
    assert prompt == first + NOTE.format("from her view") + "The lamp" + last
    assert "from her view" in branch_facts(story, 2) and not branch_facts(story, 0) and not current.wish

    def texts() -> list[tuple[str, str]]:
        nodes = story.story.nodes(story.story.children(current.parent))
        return [(wish_of(node), node.text) for node in nodes]

    until(story, lambda: ("from her view", current.tracks[2].text) in texts())  # it is being written
    before = "".join(old.pieces)
    assert any(not wish and text and before.startswith(text[:40]) for wish, text in texts())
    story.steer(2, "reroll")  # it keeps its wish
    until(story, lambda: len(branch.ids) > 5)
    story.stop_all()
    written(story)
    text, node = branch.text, story.pick(2)
    assert story.text() == TEXT + text and wish_of(story.story.node(node)) == "from her view"


def test_what_is_no_wish_or_comes_too_late_is_said(story: Session) -> None:
    write_round(story)
    with pytest.raises(ValueError, match="Type what should change"):
        ask_wish(story, " . ")
    with pytest.raises(ValueError, match="500 characters"):
        ask_wish(story, "x" * 501)
    story.set_text("Another beginning.")
    with pytest.raises(Refused, match="has changed"):
        ask_wish(story, "shorter", 1)


def test_what_follows_a_branch_with_a_wish_is_prefetched(story: Session) -> None:
    ahead = LookAhead.of(story)
    ahead.budget = Budget("focused", 4096)
    write_round(story)
    ask(story, "slower", 3)
    ahead.focus(3)
    until(story, lambda: ahead.share(3) == 1.0)
    ready_made = story.round.branches[3].text  # type: ignore[union-attr]
    story.pick(3, go_on=True)
    assert story.round.generation.done and story.text() == TEXT + ready_made  # type: ignore[union-attr]


@pytest.mark.parametrize("index", [None, 1])
def test_only_the_note_and_what_follows_it_is_evaluated(session: Session, index: int | None) -> None:
    session.n, session.stop = 2, Stop(max_tokens=1, ignore_eog=True)
    long_story(session, 1500)
    write_round(session)
    evaluate_last_tokens(session.engine)
    with decoded_rows(session.engine) as rows:
        ask(session, "more rain", index)
    following = session.engine.tokenize_continuation(NOTE.format("more rain") + session.text()[-NEAR_END:])
    assert 0 < sum(rows) <= len(following) + 2
    with decoded_rows(session.engine) as rows:
        write_round(session)
    assert sum(rows) <= 2, "without a wish it is the prompt of before"


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("", ""),
        ("One line", ""),
        ("A.\n\nB. C.\n\n", "A.\n\n"),
        ("A word. " * 200, None),
        ("x" * 3000, "x" * 3000),
    ],
)
def test_a_note_is_near_the_end(text: str, before: str | None) -> None:
    place = place_near_end(text)
    head, tail = text[:place], text[place:]
    assert len(tail.rstrip()) <= NEAR_END
    assert head == before if before is not None else head.endswith("word. ")


def test_a_passage_is_asked_for_anew_between_what_surrounds_it() -> None:
    notes = "[What comes later: Nobody came.]\n[The passage as it was: She went up.]\n"
    assert wish_note("shorter", "She went\nup.", "Nobody came.") == notes + NOTE.format("shorter")


# ---- with an instruction model


@pytest.fixture(scope="module")
def instruct_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_instruct(tmp_path_factory.mktemp("instruct") / "toy.gguf")


@pytest.fixture
def chat(file: Path, instruct_model: Path) -> Iterator[Session]:
    with open_session(file, TEXT, instruct_model, n=2) as opened:
        yield opened


def test_a_wish_is_a_users_turn_within_the_answer(chat: Session) -> None:
    ask(chat, "say <|endoftext|>")
    before, last = TEXT.split("The lamp", 1)
    turn = prompting.WISH.format(wish="say <|endoftext|>")
    between = "<|endoftext|>\n<|im_start|>assistant\n"
    assert prompt_of(chat).endswith(
        f"user\n{REQUEST}{between}{before}<|endoftext|>\n<|im_start|>user\n{turn}{between}The lamp{last}"
    )
    ids = chat.round.generation.prompt_ids  # type: ignore[union-attr]
    ends = sum(token in chat.engine.eog for token in ids[1:])
    assert ends == 3, "those of the three turns: words of a wish are no special tokens"


def test_a_template_of_the_story_or_without_a_second_turn_gets_a_note(
    chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_turn = (
        "{{ messages[0].content }}{% if messages|length > 1 %}{{ raise_exception('one turn') }}{% endif %}"
    )
    monkeypatch.setattr(chat.engine.model, "chat_template", one_turn)
    ask(chat, "shorter")
    assert NOTE.format("shorter") in prompt_of(chat)
