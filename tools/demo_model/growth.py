"""Make a model larger without changing its results.

Wider: every new feature, head and hidden unit is a copy of an old one, and the weights that read several
copies divide the old weight among them, unevenly and at random, so that the copies learn different things
(Chen et al. 2016, arXiv:1511.05641; for transformers Samragh et al. 2024, arXiv:2409.12903). Deeper: new
layers are copies of the layer before them whose two projections into the residual stream are zero, so each is
the identity until trained (Gong et al. 2019, Shen et al. 2022). New vocabulary rows are the mean row; a tied
head becomes a copy of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tools.demo_model.model import Block, Config, Llama

#: The lightest and the heaviest share of an old weight, before those of its copies are made to sum to one.
SHARES = (0.5, 1.5)


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


def copies(what: str, old: int, new: int) -> Tensor:
    """For each of `new` units the old unit that it is a copy of."""
    if new < old:
        raise ValueError(f"cannot grow {what} from {old} to {new}")
    return torch.arange(new) % old


def shared_out(weight: Tensor, inputs: Tensor) -> Tensor:
    """Columns of `weight` for the copied `inputs`; the columns of one old input sum to the old column."""
    low, high = SHARES
    shares = torch.empty(len(weight), len(inputs)).uniform_(low, high)
    if len(inputs) == weight.shape[1]:
        return weight.clone()
    sums = torch.zeros_like(weight).index_add_(1, inputs, shares)
    return weight[:, inputs] * shares / sums[:, inputs]


class Widening:
    """Which old feature, attention row and hidden unit each new one copies."""

    def __init__(self, old: Config, new: Config) -> None:
        if new.width % old.width:
            raise ValueError(f"cannot grow width {old.width} to {new.width}: not a multiple")
        if new.head_dim != old.head_dim:
            raise ValueError(f"cannot grow heads of {old.head_dim} to {new.head_dim}")
        self.features = copies("width", old.width, new.width)
        heads = copies("heads", old.heads, new.heads)
        self.rows = (heads[:, None] * old.head_dim + torch.arange(old.head_dim)).flatten()
        self.hidden = copies("hidden", old.hidden, new.hidden)

    def block(self, source: Block, target: Block) -> None:
        """Fill `target` with what `source` computes."""
        for name, outputs, inputs in (
            ("q", self.rows, self.features),
            ("k", self.rows, self.features),
            ("v", self.rows, self.features),
            ("o", self.features, self.rows),
            ("gate", self.hidden, self.features),
            ("up", self.hidden, self.features),
            ("down", self.features, self.hidden),
        ):
            weight = getattr(source, name).weight[outputs]
            getattr(target, name).weight.copy_(shared_out(weight, inputs))
        for name in ("attn_norm", "ffn_norm"):
            getattr(target, name).weight.copy_(getattr(source, name).weight[self.features])


@torch.no_grad()
def grow(model: Llama, config: Config, dropout: float = 0.0) -> Llama:
    """A model of the larger shape `config` that gives the same logits for the old tokens.

    Raises ValueError where the shape is smaller somewhere, or would need a tied head that `model` has not.
    """
    grown, wider = Llama(config, dropout), Widening(model.config, config)
    copy_rows(model.embed.weight[:, wider.features], grown.embed.weight)
    if config.tied and (not model.config.tied or config.width > model.config.width):
        raise ValueError("cannot tie the head of a model that is made wider or has one of its own")
    if not config.tied:
        copy_rows(shared_out(model.head.weight, wider.features), grown.head.weight)
    grown.norm.weight.copy_(model.norm.weight[wider.features])
    for block, (source, silent) in zip(
        grown.blocks, origins(model.config.layers, config.layers), strict=True
    ):
        wider.block(model.blocks[source], block)
        if silent:
            nn.init.zeros_(block.o.weight)
            nn.init.zeros_(block.down.weight)
    return grown


def copy_rows(old: Tensor, new: Tensor) -> None:
    new[: len(old)] = old
    new[len(old) :] = old.mean(dim=0)
