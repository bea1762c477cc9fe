"""Single ops of PyTorch beside tern's: runs OPS_BENCH (built from ops.cpp), then the same ops here, one thread each.

usage: ops.py OPS_BENCH [WORD]
Prints processor time in ms and tern's share of PyTorch's, largest first; then the median share.
"""
import statistics, subprocess, sys, time
import torch, torch.nn.functional as F

WORD = sys.argv[2] if len(sys.argv) > 2 else ''
torch.set_num_threads(1); torch.manual_seed(1)
R, I = torch.randn, torch.randint
here = {}

def timed(name, run):
    if WORD not in name: return
    def seconds(reps):
        start = time.process_time()
        for _ in range(reps): run()
        return (time.process_time() - start) / reps
    run(); reps = int(.01 / max(seconds(1), 1e-6)) + 1
    here[name] = statistics.median(seconds(reps) for _ in range(5))

def op(name, x, fn):
    def forward():
        with torch.no_grad(): fn(x)
    timed(name + ' f', forward)
    dy = R(fn(x).shape)
    timed(name + ' b', lambda: fn(x.detach().requires_grad_()).backward(dy))

x, y, index, each, zero = R(1000, 1000), R(1000, 1000), I(1000, (1000,)), I(1000, (1000, 1000)), torch.zeros(1000, 1000)
for a in (0, 1):
    for name, fn in {
        'sum': lambda t: t.sum(a), 'var': lambda t: t.var(a), 'max': lambda t: t.max(a)[0], 'prod': lambda t: t.prod(a),
        'logsumexp': lambda t: t.logsumexp(a), 'softmax': lambda t: t.softmax(a),
        'log_softmax': lambda t: t.log_softmax(a), 'cumsum': lambda t: t.cumsum(a), 'sort': lambda t: t.sort(a)[0],
        'topk': lambda t: t.topk(10, a)[0], 'median': lambda t: t.median(a)[0], 'roll': lambda t: t.roll(3, a),
        'index_select': lambda t: t.index_select(a, index), 'gather': lambda t: t.gather(a, each),
        'scatter_add': lambda t: zero.scatter_add(a, each, t), 'index_add': lambda t: zero.index_add(a, index, t),
        'cat': lambda t: torch.cat([t, t, t], a), 'stack': lambda t: torch.stack([t, t], a + 1)}.items():
        op(f'{name}, axis {a}', x, fn)

p, q, u, row, turn = R(200000, 3), R(200000, 3), R(200000, 1), R(3), R(3, 3)
mask, at, label = p > 0, I(200000, (200000,)), I(3, (200000,))
for name, fn in {
    'sum': lambda t: t.sum(-1), 'norm': lambda t: t.norm(dim=-1), 'max': lambda t: t.max(-1)[0],
    'softmax': lambda t: t.softmax(-1), 'layer_norm': lambda t: F.layer_norm(t, (3,)),
    'cumsum': lambda t: t.cumsum(-1), 'cross_entropy': lambda t: F.cross_entropy(t, label),
    'mul by a row': lambda t: t * row, 'mul by a column': lambda t: t * u,
    'div by the norm': lambda t: t / t.norm(dim=-1, keepdim=True), 'cat': lambda t: torch.cat([t, q], -1),
    'narrow': lambda t: t[:, :2] * 1., 'roll': lambda t: t.roll(1, -1), 'pad': lambda t: F.pad(t, (0, 1)),
    'repeat': lambda t: t.repeat(1, 4), 'transpose': lambda t: t.t().contiguous(),
    'index_select': lambda t: t.index_select(0, at), 'index_add': lambda t: q.index_add(0, at, t),
    'masked_fill': lambda t: t.masked_fill(mask, 0), 'where': lambda t: torch.where(u > 0, t, q),
    'matmul': lambda t: t @ turn, 'einsum, outer': lambda t: torch.einsum('ni,nj->nij', t, q),
    'smooth_l1_loss': lambda t: F.smooth_l1_loss(t, q),
    'cosine_similarity': lambda t: F.cosine_similarity(t, q, -1)}.items():
    op(f'points: {name}', p, fn)

pictures, last, deep, label = R(8, 3, 224, 224), R(8, 224, 224, 3), R(8, 32, 56, 56), I(32, (8, 56, 56))
theta = torch.tensor([.9, .1, 0, -.1, .9, 0]).reshape(1, 2, 3).repeat(8, 1, 1)
grid = F.affine_grid(theta, deep.shape, align_corners=False)
for name, t, fn in (
    ('softmax of classes', pictures, lambda t: t.softmax(1)),
    ('to channels last', pictures, lambda t: t.permute(0, 2, 3, 1).contiguous()),
    ('from channels last', last, lambda t: t.permute(0, 3, 1, 2).contiguous()),
    ('normalise channels last', last, lambda t: (t - row) / row),
    ('crop', pictures, lambda t: t[:, :, 10:200, 10:200].contiguous()),
    ('pad, reflected', deep, lambda t: F.pad(t, (1, 1, 1, 1), 'reflect')),
    ('pixel_shuffle', deep, lambda t: F.pixel_shuffle(t, 2)),
    ('cross_entropy', deep, lambda t: F.cross_entropy(t, label)),
    ('interpolate', deep, lambda t: F.interpolate(t, scale_factor=2, mode='bilinear')),
    ('grid_sample', deep, lambda t: F.grid_sample(t, grid, align_corners=False)),
    ('max_pool2d', deep, lambda t: F.max_pool2d(t, 3, 2, 1))):
    op(f'pictures: {name}', t, fn)

def chain(t):
    for _ in range(20): t = torch.tanh(t * 2 + 1)
    return t

positive, tall, nodes, above, batch_norm = x.abs() + .1, R(100000, 8), I(100000, (50000,)), x > 0, torch.nn.BatchNorm1d(1000)
window = torch.ones(400)
for name, t, fn in (
    ('median of all', x, torch.median), ('quantile', x, lambda t: t.quantile(.9)), ('pow, 3', x, lambda t: t ** 3),
    ('pow, 2.5', positive, lambda t: t ** 2.5), ('remainder', x, lambda t: t.remainder(.7)), ('sin', x, torch.sin),
    ('gelu', x, F.gelu), ('huber_loss', x, lambda t: F.huber_loss(t, y)),
    ('x + its transpose', x, lambda t: t + t.t()), ('index by a mask', x, lambda t: t[above]),
    ('batch norm of vectors', x, batch_norm), ('cat of eight narrow ones', tall, lambda t: torch.cat([t] * 8, 1)),
    ('embedding of 8', tall, lambda t: F.embedding(nodes, t)),
    ('product of 8 columns', tall, lambda t: t @ t.detach()[:8]),
    ('products 3 x 3', R(20000, 3, 3), lambda t: t @ t), ('products 8 x 8', R(1000, 8, 8), lambda t: t @ t),
    ('a chain of small ops', R(16), chain),
    ('stft', R(8, 16000), lambda t: torch.view_as_real(torch.stft(t, 400, 160, window=window, return_complex=True)))):
    op(name, t, fn)

lines = subprocess.run([sys.argv[1], WORD], capture_output=True, text=True, check=True).stdout.splitlines()
there = {name: float(s) for name, s in (line.split('\t') for line in lines)}
assert there.keys() == here.keys(), there.keys() ^ here.keys()
rows = sorted(((there[n] / here[n], n) for n in here), reverse=True)
for share, n in rows: print(f'{n:36} {1e3 * there[n]:9.3f} {1e3 * here[n]:9.3f} {share:7.2f}')
print(f'median of {len(rows)}: {statistics.median(r for r, _ in rows):.2f}')
