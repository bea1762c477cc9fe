"""Writes transformers' answers for language models that read from left to right.

usage: make_gpt.py OUT_DIR
needs: pip install torch safetensors numpy transformers   (written with transformers 5.23, CPU)

OUT_DIR/llama.safetensors, llama_tied.safetensors     as make_reference.py writes its cases
OUT_DIR/gpt/{gpt2,llama,llama_tied}/                  what save_pretrained writes: config.json, model.safetensors
OUT_DIR/gpt/{gpt2,llama,llama_tied}/answers.safetensors
  prompt (3, 5), logits (3, 5, V), greedy (3, 20): the tokens that generate() goes on with
OUT_DIR/gpt/gpt2/old.safetensors                      the names and buffers of the first GPT-2 files
"""
import json, os, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from make_reference import write

out = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(9)
no_dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def gpt2(**o):
    return GPT2LMHeadModel(GPT2Config(**{**no_dropout, **o}))


def llama(**o):
    return LlamaForCausalLM(LlamaConfig(**o))


def parity(name, model, **config):
    c = model.config
    ce = lambda y, t: F.cross_entropy(y.flatten(0, -2), t.flatten())
    tokens = lambda: torch.randint(3, c.vocab_size, (2, 9))
    options = dict(heads=c.num_attention_heads, kv_heads=c.num_key_value_heads, layers=c.num_hidden_layers,
                   context=c.max_position_embeddings, tied=c.tie_word_embeddings, eps=c.rms_norm_eps,
                   rope_base=config['rope_base'], names='transformers LlamaForCausalLM')
    write(out, name, model, [tokens()], ce, tokens(), options)


def folder(name, model):
    path = os.path.join(out, 'gpt', name)
    model.eval().save_pretrained(path)
    for file in os.listdir(path):
        if file not in ('config.json', 'model.safetensors'): os.remove(os.path.join(path, file))
    prompt = torch.randint(0, model.config.vocab_size, (3, 5))
    with torch.no_grad():
        logits = model(prompt).logits
        tokens = prompt
        for _ in range(20): tokens = torch.cat((tokens, model(tokens).logits[:, -1:].argmax(-1)), 1)
        made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False,
                              eos_token_id=None, pad_token_id=0)
    assert torch.equal(made, tokens)
    save_file(dict(prompt=prompt, logits=logits.contiguous(), greedy=made[:, 5:].contiguous()),
              os.path.join(path, 'answers.safetensors'))
    return path


sizes = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, intermediate_size=40, max_position_embeddings=16)
parity('llama', llama(**sizes, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
                      tie_word_embeddings=False), rope_base=1e4)
parity('llama_tied', llama(**sizes, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-5,
                           rope_parameters=dict(rope_type='default', rope_theta=500.0),
                           tie_word_embeddings=True), rope_base=500.0)

wide = dict(initializer_range=0.3)   # so that the likeliest token depends on what was read
model = gpt2(vocab_size=61, n_positions=32, n_embd=24, n_layer=3, n_head=3, **wide)
path = folder('gpt2', model)
old = {k.removeprefix('transformer.'): v.contiguous() for k, v in model.state_dict().items() if k != 'lm_head.weight'}
for i in range(3):
    old[f'h.{i}.attn.bias'] = torch.ones(32, 32).tril().view(1, 1, 32, 32)
    old[f'h.{i}.attn.masked_bias'] = torch.tensor(-1e4)
save_file(old, os.path.join(path, 'old.safetensors'))
sizes = dict(vocab_size=61, hidden_size=24, num_hidden_layers=3, intermediate_size=36, max_position_embeddings=32, **wide)
folder('llama', llama(**sizes, num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=False))
folder('llama_tied', llama(**sizes, num_attention_heads=3, num_key_value_heads=3, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type='default', rope_theta=500.0)))
