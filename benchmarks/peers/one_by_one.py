"""llama-cpp-python's own ``Llama`` as a process: a JSON request a line, JSON events back.

``python -m benchmarks.peers.one_by_one MODEL CONTEXT THREADS``; 0 leaves the choice to the library. It
writes the n completions of a request one after the other, which is how a script uses it, and keeps the
prompt in its cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_cpp import Llama

from tools.demo_model.runtime import open_model


class CountingLlama:
    """Counts the tokens that are evaluated."""

    def __init__(self, llama: Llama) -> None:
        self.llama, self.evaluated = llama, 0
        evaluate = llama.eval

        def counted(tokens: Sequence[int]) -> None:
            self.evaluated += len(tokens)
            evaluate(tokens)

        llama.eval = counted  # type: ignore[method-assign]

    def write(self, request: dict[str, Any], index: int) -> None:
        """Write completion ``index`` of a request; each token is an event."""
        llama, ids = self.llama, list[int]()
        before = self.evaluated
        llama.set_seed(request["seed"] + index)
        sampling = {name: request[name] for name in ("temp", "top_k", "top_p", "min_p", "repeat_penalty")}
        for token in llama.generate(request["prompt"], **sampling):
            ids.append(token)
            print(json.dumps({"index": index, "id": token}), flush=True)
            if len(ids) == request["tokens"]:
                break
        # Each token but the last one was evaluated for the next.
        print(json.dumps({"evaluated": self.evaluated - before - len(ids) + 1}), flush=True)


def main(argv: Sequence[str]) -> None:
    model, cells, threads = Path(argv[0]), int(argv[1]), int(argv[2])
    settings: dict[str, Any] = {"n_ctx": cells, "n_gpu_layers": 0}
    if threads:
        settings |= {"n_threads": threads, "n_threads_batch": threads, "n_batch": 512, "n_ubatch": 512}
    llama = CountingLlama(open_model(model, **settings))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        for index in range(request["n"]):
            llama.write(request, index)
        print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
