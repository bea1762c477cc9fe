"""Writes PyTorch's numbers for test_vit.cpp and test_positions.cpp.

usage: make_vit.py OUT_DIR
needs: pip install torch torchvision safetensors numpy timm   (CPU only; PyTorch 2.x)

positions.safetensors: timm's resample_abs_pos_embed, which calculates in float32. "from.<case>"
  (1, tokens, D) becomes "to.<case>"; "exact.<case>" are the patches of the same in float64 (new
  rows, new columns, D); metadata "<case>": prefix tokens, old rows, columns, new rows, columns.
forms.safetensors: timm's VisionTransformer in forms beside the plain one, and torch's
  TransformerEncoder as the slides use it (under timm's names). "<form>/param.<name>" are the
  weights, "<form>/output" the result for "images" (3, 3, 32, 32) in evaluation.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer

CASES = {  # name: (prefix, old rows, old columns, new rows, new columns)
    "up": (1, 4, 4, 7, 7),
    "down": (1, 7, 7, 3, 3),
    "odd": (2, 5, 5, 4, 9),
    "rectangle": (0, 3, 6, 6, 3),
    "one": (1, 4, 4, 1, 1),
    "from_one": (1, 1, 1, 3, 2),
    "imagenet": (1, 14, 14, 24, 24),
}


def positions(folder):
    tensors, metadata = {}, {}
    for name, (prefix, h, w, rows, columns) in CASES.items():
        table = torch.randn(1, prefix + h * w, 4)
        tensors["from." + name] = table
        tensors["to." + name] = resample_abs_pos_embed(
            table, [rows, columns], [h, w], num_prefix_tokens=prefix).contiguous()
        grid = table[0, prefix:].double().reshape(1, h, w, 4).permute(0, 3, 1, 2)
        exact = F.interpolate(grid, (rows, columns), mode="bicubic", antialias=True)
        tensors["exact." + name] = exact[0].permute(1, 2, 0).contiguous()
        metadata[name] = f"{prefix} {h} {w} {rows} {columns}"
    save_file(tensors, os.path.join(folder, "positions.safetensors"), metadata)


def timm_forms():
    small = dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=10)
    yield "average", VisionTransformer(**small, global_pool="avg", init_values=0.7)
    yield "registers", VisionTransformer(**small, reg_tokens=3, no_embed_class=True, qkv_bias=False)
    yield "clip", VisionTransformer(**small, pre_norm=True, mlp_ratio=3)
    yield "patches", VisionTransformer(**small, class_token=False, global_pool="avg", fc_norm=False)


class Slides(nn.Module):
    """The slides' code with batch_first, which it needs."""

    def __init__(self, dim=16, layers=2, heads=8, tokens=17, classes=10):
        super().__init__()
        self.conv_embedding = nn.Conv2d(3, dim, 8, 8)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.position_embedding_layer = nn.Embedding(tokens, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.mlp_head = nn.Linear(dim, classes)

    def forward(self, x):
        patches = self.conv_embedding(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.cls_token.expand(len(x), -1, -1), patches), 1)
        positions = self.position_embedding_layer(torch.arange(tokens.shape[1]))
        return self.mlp_head(self.transformer_encoder(tokens + positions)[:, 0])


RENAMED = [("conv_embedding", "patch_embed.proj"), ("position_embedding_layer.weight", "pos_embed"),
           ("transformer_encoder.layers", "blocks"), ("self_attn.in_proj_", "attn.qkv."),
           ("self_attn.out_proj", "attn.proj"), ("linear1", "mlp.fc1"), ("linear2", "mlp.fc2"),
           ("mlp_head", "head")]


def renamed(name):
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name


def forms(folder):
    tensors = {"images": torch.randn(3, 3, 32, 32)}
    for form, model in [*timm_forms(), ("slides", Slides())]:
        model.eval()
        with torch.no_grad():
            for parameter in model.parameters():  # nothing is left at 0 or 1
                parameter += 0.1 * torch.randn_like(parameter)
            tensors[form + "/output"] = model(tensors["images"]).contiguous()
        for name, t in model.state_dict().items():
            name = renamed(name)
            t = t[None] if name == "pos_embed" and t.dim() == 2 else t
            tensors[f"{form}/param.{name}"] = t.clone().contiguous()
    save_file(tensors, os.path.join(folder, "forms.safetensors"))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    positions(sys.argv[1])
    forms(sys.argv[1])
