"""Writes what the `tokenizers` package makes of some hundred strings, and the files it learns.

usage: make_byte_bpe.py OUT_DIR        needs: pip install tokenizers   (written with 0.23)

OUT_DIR/byte_bpe/vocab.json, merges.txt   of ByteLevelBPETokenizer, learned from the texts below
OUT_DIR/byte_bpe/cases.json               texts: what was learned from; strings: [string, ids]
"""
import json, os, random, sys, unicodedata
from tokenizers import ByteLevelBPETokenizer

random.seed(7)
out = os.path.join(sys.argv[1], 'byte_bpe')
os.makedirs(out, exist_ok=True)
sentences = [
    "The quick brown fox jumps over the lazy dog; the dog doesn't mind, it's asleep.",
    "We'll see what they've done: I'm sure you'd rather they're late than he'd be lost.",
    "L'été dernier, nous étions à Saint-Étienne où l'eau était très chaude.",
    "Der Bär läuft über die Straße, größer als je zuvor, und die Vögel schweigen.",
    "Быстрая коричневая лиса прыгает через ленивую собаку и снова прыгает.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "素早い茶色の狐がのろまな犬を飛び越える。敏捷的棕色狐狸跳过懒狗。",
    "그 빠른 갈색 여우가 게으른 개를 뛰어넘는다. الثعلب البني السريع يقفز فوق الكلب",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। 12 345 6,789.01 ½ ² Ⅷ ٣",
    "def attention(q, k, v):\n    w = softmax(q @ k.T / d ** 0.5)\n    return w @ v\n\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += x[i];\n}\r\n",
    "🙂🙃 👩‍👩‍👧 🇫🇷 naïve café — “quotes” … ™ €5",
]
texts = [' '.join(random.sample(sentences, 3)) + '\n' for _ in range(40)]
tokenizer = ByteLevelBPETokenizer()
tokenizer.train_from_iterator(texts, vocab_size=700, min_frequency=2, special_tokens=[], show_progress=False)
tokenizer.save_model(out)
words = ' '.join(texts).split()
spaces = ' \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff'
blocks = [(0, 0x7f), (0x80, 0x24f), (0x250, 0x58f), (0x590, 0xdff), (0xe00, 0x1fff), (0x2000, 0x33ff),
          (0x3400, 0xabff), (0xac00, 0xffff), (0x10000, 0x1ffff), (0x20000, 0x10ffff)]


def character():
    while True:   # assigned in Unicode 14, so that the version of the tables makes no difference
        c = random.randint(*random.choice(blocks))
        if unicodedata.category(chr(c)) not in ('Cn', 'Cs'): return chr(c)


def piece():
    k = random.randrange(7)
    if k == 0: return random.choice(words)
    if k == 1: return ' ' * random.choice([1, 1, 1, 2, 3]) + random.choice(words)
    if k == 2: return random.choice(spaces) * random.randint(1, 3)
    if k == 3: return random.choice(["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", "’s", " 's", "!'d"])
    if k == 4: return str(random.randint(0, 99999))
    if k == 5: return random.choice('ab!-_é ') * random.randint(1, 12)
    return ''.join(character() for _ in range(random.randint(1, 4)))


strings = ['', ' ', '  ', '\n', ' \n', '\n a', 'a' * 300, 'ab' * 200 + ' ' * 50, '<|endoftext|>'] + sentences
strings += [''.join(piece() for _ in range(random.choice([1, 2, 3, 5, 9]))) for _ in range(500)]
cases = [[s, e.ids] for s, e in zip(strings, tokenizer.encode_batch(strings))]
with open(os.path.join(out, 'cases.json'), 'w') as f: json.dump(dict(texts=texts, strings=cases), f, ensure_ascii=False, separators=(',', ':'))
