"""Writes a GGUF file with tensors of every type that tern reads, and their values.

usage: make_gguf.py OUT_DIR
needs: gguf, numpy, safetensors

OUT_DIR/types.gguf, written by llama.cpp's Python package: metadata of every type, and tensors called
as their types. OUT_DIR/types.safetensors: the same tensors as that package dequantises them.
Elements of the older types are quantised random numbers. The "K" types, which the package cannot
write, have random bytes, but finite scales.
"""
import sys
import gguf, numpy as np
from gguf import GGMLQuantizationType as Q, GGUFValueType as V
from safetensors.numpy import save_file

rng = np.random.default_rng(1)
# Where the blocks of a type have f16 scales.
SCALES = {Q.Q2_K: (80, 82), Q.Q3_K: (108,), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208,)}
ROWS, COLUMNS = 3, 256

writer = gguf.GGUFWriter(sys.argv[1] + "/types.gguf", "llama")
writer.add_uint8("test.u8", 200)
writer.add_int8("test.i8", -100)
writer.add_uint16("test.u16", 60000)
writer.add_int16("test.i16", -30000)
writer.add_uint32("test.u32", 4000000000)
writer.add_int32("test.i32", -2000000000)
writer.add_float32("test.f32", 1e-5)
writer.add_bool("test.true", True)
writer.add_bool("test.false", False)
writer.add_string("test.text", "größer")
writer.add_uint64("test.u64", 2**63)
writer.add_int64("test.i64", -2**62)
writer.add_float64("test.f64", 1e-300)
writer.add_array("test.texts", ["a", "", "Ġb"])
writer.add_array("test.integers", [3, -4, 5])
writer.add_array("test.numbers", [.5, -2.])

values = {}


def add(type, data, shape=None):
    writer.add_tensor(type.name, data, raw_shape=shape, raw_dtype=type)


for type in (Q.F32, Q.F16, Q.F64, Q.I8, Q.I16, Q.I32, Q.I64):
    kind = dict(F32="f4", F16="f2", F64="f8", I8="i1", I16="i2", I32="i4", I64="i8")[type.name]
    x = rng.standard_normal((2, 3, 5)) if kind[0] == "f" else rng.integers(-99, 99, (2, 3, 5))
    if type == Q.F16:
        x[0, 0] = [0, -1e-7, 6e-5, 65504, np.inf]
    x = x.astype(kind)
    add(type, x)
    values[type.name] = x.astype("i8" if kind[0] == "i" else "f4" if kind == "f2" else kind)

for type in (Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, *SCALES):
    elements, size = gguf.GGML_QUANT_SIZES[type]
    if type in SCALES:
        blocks = rng.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
        for at in SCALES[type]:
            scales = rng.standard_normal(len(blocks)).astype("f2")
            blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
        data = blocks.reshape(ROWS, -1)
    else:
        data = gguf.quants.quantize(rng.standard_normal((ROWS, COLUMNS)).astype("f4"), type)
    add(type, data)
    values[type.name] = gguf.quants.dequantize(data, type)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(values, sys.argv[1] + "/types.safetensors")
