"""Compares the models that onnx_zoo wrote with onnxruntime: check.py FOLDER.

Needs onnx, onnxruntime and safetensors. Prints, for each model and each set of sizes, the largest
difference of its outputs relative to their largest element. Exits with 1 if one is above 1e-5.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

LIMIT = 1e-5


def difference(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    apart = np.abs(got[finite].astype(np.float64) - want[finite]).max()
    largest = float(apart / max(np.abs(want[finite]).max(), 1e-30))
    return largest if np.isfinite(largest) else np.inf


def main(folder):
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    worst = 0.0
    paths = sorted(folder.rglob("*.onnx"))
    assert paths, f"no models in {folder}"
    for path in paths:
        onnx.checker.check_model(str(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"])
        cases = sorted(path.parent.glob(path.stem + ".[0-9].safetensors"))
        assert len(cases) >= 3, f"{path.stem} has {len(cases)} cases"
        row = []
        for case in cases:
            tensors = load_file(case)
            given = [tensors[k] for k in sorted(tensors) if k.startswith("in.")]
            want = [tensors[k] for k in sorted(tensors) if k.startswith("out.")]
            names = [i.name for i in session.get_inputs()]
            got = session.run(None, dict(zip(names, given, strict=True)))
            found = max(difference(g, w) for g, w in zip(got, want, strict=True))
            worst = max(worst, found)
            row.append(f"{'x'.join(map(str, given[0].shape))}: {found:.1e}")
        model = onnx.load(path)
        opset, nodes = model.opset_import[0].version, len(model.graph.node)
        print(f"opset {opset} {path.stem:22} {nodes:5} nodes   {'   '.join(row)}")
    print(f"largest difference {worst:.1e}, limit {LIMIT}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
