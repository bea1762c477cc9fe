"""Writes small PNG and JPEG files, and pictures.safetensors: what Pillow reads in them and makes of
them.

usage: make_pictures.py [FOLDER]       needs: pillow 12, torch, torchvision, safetensors

  FILE                (height, width, 3) u8, by convert("RGB"), of every file
  FILTER.HxW          rgb.png in that size
  shorter.N           rgb.png by torchvision's Resize(N); center.N: CenterCrop(N) of that
"""
import io
import os
import struct
import sys
import zlib

import numpy
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import transforms as T

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
H, W = 23, 38
y, x = numpy.mgrid[0:H, 0:W]
rng = numpy.random.default_rng(3)
smooth = numpy.stack([x * 255 // W, y * 255 // H, (x * 7 + y * 5) % 256], -1)
rgb = numpy.clip(smooth + rng.integers(-40, 40, smooth.shape), 0, 255).astype(numpy.uint8)
picture = Image.fromarray(rgb)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, interlaced=False):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"gAMA", struct.pack(">I", 100000))
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) + chunk(b"IEND", b""))


def save(name, image, **options):
    image.save(os.path.join(folder, name), **options)


def save_bytes(name, data):
    open(os.path.join(folder, name), "wb").write(data)


save("rgb.png", picture)
save("gray.png", picture.convert("L"))
save("gray_alpha.png", picture.convert("LA"))
rgba = picture.convert("RGBA")
rgba.putalpha(Image.fromarray((x * 6 % 256).astype(numpy.uint8)))
save("rgba.png", rgba)
save("palette.png", picture.quantize(20), transparency=3)
save("bits1.png", picture.convert("1"))
gray = numpy.asarray(picture.convert("L"))
for depth in (2, 4):
    per = 8 // depth
    levels = numpy.pad(gray >> (8 - depth), ((0, 0), (0, -W % per)))
    rows = [bytes(sum(int(v) << (8 - depth * (i + 1)) for i, v in enumerate(r[k:k + per]))
                  for k in range(0, len(r), per)) for r in levels]
    save_bytes(f"bits{depth}.png", png(W, H, depth, 0, rows))
save_bytes("rgb16.png", png(W, H, 16, 2, [
    b"".join(struct.pack(">H", int(v) * 256 + 77) for v in r.reshape(-1)) for r in rgb]))
adam7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
save_bytes("interlaced.png", png(W, H, 8, 2, [
    rgb[r, x0::dx].tobytes() for x0, y0, dx, dy in adam7 for r in range(y0, H, dy)], True))
save("jpeg.jpg", picture, quality=90)
save("jpeg444.jpg", picture, quality=75, subsampling=0)
save("jpeg422.jpg", picture, quality=75, subsampling=1)
save("progressive.jpg", picture, quality=80, progressive=True)
save("gray.jpg", picture.convert("L"))
save("cmyk.jpg", picture.convert("CMYK"), quality=90)

out = {}
for name in sorted(os.listdir(folder)):
    if name.endswith((".png", ".jpg")):
        with Image.open(os.path.join(folder, name)) as image:
            out[name] = torch.from_numpy(numpy.asarray(image.convert("RGB")).copy())
filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
for f, kind in filters.items():
    for h, w in ((11, 17), (50, 91), (23, 10), (7, 38), (1, 1), (24, 37), (23, 38), (5, 200)):
        out[f"{f}.{h}x{w}"] = torch.from_numpy(numpy.asarray(picture.resize((w, h), kind)).copy())
for n in (15, 40):
    resized = T.Resize(n)(picture)
    out[f"shorter.{n}"] = torch.from_numpy(numpy.asarray(resized).copy())
    out[f"center.{n}"] = torch.from_numpy(numpy.asarray(T.CenterCrop(n)(resized)).copy())
save_file(out, os.path.join(folder, "pictures.safetensors"))
