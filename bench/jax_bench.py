"""Times one training step of torch_bench.py's models in JAX.

usage: jax_bench.py [--threads 2] [--only NAME or part of it] [--bf16] [--reps 9]
Prints the peak of products, then a JSON line per model: median/min ms per step, items/s, peak
memory. Forward, backward and AdamW are one jit. --bf16: products in bfloat16.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jax_models as models


def limit_threads(count):
    """XLA starts as many threads as there are processors for it, when it is first used."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def cases():
    """(name, model, batch, items of a step)"""
    rng = np.random.default_rng(1)

    def pictures(b):
        return rng.standard_normal((b, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, b)

    def pairs(b, t, low, high):
        return rng.integers(low, high, (b, t)), rng.integers(low, high, (b, t))

    def bits():
        return tuple(rng.integers(0, 2, (16, 41, w)).astype(np.float32) for w in (9, 8))

    def gmlp(d, blocks):
        return lambda: models.vision(8, d, blocks, models.gmlp_init, models.gmlp_block)

    def vit():
        return models.vision(4, 192, 12, models.vit_init, models.vit_block)

    yield "gmlp-4m/b32", gmlp(512, 3), lambda: pictures(32), 32
    yield "gmlp-51m/b32", gmlp(1024, 8), lambda: pictures(32), 32
    yield "vit-tiny-p4/b64", vit, lambda: pictures(64), 64
    yield (
        "transformer-d256-l3/b64x24",
        lambda: models.transformer(8000, 256, 8, 512, 3),
        lambda: pairs(64, 24, 4, 8000),
        64 * 24,
    )
    yield (
        "transformer-base/b32x32",
        lambda: models.transformer(10000, 512, 8, 2048, 6),
        lambda: pairs(32, 32, 4, 10000),
        32 * 32,
    )
    yield (
        "bahdanau-h256/b64x24",
        lambda: models.bahdanau(8000, 256, 256),
        lambda: pairs(64, 24, 4, 8000),
        64 * 24,
    )
    yield "gpt2-124m/b4x64", models.gpt2, lambda: pairs(4, 64, 0, 50257), 4 * 64
    yield "ntm-copy/b16xT41", models.ntm, bits, 16


def adamw(p, g, m, v, t, rate=1e-3, decay=1e-2):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    step = (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p * (1 - rate * decay) - rate * step, m, v


def make_step(loss):
    def step(p, m, v, t, key, batch):
        value, g = jax.value_and_grad(lambda p: loss(p, models.Draws(key), batch))(p)
        leaves, tree = jax.tree.flatten(p)
        new = [adamw(*x, t) for x in zip(leaves, *(jax.tree.leaves(y) for y in (g, m, v)))]
        return *(jax.tree.unflatten(tree, list(part)) for part in zip(*new)), value

    return jax.jit(step, donate_argnums=(0, 1, 2))


def gemm_peak():
    a, best = jnp.ones((2048, 2048), models.OPERAND), 9.0
    multiply = jax.jit(lambda a, b: a @ b)
    for _ in range(12):
        start = time.perf_counter()
        multiply(a, a).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best / 1e9


def peak_rss_mb():
    """This process's own high-water mark (ru_maxrss would inherit the parent's)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def step_time(name, model, data, items, a):
    p, loss = model()
    params = sum(x.size for x in jax.tree.leaves(p))
    p = jax.tree.map(jnp.asarray, p)
    m, v = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    step, batch, times = make_step(loss), data(), []
    for r in range(a.reps + 3):
        start = time.perf_counter()
        p, m, v, value = step(p, m, v, float(r + 1), jax.random.key(r), batch)
        jax.block_until_ready((p, value))
        times.append(time.perf_counter() - start)
    times = sorted(times[3:])
    median = times[len(times) // 2]
    line = dict(model=name, bf16=a.bf16, params=params, loss=round(float(value), 4))
    line.update(ms=round(median * 1e3, 2), min_ms=round(times[0] * 1e3, 2))
    line.update(items_per_s=round(items / median, 1), peak_rss_mb=peak_rss_mb())
    print(json.dumps(line), flush=True)


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--only", default="")
    ap.add_argument("--bf16", action="store_true")
    ap.add_argument("--reps", type=int, default=9)
    a = ap.parse_args()
    limit_threads(a.threads)
    if a.bf16:
        models.OPERAND = "bfloat16"
    found = {case[0]: case for case in cases()}
    if a.only in found:
        return step_time(*found[a.only], a)
    line = dict(sgemm_peak_gflops=round(gemm_peak()), jax=jax.__version__, threads=a.threads)
    print(json.dumps(line), flush=True)
    for name in found:  # a process a model
        if a.only in name:
            command = [sys.executable, __file__, "--threads", str(a.threads), "--only", name]
            command += ["--reps", str(a.reps)] + ["--bf16"] * a.bf16
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
