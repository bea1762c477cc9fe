"""Writes PyTorch's answers for convolutions, pooling, padding, interpolation, sampling at positions and
short-time Fourier transforms over combinations of their options, in which every two values of every two options meet where PyTorch takes them.

usage: make_layers.py OUT_DIR
needs: torch, safetensors, numpy (CPU only)

One file an op. Of a case NAME: NAME.options, the numbers of `cases` below in a row; NAME.shapes, the
shapes of its inputs, a row each with -1 behind; what comes out (NAME.y, NAME.indices) and gradients
at the inputs (NAME.d0, ...), all f64. Input number s is sin(1.3 i + s + 0.5), the gradient from above
sin(1.3 i + 9.5), i counting elements from 0.
"""
import itertools, random, sys
import numpy as np, torch, torch.nn.functional as F
from safetensors.numpy import save_file

torch.set_num_threads(1)
MODES = ["constant", "reflect", "replicate", "circular"]
INTERPOLATIONS = ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]


def wave(shape, seed):
    n = int(np.prod(shape))
    return torch.tensor(np.sin(1.3 * np.arange(n) + seed + 0.5).reshape(shape))


def cases(factors, valid, most=200):
    """Picks of one value a factor, until all pairs that some valid pick has are had."""
    rng, keys, seen, found, dry = random.Random(1), list(factors), set(), [], 0
    while dry < 40 and len(found) < most:
        best, gain = None, 0
        for _ in range(60):
            pick = {k: rng.choice(factors[k]) for k in keys}
            pairs = {(a, str(pick[a]), b, str(pick[b])) for a, b in itertools.combinations(keys, 2)}
            if len(pairs - seen) > gain and valid(pick):
                best, gain, new = pick, len(pairs - seen), pairs
        if best is None:
            dry += 1
            continue
        seen |= new
        found.append(best)
    return found


def numbers(values):
    out = []
    for v in values:
        out += [float(x) for x in v] if isinstance(v, (tuple, list)) else [float(v)]
    return np.array(out)


def run(fn, shapes):
    inputs = [wave(s, i).requires_grad_() for i, s in enumerate(shapes)]
    got = fn(*inputs)
    y, indices = got if isinstance(got, tuple) else (got, None)
    grads = torch.autograd.grad((y * wave(y.shape, 9)).sum(), inputs)
    return y, indices, grads


def agrees(fn, shapes, grads):
    """Whether gradients are those of what comes out. (In PyTorch 2.15 interpolate's are not for
    nearest with a factor that keeps the size of an axis.)"""
    inputs = [wave(s, i) for i, s in enumerate(shapes)]

    def value(h):
        y = fn(*(x + h * torch.cos(x + 1) for x in inputs))
        y = y[0] if isinstance(y, tuple) else y
        return (y * wave(y.shape, 9)).sum().item()
    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    want = sum((g * torch.cos(x + 1)).sum().item() for g, x in zip(grads, inputs))
    return abs(slope - want) < 1e-6 * (1 + abs(want))


def write(name, factors, build):
    """build(pick) gives fn, the shapes of its inputs and the options in a row."""
    def valid(pick):
        try:
            fn, shapes, _ = build(pick)
            y, _, grads = run(fn, shapes)
            return y.numel() > 0 and agrees(fn, shapes, grads)
        except (RuntimeError, ValueError, AssertionError, NotImplementedError):
            return False
    out = {}
    picks = cases(factors, valid)
    for i, pick in enumerate(picks):
        fn, shapes, options = build(pick)
        y, indices, grads = run(fn, shapes)
        case = f"{i:02d}"
        out[case + ".options"] = numbers(options)
        out[case + ".shapes"] = np.array([list(s) + [-1] * (5 - len(s)) for s in shapes], dtype=np.int64)
        out[case + ".y"] = y.detach().numpy().copy()
        if indices is not None:
            out[case + ".indices"] = indices.numpy().copy()
        for k, g in enumerate(grads):
            out[f"{case}.d{k}"] = g.numpy().copy()
    save_file(out, f"{sys.argv[1]}/{name}.safetensors")
    print(name, len(picks), "cases,", sum(v.nbytes for v in out.values()) // 1024, "KiB")


def sizes(n, *values):
    """Equal ones and unequal ones along n axes."""
    out = [(v,) * n for v in values]
    if n > 1:
        out += [tuple(values[(i + k) % len(values)] for i in range(n)) for k in range(len(values))]
    return out


def convolutions(n):
    space, batch = {1: (9,), 2: (6, 7), 3: (3, 4, 4)}[n], 2 if n < 3 else 1
    factors = dict(stride=sizes(n, 1, 2, 3), padding=sizes(n, 0, 1, 2), dilation=sizes(n, 1, 2),
                   groups=[1, 2, 4], kernel=sizes(n, 1, 2, 3), mode=[0, 1, 2, 3], bias=[0, 1])
    conv = getattr(F, f"conv{n}d")

    def build(p):
        shapes = [(batch, 4) + space, (4, 4 // p["groups"]) + p["kernel"]] + [(4,)] * p["bias"]
        pads = [v for a in reversed(p["padding"]) for v in (a, a)]

        def fn(x, w, b=None):
            pad = p["padding"] if p["mode"] == 0 else 0
            x = x if p["mode"] == 0 or not any(pads) else F.pad(x, pads, MODES[p["mode"]])
            return conv(x, w, b, p["stride"], pad, p["dilation"], p["groups"])
        return fn, shapes, [p["stride"], p["padding"], p["dilation"], p["groups"], p["mode"]]
    write(f"conv{n}d", factors, build)

    space = {1: (5,), 2: (3, 4), 3: (1, 2, 3)}[n]
    factors = dict(stride=sizes(n, 1, 2, 3), padding=sizes(n, 0, 1, 2), output_padding=sizes(n, 0, 1, 2),
                   groups=[1, 2, 4], dilation=sizes(n, 1, 2, 3), kernel=sizes(n, 1, 2, 3), bias=[0, 1])
    transpose = getattr(F, f"conv_transpose{n}d")

    def build_transpose(p):
        shapes = [(batch, 4) + space, (4, 4 // p["groups"]) + p["kernel"]] + [(4,)] * p["bias"]
        options = [p[k] for k in ("stride", "padding", "output_padding", "groups", "dilation")]
        return lambda x, w, b=None: transpose(x, w, b, *options), shapes, options
    write(f"conv_transpose{n}d", factors, build_transpose)


def pooling(n):
    space = {1: (11,), 2: (7, 8), 3: (3, 5, 4)}[n]
    factors = dict(kernel=sizes(n, 1, 2, 3), stride=sizes(n, 0, 1, 2, 3), padding=sizes(n, 0, 1),
                   dilation=sizes(n, 1, 2), ceil=[0, 1])
    shapes = [(2 if n < 3 else 1, 2) + space]
    stride = lambda p: tuple(s or k for s, k in zip(p["stride"], p["kernel"]))
    pool = getattr(F, f"max_pool{n}d")
    write(f"max_pool{n}d", factors, lambda p: (
        lambda x: pool(x, p["kernel"], stride(p), p["padding"], p["dilation"], bool(p["ceil"]), True),
        shapes, [p["kernel"], p["stride"], p["padding"], p["dilation"], p["ceil"]]))

    del factors["dilation"]
    factors |= dict(include=[0, 1], divisor=[0, 5] if n > 1 else [0])
    avg = getattr(F, f"avg_pool{n}d")

    def build(p):
        more = [p["divisor"] or None] if n > 1 else []
        return (lambda x: avg(x, p["kernel"], stride(p), p["padding"], bool(p["ceil"]), bool(p["include"]), *more),
                shapes, [p["kernel"], p["stride"], p["padding"], p["ceil"], p["include"], p["divisor"]])
    write(f"avg_pool{n}d", factors, build)

    factors = {f"size{i}": [1, 2, 3, 5, 8, -1] for i in range(n)} | dict(
        **{f"in{i}": [1, 4, 6] for i in range(n)}, max=[0, 1])

    def build_adaptive(p):
        size = [p[f"size{i}"] for i in range(n)]
        given = [None if s < 0 else s for s in size]
        if n == 1:
            given = [given[0] or p["in0"]]
        of = F.__dict__
        fn = of[f"adaptive_max_pool{n}d"] if p["max"] else of[f"adaptive_avg_pool{n}d"]
        call = (lambda x: fn(x, given, True)) if p["max"] else (lambda x: fn(x, given))
        return call, [(1, 2) + tuple(p[f"in{i}"] for i in range(n))], [size, p["max"]]
    write(f"adaptive_pool{n}d", factors, build_adaptive)


def interpolations(n):
    modes = {1: [0, 1, 2, 6], 2: [0, 1, 3, 4, 6], 3: [0, 1, 5, 6]}[n]
    ins = {1: [1, 4, 5, 7], 2: [1, 4, 7], 3: [1, 2, 4]}[n]
    factors = {f"in{i}": ins for i in range(n)} | {f"size{i}": [0, 1, 3, 4, 8] for i in range(n)} | {
        f"factor{i}": [0.4, 0.6, 1.0, 1.1, 1.5, 2.0] for i in range(n)}
    factors |= dict(sized=[0, 1], mode=modes, align=[-1, 0, 1], recompute=[0, 1], antialias=[0, 1])

    def build(p):
        size = [p[f"size{i}"] if p["sized"] else 0 for i in range(n)]
        factor = [0 if p["sized"] else p[f"factor{i}"] for i in range(n)]
        assert not p["sized"] or min(size) > 0
        kind = dict(size=size) if p["sized"] else dict(scale_factor=factor)
        if not p["sized"]:
            kind["recompute_scale_factor"] = bool(p["recompute"])
        assert not (p["sized"] and p["recompute"])
        # PyTorch 2.15 leaves the result unwritten where the last axis has one element, before or after.
        width = p[f"size{n - 1}"] if p["sized"] else int(p[f"in{n - 1}"] * p[f"factor{n - 1}"])
        assert not (p["antialias"] and 1 in (p[f"in{n - 1}"], width))
        fn = lambda x: F.interpolate(x, mode=INTERPOLATIONS[p["mode"]],
                                     align_corners=None if p["align"] < 0 else bool(p["align"]),
                                     antialias=bool(p["antialias"]), **kind)
        return fn, [(1, 2) + tuple(p[f"in{i}"] for i in range(n))], [
            p["mode"], size, factor, p["align"], p["recompute"], p["antialias"]]
    write(f"interpolate{n}d", factors, build)


def padding():
    for n in (1, 2, 3):
        factors = {f"pad{i}": [-1, 0, 1, 2, 3] for i in range(2 * n)} | dict(
            mode=[1, 2, 3], **{f"in{i}": [1, 2, 4] for i in range(n)})

        def build(p):
            pads = [p[f"pad{i}"] for i in range(2 * n)]
            for i in range(n):  # PyTorch wraps around what it has not written yet
                kept = p[f"in{n - 1 - i}"] + min(pads[2 * i], 0) + min(pads[2 * i + 1], 0)
                assert p["mode"] != 3 or max(pads[2 * i: 2 * i + 2]) <= kept
            return (lambda x: F.pad(x, pads, MODES[p["mode"]]),
                    [(2, 1) + tuple(p[f"in{i}"] for i in range(n))], [p["mode"], pads])
        write(f"pad{n}d", factors, build)


def columns():
    factors = dict(kernel=sizes(2, 1, 2, 3), dilation=sizes(2, 1, 2), padding=sizes(2, 0, 1, 2),
                   stride=sizes(2, 1, 2, 3), fold=[0, 1])

    def build(p):
        options = [p[k] for k in ("kernel", "dilation", "padding", "stride")]
        if not p["fold"]:
            return lambda x: F.unfold(x, *options), [(2, 3, 5, 6)], options + [0]
        windows = F.unfold(torch.zeros(1, 1, 5, 6), *options).shape[2]
        return (lambda x: F.fold(x, (5, 6), *options),
                [(2, 2 * p["kernel"][0] * p["kernel"][1], windows)], options + [1])
    write("columns", factors, build)


def grids():
    modes, pads = ["nearest", "bilinear", "bicubic"], ["zeros", "reflection", "border"]
    for n in (2, 3):
        factors = dict(mode=[0, 1, 2], padding=[0, 1, 2], align=[0, 1]) | {
            f"in{i}": [1, 2, 5] for i in range(n)}

        def build(p):
            return (lambda x, grid: F.grid_sample(x, 1.7 * grid, modes[p["mode"]], pads[p["padding"]],
                                                  bool(p["align"])),
                    [(2, 2) + tuple(p[f"in{i}"] for i in range(n)), (2, 3) + (4, 2)[3 - n:] + (n,)],
                    [p["mode"], p["padding"], p["align"]])
        write(f"grid_sample{n}d", factors, build)

        factors = {f"out{i}": [1, 2, 3, 5] for i in range(n)} | dict(align=[0, 1])

        def build_affine(p):
            size = (2, 3) + tuple(p[f"out{i}"] for i in range(n))
            return (lambda theta: F.affine_grid(theta, size, bool(p["align"])), [(2, n, n + 1)],
                    [size, p["align"]])
        write(f"affine_grid{n}d", factors, build_affine)


def short_time():
    factors = dict(n=[4, 7, 8], hop=[1, 2, 3], window=[0, 1, 4], center=[0, 1], padding=[0, 1, 2],
                   normalized=[0, 1], samples=[8, 13], length=[-1, 5, 14], inverse=[0, 1])

    def build(p):
        n, hop, some = p["n"], p["hop"], p["window"]
        common = dict(hop_length=hop, win_length=some or n, center=bool(p["center"]),
                      normalized=bool(p["normalized"]))
        options = [p[k] for k in ("n", "hop", "window", "center", "padding", "normalized", "inverse")]
        windows = [(some,)] * (some > 0)
        if p["inverse"]:
            assert p["padding"] == 0 and p["samples"] == 8
            length = None if p["length"] < 0 else p["length"]
            return (lambda s, w=None: torch.istft(torch.view_as_complex(s), n, window=w, length=length,
                                                  **common),
                    [(2, n // 2 + 1, 5, 2)] + windows, options + [p["length"]])
        assert p["length"] < 0
        return (lambda x, w=None: torch.view_as_real(torch.stft(
                    x, n, window=w, pad_mode=MODES[p["padding"]], return_complex=True, **common)),
                [(2, p["samples"])] + windows, options + [-1])
    write("stft", factors, build)


for axes in (1, 2, 3):
    convolutions(axes)
    pooling(axes)
    interpolations(axes)
padding()
columns()
grids()
short_time()
