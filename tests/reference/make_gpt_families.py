"""Writes transformers' answers for tiny language models of today's families, with odd sizes.

usage: make_gpt_families.py OUT_DIR
needs: pip install torch safetensors numpy transformers   (written with transformers 5.24, CPU)

OUT_DIR/gpt/FAMILY/config.json, model.safetensors     what save_pretrained writes
OUT_DIR/gpt/FAMILY/answers.safetensors
  prompt (2, 20), logits (2, 20, V), greedy (2, 12): the tokens that generate() goes on with
OUT_DIR/gpt/FAMILY/answers_CHANGE.safetensors         the same weights under a changed configuration
"""
import os, sys
import torch
import transformers as hf
from safetensors.torch import save_file

out = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(11)
sizes = dict(vocab_size=43, hidden_size=20, num_hidden_layers=2, intermediate_size=28, max_position_embeddings=40,
             num_attention_heads=4, initializer_range=0.3, attn_implementation='eager')


def rope(**o):
    return dict(rope_parameters=dict(rope_type='default', rope_theta=1000.0) | o)


def answer(model, path):
    prompt = torch.randint(0, model.config.vocab_size, (2, 20))
    tokens = prompt
    with torch.no_grad():
        logits = model(prompt).logits
        for _ in range(12): tokens = torch.cat((tokens, model(tokens).logits[:, -1:].argmax(-1)), 1)
        made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False,
                              eos_token_id=None, pad_token_id=0)
    assert torch.equal(made, tokens)
    save_file(dict(prompt=prompt, logits=logits.contiguous(), greedy=made[:, 20:].contiguous()), path)
    return logits


def family(name, kind, config, **changes):
    """`changes`: name of the answers -> members of the configuration."""
    path = os.path.join(out, 'gpt', name)
    model = kind(kind.config_class(**sizes | config)).eval()
    with torch.no_grad():   # norms and biases start at 1 and 0: a reader that mixes them up would not be seen
        for key, p in model.named_parameters():
            if p.ndim == 1: p.add_(torch.randn(p.shape) * 0.3)
    model.save_pretrained(path)
    for file in os.listdir(path):
        if file not in ('config.json', 'model.safetensors'): os.remove(os.path.join(path, file))
    answer(model, os.path.join(path, 'answers.safetensors'))
    for change, members in changes.items():
        other = kind(kind.config_class(**sizes | config | members)).eval()
        other.load_state_dict(model.state_dict())
        answer(other, os.path.join(path, f'answers_{change}.safetensors'))


family('llama3', hf.LlamaForCausalLM,
       dict(num_key_value_heads=2, head_dim=8, attention_bias=True,
            **rope(rope_type='llama3', factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
                   original_max_position_embeddings=16)),
       linear=rope(rope_type='linear', factor=3.0))
family('mistral', hf.MistralForCausalLM,
       dict(num_key_value_heads=2, head_dim=6, sliding_window=5, **rope()), whole=dict(sliding_window=None))
family('qwen2', hf.Qwen2ForCausalLM,
       dict(num_key_value_heads=1, hidden_size=24, tie_word_embeddings=True, use_sliding_window=True, sliding_window=4,
            max_window_layers=1, **rope()))
family('qwen3', hf.Qwen3ForCausalLM, dict(num_key_value_heads=2, head_dim=10, **rope()))
family('smollm3', hf.SmolLM3ForCausalLM,
       dict(num_key_value_heads=4, head_dim=6, no_rope_layers=[1, 0], pad_token_id=0, **rope()))
family('phi3', hf.Phi3ForCausalLM,
       dict(num_key_value_heads=2, hidden_size=16, sliding_window=7, pad_token_id=0, resid_pdrop=0.0,
            **rope(partial_rotary_factor=0.5)))
family('gpt_neox', hf.GPTNeoXForCausalLM,
       dict(hidden_size=16, num_attention_heads=2, hidden_act='gelu', **rope(partial_rotary_factor=0.25)),
       serial=dict(use_parallel_residual=False))
family('gemma3', hf.Gemma3ForCausalLM,
       dict(num_key_value_heads=1, hidden_size=16, head_dim=6, query_pre_attn_scalar=6, tie_word_embeddings=True,
            sliding_window=5, layer_types=['sliding_attention', 'full_attention'],
            rope_parameters=dict(sliding_attention=dict(rope_type='default', rope_theta=50.0),
                                 full_attention=dict(rope_type='default', rope_theta=1000.0))))
family('yarn', hf.LlamaForCausalLM,
       dict(num_key_value_heads=2, head_dim=12,
            **rope(rope_type='yarn', factor=4.0, original_max_position_embeddings=16)),
       bounds=rope(rope_type='yarn', factor=4.0, original_max_position_embeddings=16, beta_fast=3.0, beta_slow=0.3,
                   truncate=False, attention_factor=0.8))
LONG = rope(rope_type='longrope', short_factor=[1.0, 1.1, 1.3], long_factor=[1.2, 2.5, 7.0])
family('phi3_long', hf.Phi3ForCausalLM,
       dict(num_key_value_heads=2, hidden_size=24, pad_token_id=0, resid_pdrop=0.0,
            original_max_position_embeddings=16, **LONG),
       short=dict(original_max_position_embeddings=40), factor=dict(
           rope_parameters=LONG['rope_parameters'] | dict(attention_factor=1.5)))
