"""A bare loop over llama-cpp-python to compare the engine with: one sequence, one sampler chain."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from pathlib import Path

import llama_cpp as L
import numpy as np
from numpy.typing import NDArray

from srbwriter.engine.types import Sampling

F32, CELLS = 0, 1024


class BareLoop:
    """Evaluates each text from nothing. Keys and values in 32 bits, one thread, no flash attention."""

    def __init__(self, path: Path) -> None:
        loading = L.llama_model_default_params()
        loading.n_gpu_layers = 0
        self.model = L.llama_model_load_from_file(str(path).encode(), loading)
        params = L.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = CELLS
        params.n_seq_max = params.n_threads = params.n_threads_batch = 1
        params.type_k, params.type_v, params.flash_attn_type = F32, F32, 0
        self.context = L.llama_init_from_model(self.model, params)
        self.vocab = L.llama_model_get_vocab(self.model)

    def close(self) -> None:
        L.llama_free(self.context)
        L.llama_model_free(self.model)

    def write(self, prompt: Sequence[int], most: int, sampling: Sampling, seed: int) -> list[int]:
        """Return up to ``most`` tokens, without the one that ends the text."""
        chain = self._chain(sampling, seed)
        for token in prompt:
            L.llama_sampler_accept(chain, token)
        self._evaluate(prompt, first=True)
        written: list[int] = []
        while len(written) < most:
            token = L.llama_sampler_sample(chain, self.context, -1)
            if L.llama_vocab_is_eog(self.vocab, token):
                break
            written.append(token)
            self._evaluate([token])
        L.llama_sampler_free(chain)
        return written

    def logprobs(self, prompt: Sequence[int], ids: Sequence[int]) -> list[NDArray[np.float64]]:
        """Return the natural-log probabilities of all tokens at the place of each of ``ids``."""
        rows: list[NDArray[np.float64]] = []
        self._evaluate(prompt, first=True)
        for token in ids:
            pointer = L.llama_get_logits_ith(self.context, -1)
            row = np.ctypeslib.as_array(pointer, (L.llama_vocab_n_tokens(self.vocab),)).astype(np.float64)
            rows.append(row - row.max() - np.log(np.exp(row - row.max()).sum()))
            self._evaluate([token])
        return rows

    def _evaluate(self, ids: Sequence[int], first: bool = False) -> None:
        if first:
            L.llama_memory_clear(L.llama_get_memory(self.context), True)
        array = (C.c_int32 * len(ids))(*ids)
        assert L.llama_decode(self.context, L.llama_batch_get_one(array, len(ids))) == 0

    def _chain(self, sampling: Sampling, seed: int) -> L.llama_sampler_p:
        chain = L.llama_sampler_chain_init(L.llama_sampler_chain_default_params())
        n_vocab = L.llama_vocab_n_tokens(self.vocab)
        penalties = sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty
        members = [
            L.llama_sampler_init_penalties(n_vocab, sampling.repeat_last_n, *penalties),
            L.llama_sampler_init_top_k(sampling.top_k),
            L.llama_sampler_init_top_p(sampling.top_p, 0),
            L.llama_sampler_init_min_p(sampling.min_p, 0),
            L.llama_sampler_init_temp(sampling.temperature),
            L.llama_sampler_init_dist(seed) if sampling.temperature else L.llama_sampler_init_greedy(),
        ]
        for member in members:
            L.llama_sampler_chain_add(chain, member)
        return chain
