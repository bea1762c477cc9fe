"""Writes arrays as NumPy does, one file a case, and npy.safetensors: what is in them.

usage: make_npy.py [FOLDER]       needs: numpy, torch, safetensors

The types are those that are read; CASE.npy (and the members of the npz files) hold what the tensor
CASE (of ours: f32, f64, i64 or u8) has.
"""
import os
import sys

import numpy
import torch
from numpy.lib import format as npy
from safetensors.torch import save_file

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
rng = numpy.random.default_rng(1)
numbers = rng.integers(-100, 100, (2, 3, 4))
halves = rng.standard_normal((3, 5)).astype("f2")
halves[0] = [0, -0.0, 6e-8, 65504, -numpy.inf]
cases = {
    "f4": numbers.astype("f4") / 7, "f8": numbers / 7, "i8": numbers << 40, "u1": numbers.astype("u1"),
    "b1": numbers > 0, "f2": halves, "i1": numbers.astype("i1"), "i2": numbers.astype("i2") * 300,
    "i4": numbers.astype("i4") << 20, "u2": numbers.astype("u2"), "u4": numbers.astype("u4"),
    "big_f4": (numbers / 7).astype(">f4"), "big_f8": (numbers / 7).astype(">f8"),
    "big_i2": numbers.astype(">i2"), "big_f2": halves.astype(">f2"),
    "fortran": numpy.asfortranarray(numbers / 7), "fortran_2": numpy.asfortranarray(numbers[0]),
    "scalar": numpy.float64(2.5), "empty": numpy.zeros((0, 3), "f4"), "one_axis": numbers[0, 0],
}
ours = {"f": {2: "f4", 4: "f4", 8: "f8"}, "i": "i8", "u": "i8", "b": "u1"}
out = {}
for name, array in cases.items():
    array = numpy.asarray(array)
    numpy.save(os.path.join(folder, name + ".npy"), array)
    kind = ours[array.dtype.kind]
    kind = kind[array.dtype.itemsize] if isinstance(kind, dict) else kind
    if array.dtype == numpy.uint8:
        kind = "u1"
    out[name] = torch.from_numpy(numpy.array(array.astype(kind), order="C"))
for version in (2, 3):
    with open(os.path.join(folder, f"version_{version}.npy"), "wb") as file:
        npy.write_array(file, cases["f8"], version=(version, 0))
    out[f"version_{version}"] = torch.from_numpy(cases["f8"].copy())
few = {name: cases[name] for name in ("f4", "fortran", "scalar", "empty", "b1")}
numpy.savez(os.path.join(folder, "stored.npz"), **few)
numpy.savez_compressed(os.path.join(folder, "packed.npz"), **few, zeros=numpy.zeros((50, 40)))
numpy.save(os.path.join(folder, "refused_complex.npy"), numpy.zeros(2, "c8"))
numpy.save(os.path.join(folder, "refused_text.npy"), numpy.array(["a", "b"]))
numpy.save(os.path.join(folder, "refused_record.npy"), numpy.zeros(2, [("a", "f4"), ("b", "i4")]))
numpy.save(os.path.join(folder, "refused_u8.npy"), numpy.zeros(2, "u8"))
save_file(out, os.path.join(folder, "npy.safetensors"))
