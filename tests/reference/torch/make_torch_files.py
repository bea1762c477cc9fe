"""Writes small state dicts with torch.save, as tests/core/io/test_torch_file.cpp expects them.

usage: make_torch_files.py OUT_DIR
needs: torch (CPU only)

The files here are of PyTorch 2.15. Where nothing else is said, the elements of a tensor are -3, -2, ...
in row-major order.
"""
import collections, sys
import torch


def values(shape, dtype=torch.float32):
    n = torch.Size(shape).numel()
    return (torch.arange(n) - 3).to(dtype).reshape(shape)


def dtypes():
    floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    integers = [torch.int64, torch.int32, torch.int16, torch.int8]
    out = {str(t)[6:]: values((2, 3), t) for t in floats + integers}
    out["uint8"] = torch.tensor([0, 1, 255], dtype=torch.uint8)
    out["uint16"] = torch.tensor([0, 1, 65535]).to(torch.uint16)
    out["uint32"] = torch.tensor([0, 1, 2**32 - 1]).to(torch.uint32)
    out["bool"] = torch.tensor([True, False, True])
    out["half"] = torch.tensor([65504, 2**-24, -0.0, float("inf")], dtype=torch.float16)
    return out


def strides():
    base = values((4, 6))
    return {
        "base": base,
        "transposed": base.t(),
        "columns": base[:, 1:5:2],
        "row": base[2],
        "expanded": base[1, 2:3].expand(3, 2),
        "scalar": base[3, 1],
        "empty": base[:0],
        "one": base[1:2, 5:6].transpose(0, 1),
        "channels_last": values((2, 3, 2, 2)).to(memory_format=torch.channels_last),
    }


def module():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 3))
    with torch.no_grad():
        for t in net.state_dict().values():
            t.copy_(values(t.shape, t.dtype))
    return net


def tied():
    table = torch.nn.Parameter(values((3, 2)))
    return {"wte.weight": table, "head.weight": table}


def checkpoint():
    state = module().state_dict()
    optimizer = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": values((2,))}},
                 "param_groups": [{"lr": 0.1, "params": [0]}]}
    return {"epoch": 3, "model_state": state, "optimizer": optimizer, "best": None}


def entries():
    return {"w": values((2,)), "epoch": 3, "big": 2**70, "lr": 0.25, "note": "a\nb", "none": None, "yes": True,
            "size": torch.Size([2]), "device": torch.device("cpu"), "dtype": torch.float16, "pair": (1, 2),
            "list": [1, values((1,))], "dict": {"a": 1}}


def main(out):
    def save(name, content, **options):
        torch.save(content, f"{out}/{name}.pt", **options)

    save("dtypes", dtypes())
    save("strides", strides())
    for protocol in (2, 3, 4, 5):
        save(f"module_{protocol}", module().state_dict(), pickle_protocol=protocol)
    save("ddp", collections.OrderedDict(("module." + k, v) for k, v in module().state_dict().items()))
    save("tied", tied())
    save("checkpoint", checkpoint())
    save("two", {"model": {"w": values((2,))}, "ema": {"w": values((3,))}})
    save("inside", {"a": {"b": {"w": values((2,))}}, "epoch": 1})
    save("entries", entries())
    save("nothing", {"epoch": 3})
    save("list", [values((2,))])
    save("module_object", torch.nn.ReLU())
    save("complex", {"c": torch.ones(2, dtype=torch.complex64)})
    save("float8", {"f": torch.ones(2).to(torch.float8_e4m3fn)})
    save("negative", {"n": torch.tensor([1 + 2j]).conj().imag})
    save("old", module().state_dict(), _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), f"{out}/script.pt")


main(sys.argv[1])
