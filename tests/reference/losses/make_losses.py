"""Writes losses.safetensors: values and gradients of losses, by torch and torchvision in float64.

usage: make_losses.py [OUT.safetensors]       needs: torch, torchvision, safetensors

Of each case of tests/ops_more_losses.cpp: CASE.0, CASE.1, ... (inputs), CASE.value, and
CASE.gradient.0, ... of the sum of the value.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torchvision.ops import sigmoid_focal_loss

torch.set_default_dtype(torch.float64)
out = {}


def case(name, f, *inputs):
    leaves = [i.clone().requires_grad_() for i in inputs]
    value = f(*leaves)
    gradients = torch.autograd.grad(value.sum(), leaves)
    for i, (leaf, gradient) in enumerate(zip(inputs, gradients)):
        out[f"{name}.{i}"] = leaf.clone().contiguous()
        out[f"{name}.gradient.{i}"] = gradient.clone().contiguous()
    out[f"{name}.value"] = value.detach().clone()


x = torch.tensor([0.5, -1.2, 2, 0.1, 1.5, 0.3, -0.7, 0.9, -0.4, 2.2, 0.6, -1.1]).reshape(3, 4)
y = torch.tensor([0.3, 0.2, -1, 0.1, 2.5, 0.4, -0.9, -0.8, 0.7, 1.2, -0.6, 1.3]).reshape(3, 4)
z = torch.tensor([0.4, 0.1, 1.2, 0.2, 1.3, 0.6, -0.2, 0.5, -0.1, 1.9, 0.9, -0.7]).reshape(3, 4)
case("huber", F.huber_loss, x, y)
case("huber_delta", lambda a, b: F.huber_loss(a, b, delta=0.7, reduction="sum"), x, y)

p, t = torch.tensor([0.1, 0.7, 0.25, 0.6]), torch.tensor([0.0, 0, 1, 0.3])
w = torch.tensor([0.5, 2, 1, 1.5])
case("bce", F.binary_cross_entropy, p, t)
case("bce_weight", lambda a: F.binary_cross_entropy(a, t, weight=w, reduction="none"), p)
case("bce_ends", lambda a: F.binary_cross_entropy(a, t, reduction="sum"), torch.tensor([0.0, 1, 0, 1]))

var = torch.tensor([0.5, 1e-9, 2, 0.3, 0.7, 0.2, 1, 1.5, 0.4, 0.9, 0.1, 3]).reshape(3, 4)
rows = torch.tensor([0.5, 2, 0.1])
case("gaussian", F.gaussian_nll_loss, x, y, var)
case("gaussian_full", lambda a, b, v: F.gaussian_nll_loss(a, b, v, full=True, eps=0.25, reduction="none"), x, y, var)
case("gaussian_rows", lambda a, b, v: F.gaussian_nll_loss(a, b, v, reduction="sum"), x, y, rows)
case("gaussian_column", lambda a, b, v: F.gaussian_nll_loss(a, b, v), x, y, rows.reshape(3, 1))

hard = (y > 0).double()
case("focal", lambda a: sigmoid_focal_loss(a, hard), x)
case("focal_mean", lambda a: sigmoid_focal_loss(a, hard, reduction="mean"), x)
case("focal_options", lambda a: sigmoid_focal_loss(a, hard, alpha=-1, gamma=1.5, reduction="sum"), x)
case("focal_soft", lambda a, b: sigmoid_focal_loss(a, b, reduction="sum"), x, torch.sigmoid(y))
case("focal_gamma_0", lambda a: sigmoid_focal_loss(a, hard, gamma=0), x)

zero_row = x.clone()
zero_row[1] = 0
case("cosine", F.cosine_similarity, x, y)
case("cosine_axis_0", lambda a, b: F.cosine_similarity(a, b, dim=0), x, y)
case("cosine_broadcast", lambda a, b: F.cosine_similarity(a, b, dim=-1), x.reshape(3, 1, 4), y)
case("cosine_zero_row", F.cosine_similarity, zero_row, y)
case("distance", F.pairwise_distance, x, y)
case("distance_p3", lambda a, b: F.pairwise_distance(a, b, p=3, keepdim=True), x, y[0])

signs = torch.tensor([1.0, -1, -1])
case("embedding", lambda a, b: F.cosine_embedding_loss(a, b, signs), x, y)
case("embedding_margin", lambda a, b: F.cosine_embedding_loss(a, b, signs, margin=0.2, reduction="none"), x, y)
case("embedding_row", lambda a, b: F.cosine_embedding_loss(a, b, signs[0], reduction="sum"), x[0], y[0])
case("embedding_zero_row", lambda a, b: F.cosine_embedding_loss(a, b, signs), zero_row, y)

case("triplet", F.triplet_margin_loss, x, y, z)
case("triplet_options", lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=2.5, p=1, swap=True, reduction="none"), x, y, z)
case("triplet_row", lambda a, b, c: F.triplet_margin_loss(a, b, c, reduction="sum"), x[0], y[0], z[0])
case("triplet_same", F.triplet_margin_loss, x, x, x)

T, N, C = 6, 3, 5
logits = torch.sin(torch.arange(T * N * C).double() * 1.7).mul(2).reshape(T, N, C)
padded = torch.tensor([[1, 1, 3], [2, 4, 0], [3, 0, 0]])
joined = torch.tensor([1, 1, 3, 2, 4])


def ctc(name, targets, inputs, lengths, **options):
    case(name, lambda a: F.ctc_loss(a.log_softmax(-1), targets, inputs, lengths, **options), logits)


ctc("ctc", padded, [6, 5, 4], [3, 2, 0])
ctc("ctc_none", padded, [6, 5, 4], [3, 2, 0], reduction="none")
ctc("ctc_joined", joined, [6, 5, 4], [3, 2, 0], reduction="sum")
ctc("ctc_infinite", padded, [3, 5, 0], [3, 2, 1], reduction="none")
ctc("ctc_zero_infinity", padded, [3, 5, 0], [3, 2, 1], zero_infinity=True)
ctc("ctc_nothing", padded, [6, 0, 0], [3, 0, 0], reduction="none")
ctc("ctc_blank_4", torch.tensor([[1, 1, 3], [2, 0, 0], [3, 0, 0]]), [6, 5, 4], [3, 2, 1], blank=4)
case("ctc_one", lambda a: F.ctc_loss(a.log_softmax(-1), padded[0], (6,), (3,)), logits[:, 0])

save_file(out, sys.argv[1] if len(sys.argv) > 1 else "losses.safetensors")
