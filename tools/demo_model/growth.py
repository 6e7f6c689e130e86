"""Makes a model larger without changing what it computes. Knows no training and no files.

New layers are copies of the layer before them whose two projections into the residual stream are
zero (so each is the identity until trained; Gong et al. 2019, Shen et al. 2022), new vocabulary rows
are the mean row, a tied head becomes a copy of its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from tools.demo_model.model import Llama


def origins(old: int, new: int) -> list[tuple[int, bool]]:
    """For each of `new` layers the old layer it is made from and whether it is only a silent copy.

    Copies are spread evenly, each behind its original.
    """
    if new < old:
        raise ValueError(f"cannot grow {old} layers to {new}")
    plan: list[tuple[int, bool]] = []
    for layer in range(old):
        copies = new * (layer + 1) // old - new * layer // old - 1
        plan += [(layer, False)] + [(layer, True)] * copies
    return plan


def grow(model: Llama, layers: int, vocab: int, context: int, tied: bool, dropout: float = 0.0) -> Llama:
    """A model with more layers, tokens and context that gives the same logits for the old tokens."""
    config = replace(model.config, layers=layers, vocab=vocab, context=context, tied=tied)
    grown = Llama(config, dropout)
    with torch.no_grad():
        copy_rows(model.embed.weight, grown.embed.weight)
        copy_rows(model.head.weight, grown.head.weight)
        grown.norm.load_state_dict(model.norm.state_dict())
        for block, (source, silent) in zip(grown.blocks, origins(model.config.layers, layers), strict=True):
            block.load_state_dict(model.blocks[source].state_dict())
            if silent:
                nn.init.zeros_(block.o.weight)
                nn.init.zeros_(block.down.weight)
    return grown


def copy_rows(old: torch.Tensor, new: torch.Tensor) -> None:
    new[: len(old)] = old
    new[len(old) :] = old.mean(dim=0)
