"""Writes PyTorch's answers for programs of tests/consumer, all f64.

usage: make_consumer.py OUT_DIR      (tests/reference)
needs: torch, safetensors, numpy (CPU only; written with torch 2.15)

OUT_DIR/consumer/maml.safetensors   MAML (Finn et al. 2017) on sine waves
  param.NAME    weights of the network 1-40-40-1 before training
  support, query (tasks, 2, points): x and y that a task adapts to in two steps of 0.01, and is judged by
  grad.NAME     gradient of the mean loss over tasks after adaptation; trace (10): that loss under Adam, 1e-3
OUT_DIR/consumer/lora.safetensors   LoRA (Hu et al. 2021) on OUT_DIR/gpt/gpt2/model.safetensors
  param.NAME.a (in, r), param.NAME.b (r, out)   of the matrix NAME (in, out), replaced by w + alpha / r a b
  tokens, labels (2, 12); grad.NAME.a, grad.NAME.b; trace (10): the loss under AdamW, 1e-2, of the adapters alone
"""
import json, os, sys
import torch, torch.nn.functional as F
from safetensors.torch import load_file, save_file

out = sys.argv[1]
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(3)


def answers(params, objective, optimizer):
    loss = objective()
    grads = {f'grad.{n}': g for (n, _), g in zip(params.items(), torch.autograd.grad(loss, list(params.values())))}
    trace = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        optimizer.step()
        trace.append(loss.item())
    return {**grads, 'trace': torch.tensor(trace)}


def write(name, params, inputs, objective, optimizer):
    before = {f'param.{n}': p.detach().clone() for n, p in params.items()}
    tensors = {**before, **inputs, **answers(params, objective, optimizer)}
    save_file({n: t.detach().contiguous() for n, t in tensors.items()},
              os.path.join(out, 'consumer', name + '.safetensors'))


def maml(tasks=4, points=10, rate=0.01, steps=2):
    net = torch.nn.Sequential(torch.nn.Linear(1, 40), torch.nn.ReLU(), torch.nn.Linear(40, 40), torch.nn.ReLU(),
                              torch.nn.Linear(40, 1))
    params = dict(net.named_parameters())
    amplitude, phase = torch.rand(tasks, 1) * 4.9 + 0.1, torch.rand(tasks, 1) * torch.pi
    def draw():
        x = torch.rand(tasks, points) * 10 - 5
        return torch.stack((x, amplitude * torch.sin(x + phase)), 1)
    support, query = draw(), draw()

    def loss(weights, data):
        y = torch.func.functional_call(net, weights, data[0][:, None])
        return F.mse_loss(y, data[1][:, None])

    def objective():
        total = 0
        for task in range(tasks):
            fast = params
            for _ in range(steps):
                slopes = torch.autograd.grad(loss(fast, support[task]), list(fast.values()), create_graph=True)
                fast = {n: p - rate * g for (n, p), g in zip(fast.items(), slopes)}
            total = total + loss(fast, query[task])
        return total / tasks

    write('maml', params, dict(support=support, query=query), objective, torch.optim.Adam(params.values(), lr=1e-3))


def gpt2(w, tokens, layers, heads):
    """transformers' GPT2LMHeadModel with weights w."""
    linear = lambda x, n: x @ w[n + '.weight'] + w[n + '.bias']
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[n + '.weight'], w[n + '.bias'], 1e-5)
    x = w['transformer.wte.weight'][tokens] + w['transformer.wpe.weight'][:tokens.shape[1]]
    for i in range(layers):
        at = f'transformer.h.{i}.'
        q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2)
                   for t in linear(norm(x, at + 'ln_1'), at + 'attn.c_attn').chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).flatten(2), at + 'attn.c_proj')
        h = F.gelu(linear(norm(x, at + 'ln_2'), at + 'mlp.c_fc'), approximate='tanh')
        x = x + linear(h, at + 'mlp.c_proj')
    return norm(x, 'transformer.ln_f') @ w['transformer.wte.weight'].T


def lora(rank=2, alpha=4):
    folder = os.path.join(out, 'gpt', 'gpt2')
    config = json.load(open(os.path.join(folder, 'config.json')))
    sizes = (config['n_layer'], config['n_head'])
    base = {n: t.double() for n, t in load_file(os.path.join(folder, 'model.safetensors')).items()}
    known = load_file(os.path.join(folder, 'answers.safetensors'))
    assert torch.allclose(gpt2(base, known['prompt'], *sizes), known['logits'].double(), atol=1e-3)
    params = {}
    for n, w in base.items():
        if not n.endswith(('attn.c_attn.weight', 'mlp.c_fc.weight')): continue
        params[n + '.a'] = (torch.randn(w.shape[0], rank) / w.shape[0] ** .5).requires_grad_()
        params[n + '.b'] = (torch.randn(rank, w.shape[1]) * .1).requires_grad_()
    text = torch.randint(0, config['vocab_size'], (2, 13))
    tokens, labels = text[:, :-1], text[:, 1:]

    def objective():
        w = {n: t + alpha / rank * params[n + '.a'] @ params[n + '.b'] if n + '.a' in params else t
             for n, t in base.items()}
        return F.cross_entropy(gpt2(w, tokens, *sizes).flatten(0, 1), labels.flatten())

    write('lora', params, dict(tokens=tokens, labels=labels), objective,
          torch.optim.AdamW(params.values(), lr=1e-2, weight_decay=1e-2))


maml()
lora()
