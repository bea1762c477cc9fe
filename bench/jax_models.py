"""The models of torch_bench.py in JAX, for jax_bench.py: the same weights, losses and gradients.

Import it after the process has been limited to its threads. Each model is a function that gives its
weights and loss(weights, draws, batch).
"""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # the faster generator

OPERAND = "float32"  # type of what goes into products and comes out
DROPOUT = 0.1


# Weights


class Init:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def uniform(self, *shape, bound):
        return self.rng.uniform(-bound, bound, shape).astype(np.float32)

    def linear(self, i, o, bias=True):
        bound = i**-0.5
        return {
            "w": self.uniform(i, o, bound=bound),
            **({"b": self.uniform(o, bound=bound)} if bias else {}),
        }

    def normal(self, *shape, std=1.0):
        return (self.rng.standard_normal(shape) * std).astype(np.float32)

    @staticmethod
    def norm(d):
        return {"w": np.ones(d, np.float32), "b": np.zeros(d, np.float32)}

    def recurrent(self, gates, i, h):
        b = h**-0.5
        return {
            "wi": self.uniform(i, gates * h, bound=b),
            "wh": self.uniform(h, gates * h, bound=b),
            "bi": self.uniform(gates * h, bound=b),
            "bh": self.uniform(gates * h, bound=b),
        }

    def attention(self, d):
        return {"qkv": self.linear(d, 3 * d), "out": self.linear(d, d)}

    def feed_forward(self, d, f):
        return {"up": self.linear(d, f), "down": self.linear(f, d)}


class Draws:
    """Keys of one step, a new one each time."""

    def __init__(self, key):
        self.key = key

    def dropout(self, x):
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)


# Layers


def product(spec, a, b):
    """In OPERAND; XLA does not give f32 for every product of bfloat16."""
    return jnp.einsum(spec, a.astype(OPERAND), b.astype(OPERAND)).astype(jnp.float32)


def linear(p, x):
    y = product("...i,io->...o", x, p["w"])
    return y + p["b"] if "b" in p else y


def norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["w"] + p["b"]


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def heads_of(x, heads):
    return x.reshape(*x.shape[:2], heads, -1)


def attention(p, x, memory, heads, draws=None, causal=False):
    """Queries from x; keys and values from memory, or from x if it is None."""
    if memory is None:
        q, k, v = jnp.split(linear(p["qkv"], x), 3, -1)
    else:
        d = x.shape[-1]
        part = lambda first, last: {
            "w": p["qkv"]["w"][:, first:last],
            "b": p["qkv"]["b"][first:last],
        }
        q, (k, v) = linear(part(0, d), x), jnp.split(linear(part(d, 3 * d), memory), 2, -1)
    q, k, v = (heads_of(y, heads) for y in (q, k, v))
    scores = product("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, -1)
    if draws:
        weights = draws.dropout(weights)
    return linear(p["out"], product("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))


def feed_forward(p, x, activation, draws=None):
    y = activation(linear(p["up"], x))
    return linear(p["down"], draws.dropout(y) if draws else y)


def cross_entropy(logits, labels, smoothing=0.0):
    logp = jax.nn.log_softmax(logits, -1)
    hit = jnp.take_along_axis(logp, labels[..., None], -1)[..., 0]
    return -((1 - smoothing) * hit + smoothing * logp.mean(-1)).mean()


# Models: weights, and a loss of (weights, draws, batch)


def vision(patch, d, blocks, block_init, block):
    init, tokens = Init(), (32 // patch) ** 2 + 1
    p = {
        "patch": init.linear(3 * patch * patch, d),
        "cls": np.zeros((1, 1, d), np.float32),
        "pos": np.zeros((1, tokens, d), np.float32),
        "norm": init.norm(d),
        "fc": init.linear(d, 256),
        "head": init.linear(256, 10),
        "blocks": [block_init(init, d, tokens) for _ in range(blocks)],
    }

    def loss(p, draws, batch):
        x, y = batch
        b, grid = x.shape[0], 32 // patch
        x = x.reshape(b, 3, grid, patch, grid, patch).transpose(0, 2, 4, 1, 3, 5)
        x = linear(p["patch"], x.reshape(b, grid * grid, -1))
        x = jnp.concatenate([jnp.broadcast_to(p["cls"], (b, 1, d)), x], 1) + p["pos"]
        x = draws.dropout(x)
        for q in p["blocks"]:
            x = block(q, x, draws)
        x = norm(p["norm"], x)[:, 0]
        return cross_entropy(linear(p["head"], gelu(linear(p["fc"], x))), y)

    return p, loss


def gmlp_init(init, d, tokens):
    return {
        "norm": init.norm(d),
        "up": init.linear(d, 4 * d),
        "down": init.linear(2 * d, d),
        "gate_norm": init.norm(2 * d),
        "spatial": init.uniform(tokens, tokens, bound=0.05),
        "spatial_bias": np.ones(tokens, np.float32),
    }


def gmlp_block(p, x, _):
    u, v = jnp.split(gelu(linear(p["up"], norm(p["norm"], x))), 2, -1)
    v = product("bnd,mn->bmd", norm(p["gate_norm"], v), p["spatial"]) + p["spatial_bias"][:, None]
    return x + gelu(linear(p["down"], u * v))


def vit_init(init, d, _):
    return {
        "norm1": init.norm(d),
        "norm2": init.norm(d),
        "attention": init.attention(d),
        "ff": init.feed_forward(d, 4 * d),
    }


def vit_block(p, x, draws):
    x = x + draws.dropout(attention(p["attention"], norm(p["norm1"], x), None, 3, draws))
    return x + draws.dropout(feed_forward(p["ff"], norm(p["norm2"], x), gelu, draws))


def transformer(vocabulary, d, heads, f, layers):
    init = Init()

    def layer(attentions):
        return {
            "norms": [init.norm(d) for _ in range(attentions + 1)],
            "ff": init.feed_forward(d, f),
            "attentions": [init.attention(d) for _ in range(attentions)],
        }

    p = {
        "table": init.normal(vocabulary, d),
        "encoder": [layer(1) for _ in range(layers)],
        "decoder": [layer(2) for _ in range(layers)],
        "encoder_norm": init.norm(d),
        "decoder_norm": init.norm(d),
        "out": init.linear(d, vocabulary),
    }
    angle = np.arange(512)[:, None] * 1e4 ** (-np.arange(0, d, 2) / d)
    positions = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(512, d).astype(np.float32)

    def embed(p, tokens):
        return p["table"][tokens] * d**0.5 + positions[: tokens.shape[1]]

    def loss(p, draws, batch):
        source, target = batch
        memory, y = embed(p, source), embed(p, target)
        relu = jax.nn.relu
        for q in p["encoder"]:
            a = attention(q["attentions"][0], memory, None, heads, draws)
            memory = norm(q["norms"][0], memory + draws.dropout(a))
            memory = norm(
                q["norms"][1], memory + draws.dropout(feed_forward(q["ff"], memory, relu, draws))
            )
        memory = norm(p["encoder_norm"], memory)
        for q in p["decoder"]:
            a = attention(q["attentions"][0], y, None, heads, draws, causal=True)
            y = norm(q["norms"][0], y + draws.dropout(a))
            y = norm(
                q["norms"][1],
                y + draws.dropout(attention(q["attentions"][1], y, memory, heads, draws)),
            )
            y = norm(q["norms"][2], y + draws.dropout(feed_forward(q["ff"], y, relu, draws)))
        return cross_entropy(linear(p["out"], norm(p["decoder_norm"], y)), target, smoothing=0.1)

    return p, loss


def gru_step(p, inputs, h):
    """inputs: those of the three gates, with their bias."""
    ir, iz, i_n = jnp.split(inputs, 3, -1)
    hr, hz, hn = jnp.split(product("bi,io->bo", h, p["wh"]) + p["bh"], 3, -1)
    r, z = jax.nn.sigmoid(ir + hr), jax.nn.sigmoid(iz + hz)
    return (1 - z) * jnp.tanh(i_n + r * hn) + z * h


def bahdanau(vocabulary, e, h):
    init = Init()
    p = {
        "source": init.normal(vocabulary, e),
        "target": init.normal(vocabulary, e),
        "directions": [init.recurrent(3, e, h) for _ in range(2)],
        "init": init.linear(2 * h, h),
        "query": init.linear(h, h, bias=False),
        "key": init.linear(2 * h, h, bias=False),
        "score": init.linear(h, 1, bias=False),
        "cell": init.recurrent(3, e + 2 * h, h),
        "out": init.linear(3 * h + e, vocabulary),
    }

    def run(q, x, reverse):
        inputs = product("bti,io->tbo", x, q["wi"]) + q["bi"]

        def step(state, now):
            state = gru_step(q, now, state)
            return state, state

        return jax.lax.scan(step, jnp.zeros((x.shape[0], h)), inputs, reverse=reverse)[1]

    def loss(p, _, batch):
        source, target = batch
        x = p["source"][source]
        both = jnp.concatenate([run(q, x, i == 1) for i, q in enumerate(p["directions"])], -1)
        both = both.transpose(1, 0, 2)
        keys = linear(p["key"], both)
        state = jnp.tanh(linear(p["init"], both.mean(1)))

        def step(state, word):
            mixed = jnp.tanh(linear(p["query"], state)[:, None] + keys)
            weights = jax.nn.softmax(linear(p["score"], mixed)[..., 0], -1)
            context = product("bt,btd->bd", weights, both)
            inputs = jnp.concatenate([word, context], -1)
            inputs = product("bi,io->bo", inputs, p["cell"]["wi"]) + p["cell"]["bi"]
            state = gru_step(p["cell"], inputs, state)
            return state, jnp.concatenate([state, context, word], -1)

        words = p["target"][target].transpose(1, 0, 2)
        outputs = jax.lax.scan(step, state, words)[1]
        return cross_entropy(linear(p["out"], outputs), target.T, smoothing=0.1)

    return p, loss


def ntm(width=8, rows=128, m=20, hidden=100):
    init = Init()
    p = {
        "cell": init.recurrent(4, width + 1 + m, hidden),
        "head": init.linear(hidden, 2 * (m + 6) + 2 * m),
        "out": init.linear(hidden + m, width),
        "memory": init.uniform(rows, m, bound=0.1),
        "read": np.zeros((1, m), np.float32),
        "h": np.zeros((1, hidden), np.float32),
        "c": np.zeros((1, hidden), np.float32),
    }

    def address(o, memory, before):
        key, beta, gate = (
            jnp.tanh(o[:, :m]),
            jax.nn.softplus(o[:, m : m + 1]),
            jax.nn.sigmoid(o[:, m + 1 : m + 2]),
        )
        shift, gamma = jax.nn.softmax(o[:, m + 2 : m + 5], -1), 1 + jax.nn.softplus(
            o[:, m + 5 : m + 6]
        )
        memory, key = memory + 1e-16, key + 1e-16
        length = jnp.sqrt((memory**2).sum(-1)) * jnp.sqrt((key**2).sum(-1, keepdims=True))
        likeness = product("bnm,bm->bn", memory, key) / jnp.maximum(length, 1e-8)
        w = gate * jax.nn.softmax(beta * likeness, -1) + (1 - gate) * before
        w = sum(shift[:, i : i + 1] * jnp.roll(w, i - 1, -1) for i in range(3)) ** gamma
        return w / (w.sum(-1, keepdims=True) + 1e-16)

    def loss(p, _, batch):
        x, y = batch
        spread = lambda a, *shape: jnp.broadcast_to(a, (x.shape[0], *shape))

        def step(state, now):
            memory, read, h, c, wr, ww = state
            gates = product("bi,io->bo", jnp.concatenate([now, read], -1), p["cell"]["wi"])
            gates = (
                gates + product("bi,io->bo", h, p["cell"]["wh"]) + p["cell"]["bi"] + p["cell"]["bh"]
            )
            i, f, g, o = jnp.split(gates, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            o = linear(p["head"], h)
            wr = address(o[:, : m + 6], memory, wr)
            read = product("bn,bnm->bm", wr, memory)
            ww = address(o[:, m + 6 : 2 * m + 12], memory, ww)
            erase, add = jax.nn.sigmoid(o[:, 2 * m + 12 : 3 * m + 12]), jnp.tanh(o[:, 3 * m + 12 :])
            memory = memory * (1 - ww[..., None] * erase[:, None]) + ww[..., None] * add[:, None]
            return (memory, read, h, c, wr, ww), linear(p["out"], jnp.concatenate([h, read], -1))

        none = jnp.zeros((x.shape[0], rows))
        state = (
            spread(p["memory"], rows, m),
            spread(p["read"], m),
            spread(p["h"], hidden),
            spread(p["c"], hidden),
            none,
            none,
        )
        z = jax.lax.scan(step, state, x.transpose(1, 0, 2))[1].transpose(1, 0, 2)
        return (jax.nn.softplus(z) - y * z).mean()

    return p, loss


def gpt2(vocabulary=50257, places=1024, d=768, layers=12, heads=12):
    init = Init()
    p = {
        "table": init.normal(vocabulary, d, std=0.02),
        "places": init.normal(places, d, std=0.02),
        "norm": init.norm(d),
        "blocks": [vit_init(init, d, None) for _ in range(layers)],
    }

    def loss(p, _, batch):
        tokens, labels = batch
        x = p["table"][tokens] + p["places"][: tokens.shape[1]]
        for q in p["blocks"]:
            x = x + attention(q["attention"], norm(q["norm1"], x), None, heads, causal=True)
            x = x + feed_forward(
                q["ff"], norm(q["norm2"], x), lambda y: jax.nn.gelu(y, approximate=True)
            )
        return cross_entropy(product("btd,vd->btv", norm(p["norm"], x), p["table"]), labels)

    return p, loss
