"""Times one training step of the benchmark models in PyTorch eager: what tern is compared with.

usage: torch_bench.py [--threads 2] [--only NAME or part of it] [--compile] [--bf16] [--reps 9] [--channels-last]
--channels-last: the networks of 2-d convolutions alone, in the memory layout that keeps a pixel's channels together.
Prints the sgemm peak, then a JSON line per model: median/min ms per step, items/s, GEMM GFLOP/step, GFLOP/s, peak memory.
Weights are random; AdamW lr 1e-3; forward+backward+step.
"""
import argparse, json, math, subprocess, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
from torch_networks import picture_cases, sequence_cases

class SGU(nn.Module):
    def __init__(s, d_ffn, n):
        super().__init__(); s.norm = nn.LayerNorm(d_ffn//2)
        s.weight = nn.Parameter(torch.empty(n, n).uniform_(-.05, .05)); s.bias = nn.Parameter(torch.ones(n))
    def forward(s, x):
        u, v = x.chunk(2, -1); v = s.norm(v)
        return u * (torch.einsum('bnd,mn->bmd', v, s.weight) + s.bias[None, :, None])
class GBlock(nn.Module):
    def __init__(s, d, f, n):
        super().__init__(); s.norm = nn.LayerNorm(d); s.U = nn.Linear(d, f); s.sgu = SGU(f, n); s.V = nn.Linear(f//2, d)
    def forward(s, x): return x + F.gelu(s.V(s.sgu(F.gelu(s.U(s.norm(x))))))
class Vision(nn.Module):
    def __init__(s, patch, img, d, blocks, fc=256, classes=10):
        super().__init__(); n = (img//patch)**2
        s.patch = nn.Conv2d(3, d, patch, patch); s.cls = nn.Parameter(torch.zeros(1, 1, d))
        s.pos = nn.Parameter(torch.zeros(1, n+1, d)); s.drop = nn.Dropout(.1)
        s.blocks = nn.Sequential(*blocks(n+1)); s.norm = nn.LayerNorm(d)
        s.fc = nn.Linear(d, fc); s.head = nn.Linear(fc, classes)
    def forward(s, x):
        x = s.patch(x).flatten(2).transpose(1, 2)
        x = s.drop(torch.cat((s.cls.expand(x.shape[0], -1, -1), x), 1) + s.pos)
        return s.head(F.gelu(s.fc(s.norm(s.blocks(x))[:, 0])))
def enc(d, h, f, drop=0.1): return nn.TransformerEncoderLayer(d, h, f, drop, 'gelu', batch_first=True, norm_first=True)

class Seq2SeqT(nn.Module):
    def __init__(s, V, d, h, f, L, drop=.1):
        super().__init__(); s.e = nn.Embedding(V, d); s.t = nn.Transformer(d, h, L, L, f, drop, batch_first=True); s.o = nn.Linear(d, V); s.d = d
        pe = torch.zeros(512, d); p = torch.arange(512)[:, None]; w = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
        pe[:, 0::2] = torch.sin(p*w); pe[:, 1::2] = torch.cos(p*w); s.register_buffer('pe', pe)
    def forward(s, a, b):
        m = torch.triu(torch.full((b.shape[1],)*2, float('-inf')), 1)
        x = s.e(a)*math.sqrt(s.d)+s.pe[:a.shape[1]]; y = s.e(b)*math.sqrt(s.d)+s.pe[:b.shape[1]]
        return s.o(s.t(x, y, tgt_mask=m))
class Bahdanau(nn.Module):
    def __init__(s, V, e, h):
        super().__init__(); s.se = nn.Embedding(V, e); s.te = nn.Embedding(V, e); s.enc = nn.GRU(e, h, batch_first=True, bidirectional=True)
        s.init = nn.Linear(2*h, h); s.Wq = nn.Linear(h, h, False); s.Wk = nn.Linear(2*h, h, False); s.v = nn.Linear(h, 1, False)
        s.cell = nn.GRUCell(e+2*h, h); s.out = nn.Linear(h+2*h+e, V)
    def forward(s, a, b):
        H, _ = s.enc(s.se(a)); K = s.Wk(H); st = torch.tanh(s.init(H.mean(1))); outs = []
        E = s.te(b)
        for t in range(b.shape[1]):
            al = torch.softmax(s.v(torch.tanh(s.Wq(st)[:, None] + K)).squeeze(-1), -1)
            c = torch.bmm(al[:, None], H).squeeze(1); x = E[:, t]
            st = s.cell(torch.cat((x, c), -1), st); outs.append(torch.cat((st, c, x), -1))
        return s.out(torch.stack(outs, 1))
class NTM(nn.Module):
    """LSTM controller 100, memory 128x20, one read and one write head (Graves 2014 copy task)."""
    def __init__(s, w=8, N=128, M=20, C=100):
        super().__init__(); s.N, s.M, s.C, s.w = N, M, C, w
        s.cell = nn.LSTMCell(w+1+M, C); s.head = nn.Linear(C, 2*(M+6)+2*M); s.out = nn.Linear(C+M, w); s.mem0 = nn.Parameter(torch.rand(N, M)*.1)
        s.r0 = nn.Parameter(torch.zeros(1, M)); s.h0 = nn.Parameter(torch.zeros(1, C)); s.c0 = nn.Parameter(torch.zeros(1, C))
    def addr(s, o, mem, wp):
        k, be, g, sh, ga = torch.tanh(o[:, :s.M]), F.softplus(o[:, s.M:s.M+1]), torch.sigmoid(o[:, s.M+1:s.M+2]), torch.softmax(o[:, s.M+2:s.M+5], -1), 1+F.softplus(o[:, s.M+5:s.M+6])
        wc = torch.softmax(be*F.cosine_similarity(mem+1e-16, k[:, None]+1e-16, -1), -1)
        wg = g*wc+(1-g)*wp
        ws = sh[:, 0:1]*wg.roll(1, -1)+sh[:, 1:2]*wg+sh[:, 2:3]*wg.roll(-1, -1)
        wt = ws**ga; return wt/(wt.sum(-1, keepdim=True)+1e-16)
    def forward(s, x):
        B, T, _ = x.shape; mem = s.mem0.expand(B, -1, -1); r = s.r0.expand(B, -1); h = s.h0.expand(B, -1); c = s.c0.expand(B, -1)
        wr = torch.zeros(B, s.N); ww = torch.zeros(B, s.N); ys = []
        for t in range(T):
            h, c = s.cell(torch.cat((x[:, t], r), -1), (h, c)); o = s.head(h); M6 = s.M+6
            wr = s.addr(o[:, :M6], mem, wr); r = torch.bmm(wr[:, None], mem).squeeze(1)
            ww = s.addr(o[:, M6:2*M6], mem, ww); e = torch.sigmoid(o[:, 2*M6:2*M6+s.M]); a = torch.tanh(o[:, 2*M6+s.M:])
            mem = mem*(1-ww[..., None]*e[:, None])+ww[..., None]*a[:, None]
            ys.append(s.out(torch.cat((h, r), -1)))
        return torch.stack(ys, 1)

class GPT2(nn.Module):
    """transformers' GPT2LMHeadModel: Conv1D holds (in, out), head and table are one."""
    def __init__(s, V=50257, P=1024, d=768, L=12, h=12):
        super().__init__(); s.h = h; s.wte = nn.Embedding(V, d); s.wpe = nn.Embedding(P, d); s.ln_f = nn.LayerNorm(d)
        conv = lambda i, o: nn.ParameterList([torch.randn(i, o)*.02, torch.zeros(o)])
        s.blocks = nn.ModuleList(nn.ModuleDict(dict(ln_1=nn.LayerNorm(d), c_attn=conv(d, 3*d), a_proj=conv(d, d), ln_2=nn.LayerNorm(d), c_fc=conv(d, 4*d), m_proj=conv(4*d, d))) for _ in range(L))
        for e in (s.wte, s.wpe): nn.init.normal_(e.weight, 0, .02)
    def forward(s, t):
        B, T = t.shape; x = s.wte(t) + s.wpe(torch.arange(T))
        c = lambda p, y: torch.addmm(p[1], y.reshape(-1, y.shape[-1]), p[0]).view(*y.shape[:-1], -1)
        for b in s.blocks:
            q, k, v = (y.view(B, T, s.h, -1).transpose(1, 2) for y in c(b['c_attn'], b['ln_1'](x)).chunk(3, -1))
            x = x + c(b['a_proj'], F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, -1))
            x = x + c(b['m_proj'], F.gelu(c(b['c_fc'], b['ln_2'](x)), approximate='tanh'))
        return F.linear(s.ln_f(x), s.wte.weight)

def cases():
    img = lambda b: (torch.randn(b, 3, 32, 32), torch.randint(0, 10, (b,)))
    ce = lambda m, x, y: F.cross_entropy(m(x), y)
    def gm(d, L): return lambda: Vision(8, 32, d, lambda n: [GBlock(d, 4*d, n) for _ in range(L)])
    yield 'gmlp-4m/b32', gm(512, 3), lambda: img(32), ce, 32
    yield 'gmlp-51m/b32', gm(1024, 8), lambda: img(32), ce, 32
    yield 'vit-tiny-p4/b64', lambda: Vision(4, 32, 192, lambda n: [enc(192, 3, 768) for _ in range(12)]), lambda: img(64), ce, 64
    def seq(B, S, T, V): return lambda: (torch.randint(4, V, (B, S)), torch.randint(4, V, (B, T)))
    sce = lambda m, a, b: F.cross_entropy(m(a, b).flatten(0, 1), b.flatten(), label_smoothing=.1)
    yield 'transformer-d256-l3/b64x24', lambda: Seq2SeqT(8000, 256, 8, 512, 3), seq(64, 24, 24, 8000), sce, 64*24
    yield 'transformer-base/b32x32', lambda: Seq2SeqT(10000, 512, 8, 2048, 6), seq(32, 32, 32, 10000), sce, 32*32
    yield 'bahdanau-h256/b64x24', lambda: Bahdanau(8000, 256, 256), seq(64, 24, 24, 8000), sce, 64*24
    yield 'gpt2-124m/b4x64', GPT2, lambda: (torch.randint(0, 50257, (4, 64)), torch.randint(0, 50257, (4, 64))), lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), 4*64
    yield 'ntm-copy/b16xT41', lambda: NTM(), lambda: ((torch.rand(16, 41, 9) > .5).float(), (torch.rand(16, 41, 8) > .5).float()), lambda m, x, y: F.binary_cross_entropy_with_logits(m(x), y), 16
    yield from picture_cases()
    yield from sequence_cases()

def gemm_peak(dtype):
    """Best product of the PyTorch build at hand, GFLOP/s: the roof that its own steps stand under."""
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype); best = 9.
    for _ in range(12): t = time.perf_counter(); a @ b; best = min(best, time.perf_counter()-t)
    return 2*2048**3/best/1e9

def peak_rss_mb():
    """This process's own high-water mark (ru_maxrss would inherit the parent's)."""
    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')) // 1024

def step_time(name, mk, data, loss, items, a):
    layout = (lambda t: t.to(memory_format=torch.channels_last)) if a.channels_last else lambda t: t
    torch.manual_seed(0); m = layout(mk()); params = sum(p.numel() for p in m.parameters())
    opt = torch.optim.AdamW(m.parameters(), 1e-3, fused=True); f = torch.compile(m) if a.compile else m
    batch = [layout(t) if t.dim() == 4 else t for t in data()]; ts = []
    for r in range(a.reps+3):
        t = time.perf_counter(); opt.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16, enabled=a.bf16): L = loss(f, *batch)
        L.backward(); opt.step(); ts.append(time.perf_counter()-t)
    ts = sorted(ts[3:]); med = ts[len(ts)//2]; rss = peak_rss_mb()
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as fc: loss(m, *batch).backward()
    gf = fc.get_total_flops()/1e9
    print(json.dumps(dict(model=name, compile=a.compile, bf16=a.bf16, params=params, ms=round(med*1e3, 2), min_ms=round(ts[0]*1e3, 2), items_per_s=round(items/med, 1), gemm_gflop=round(gf, 2), gflops=round(gf/med), peak_rss_mb=rss)), flush=True)

def main():
    ap = argparse.ArgumentParser(); ap.add_argument('--threads', type=int, default=2); ap.add_argument('--only'); ap.add_argument('--compile', action='store_true'); ap.add_argument('--bf16', action='store_true'); ap.add_argument('--reps', type=int, default=9)
    ap.add_argument('--channels-last', action='store_true')
    a = ap.parse_args(); torch.set_num_threads(a.threads); names = [c[0] for c in (picture_cases if a.channels_last else cases)()]
    if a.only in names:
        step_time(*next(c for c in cases() if c[0] == a.only), a); return
    if not a.channels_last: print(json.dumps(dict(sgemm_peak_gflops=round(gemm_peak(torch.bfloat16 if a.bf16 else torch.float32)), torch=torch.__version__, threads=a.threads)), flush=True)
    for name in names:                                    # a process a model
        if not a.only or a.only in name:
            subprocess.run([sys.executable, __file__, '--threads', str(a.threads), '--reps', str(a.reps), '--only', name] + ['--compile']*a.compile + ['--bf16']*a.bf16 + ['--channels-last']*a.channels_last)

if __name__ == '__main__': main()
