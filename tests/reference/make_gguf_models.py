"""Writes small language models and tokenizers as GGUF files, and what transformers and the tokenizers
know of them.

usage: make_gguf_models.py OUT_DIR
needs: torch, transformers, gguf, tokenizers, sentencepiece, safetensors

OUT_DIR/NAME.gguf, NAME.safetensors     a model of each family: as llama.cpp's converter writes it, and
                                        the weights of transformers
OUT_DIR/configs.json                    {NAME: config.json of that model}
OUT_DIR/tokenizer_NAME.gguf             tokenizers of each kind
OUT_DIR/tokenizers.json                 {NAME: [[text, ids], ...]}, by `tokenizers` and SentencePiece
"""
import json, os, sys, tempfile
import gguf, numpy as np, sentencepiece, torch, transformers as T
from gguf import MODEL_ARCH as A
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

out = sys.argv[1]
torch.manual_seed(1)
VOCAB, CONTEXT, DIM, FFN, LAYERS, HEADS, KV_HEADS = 10, 16, 16, 20, 2, 4, 2
BASE = dict(vocab_size=VOCAB, hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-5, rope_theta=5e5, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", factor=8., low_freq_factor=1., high_freq_factor=4.,
              original_max_position_embeddings=8192)
MODELS = {
    "llama": (A.LLAMA, T.LlamaForCausalLM, T.LlamaConfig(**BASE)),
    "llama_biased": (A.LLAMA, T.LlamaForCausalLM, T.LlamaConfig(
        **BASE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama3": (A.LLAMA, T.LlamaForCausalLM, T.LlamaConfig(
        **BASE, head_dim=16, rope_scaling=LLAMA3)),
    "mistral": (A.LLAMA, T.MistralForCausalLM, T.MistralConfig(**BASE, head_dim=8, sliding_window=8)),
    "qwen2": (A.QWEN2, T.Qwen2ForCausalLM, T.Qwen2Config(**BASE, tie_word_embeddings=True)),
    "qwen3": (A.QWEN3, T.Qwen3ForCausalLM, T.Qwen3Config(**BASE, head_dim=8)),
    "smollm3": (A.SMOLLM3, T.SmolLM3ForCausalLM, T.SmolLM3Config(**BASE)),
    "phi3": (A.PHI3, T.Phi3ForCausalLM, T.Phi3Config(**BASE)),
    "gpt2": (A.GPT2, T.GPT2LMHeadModel, T.GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=DIM, n_layer=LAYERS, n_head=HEADS, n_inner=FFN,
        bos_token_id=1, eos_token_id=2)),
    "gemma3": (A.GEMMA3, T.Gemma3ForCausalLM, T.Gemma3TextConfig(
        **BASE | dict(rope_theta=None), head_dim=8, query_pre_attn_scalar=8, sliding_window=6,
        rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=1e4),
                             full_attention=dict(rope_type="default", rope_theta=5e5)))),
    "phi3_long": (A.PHI3, T.Phi3ForCausalLM, T.Phi3Config(
        **BASE, original_max_position_embeddings=8, rope_scaling=dict(
            rope_type="longrope", short_factor=[1., 1.25], long_factor=[1.5, 4.]))),
}
FACTS = """
    model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads
    max_position_embeddings rms_norm_eps rope_parameters head_dim sliding_window attention_bias mlp_bias hidden_act
    n_positions n_embd n_layer n_head n_inner layer_norm_epsilon activation_function bos_token_id eos_token_id
""".split()


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def permuted(rows, heads):  # as LlamaModel.permute of convert_hf_to_gguf.py
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_model(name, arch, config, state):
    writer = gguf.GGUFWriter(f"{out}/{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if arch == A.GPT2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        rope = config.rope_parameters
        writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        writer.add_vocab_size(VOCAB)
        head = getattr(config, "head_dim", None) or DIM // HEADS
        writer.add_rope_dimension_count(head)
        if head != DIM // HEADS:
            writer.add_key_length(head)
            writer.add_value_length(head)
    if name in ("mistral", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if name == "llama3":  # as Llama's generate_extra_tensors
        plain = 5e5 ** -(torch.arange(0, 16, 2) / 16)
        scaled = T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0]
        writer.add_tensor("rope_freqs.weight", (plain / scaled).numpy().astype("f4"))
    if name == "phi3_long":  # as Phi3MiniModel's set_gguf_parameters and generate_extra_tensors
        writer.add_rope_scaling_orig_ctx_len(8)
        writer.add_rope_scaling_attn_factors(T.modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"](config, "cpu")[1])
        for length in "long", "short":
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[length + "_factor"], dtype="f4"))
    names = gguf.get_tensor_name_map(arch, LAYERS)
    for key, weight in state.items():
        x = weight.numpy()
        if arch == A.GPT2 and x.ndim == 2 and ".c_" in key:
            x = x.T
        if arch in (A.LLAMA, A.SMOLLM3) and ".q_proj." in key:
            x = permuted(x, HEADS)
        if arch in (A.LLAMA, A.SMOLLM3) and ".k_proj." in key:
            x = permuted(x, KV_HEADS)
        if arch == A.GEMMA3 and key.endswith("norm.weight"):
            x = x + 1
        x = x.astype("f2" if x.ndim == 2 else "f4")
        writer.add_tensor(names.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(x))
    finish(writer)


configs = {}
for name, (arch, make, config) in MODELS.items():
    model = make(config).float()
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    state = {}
    for key, weight in model.state_dict().items():
        if not (tied and key == "lm_head.weight"):
            state[key] = weight.copy_(torch.randn_like(weight)).half().float().clone()
    write_model(name, arch, config, state)
    save_file({key: weight.half() for key, weight in state.items()}, f"{out}/{name}.safetensors")
    configs[name] = {key: value for key, value in config.to_dict().items() if key in FACTS and value is not None}
    configs[name]["tie_word_embeddings"] = tied
json.dump(configs, open(f"{out}/configs.json", "w"), indent=1, sort_keys=True)

# Tokenizers.
TEXTS = ["The quick brown fox jumps over the lazy dog, doesn't it? 12345 + 67 = 12412\n\n  x = y\n",
         "Größere Bären übernachten im Wald. 日本語のテキスト。 Быстрая лиса. 🙂🙃 <b>bold</b>\t\tend\n"]
CASES = TEXTS + ["", " ", "  two  ", "a", "1234567 89", "I'LL don't", "\r\n\r\n x", "<s> hi</s>", "<|end|>",
                 "a<|end|>b <|end|>", "e\u0301\u00e9", "[CLS] the", "\x01\x7f", "½²Ⅷ ٣", "THE Dog's", "▁the ▁"]
TYPES = dict(normal=1, unknown=2, control=3, user=4, unused=5, byte=6)


def write_tokenizer(name, model, tokens, types, **more):
    writer = gguf.GGUFWriter(f"{out}/tokenizer_{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types([TYPES[t] for t in types])
    for method, value in more.items():
        getattr(writer, "add_" + method)(value)
    finish(writer)


QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
split = lambda pattern: pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
CUTS = {"gpt-2": plain, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain]),
        "llama-bpe": split(LLAMA), "qwen2": split(QWEN2)}
cases = {}
for pre, cut in CUTS.items():
    t = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    t.pre_tokenizer = cut
    t.normalizer = normalizers.NFC() if pre == "qwen2" else None
    t.decoder = decoders.ByteLevel()
    specials = [AddedToken("<s>", special=True), AddedToken("</s>", special=True)]
    t.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(
        vocab_size=330, show_progress=False, special_tokens=specials, initial_alphabet=plain.alphabet()))
    t.add_tokens([AddedToken("<|end|>", normalized=False)])
    if pre == "llama-bpe":
        t.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", t.token_to_id("<s>"))])
    vocab = sorted(t.get_vocab(), key=t.token_to_id)
    kinds = {"<s>": "control", "</s>": "control", "<|end|>": "user"}
    merges = [" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]]
    write_tokenizer(pre, "gpt2", vocab, [kinds.get(x, "normal") for x in vocab], tokenizer_pre=pre,
                    token_merges=merges, bos_token_id=0, eos_token_id=1, chat_template="{{ messages }}")
    cases[pre] = [[text, t.encode(text).ids] for text in CASES]

with tempfile.TemporaryDirectory() as work:
    with open(work + "/text", "w") as f:
        f.write("\n".join(TEXTS * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=work + "/text", model_prefix=work + "/m", vocab_size=400, model_type="bpe", byte_fallback=True,
        character_coverage=.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, minloglevel=2)
    p = sentencepiece.SentencePieceProcessor(model_file=work + "/m.model")
size = range(p.get_piece_size())
write_tokenizer("spm", "llama", [p.id_to_piece(i) for i in size],
                ["byte" if p.is_byte(i) else "unknown" if p.is_unknown(i) else "control" if p.is_control(i)
                 else "normal" for i in size],
                token_scores=[p.get_score(i) for i in size], bos_token_id=1, eos_token_id=2, unk_token_id=0)
# SentencePiece does not find <s> and <unk> in a text.
cases["spm"] = [[text, [1] + p.encode(text)] for text in CASES if "<s>" not in text]

for name, lower in ("bert", True), ("bert_cased", False):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(TEXTS * 3, trainers.WordPieceTrainer(
        vocab_size=150, show_progress=False, special_tokens=specials))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    vocab = sorted(t.get_vocab(), key=t.token_to_id)
    # as BertModel.set_vocab of convert_hf_to_gguf.py
    spelt = [x if x in specials else x[2:] if x.startswith("##") else "\u2581" + x for x in vocab]
    write_tokenizer(name, "bert", spelt, ["control" if x in specials else "normal" for x in vocab],
                    unk_token_id=1, bos_token_id=2, sep_token_id=3)
    cases[name] = [[text, t.encode(text).ids] for text in CASES]
json.dump(cases, open(f"{out}/tokenizers.json", "w"), ensure_ascii=True)
