"""Gives the people of simple stories other names, so that a story is not known by heart by its names.

Simple stories are few and use the same few dozen first names again and again; a model that sees each
story many times learns it by them. A renamed copy of a story has other names of the same kind
throughout, drawn by how often each occurs in all stories, so that the names keep their frequencies.
Knows text, no tokens.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable

KINDS = (
    "Lily Sue Mia Lucy Anna Amy Sara Sally Jane Kitty Sarah Daisy Lila Jill Molly Emma Bella Mimi Mary Jenny "
    "Lisa Luna Emily Ann Ella Polly Susie Betty Dolly Lola Alice Maria Kate Tina Ellie Penny Rosie".split(),
    "Tim Tom Ben Max Sam Timmy Bob Jack John Joe Billy Tommy Benny Leo Mark Jimmy Jake Bobby Fred Sammy "
    "Pete Jerry Jim Andy Teddy Peter Johnny Toby Bill Alex Freddy Joey Charlie Dave Danny George Henry "
    "Paul".split(),
)
_NAME = re.compile(r"\b(?:" + "|".join(name for kind in KINDS for name in kind) + r")\b")


def name_counts(stories: Iterable[str]) -> Counter[str]:
    """How many of the stories each name occurs in."""
    return Counter(name for story in stories for name in set(_NAME.findall(story)))


def draw(names: list[str], weights: list[float], count: int, rng: random.Random) -> list[str]:
    """`count` different names, each drawn by weight from those that are left."""
    # The largest of u^(1/w): weighted sampling without replacement (Efraimidis and Spirakis 2006).
    keys = {name: rng.random() ** (1 / weight) for name, weight in zip(names, weights, strict=True) if weight}
    return sorted(keys, key=keys.__getitem__, reverse=True)[:count]


def renamed(story: str, counts: Counter[str], rng: random.Random) -> str:
    """`story` with each name replaced, everywhere alike, and no two names made one."""
    present = set(_NAME.findall(story))
    new: dict[str, str] = {}
    for kind in KINDS:
        old = [name for name in kind if name in present]
        new.update(zip(old, draw(kind, [counts[name] for name in kind], len(old), rng), strict=True))
    return _NAME.sub(lambda match: new[match[0]], story)
