"""How a PyTorch training step's time and memory grow: cost_growth.cpp's tables beside tern's own.

usage: cost_growth.py [--model gpt|attention] [--axis batch|width|depth|tokens] [--limit-mb 8192] [--seconds 60] [--threads 2] [--reps 3]
Sizes are doubled, the others left at their base. Every point has a process of its own, whose memory is its high-water
mark less what it takes with PyTorch loaded. Slopes: least squares of the logarithms of the last four points.
"""
import argparse, json, math, subprocess, sys, time
import torch, torch.nn.functional as F
from torch_bench import GPT2, peak_rss_mb

VOCAB, HEAD = 4096, 64
BASE = dict(batch=8, width=256, depth=2, tokens=64)
START = dict(batch=1, width=64, depth=1, tokens=16)

def gpt(s):
    m = GPT2(VOCAB, s['tokens'], s['width'], s['depth'], max(1, s['width'] // HEAD))
    x = torch.randint(0, VOCAB, (s['batch'], s['tokens']))
    return list(m.parameters()), lambda: F.cross_entropy(m(x).flatten(0, 1), x.flatten())

def attention(s):
    """The op alone, `depth` times."""
    qkv = torch.randn(s['batch'], s['tokens'], 3 * s['width'], requires_grad=True)
    def loss():
        y = 0.
        for _ in range(s['depth']):
            q, k, v = (t.view(s['batch'], s['tokens'], -1, HEAD).transpose(1, 2) for t in qkv.chunk(3, -1))
            y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True).sum()
        return y
    return [qkv], loss

def point(model, s, a):
    torch.manual_seed(0); torch.set_num_threads(a.threads)
    torch.randn(64, 64) @ torch.randn(64, 64); before = peak_rss_mb()
    parameters, loss = dict(gpt=gpt, attention=attention)[model](s)
    opt = torch.optim.AdamW(parameters, 1e-3, fused=True); best = 1e9
    for i in range(a.reps + 1):
        t = time.perf_counter(); loss().backward(); opt.step(); opt.zero_grad(set_to_none=True)
        took = time.perf_counter() - t
        if i or took > a.seconds: best = min(best, took)
        if took > a.seconds: break
    print(json.dumps([best * 1e3, peak_rss_mb() - before]))

def slope(points, column):
    p = [(math.log2(x[0]), math.log2(max(x[column], 1))) for x in points[-4:]]; n = len(p)
    sx, sy = sum(x for x, _ in p), sum(y for _, y in p)
    return (n * sum(x * y for x, y in p) - sx * sy) / (n * sum(x * x for x, _ in p) - sx * sx)

def sweep(axis, a):
    print(f'\n| {axis} | ms per step | peak MB |\n|---|---|---|'); points, size, end = [], START[axis], 'the time limit'
    while not points or points[-1][1] <= 1e3 * a.seconds:
        out = subprocess.run([sys.executable, __file__, *sys.argv[1:], '--point', json.dumps({**BASE, axis: size})], capture_output=True, text=True)
        row = json.loads(out.stdout) if out.returncode == 0 else None
        if not row or row[1] > a.limit_mb: end = 'the memory limit' if row else (out.stderr.strip().splitlines() or ['its being killed'])[-1]; break
        points.append([size, *row]); print(f'| {size} | {row[0]:.1f} | {row[1]} |', flush=True); size *= 2
    print(f'| slope | {slope(points, 1):.2f} | {slope(points, 2):.2f} |\nended at {end}')

def main():
    ap = argparse.ArgumentParser(); ap.add_argument('--model', choices=['gpt', 'attention'], default='gpt'); ap.add_argument('--point', type=json.loads); ap.add_argument('--axis', choices=list(BASE))
    ap.add_argument('--limit-mb', type=float, default=8192); ap.add_argument('--seconds', type=float, default=60)
    ap.add_argument('--threads', type=int, default=2); ap.add_argument('--reps', type=int, default=3)
    a = ap.parse_args()
    if a.point: return point(a.model, a.point, a)
    print(f'PyTorch {torch.__version__}, {a.model}: base {BASE}; {a.threads} threads')
    for axis in [a.axis] if a.axis else BASE: sweep(axis, a)

if __name__ == '__main__': main()
