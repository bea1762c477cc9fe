"""Writes wordpiece/vocab.txt and wordpiece/tokens.json: what transformers' BertTokenizer makes of
300 strings under five settings, for tests/test_wordpiece.cpp.

usage: make_wordpiece.py        needs: pip install transformers (5.x) tokenizers

The vocabulary is learned from the sentences of bleu/*.ref. Strings are those sentences, edge cases,
and random mixtures of words, characters of many scripts, spaces and names of special tokens, of
characters that Unicode 8 has (later ones have no class in the tokenizers package).
"""
import json
import pathlib
import random
import unicodedata

from tokenizers.implementations import BertWordPieceTokenizer
from transformers import BertTokenizer

HERE = pathlib.Path(__file__).parent
OUT = HERE / "wordpiece"
SETTINGS = [(True, None, True), (False, None, True), (True, False, True), (False, True, True),
            (True, None, False)]
BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x391, 0x3C9),
          (0x400, 0x52F), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939), (0xE01, 0xE3A),
          (0x1E00, 0x1F15), (0x2000, 0x2063), (0x20A0, 0x20BD), (0x2200, 0x22FF), (0x2600, 0x27BF),
          (0x3000, 0x303F), (0x3041, 0x3096), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xF900, 0xFA6D),
          (0xFB00, 0xFB06), (0xFE30, 0xFFEE), (0x1F300, 0x1F579), (0x20000, 0x200FF), (0x00, 0x1F),
          (0x7F, 0x9F), (0xE000, 0xE010)]
NAMES = ["[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[mask]", "[MASK", "##", "[", "]"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u200b", "\u0085", "\ufffd"]
EDGES = ["", " ", "[MASK]", "the [MASK] sat on the [MASK].", "[[MASK]][SEP]", "[MASK][MASK",
         "a" * 100, "a" * 101, "\u4e2d" * 120, "\u00e9" * 100 + " e\u0301" * 3, "don't (stop)!?...",
         "\u039f\u0394\u039f\u03a3 \u0130I\u0131 \u1e9e\u00df", "\u01c5 \ufb01n \u212b \u2126",
         "a\u0000b\u0007c\ufffdd", "\u0e17\u0e33 \u0e01\u0e33", "\U0002b740\U0002f800x\u3400"]


def mixture(rng, words):
    out = ""
    for _ in range(rng.randint(1, 9)):
        kind = rng.random()
        if kind < 0.45:
            out += rng.choice(words)
        elif kind < 0.8:
            low, high = rng.choice(BLOCKS)
            out += "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 4)))
        elif kind < 0.9:
            out += rng.choice(NAMES)
        else:
            out += unicodedata.normalize(rng.choice(["NFD", "NFC"]), rng.choice(words))
        if rng.random() < 0.6:
            out += rng.choice(SPACES)
    return out


def main():
    rng = random.Random(7)
    sentences = [line for path in sorted((HERE / "bleu").glob("*.ref"))
                 for line in path.read_text(encoding="utf-8").split("\n") if line]
    words = [word for sentence in sentences for word in sentence.split()]
    texts = (sentences + EDGES + [mixture(rng, words) for _ in range(300)])[:300]
    OUT.mkdir(exist_ok=True)
    trainer = BertWordPieceTokenizer(lowercase=False)
    trainer.train_from_iterator(sentences + [s.lower() for s in sentences], vocab_size=1200,
                                show_progress=False)
    pieces = sorted(trainer.get_vocab(), key=trainer.token_to_id)
    (OUT / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = []
    for lower, strip, cjk in SETTINGS:
        tokenizer = BertTokenizer(vocab=str(OUT / "vocab.txt"), do_lower_case=lower,
                                  strip_accents=strip, tokenize_chinese_chars=cjk)
        encode = lambda text, **more: tokenizer(text, add_special_tokens=False, **more)["input_ids"]
        settings.append({"lower": lower, "strip_accents": strip, "split_cjk": cjk,
                         "encode": [encode(t) for t in texts],
                         "encode_plain": [encode(t, split_special_tokens=True) for t in texts]})
    spoken = [[rng.randrange(5, len(pieces)) for _ in range(rng.randint(0, 9))] for _ in range(60)]
    with open(OUT / "tokens.json", "w", encoding="ascii") as file:
        json.dump({"texts": texts, "settings": settings, "ids": spoken,
                   "decode": [tokenizer.backend_tokenizer.decode(ids) for ids in spoken],
                   "pair": tokenizer("a b", "c")["input_ids"],
                   "pair_segments": tokenizer("a b", "c")["token_type_ids"]}, file,
                  separators=(",", ":"))


if __name__ == "__main__":
    main()
