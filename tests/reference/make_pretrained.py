"""Small tokenizer.json files of all kinds, and what the `tokenizers` package makes of odd texts.

Needs tokenizers (0.23) and sentencepiece, for its table of characters:
    python make_pretrained.py
"""
import base64
import json
import os
import random
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pretrained")
CORPUS = [
    "Don't panic: the quick brown fox jumps over 13 lazy dogs!",
    "The lower the newer, the newest widest lowest. It's 1,000.50 e-mails",
    "L'homme d'été où ça naïve Straße ÅNGSTRÖM coöperate",
    "你好 世界 日本語 カタカナ ﾊﾝｶｸ Ⅷ ①② ﬁne ﬂow",
    "Привет мир, здравствуй   two  spaces\tand a tab",
    "👍🏽 emoji 👩‍👩‍👧 and 🇫🇷 flags ❤️",
] * 8
PARTS = ["Don't", "the", "newest", " ", "  ", "\t", "\n", "\r\n\n", "'S", "'re", "'ſ", "été", "É", "e\u0301",
         "ß", "İ", "Σ", "ΑΣ", "13", "²", "Ⅷ", "½", "4567", ".", "...", "!?", ",", "_", "-", "@", "你好",
         "界", "カ", "が", "か\u3099", "ﾊﾟ", "ﬁ", "①", "Привет", "👍🏽", "👩‍👩‍👧", "🇫🇷", "❤️", "\u00a0",
         "\u3000", "\u200b", "\u200d", "\u0000", "\u001c", "\ufffd", "\ue000", "▁", "##a", "<0x41>", "</s>",
         "<s>", "[MASK]", "[CLS]", "<mask>", "<|end|>", "<b>", "NEW", "new", "a", "x", "q", "Ⓐ", "ः", "नि",
         "\u0600", "﷽", "한국", "\u1100\u1161", "ﾞ", " n't", " do not", " ' ", "`", "$", "\u2028", "…"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def trained(model, trainer, **parts):
    t = Tokenizer(model)
    for name, part in parts.items():
        setattr(t, name, part)
    t.train_from_iterator(CORPUS, trainer)
    return t


def bert(lower, **options):
    t = trained(models.WordPiece(unk_token="[UNK]"),
                trainers.WordPieceTrainer(vocab_size=260, show_progress=False, special_tokens=[
                    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
                normalizer=normalizers.BertNormalizer(lowercase=lower, **options),
                pre_tokenizer=pre.BertPreTokenizer(), decoder=decoders.WordPiece())
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def byte_level(prefix, vocab=420, **parts):
    return trained(models.BPE(), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, special_tokens=["<s>", "</s>", "<|end|>"],
        initial_alphabet=pre.ByteLevel.alphabet()),
        pre_tokenizer=parts.get("pre_tokenizer", pre.ByteLevel(add_prefix_space=prefix)),
        decoder=decoders.ByteLevel())


def roberta():
    t = byte_level(True)
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.add_tokens([AddedToken("NEW", normalized=True), AddedToken("<b>", rstrip=True),
                  AddedToken("new", single_word=True), AddedToken("newest")])
    return t


def llama3():
    t = byte_level(False, pre_tokenizer=pre.Sequence([
        pre.Split(Regex(LLAMA3), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]))
    file = json.loads(t.to_str())
    file["model"]["ignore_merges"] = True
    file["model"]["vocab"]["ĠlazyĠ"] = len(file["model"]["vocab"])
    file["model"]["vocab"]["zzz"] = len(file["model"]["vocab"])
    t = Tokenizer.from_str(json.dumps(file))
    t.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)])])
    return t


def llama2(fuse, fallback):
    t = trained(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback),
                trainers.BpeTrainer(vocab_size=500 if fallback else 120, show_progress=False,
                                    limit_alphabet=60,
                                    special_tokens=["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])),
                normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    return t


def clip():
    t = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="@@"),
                trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<unk>"],
                                    end_of_word_suffix="</w>", continuing_subword_prefix="@@"),
                normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]),
                pre_tokenizer=pre.Whitespace(), decoder=decoders.BPEDecoder())
    return t


def charsmap():
    rules = {"ﬁ": "fi", "①": "1", "ﾊﾟ": "パ", "か\u3099": "が", "\t": " ", "\u3000": " ", "\u200b": "",
             "e\u0301": "é", "E\u0301": "É", "…": "...", "Ⅷ": "VIII"}
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rules.tsv", "w", encoding="utf-8") as f:
            for a, b in sorted(rules.items()):
                code = lambda s: " ".join(f"{ord(c):X}" for c in s)
                f.write(f"{code(a)}\t{code(b)}\n")
        with open(folder + "/text", "w", encoding="utf-8") as f:
            f.write("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=folder + "/text", model_prefix=folder + "/m", vocab_size=150, hard_vocab_limit=False,
            normalization_rule_tsv=folder + "/rules.tsv", minloglevel=2)
        from sentencepiece import sentencepiece_model_pb2 as pb
        model = pb.ModelProto()
        with open(folder + "/m.model", "rb") as f:
            model.ParseFromString(f.read())
        return model.normalizer_spec.precompiled_charsmap


def unigram(scheme, split, fallback):
    norm = normalizers.Sequence([normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")])
    meta = dict(prepend_scheme=scheme, split=split)
    specials = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    t = trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=200 + len(specials), show_progress=False, special_tokens=specials, unk_token="<unk>"),
        normalizer=norm, pre_tokenizer=pre.Metaspace(prepend_scheme=scheme), decoder=decoders.Metaspace(prepend_scheme=scheme))
    file = json.loads(t.to_str())
    file["model"]["byte_fallback"] = fallback
    file["pre_tokenizer"]["split"] = split
    for token in file["added_tokens"]:
        if token["content"] in BYTES:
            token["special"] = False
    file["added_tokens"] = [a for a in file["added_tokens"] if a["content"] not in BYTES]
    t = Tokenizer.from_str(json.dumps(file))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                     special_tokens=[("</s>", 2)])
    return t


def pieces(normalizer, pre_tokenizer, cleanup):
    return trained(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12),
                   trainers.WordPieceTrainer(vocab_size=250, show_progress=False,
                                             special_tokens=["[UNK]", "[CLS]", "[SEP]"]),
                   normalizer=normalizer, pre_tokenizer=pre_tokenizer,
                   decoder=decoders.WordPiece(cleanup=cleanup),
                   post_processor=processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)))


def all_tokenizers():
    n, p = normalizers, pre
    return {
        "bert": bert(True),
        "bert_cased": bert(False, strip_accents=None, handle_chinese_chars=False),
        "bert_dirty": bert(False, strip_accents=True, clean_text=False),
        "gpt2": byte_level(False),
        "roberta": roberta(),
        "llama3": llama3(),
        "llama2": llama2(True, True),
        "bpe_unknown": llama2(False, False),
        "bpe_fused": llama2(True, False),
        "clip": clip(),
        "unigram": unigram("always", True, False),
        "unigram_bytes": unigram("first", False, True),
        "pieces_a": pieces(n.Sequence([n.NFKD(), n.StripAccents(), n.Strip()]),
                           p.Sequence([p.WhitespaceSplit(), p.Punctuation(), p.Digits(True)]), False),
        "pieces_b": pieces(n.NFKC(), p.Sequence([p.Split("e", "merged_with_previous"),
                                                 p.Split(Regex(r"\s+"), "removed"),
                                                 p.Digits(False), p.CharDelimiterSplit("x")]), True),
        "pieces_c": pieces(n.Sequence([n.NFD(), n.Strip(left=False), n.Replace("a", "o")]),
                           p.Sequence([p.Punctuation("merged_with_next"), p.Whitespace(),
                                       p.Split("o", "contiguous"), p.Split("w", "merged_with_next")]), True),
        "plain": trained(models.BPE(unk_token="?"), trainers.BpeTrainer(
            vocab_size=90, show_progress=False, special_tokens=["?"], limit_alphabet=70)),
        "falcon": byte_level(False, pre_tokenizer=p.Sequence([
            p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(False),
            p.Split(Regex("[0-9][0-9][0-9]"), "isolated")])),
    }


def text_of(rng):
    return "".join(rng.choice(PARTS) for _ in range(rng.randrange(0, 9)))


def main():
    rng = random.Random(5)
    texts = [text_of(rng) for _ in range(170)] + CORPUS[:6] + ["", " ", "newest new NEWer newnew", "a <mask> b"]
    cases = {}
    for name, t in all_tokenizers().items():
        t.save(os.path.join(HERE, name + ".json"), pretty=False)
        rows = []
        for i, text in enumerate(texts):
            ids = t.encode(text).ids
            other = texts[(i * 7 + 3) % len(texts)]
            pair = t.encode(text, other) if i % 10 == 0 else None
            size = t.get_vocab_size()
            some = [rng.randrange(size) for _ in range(rng.randrange(0, 12))]
            some = [x for x in some if t.id_to_token(x) is not None]
            rows.append({"text": text, "ids": ids, "bare": t.encode(text, add_special_tokens=False).ids,
                         "decoded": t.decode(ids), "whole": t.decode(ids, skip_special_tokens=False),
                         "some": some, "said": t.decode(some)})
            if pair:
                rows[-1].update({"other": other, "pair": pair.ids, "segments": pair.type_ids})
        cases[name] = rows
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as f:
        json.dump(cases, f, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
