"""PyTorch's convolutional networks and LSTM language model for torch_bench.py; tern's are in resnet.cpp,
mobilenet.cpp, unet.cpp, convnext.cpp, tcn.cpp and lstm_lm.cpp."""
import torch, torch.nn as nn, torch.nn.functional as F

def conv_norm(i, o, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o))

class BasicBlock(nn.Module):
    def __init__(s, i, o, stride):
        super().__init__(); s.a = conv_norm(i, o, 3, stride); s.b = conv_norm(o, o, 3)
        s.shortcut = nn.Identity() if stride == 1 and i == o else conv_norm(i, o, 1, stride)
    def forward(s, x): return F.relu(s.b(F.relu(s.a(x))) + s.shortcut(x))
class ResNet18(nn.Module):
    def __init__(s):
        super().__init__(); s.stem = conv_norm(3, 64, 3); s.head = nn.Linear(512, 10)
        sizes = [(64, 64, 1), (64, 64, 1)] + [(w // (2 - j), w, 2 - j) for w in (128, 256, 512) for j in (0, 1)]
        s.blocks = nn.Sequential(*[BasicBlock(i, o, stride) for i, o, stride in sizes])
    def forward(s, x): return s.head(s.blocks(F.relu(s.stem(x))).mean((2, 3)))

class InvertedResidual(nn.Module):
    def __init__(s, i, o, stride):
        super().__init__(); s.residual = stride == 1 and i == o
        s.body = nn.Sequential(conv_norm(i, 6*i, 1), nn.ReLU6(), conv_norm(6*i, 6*i, 3, stride, 6*i), nn.ReLU6(), conv_norm(6*i, o, 1))
    def forward(s, x): return x + s.body(x) if s.residual else s.body(x)
class MobileNet(nn.Module):
    def __init__(s):
        super().__init__(); s.stem = conv_norm(3, 32, 3); s.head = nn.Linear(160, 10)
        c = [32, 24, 24, 32, 32, 64, 64, 96, 96, 160]; stride = [1, 1, 2, 1, 2, 1, 1, 1, 2]
        s.blocks = nn.Sequential(*[InvertedResidual(c[i], c[i+1], stride[i]) for i in range(9)])
    def forward(s, x): return s.head(s.blocks(F.relu6(s.stem(x))).mean((2, 3)))

class UNet(nn.Module):
    def __init__(s):
        super().__init__(); conv = lambda i, o, stride=1: nn.Conv2d(i, o, 3, stride, 1)
        normed = lambda i, o, stride=1: nn.Sequential(conv(i, o, stride), nn.GroupNorm(8, o), nn.SiLU())
        s.large = normed(3, 64); s.medium = normed(64, 128, 2); s.small = normed(128, 256, 2); s.middle = normed(256, 256)
        s.middle_out = conv(256, 256); s.medium_out = conv(256, 128); s.large_out = conv(128, 64); s.picture = conv(64, 3)
        s.to_medium = nn.ConvTranspose2d(256, 128, 4, 2, 1); s.to_large = nn.ConvTranspose2d(128, 64, 4, 2, 1)
    def forward(s, x):
        a = s.large(x); b = s.medium(a); y = F.silu(s.middle_out(s.middle(s.small(b))))
        y = F.silu(s.medium_out(torch.cat((s.to_medium(y), b), 1)))
        return s.picture(F.silu(s.large_out(torch.cat((s.to_large(y), a), 1))))

class ChannelNorm(nn.LayerNorm):
    """Over the channels of (B, C, H, W)."""
    def __init__(s, dim): super().__init__(dim, 1e-6)
    def forward(s, x): return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
class ConvNextBlock(nn.Module):
    def __init__(s, d):
        super().__init__(); s.depthwise = nn.Conv2d(d, d, 7, padding=3, groups=d); s.norm = nn.LayerNorm(d, 1e-6)
        s.up = nn.Linear(d, 4*d); s.down = nn.Linear(4*d, d); s.scale = nn.Parameter(torch.full((d,), 1e-6))
    def forward(s, x):
        y = s.norm(s.depthwise(x).permute(0, 2, 3, 1))
        return x + (s.down(F.gelu(s.up(y))) * s.scale).permute(0, 3, 1, 2)
class ConvNext(nn.Module):
    def __init__(s, dims=(96, 192, 384), depth=3):
        super().__init__(); parts = [nn.Conv2d(3, dims[0], 2, 2), ChannelNorm(dims[0])]
        for i, d in enumerate(dims):
            if i: parts += [ChannelNorm(dims[i-1]), nn.Conv2d(dims[i-1], d, 2, 2)]
            parts += [ConvNextBlock(d) for _ in range(depth)]
        s.body = nn.Sequential(*parts); s.norm = nn.LayerNorm(dims[-1], 1e-6); s.head = nn.Linear(dims[-1], 10)
    def forward(s, x): return s.head(s.norm(s.body(x).mean((2, 3))))

class Tcn(nn.Module):
    def __init__(s):
        super().__init__(); s.head = nn.Linear(128, 10)
        s.layers = nn.ModuleList(nn.Sequential(nn.Conv1d(128 if i else 40, 128, 5, padding=2*2**i, dilation=2**i), nn.BatchNorm1d(128), nn.ReLU()) for i in range(6))
    def forward(s, x):
        x = s.layers[0](x)
        for layer in s.layers[1:]: x = x + layer(x)
        return s.head(x.mean(2))

class LstmLanguageModel(nn.Module):
    def __init__(s, V=10000, d=512):
        super().__init__(); s.embed = nn.Embedding(V, d); s.lstm = nn.LSTM(d, d, 2, batch_first=True); s.head = nn.Linear(d, V)
    def forward(s, x): return s.head(s.lstm(s.embed(x))[0])

def picture_cases():
    """The networks of 2-d convolutions, which PyTorch can run in either memory layout."""
    img = lambda b: lambda: (torch.randn(b, 3, 32, 32), torch.randint(0, 10, (b,)))
    ce = lambda m, x, y: F.cross_entropy(m(x), y)
    yield 'resnet18/b64', ResNet18, img(64), ce, 64
    yield 'mobilenet/b64', MobileNet, img(64), ce, 64
    yield 'unet/b16', UNet, img(16), lambda m, x, y: F.mse_loss(m(x).float(), x), 16
    yield 'convnext/b32', ConvNext, img(32), ce, 32

def sequence_cases():
    yield 'tcn/b32x500', Tcn, lambda: (torch.randn(32, 40, 500), torch.randint(0, 10, (32,))), lambda m, x, y: F.cross_entropy(m(x), y), 32
    ids = lambda: torch.randint(0, 10000, (32, 35))
    yield 'lstm-lm/b32x35', LstmLanguageModel, lambda: (ids(), ids()), lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), 32*35
