"""Writes schedules.safetensors: the rates of torch.optim.lr_scheduler by step, in float64.

usage: make_schedules.py [OUT.safetensors]       needs: torch, safetensors

  CASE (40)   the rate of an optimizer with lr 1 in each of 40 steps
  plateau.metric (40), CASE (40) for plateaus: the metric of an epoch, and the rate after it
"""
import os
import sys

import torch
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
S = torch.optim.lr_scheduler


def rates(make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, out = make(optimizer), []
    for _ in range(40):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(out) < 40:
            schedule.step()
    return torch.tensor(out)


def one_cycle(**options):
    return lambda o: S.OneCycleLR(o, max_lr=1.0, total_steps=40, cycle_momentum=False, **options)


def cyclic(**options):
    return lambda o: S.CyclicLR(o, base_lr=0.2, max_lr=1.0, cycle_momentum=False, **options)


out = {name: rates(make) for name, make in {
    "polynomial": lambda o: S.PolynomialLR(o, total_iters=30, power=2.5),
    "one_cycle": one_cycle(),
    "one_cycle_linear": one_cycle(anneal_strategy="linear", pct_start=0.45, div_factor=10.0,
                                  final_div_factor=100.0),
    "one_cycle_three": one_cycle(three_phase=True, pct_start=0.25),
    "one_cycle_start_0": one_cycle(pct_start=0.0),
    "one_cycle_start_1": one_cycle(pct_start=1.0),
    "cyclic": cyclic(step_size_up=5),
    "cyclic_2": cyclic(step_size_up=4, step_size_down=7, mode="triangular2"),
    "cyclic_exp": cyclic(step_size_up=6, mode="exp_range", gamma=0.95),
    "sequential": lambda o: S.SequentialLR(o, [
        S.PolynomialLR(o, total_iters=10, power=1.0), S.StepLR(o, 4, gamma=0.5),
        S.PolynomialLR(o, total_iters=12, power=2.0)], milestones=[7, 21]),
    "chained": lambda o: S.ChainedScheduler([
        S.StepLR(o, 6, gamma=0.5), S.PolynomialLR(o, total_iters=45, power=1.5)]),
}.items()}

metric = torch.sin(torch.arange(40) * 0.7) * 0.3 + 2 / (1 + torch.arange(40) * 0.2)
out["plateau.metric"] = metric
for name, options in {
    "plateau": dict(patience=2),
    "plateau_max": dict(mode="max", factor=0.5, patience=3, cooldown=2, threshold=0.01),
    "plateau_abs": dict(factor=0.6, patience=1, threshold=0.2, threshold_mode="abs", min_lr=0.05),
}.items():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, factors = S.ReduceLROnPlateau(optimizer, eps=0, **options), []
    for m in metric.tolist():
        schedule.step(m)
        factors.append(optimizer.param_groups[0]["lr"])
    out[name] = torch.tensor(factors)
folder = os.path.dirname(os.path.abspath(__file__))
save_file(out, sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "schedules.safetensors"))
