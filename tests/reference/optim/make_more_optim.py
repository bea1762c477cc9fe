"""Writes more_optim.safetensors: what torch.optim and timm.optim make of four parameters in 20
steps, in float64.

usage: make_more_optim.py [OUT.safetensors]       needs: torch, timm, safetensors

  start.NAME, gradient.NAME (20, ...)   where they begin and the gradient of every step
  CASE.NAME                             where the optimizer of that case ends
`rare` has a gradient in every other step only. Muon gets the matrices alone, and computes in
float64 rather than bfloat16. The cases with groups give `b` settings of its own.
"""
import os
import sys

import timm.optim
import torch
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
torch.manual_seed(2)
shapes = {"w": (3, 5), "tall": (6, 2), "b": (5,), "rare": (2, 3, 4)}
start = {n: torch.randn(s) for n, s in shapes.items()}
gradient = {n: torch.randn((20, *s)) for n, s in shapes.items()}
torch.bfloat16 = torch.float64  # for Muon's iterations
O = torch.optim
lamb = dict(max_grad_norm=None)
cases = {
    "lion": (timm.optim.Lion, {}),
    "lion_options": (timm.optim.Lion, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)),
    "nadam": (O.NAdam, {}),
    "nadam_options": (O.NAdam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1,
                                    momentum_decay=0.1, decoupled_weight_decay=True)),
    "nadam_decay": (O.NAdam, dict(weight_decay=0.1)),
    "radam": (O.RAdam, {}),
    "radam_options": (O.RAdam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1,
                                    decoupled_weight_decay=True)),
    "radam_decay": (O.RAdam, dict(weight_decay=0.1)),
    "lamb": (timm.optim.Lamb, lamb),
    "lamb_options": (timm.optim.Lamb, dict(lr=0.05, betas=(0.8, 0.95), weight_decay=0,
                                           trust_clip=True, always_adapt=True, **lamb)),
    "lamb_plain": (timm.optim.Lamb, dict(lr=0.05, weight_decay=0, bias_correction=False, **lamb)),
    "adafactor": (O.Adafactor, {}),
    "adafactor_options": (O.Adafactor, dict(lr=0.3, beta2_decay=-0.5, eps=(1e-4, 0.5), d=1.5,
                                            weight_decay=0.1)),
    "muon": (O.Muon, {}),
    "muon_options": (O.Muon, dict(lr=0.02, weight_decay=0.01, momentum=0.8, nesterov=False,
                                  ns_steps=3, eps=1e-3, adjust_lr_fn="match_rms_adamw")),
    "muon_spectral": (O.Muon, dict(lr=0.02, adjust_lr_fn="spectral_unclamped",
                                   ns_coefficients=(2.0, -1.5, 0.5))),
    "adamw_groups": (O.AdamW, dict(lr=0.01)),
    "sgd_groups": (O.SGD, dict(lr=0.1)),
}
of_b = {"adamw_groups": dict(betas=(0.5, 0.7), eps=1e-3, weight_decay=0),
        "sgd_groups": dict(momentum=0.9, nesterov=True)}
out = {f"start.{n}": v for n, v in start.items()}
out |= {f"gradient.{n}": v for n, v in gradient.items()}
for case, (kind, options) in cases.items():
    p = {n: v.clone().requires_grad_() for n, v in start.items() if kind != O.Muon or v.ndim == 2}
    # One optimizer a parameter: timm's LAMB counts the steps of a group.
    optimizers = {n: kind([{"params": [v], **(of_b.get(case, {}) if n == "b" else {})}], **options)
                  for n, v in p.items()}
    for step in range(20):
        for n, v in p.items():
            if n == "rare" and step % 2:
                continue
            v.grad = gradient[n][step].clone()
            optimizers[n].step()
    out |= {f"{case}.{n}": v.detach() for n, v in p.items()}
folder = os.path.dirname(os.path.abspath(__file__))
save_file(out, sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "more_optim.safetensors"))
