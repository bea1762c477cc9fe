#!/usr/bin/env python3
"""Writes a CTranslate2 model from a model folder of `translate` (a Transformer).

usage: tools/export_ctranslate2.py MODEL_FOLDER OUTPUT_FOLDER [--quantization int8]
needs: pip install ctranslate2 numpy

What CTranslate2's TransformerSpec cannot say is refused by name: models other than the Transformer,
and post-norm layers with a norm at the end of each stack (its post-norm stacks have none; pre-norm
models always have one, and are mapped). Positions are written as a table of --positions rows.

Tokens keep their ids. A word is its own name; a byte pair is spelt as GPT-2 spells bytes, since
vocabularies of CTranslate2 are UTF-8. A model of tern never says <unk>, <pad> or <bos>: translate
with disable_unk=True and suppress_sequences=[["<pad>"], ["<bos>"]] to have the same.
"""
import argparse
import json
import os
import struct
import sys

import numpy as np

SPECIAL = ["<unk>", "<pad>", "<bos>", "<eos>"]  # ids 0 to 3
BYTE_IDS = len(SPECIAL)
EPSILON = 1e-5  # of tern's layer norms


class Refused(Exception):
    """A model that the other side has no words for."""


def read_safetensors(path):
    """Tensors by name. The file is read whole: models that are translated with are small."""
    kinds = {"F32": np.float32, "F64": np.float64}
    with open(path, "rb") as f:
        data = f.read()
    if len(data) < 8 or struct.unpack("<Q", data[:8])[0] > len(data) - 8:
        raise Refused(f"{path}: not a safetensors file")
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in kinds:
            raise Refused(f"{path}: {name} is {entry['dtype']}; only F32 and F64 are weights")
        begin, end = (8 + size + at for at in entry["data_offsets"])
        flat = np.frombuffer(data[begin:end], kinds[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).astype(np.float32)
    return tensors


def byte_names():
    """GPT-2's printable character for each byte (Radford et al. 2019, encoder.py)."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def read_vocabulary(path):
    """The names of a tokenizer's ids."""
    with open(path, encoding="utf-8") as f:
        content = json.load(f)["content"]
    if content["unit"] != "bpe":
        return SPECIAL + content["words"]
    names = byte_names()
    pieces = [names[b] for b in range(256)]
    for left, right in content["merges"]:
        pieces.append(pieces[left - BYTE_IDS] + pieces[right - BYTE_IDS])
    seen = set(SPECIAL)
    for i, piece in enumerate(pieces):  # two merges may spell the same piece
        pieces[i] = piece if piece not in seen else f"{piece}<{i + BYTE_IDS}>"
        seen.add(pieces[i])
    return SPECIAL + pieces


def sinusoids(rows, dim):
    """tern's table: sin(t w_i) in column 2i, cos(t w_i) in column 2i + 1."""
    frequency = np.exp(np.arange((dim + 1) // 2) * (-2 * np.log(1e4) / dim))
    angle = np.arange(rows)[:, None] * frequency
    return np.stack([np.sin(angle), np.cos(angle)], 2).reshape(rows, -1)[:, :dim].astype("float32")


class Weights:
    """Moves tensors of a model into a specification, by name."""

    def __init__(self, tensors, dim):
        self.tensors, self.dim = tensors, dim

    def linear(self, spec, name, rows=slice(None)):
        spec.weight = np.ascontiguousarray(self.tensors[f"{name}weight"][rows])
        spec.bias = np.ascontiguousarray(self.tensors[f"{name}bias"][rows])

    def norm(self, spec, name):
        spec.gamma = self.tensors[f"{name}.weight"]
        spec.beta = self.tensors[f"{name}.bias"]

    def attention(self, spec, name, norm, cross=False):
        """in_proj of tern is the queries', keys' and values' matrix, one below the other."""
        d = self.dim
        parts = [slice(0, d), slice(d, 3 * d)] if cross else [slice(0, 3 * d)]
        for linear, rows in zip(spec.linear, parts):
            self.linear(linear, f"{name}.in_proj_", rows)
        self.linear(spec.linear[-1], f"{name}.out_proj.")
        self.norm(spec.layer_norm, norm)

    def ffn(self, spec, name, norm):
        self.linear(spec.linear_0, f"{name}.linear1.")
        self.linear(spec.linear_1, f"{name}.linear2.")
        self.norm(spec.layer_norm, norm)


def refuse_unknown(model):
    if model["model"] != "transformer":
        raise Refused(f"the model is a {model['model']}; CTranslate2 has only the transformer here")
    if model["final_norm"] and not model["norm_first"]:
        raise Refused("post-norm layers with a norm at the end of each stack (final_norm of "
                      "config.json): CTranslate2's post-norm stacks have none; train with "
                      "--norm-first, or a preset such as multi30k-best")


def fill_stack(weights, stack, side, model):
    prefix = f"transformer.{side}"
    for i, layer in enumerate(stack.layer):
        name = f"{prefix}.layers.{i}"
        weights.attention(layer.self_attention, f"{name}.self_attn", f"{name}.norm1")
        if side == "decoder":
            weights.attention(layer.attention, f"{name}.multihead_attn", f"{name}.norm2", True)
        weights.ffn(layer.ffn, name, f"{name}.norm{3 if side == 'decoder' else 2}")
    if model["norm_first"]:
        weights.norm(stack.layer_norm, f"{prefix}.norm")


def make_spec(folder, positions):
    import ctranslate2

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    model = config["model"]
    refuse_unknown(model)
    tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
    spec = ctranslate2.specs.TransformerSpec.from_config(
        num_layers=model["layers"], num_heads=model["heads"], pre_norm=model["norm_first"])
    weights = Weights(tensors, model["dim"])
    # A table that two names share is stored under the first.
    source = tensors["src_embed.weight"]
    target = source if model["tie"] == "all" else tensors["tgt_embed.weight"]
    spec.encoder.embeddings[0].weight = source
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = target if model["tie"] != "none" else tensors["generator.weight"]
    spec.decoder.projection.bias = tensors["generator.bias"]
    table = sinusoids(positions, model["dim"])
    for side in ("encoder", "decoder"):
        stack = getattr(spec, side)
        stack.scale_embeddings = True
        stack.position_encodings.encodings = table
        fill_stack(weights, stack, side, model)
    names = ("vocabulary", "vocabulary") if config["shared"] else ("source", "target")
    vocabularies = [read_vocabulary(os.path.join(folder, f"{n}.json")) for n in names]
    spec.register_source_vocabulary(vocabularies[0])
    spec.register_target_vocabulary(vocabularies[1])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<bos>", "<eos>"
    spec.config.decoder_start_token = "<bos>"
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("model")
    ap.add_argument("output")
    ap.add_argument("--positions", type=int, default=2048, help="longest sentence in tokens")
    ap.add_argument("--quantization", choices=["int8", "int16", "float16"], default=None)
    a = ap.parse_args()
    try:
        if os.path.exists(a.output):
            raise Refused(f"{a.output} is there already; nothing is overwritten")
        spec = make_spec(a.model, a.positions)
    except (Refused, OSError, KeyError, ValueError) as e:
        what = f"there is no {e}" if isinstance(e, KeyError) else e
        sys.exit(f"export_ctranslate2: {what}")
    spec.validate()
    spec.optimize(quantization=a.quantization)
    os.makedirs(a.output)
    spec.save(a.output)


if __name__ == "__main__":
    main()
