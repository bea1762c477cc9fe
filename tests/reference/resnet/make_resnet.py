"""Writes torchvision's numbers for test_resnet_state.cpp and for parity (../resnet.safetensors).

usage: make_resnet.py OUT_DIR
needs: pip install torch torchvision safetensors numpy timm transformers   (CPU only; PyTorch 2.x)

OUT_DIR/resnet.safetensors: a narrow ResNet in evaluation, as make_reference.py writes models.
OUT_DIR/resnet/forms.safetensors, f64 but for counters: narrow forms in training. "<form>/state.<name>"
  are weights and statistics, "<form>/logits" the result for "images" (4, 3, 21, 18), "<form>/grad.<name>"
  the gradients of the cross entropy with "labels", "<form>/after.<name>" the statistics then, and
  "<form>/eval" the logits in evaluation with them.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from make_reference import write  # noqa: E402


class Narrow(ResNet):
    """torchvision's with another width than 64."""

    def __init__(self, width, block, layers, classes, **options):
        self.__dict__["width"], self.__dict__["channels"] = width, None
        super().__init__(block, layers, num_classes=classes, **options)
        self.fc = nn.Linear(self.inplanes, classes)

    @property
    def inplanes(self):
        return self.channels

    @inplanes.setter
    def inplanes(self, value):  # the first is torchvision's 64
        self.__dict__["channels"] = value if self.channels else self.width

    def _make_layer(self, block, planes, *rest, **options):
        return super()._make_layer(block, planes * self.width // 64, *rest, **options)


def small(model):
    """The usual form for 32 x 32 pictures."""
    model.conv1 = nn.Conv2d(3, model.conv1.out_channels, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def shaken(model):
    """Norms and statistics that are not those of a fresh model."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.2)
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.normal_(0, 0.3)
            if name.endswith("running_var"):
                b.uniform_(0.5, 2)
    return model


def numbers(t):
    return t.detach().clone().contiguous()


def forms(folder):
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    images, labels = torch.randn(4, 3, 21, 18), torch.tensor([1, 0, 4, 2])
    tensors = {"images": images, "labels": labels}
    models = {
        "basic": Narrow(2, BasicBlock, [1, 2, 1, 1], 5),
        "small": small(Narrow(2, BasicBlock, [1, 1, 1, 1], 5)),
        "bottleneck": Narrow(1, Bottleneck, [2, 1, 1, 1], 5, groups=2),
    }
    for form, model in models.items():
        shaken(model).train()
        tensors.update({f"{form}/state.{n}": numbers(t) for n, t in model.state_dict().items()})
        logits = model(images)
        F.cross_entropy(logits, labels).backward()
        tensors[f"{form}/logits"] = numbers(logits)
        tensors.update({f"{form}/grad.{n}": numbers(p.grad) for n, p in model.named_parameters()})
        tensors.update({f"{form}/after.{n}": numbers(b) for n, b in model.named_buffers()})
        tensors[f"{form}/eval"] = numbers(model.eval()(images))
    os.makedirs(os.path.join(folder, "resnet"), exist_ok=True)
    save_file(tensors, os.path.join(folder, "resnet", "forms.safetensors"))
    torch.set_default_dtype(torch.float32)


torch.set_num_threads(1)
torch.manual_seed(1)
model = shaken(Narrow(3, BasicBlock, [2, 1, 1, 1], 10))
write(sys.argv[1], "resnet", model, [torch.randn(3, 3, 40, 33)], F.cross_entropy,
      torch.randint(0, 10, (3,)), dict(names="torchvision resnet18"))
forms(sys.argv[1])
