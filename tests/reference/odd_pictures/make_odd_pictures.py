"""Writes odd_pictures.safetensors: files as cameras, old programs and careless copies make them, and
what Pillow reads in them.

usage: make_odd_pictures.py [FOLDER]       needs: pillow 12 or later, numpy, safetensors

  file.NAME       the bytes of a file
  pixels.NAME     (height, width, 3) u8: Pillow's exif_transpose and convert("RGB"). A file that
                  Pillow refuses has none.
"""
import io
import os
import struct
import sys
import zlib

import numpy
from PIL import Image, ImageFile, ImageOps
from safetensors.numpy import save_file

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
H, W = 24, 16
y, x = numpy.mgrid[0:H, 0:W]
rgb = numpy.stack([x * 255 // W, y * 255 // H, (x * 3 + y * 5) % 256], -1).astype(numpy.uint8)
picture = Image.fromarray(rgb)
files = {}


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


# ---- JPEG: what a header says wrongly ---------------------------------------------------------------
base = encoded(picture, "JPEG", quality=85, subsampling=0)
scan = base.index(b"\xff\xda")
spectral = scan + 2 + struct.unpack(">H", base[scan + 2:scan + 4])[0] - 3  # Ss, Se, Ah and Al
files["base.jpg"] = base
files["sos_starts_at_1.jpg"] = patched(base, spectral, b"\1")
files["sos_ends_at_0.jpg"] = patched(base, spectral + 1, b"\0")
files["sos_low_bit_1.jpg"] = patched(base, spectral + 2, b"\1")
version = base.index(b"JFIF\0") + 5
files["jfif_2_1.jpg"] = patched(base, version, b"\2\1")
files["jfif_0_0.jpg"] = patched(base, version, b"\0\0")
files["bytes_between_markers.jpg"] = base[:scan] + b"odd" + base[scan:]

# ---- JPEG: the data of the pixels -------------------------------------------------------------------
restarts = encoded(picture, "JPEG", quality=85, subsampling=0, restart_marker_blocks=1)
files["restarts.jpg"] = restarts
files["restart_number.jpg"] = restarts.replace(b"\xff\xd1", b"\xff\xd5")
at = [restarts.index(b"\xff" + bytes([0xd0 + i])) for i in (0, 1)]
files["restart_lost.jpg"] = restarts[:at[0]] + restarts[at[1]:]
files["half.jpg"] = base[:(scan + len(base)) // 2]
files["without_end.jpg"] = base[:-2]
files["bad_code.jpg"] = patched(base, (scan + len(base)) // 2, b"\xff\0\xff\0\xff\0")

# ---- JPEG: inks -------------------------------------------------------------------------------------
inks = encoded(picture.convert("CMYK"), "JPEG", quality=90)
files["inks_of_adobe.jpg"] = inks
adobe = inks.index(b"\xff\xee")
files["inks.jpg"] = inks[:adobe] + inks[adobe + 2 + struct.unpack(">H", inks[adobe + 2:adobe + 4])[0]:]


# ---- EXIF -------------------------------------------------------------------------------------------
def exif(value, order="<", kind=3, count=1, more=()):
    entries = [*more, (0x0112, kind, count, value)]
    out = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    for tag, of, n, v in entries:
        out += struct.pack(order + "HHI", tag, of, n)
        out += struct.pack(order + "HH", v, 0) if of == 3 else struct.pack(order + "I", v)
    return out + struct.pack(order + "I", 0)


def with_exif(tiff):
    body = b"Exif\0\0" + tiff
    return base[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + base[2:]


for value in range(10):
    files[f"turned_{value}.jpg"] = with_exif(exif(value, "<>"[value % 2]))
files["turned_behind_others.jpg"] = with_exif(exif(6, ">", more=[(0x0100, 4, 1, W), (0x0101, 4, 1, H)]))
files["exif_cut.jpg"] = with_exif(exif(6)[:16])
files["exif_far.jpg"] = with_exif(b"II*\0\xf0\xff\xff\xff\1\0")
files["exif_empty.jpg"] = with_exif(b"")


# ---- PNG --------------------------------------------------------------------------------------------
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, before=b"", behind=b"", window=None):
    h, w = pixels.shape[:2]
    data = zlib.compress(b"".join(b"\0" + r.tobytes() for r in pixels), 9)
    if window is not None:  # the first two bytes are a multiple of 31
        first = (window << 4) | 8
        data = bytes([first, (31 - first * 256 % 31) % 31]) + data[2:]
    head = struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", data) + behind
            + chunk(b"IEND", b""))


plain = png(rgb)
files["plain.png"] = plain
files["no_end.png"] = plain[:-12]
files["end_cut.png"] = plain[:-4]
files["no_checksum_no_end.png"] = plain[:-16]
files["pixels_cut.png"] = plain[:-40]
noise = numpy.random.default_rng(1).integers(0, 256, (H // 2, W, 3)).astype(numpy.uint8)
files["small_window.png"] = png(numpy.concatenate([noise, noise]), window=0)  # repeats 588 bytes away
files["wrong_checksum.png"] = patched(plain, len(plain) - 16, b"\0\0\0\0")
files["wrong_checksum_of_text.png"] = png(rgb, before=chunk(b"tEXt", b"a\0b")[:-4] + b"\0\0\0\0")
files["turned.png"] = png(rgb, before=chunk(b"eXIf", exif(6)))
files["turned_behind.png"] = png(rgb, behind=chunk(b"eXIf", exif(8, ">")))

# ---- Other formats under the name of a JPEG ---------------------------------------------------------
for kind in ("WEBP", "GIF", "BMP", "TIFF"):
    files[kind.lower() + ".jpg"] = encoded(picture, kind)
files["apple_double.jpg"] = b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(60)
files["web_page.jpg"] = b"<!DOCTYPE html><html><body>404</body></html>"
files["empty.jpg"] = b""

ImageFile.LOAD_TRUNCATED_IMAGES = False
out = {}
for name, data in files.items():
    out["file." + name] = numpy.frombuffer(data, numpy.uint8)
    try:
        with Image.open(io.BytesIO(data)) as image:
            out["pixels." + name] = numpy.asarray(ImageOps.exif_transpose(image).convert("RGB")).copy()
    except Exception as e:  # Pillow's refusals are of many types
        print(f"{name}: {type(e).__name__}: {e}")
save_file(out, os.path.join(folder, "odd_pictures.safetensors"))
same = [n for n in files if "pixels." + n in out and out["pixels." + n].shape == (H, W, 3)
        and (out["pixels." + n] == out["pixels.base.jpg"]).all()]
print("the pixels of base.jpg:", *same)
