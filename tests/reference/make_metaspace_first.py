"""What the `tokenizers` package makes of texts whose first character a normalizer removes, replaces,
puts together with others or stands behind, with Metaspace's prepend_scheme "first".

Needs tokenizers (0.23):
    python make_metaspace_first.py
"""
import json
import os

from tokenizers import Tokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pretrained")
MARK = "\u2581"
TEXTS = ["a", " a", "  a b", "1", "12 a", "ab a", "\u0301a", "e\u0301 a", "\u4e2d a", "\u00e9a", "ba ab",
         MARK + "a", " 1a", "a1", "<x>a", " <x> a", "a<x>a", "<y>a", "a <y>1", "\ufb01 a", "  ", "aab",
         "!a", "a\u0301\u0323b", "ba1a", "e\u0301\u1e9b\u0323<y>", "\u00e9\u0323a", "\u0323\u0307\u0308 a",
         "\ufb01\u0308", "\u1100\u1161\u11a8"]
# The letters that ByteLevel writes bytes as are among them.
LETTERS = sorted(set("".join(TEXTS) + "abcdefghi 1234567890xy<>!" + MARK +
                     "\u0120\u0101\u0121\u00e3\u00cc\u0123\u0103\u00b8\u00c2\u00c3\u00e4\u00ad\u00a9\u00ef\u00ac"
                     "\u00a3\u0144\u0142\u0143\u2013\u00e1\u1ea1\u1eb9\u1e69\u017f\u1e9b\u0307\uac01fi"))
VOCAB = {c: i for i, c in enumerate(["?"] + LETTERS)}


def chain(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def cuts(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def strip(right):
    return {"type": "Strip", "strip_left": True, "strip_right": right}


def replace(what, by, kind="String"):
    return {"type": "Replace", "pattern": {kind: what}, "content": by}


def prepend(text):
    return {"type": "Prepend", "prepend": text}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": True}


def added(place, content, normalized):
    return {"id": len(VOCAB) + place, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": normalized, "special": not normalized}


ACCENTS = {"type": "StripAccents"}
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": True}
NORMALIZERS = [
    None, strip(True), strip(False), ACCENTS, chain({"type": "NFD"}, ACCENTS), {"type": "NFC"},
    chain({"type": "NFKC"}, {"type": "Lowercase"}), prepend(MARK), prepend("ab"), replace("a", ""),
    replace("a", "bb"), replace(" {2,}", MARK, "Regex"), replace(" ", MARK), replace("ab", "c"), BERT,
    chain(prepend(MARK), replace(" ", MARK)), chain(strip(True), prepend(MARK)),
    chain(replace("a", " "), strip(True)), chain(prepend(MARK), strip(True)),
    chain(prepend("ab"), replace("ba", "a")), {"type": "NFD"}, {"type": "NFKD"},
    chain(prepend(MARK), {"type": "NFC"}), chain(prepend(MARK), {"type": "NFC"}, {"type": "NFD"}),
    chain(prepend("ab"), {"type": "NFC"}, strip(True))]
DIGITS = {"type": "Digits", "individual_digits": True}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
FIRST = metaspace("first")
PRE_TOKENIZERS = [
    FIRST, cuts(DIGITS, FIRST), cuts({"type": "WhitespaceSplit"}, FIRST),
    cuts({"type": "Punctuation", "behavior": "Isolated"}, FIRST),
    cuts(metaspace("always"), DIGITS, FIRST), cuts(BYTE_LEVEL, FIRST),
    cuts({"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext", "invert": True},
         FIRST)]
FILE = {"version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(0, "<x>", False), added(1, "<y>", True)], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": "?", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": VOCAB, "merges": []}}

rows = []
for normalizer in NORMALIZERS:
    for pre_tokenizer in PRE_TOKENIZERS:
        t = Tokenizer.from_str(json.dumps(FILE | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}))
        rows.append({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                     "ids": [t.encode(text).ids for text in TEXTS]})
with open(os.path.join(HERE, "metaspace_first.json"), "w") as out:
    json.dump({"file": FILE, "texts": TEXTS, "rows": rows}, out, separators=(",", ":"))
