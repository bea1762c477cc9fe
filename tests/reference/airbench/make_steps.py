#!/usr/bin/env python3
"""Steps of airbench94's training in PyTorch, on a small form of its network: steps.safetensors.

Network, optimizer, rate, Lookahead and views are those of legacy/airbench94.py of
https://github.com/KellerJordan/cifar10-airbench (Jordan 2024, arXiv:2404.00498), with one colour
channel, two blocks and batches of 8. Unlike there, the first weights are made in f64, and before the
slow weights. tests/models/test_airbench.cpp repeats the steps.
"""
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

STEPS, BATCH, SIDE, CLASSES, BIAS_STEPS = 12, 8, 9, 3, 7
torch.manual_seed(0)
torch.set_num_threads(1)


class Norm(nn.BatchNorm2d):
    def __init__(self, channels):
        super().__init__(channels, eps=1e-12, momentum=1 - 0.6)
        self.weight.requires_grad = False


class Conv(nn.Conv2d):
    def __init__(self, i, o, kernel=3, padding="same", bias=False):
        super().__init__(i, o, kernel, padding=padding, bias=bias)
        if bias:
            self.bias.data.zero_()
        torch.nn.init.dirac_(self.weight.data[: self.weight.size(1)])


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.norm1, self.conv2, self.norm2 = Conv(i, o), Norm(o), Conv(o, o), Norm(o)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.whitening = Conv(1, 8, 2, padding=0, bias=True)
        self.whitening.weight.requires_grad = False
        self.blocks = nn.ModuleList([Block(8, 9), Block(9, 10)])
        self.head = nn.Linear(10, CLASSES, bias=False)

    def forward(self, x):
        x = F.gelu(self.whitening(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.amax((2, 3))) / 9


def whiten(layer, images, eps=5e-4):
    patches = F.unfold(images.double(), 2).transpose(1, 2).reshape(-1, 4)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / torch.sqrt(values + eps)).T.flip(0)
    largest = filters.gather(1, filters.abs().argmax(1, keepdim=True))
    filters = torch.where(largest < 0, -filters, filters).reshape(-1, 1, 2, 2)
    layer.weight.data[:] = torch.cat((filters, -filters))


images = F.avg_pool2d(torch.randn(STEPS * BATCH, 1, SIDE + 2, SIDE + 2), 3, 1) * 3
labels = torch.randint(CLASSES, (STEPS * BATCH,))
net = Net()
whiten(net.whitening, images)
state = lambda: {k: v.clone() for k, v in net.state_dict().items() if not k.endswith(("norm1.weight", "norm2.weight"))}
out = {"images": images, "labels": labels} | {"start." + k: v for k, v in state().items()}

momentum = 0.85
kilostep = 1024 * (1 + 1 / (1 - momentum))
lr, wd = 11.5 / kilostep, 0.0153 * BATCH / kilostep
trained = [(k, p) for k, p in net.named_parameters() if p.requires_grad]
optimizer = torch.optim.SGD(
    [
        dict(params=[p for k, p in trained if "norm" in k], lr=64 * lr, weight_decay=wd / (64 * lr)),
        dict(params=[p for k, p in trained if "norm" not in k], lr=lr, weight_decay=wd / lr),
    ],
    momentum=momentum,
    nesterov=True,
)


def rate(step):
    rise = int(STEPS * 0.23)
    if step < rise:
        return 0.2 + 0.8 * step / rise
    return 1 - 0.93 * (step - rise) / (STEPS - rise)


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
slow = {k: v.clone() for k, v in net.state_dict().items()}


def lookahead(decay):
    for s, p in zip(slow.values(), net.state_dict().values()):
        if p.dtype == torch.float:
            s.lerp_(p, 1 - decay)
            p.copy_(s)


losses = []
for step in range(1, STEPS + 1):
    net.whitening.bias.requires_grad = step <= BIAS_STEPS
    some = slice((step - 1) * BATCH, step * BATCH)
    loss = F.cross_entropy(net(images[some]), labels[some], label_smoothing=0.2, reduction="none").sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item() / BATCH)
    if step % 5 == 0:
        lookahead(0.95**5 * (step / STEPS) ** 3)
lookahead(1.0)

out |= {"end." + k: v for k, v in state().items()}
out["losses"] = torch.tensor(losses, dtype=torch.float64)
save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.safetensors"))
print(losses)
