"""Runs what the programs export, with the loops of docs/howto.md: programs.py FOLDER.

FOLDER has book.onnx (lm export --caches), whole.onnx (lm export), french/ (translate export) and
recall.onnx (ntm export). Compares the steps with caches with the whole model, a batch of sentences
with each sentence alone, and two sequences one behind the other with the second alone. Exits with 1
if they differ.
"""

import pathlib
import sys

import numpy
import onnxruntime


def generate(folder, tokens, count):
    session = onnxruntime.InferenceSession(folder / "book.onnx")
    sizes = {"N": len(tokens), "P": 0}  # texts, and no tokens before
    state = {i.name: numpy.zeros([sizes.get(n, n) for n in i.shape], "float32")
             for i in session.get_inputs()[1:]}
    texts, last = tokens, []
    for _ in range(count):
        logits, *after = session.run(None, {"tokens": tokens, **state})  # tokens i64 (N, T)
        state, tokens = dict(zip(state, after)), logits[:, -1:].argmax(-1)
        texts = numpy.concatenate([texts, tokens], 1)
        last.append(logits[:, -1])
    return texts, numpy.stack(last, 1)


def translate(folder, source, lengths, count):
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"french/{part}.onnx")
                        for part in ("encoder", "decoder"))
    read = encoder.run(None, {"source": source, "lengths": lengths})  # i64 (N, S) and (N)
    known = {"lengths": lengths, **dict(zip((o.name for o in encoder.get_outputs()), read))}
    sizes = {"N": len(source), "P": 0}
    state = {i.name: known[i.name] if i.name in known
             else numpy.zeros([sizes.get(n, n) for n in i.shape], "float32")
             for i in decoder.get_inputs()[1:]}
    tokens = numpy.full(len(source), 2)  # <bos>
    words = []
    for _ in range(count):
        logits, *after = decoder.run(None, {"tokens": tokens, **state})
        state.update(zip([name for name in state if name.startswith("past.")], after))
        tokens = logits.argmax(-1)
        words.append(tokens)
    return numpy.stack(words, 1)


def remember(folder, x, begins):
    session = onnxruntime.InferenceSession(folder / "recall.onnx")
    state = {i.name: numpy.zeros([len(x) if n == "N" else n for n in i.shape], "float32")
             for i in session.get_inputs()[2:]}
    outputs = []
    for t in range(x.shape[1]):
        begin = numpy.full(len(x), t in begins, "uint8")
        logits, *after = session.run(None, {"x": x[:, t], "begin": begin, **state})
        state = dict(zip(state, after))
        outputs.append(logits)
    return numpy.stack(outputs, 1)


def main(folder):
    random = numpy.random.default_rng(0)
    texts, logits = generate(folder, random.integers(0, 200, (3, 5)), 12)
    whole = onnxruntime.InferenceSession(folder / "whole.onnx")
    want = whole.run(None, {"tokens": texts[:, :-1]})[0][:, 4:]
    apart = abs(logits - want).max() / abs(want).max()
    print(f"lm: with caches and without differ by {apart:.1e}")
    source = random.integers(4, 30, (3, 6))
    source[0, 2] = source[1, 5] = source[2, 4] = 3  # <eos>
    lengths = numpy.array([3, 6, 5])
    together = translate(folder, source, lengths, 8)
    alone = [translate(folder, source[i:i + 1, :n], lengths[i:i + 1], 8)[0]
             for i, n in enumerate(lengths)]
    same = numpy.array_equal(together, alone)
    print(f"translate: {together[0].tolist()}; a batch and its sentences are equal: {same}")
    inputs = onnxruntime.InferenceSession(folder / "recall.onnx").get_inputs()[0].shape[1]
    x = random.integers(0, 2, (2, 9, inputs)).astype("float32")
    again = abs(remember(folder, x, [0, 4])[:, 4:] - remember(folder, x[:, 4:], [0])).max()
    print(f"ntm: a sequence after another and alone differ by {again:.1e}")
    return 0 if apart < 1e-5 and same and again < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
