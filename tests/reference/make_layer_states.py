"""Writes PyTorch's layers: the states that tern must load under the same names, what they give in
training and in evaluation, gradients, and buffers after the step.

usage: make_layer_states.py OUT_DIR
needs: torch, safetensors (CPU only)

OUT_DIR/states.safetensors, all f64 but for counters, of every layer NAME: NAME/state.<name> before,
NAME/input, NAME/output in training, NAME/grad.<name> of sum(output * probe) with NAME/grad.input,
NAME/after.<name> the state after that pass, NAME/eval the output in evaluation then. The probe is
cos(i), i counting elements from 0.
"""
import sys, torch, torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from safetensors.torch import save_file

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)

class BilinearOfParts(nn.Bilinear):
    def forward(self, x):
        return super().forward(x[..., :4].contiguous(), x[..., 4:].contiguous())


LAYERS = {
    "batch_norm1d": (nn.BatchNorm1d(3), (4, 3)),
    "batch_norm1d_length": (nn.BatchNorm1d(3, momentum=.3, eps=1e-3), (2, 3, 4)),
    "batch_norm3d": (nn.BatchNorm3d(2, affine=False), (2, 2, 2, 2, 3)),
    "batch_norm_cumulative": (nn.BatchNorm2d(2, momentum=None), (2, 2, 2, 3)),
    "batch_norm_untracked": (nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
    "instance_norm1d": (nn.InstanceNorm1d(3), (2, 3, 5)),
    "instance_norm2d": (nn.InstanceNorm2d(3, affine=True, eps=1e-3), (2, 3, 2, 3)),
    "instance_norm2d_tracked": (nn.InstanceNorm2d(3, track_running_stats=True, momentum=.3), (2, 3, 2, 3)),
    "instance_norm3d": (nn.InstanceNorm3d(2, affine=True, track_running_stats=True), (3, 2, 2, 1, 3)),
    "prelu": (nn.PReLU(), (3, 4)),
    "prelu_channels": (nn.PReLU(3, init=.1), (2, 3, 4)),
    "conv3d": (nn.Conv3d(2, 4, (2, 1, 3), stride=(1, 2, 1), padding=(1, 0, 1), groups=2), (2, 2, 3, 3, 4)),
    "conv2d_reflect": (nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode="reflect"), (2, 2, 4, 5)),
    "conv1d_replicate": (nn.Conv1d(2, 3, 3, padding=2, dilation=2, padding_mode="replicate"), (2, 2, 5)),
    "conv3d_circular": (nn.Conv3d(2, 2, 2, padding=1, bias=False, padding_mode="circular"), (1, 2, 2, 3, 2)),
    "conv_transpose1d": (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5)),
    "conv_transpose2d": (nn.ConvTranspose2d(3, 2, (2, 3), stride=(2, 1), dilation=(1, 2)), (2, 3, 3, 4)),
    "conv_transpose3d": (nn.ConvTranspose3d(2, 3, 2, stride=2, bias=False), (1, 2, 2, 1, 3)),
    "weight_norm": (weight_norm(nn.Linear(4, 3)), (2, 4)),
    "weight_norm_dim1": (weight_norm(nn.Conv2d(2, 3, 2), dim=1), (2, 2, 3, 4)),
    "weight_norm_whole": (weight_norm(nn.Linear(4, 3, bias=False), dim=None), (2, 4)),
    "weight_norm_transpose": (weight_norm(nn.ConvTranspose1d(2, 3, 3)), (2, 2, 4)),
    "spectral_norm": (spectral_norm(nn.Linear(4, 3)), (2, 4)),
    "spectral_norm_conv": (spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=3), (2, 2, 3, 4)),
    "spectral_norm_transpose": (spectral_norm(nn.ConvTranspose2d(2, 3, 2)), (2, 2, 2, 3)),
    "spectral_norm_dim1": (spectral_norm(nn.Linear(4, 3), dim=1), (2, 4)),
    "weight_norm_embedding": (weight_norm(nn.Embedding(5, 3)), None),
    "bilinear": (BilinearOfParts(4, 3, 2), (2, 5, 7)),
}


def numbers(t):
    return t.detach().clone().contiguous()


out = {}
for name, (layer, shape) in LAYERS.items():
    torch.manual_seed(1)  # a new layer at the end of the list leaves the others' numbers as they are
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn_like(p) * .3)
        for key, b in layer.named_buffers():
            if key.startswith("running"):
                b.add_(torch.rand_like(b))
    x = torch.randn(shape, requires_grad=True) if shape else torch.tensor([[1, 4], [0, 1]])
    out |= {f"{name}/state.{k}": numbers(v) for k, v in layer.state_dict().items()}
    y = layer(x)
    probe = torch.cos(torch.arange(float(y.numel()))).view(y.shape)
    (y * probe).sum().backward()
    out |= {f"{name}/input": numbers(x), f"{name}/output": numbers(y)}
    out |= {f"{name}/grad.{k}": numbers(p.grad) for k, p in layer.named_parameters()}
    if shape:
        out[f"{name}/grad.input"] = numbers(x.grad)
    out |= {f"{name}/after.{k}": numbers(v) for k, v in layer.state_dict().items()}
    layer.eval()
    out[f"{name}/eval"] = numbers(layer(x))
save_file(out, f"{sys.argv[1]}/states.safetensors")
