"""Writes optim.safetensors: what torch.optim makes of three parameters in 20 steps, in float64.

usage: make_optim.py [OUT.safetensors]       needs: torch, safetensors

  start.NAME, gradient.NAME (20, ...)   where they begin and the gradient of every step
  CASE.NAME                             where the optimizer of that case ends
`rare` has a gradient in every other step only. The cases with groups give `b` lr 0.02 and no decay.
"""
import os, sys
import torch
from safetensors.torch import save_file

torch.manual_seed(1)
shapes = {'w': (3, 5), 'b': (5,), 'rare': (2,)}
start = {n: torch.randn(s, dtype=torch.float64) for n, s in shapes.items()}
gradient = {n: torch.randn((20, *s), dtype=torch.float64) for n, s in shapes.items()}
O = torch.optim
cases = {
    'adamw': (O.AdamW, {}),
    'adamw_groups': (O.AdamW, dict(lr=.01, betas=(.8, .95), eps=1e-6, weight_decay=.1)),
    'adam': (O.Adam, dict(lr=.01, weight_decay=.1)),
    'sgd': (O.SGD, dict(lr=.1, weight_decay=.01)),
    'sgd_momentum': (O.SGD, dict(lr=.1, momentum=.9, dampening=.3, weight_decay=.01)),
    'sgd_nesterov': (O.SGD, dict(lr=.1, momentum=.8, nesterov=True)),
    'rmsprop': (O.RMSprop, dict(weight_decay=.05)),
    'rmsprop_centered': (O.RMSprop, dict(lr=.02, alpha=.9, centered=True)),
    'rmsprop_momentum': (O.RMSprop, dict(lr=.02, alpha=.9, eps=1e-6, momentum=.7, centered=True)),
    'adadelta': (O.Adadelta, dict(weight_decay=.01)),
    'adadelta_lr': (O.Adadelta, dict(lr=.5, rho=.8, eps=1e-4)),
}
out = {f'start.{n}': v for n, v in start.items()} | {f'gradient.{n}': v for n, v in gradient.items()}
for case, (kind, options) in cases.items():
    p = {n: v.clone().requires_grad_() for n, v in start.items()}
    groups = list(p.values())
    if case.endswith('groups'):
        groups = [{'params': [p['w'], p['rare']]}, {'params': [p['b']], 'lr': .02, 'weight_decay': 0.}]
    optimizer = kind(groups, **options)
    for step in range(20):
        for n, v in p.items():
            v.grad = None if n == 'rare' and step % 2 else gradient[n][step].clone()
        optimizer.step()
    out |= {f'{case}.{n}': v.detach() for n, v in p.items()}
folder = os.path.dirname(os.path.abspath(__file__))
save_file(out, sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, 'optim.safetensors'))
