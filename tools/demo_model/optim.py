"""Optimisers and the learning-rate schedule. Knows parameters by shape, no data and no files.

Hidden matrices are trained with Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/;
coefficients of the quintic iteration from there), everything else with AdamW.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from tools.demo_model.model import Llama

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalise(batch: Tensor, steps: int = 5) -> Tensor:
    """Approximate U·Vᵀ of each matrix of a `n` × rows × columns batch, in bfloat16."""
    a, b, c = NEWTON_SCHULZ
    x = batch.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(batch.dtype)


class Muon(Optimizer):
    """Momentum whose update is orthogonalised; matrices of one shape are handled as one batch."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                momenta = [self.momentum(p, group["momentum"]) for p in parameters]
                updates = orthogonalise(torch.stack(momenta))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-scale)

    def momentum(self, parameter: Tensor, factor: float) -> Tensor:
        """Nesterov momentum of the parameter's gradient."""
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum"]
        gradient = parameter.grad
        assert gradient is not None
        buffer.lerp_(gradient, 1 - factor)
        return gradient.lerp(buffer, factor)


def make_optimisers(model: Llama, muon_lr: float, adam_lr: float, decay: float) -> list[Optimizer]:
    """Muon for the matrices of the blocks, AdamW for embedding, head and norms."""
    hidden = [p for p in model.blocks.parameters() if p.ndim == 2]
    chosen = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [
        Muon(hidden, lr=muon_lr, weight_decay=decay),
        AdamW(rest, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


@dataclass
class Schedule:
    """Warm-up, constant, then straight to zero; the descent can be called for at any step."""

    total: int
    warmup: int
    decay_from: int

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at `step` (from 0)."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if step < self.decay_from:
            return 1.0
        return max(0.0, (self.total - step) / (self.total - self.decay_from))

    def finish_in(self, step: int, steps: int) -> None:
        """End `steps` steps after `step`, descending straight from the present rate."""
        now = self.factor(step)
        self.total = step + steps
        # A line through the present rate that reaches zero at the new end.
        self.decay_from = self.total - round(steps / now) if now > 0 else step
