"""The last tokens of ended branches, evaluated while nobody waits for anything.

A token is sampled, published, and evaluated only when the branch goes on, so picking an ended branch
would begin with a decode of its last token. Done beforehand, and with the logits kept, a pick starts
from what is there. Knows ids and sequences, nothing of requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cache import Cache
from .native.context import OK, Context


class Tails:
    """Paths whose last token is still to be evaluated, newest last; at most ``most`` are remembered."""

    def __init__(self, context: Context, cache: Cache, window: int, most: int) -> None:
        self.context, self.cache, self.window, self.most = context, cache, window, most
        self._paths: dict[tuple[int, ...], None] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: Sequence[int]) -> None:
        """A branch ended at the end of ``path``."""
        if 1 < len(path) < self.window and self.cache.partial:
            self._paths[tuple(path)] = None
            while len(self._paths) > self.most:
                del self._paths[next(iter(self._paths))]

    def remove(self, path: Sequence[int]) -> None:
        """Nobody will go on from ``path``."""
        self._paths.pop(tuple(path), None)

    def clear(self) -> None:
        self._paths.clear()

    def evaluate(self) -> int:
        """Decode in one batch what has room there; rows that were decoded. Nothing is lost for it."""
        self.context.batch.clear()
        leased: list[tuple[int, int]] = []  # sequence, token
        for path in list(reversed(self._paths)):
            before = len(path) - 1
            if self.cache.held(path, before) < before or self.cache.logits_after(path) is not None:
                del self._paths[path]  # more than the last token is missing, or nothing
                continue
            if len(leased) == self.context.max_outputs or not self._has_room(path, len(leased)):
                if leased:
                    break  # in the next batch
                del self._paths[path]
                continue
            del self._paths[path]
            lease = self.cache.lease(path, before)
            if lease is not None and lease.length == before:
                self.context.batch.add_run(path[-1:], lease.length, lease.seq, True)
                leased.append((lease.seq, path[-1]))
            elif lease is not None:
                self.cache.park(lease.seq)
        if leased:
            self._decode(leased)
        return len(leased)

    def _has_room(self, path: tuple[int, ...], more: int) -> bool:
        """Whether the cells, beside ``more`` new tokens of others, take this path and its last token."""
        before, cache = len(path) - 1, self.cache
        missing = before - cache.resident(path, before)
        if not cache.has_id_for(path, before):
            return False
        if cache.used_cells + more + missing < cache.memory.cells:
            return True
        return bool(cache.storage.budget) and cache.make_room(missing + more + 1)

    def _decode(self, leased: list[tuple[int, int]]) -> None:
        done = self.context.decode() == OK
        for row, (seq, token) in enumerate(leased):
            if done:
                self.cache.advance((seq,), (token,))
                self.cache.store_logits(seq, self.context.logits(row))
            else:
                self.context.remove(seq, self.cache.tree.tip[seq].end)
            self.cache.park(seq)
