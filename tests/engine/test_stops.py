"""Looking for stop strings: what is found, against looking everywhere, and how long that takes."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.text import BranchText, Pieces
from srbwriter.engine.types import Stop
from srbwriter.engine.watchers.stop_text import Reader, StopStrings

pieces = st.lists(st.text("ab[^]-", max_size=5), max_size=12)
strings = st.sets(st.text("ab[^]-", min_size=1, max_size=5), min_size=1, max_size=6)


@given(pieces, strings)
def test_the_earliest_and_longest_that_ends_in_a_piece_is_found(texts: list[str], wanted: set[str]) -> None:
    reader = Reader(StopStrings(tuple(sorted(wanted))))
    before = ""
    for text in texts:
        whole = before + text
        ends = [(whole.find(s, k), s) for s in wanted for k in range(len(whole)) if whole.startswith(s, k)]
        new = [(at, s) for at, s in ends if at + len(s) > len(before)]
        found = reader.read(text)
        if new:
            at, string = min(new, key=lambda hit: (hit[0], -len(hit[1])))
            assert found == (at - len(before), at + len(string) - len(before))
            return
        assert found is None
        beginnings = [k for k in range(len(whole)) if any(s.startswith(whole[k:]) for s in wanted)]
        assert reader.open == (len(whole) - beginnings[0] if beginnings else 0)
        before = whole


def test_as_much_as_is_possible_is_looked_for_in_time_that_the_text_takes() -> None:
    """Comparing the held text with every string again for each token took two orders longer."""
    strings = ("x", *("a" * 980 + chr(0x4E00 + k) for k in range(20)))
    branch = BranchText(Pieces([b"a", "é".encode()]), Stop(strings=strings))
    begun = time.process_time()
    for _ in range(3000):
        assert branch.feed(0)[1] is None
    assert branch.decoded - branch.published == 980
    assert len(branch.feed(1)[0]) == 981
    assert time.process_time() - begun < 2.0
