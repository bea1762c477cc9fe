"""The package against NumPy, PyTorch and Pillow (where they are), transformers' numbers, and tern's programs.

python3 test_tern.py [FOLDER]: the programs train_cifar, lm and translate are in FOLDER; without it, what needs
them is skipped.
"""
import gc
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import tern

HEAVY = {"numpy", "torch", "PIL"} & set(sys.modules)  # brought by `import tern`; must be none

import numpy as np

try:
    import torch
except ImportError:
    torch = None
try:
    import PIL.Image
except ImportError:
    PIL = None

PROGRAMS = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else None
PACKAGE = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = PACKAGE.parents[1] / "tests/reference"


def address(array):
    return array.__array_interface__["data"][0]


def same(a, b):
    np.testing.assert_array_equal(a, b, strict=True)


def in_threads(compute):
    results = []
    threads = [threading.Thread(target=lambda: results.append(compute())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


class Arrays(unittest.TestCase):
    def test_both_sides_are_one_memory(self):
        for kind in (np.float32, np.float64, np.int64, np.uint8):
            x = np.arange(24, dtype=kind).reshape(2, 3, 4)
            for a in (x, x.T, x[::-1, :, ::-2], x[:, 1:], x[:0], x[0, 0, 1:2].reshape(()), np.zeros((0, 3), kind)):
                t = tern.tensor(a, copy=False)
                self.assertEqual((t.shape, t.dtype), (a.shape, a.dtype))
                for b in (t.numpy(), np.asarray(t), np.from_dlpack(t), np.array(t, copy=True)):
                    same(a, b)
                if a.size:
                    self.assertEqual(address(a), address(t.numpy()))
                    self.assertEqual(t.numpy().strides, a.strides if a.ndim else ())
        a = np.zeros(3, np.float32)
        t = tern.tensor(a)
        b = t.numpy()
        a[1] = 5
        b[0] = 7
        same(a, b)
        same(a, np.array([7, 5, 0], np.float32))
        for c in (np.array(t), np.from_dlpack(t, copy=True), tern.tensor(a, copy=True).numpy(),
                  tern.tensor(t, copy=True).numpy()):
            c[2] = 1
        same(a, np.array([7, 5, 0], np.float32))
        self.assertIs(np.asarray(t, np.float64).dtype, np.dtype(np.float64))
        self.assertIn("7., 5., 0.", repr(t))

    def test_owners_stay_as_long_as_needed(self):
        a = np.arange(5, dtype=np.float32)
        count = sys.getrefcount(a)
        t = tern.tensor(a)
        b = t.numpy()
        c = np.from_dlpack(t)
        del t
        gc.collect()
        self.assertGreater(sys.getrefcount(a), count)
        del b
        same(c, a)
        del c
        gc.collect()
        self.assertEqual(sys.getrefcount(a), count)
        held = [tern.tensor(np.full(100_000, i, np.float32)) for i in range(20)]  # nobody else has these arrays
        gc.collect()
        for i, t in enumerate(held):
            self.assertTrue((t.numpy() == i).all())
        results = [t.numpy() for t in held]
        del held, t
        gc.collect()
        for i, b in enumerate(results):
            self.assertTrue((b == i).all())

    def test_read_only_stays_read_only(self):
        a = np.arange(3, dtype=np.float32)
        a.flags.writeable = False
        for source in (a, bytes(4), np.broadcast_to(np.float32(1), (2, 3))):
            t = tern.tensor(source)
            same(np.asarray(memoryview(source)), t.numpy())
            self.assertFalse(t.numpy().flags.writeable)
            self.assertFalse(np.from_dlpack(t).flags.writeable)
            with self.assertRaisesRegex(BufferError, "read-only"):
                t.__dlpack__()  # a reader before DLPack 1.0 would write
            self.assertTrue(np.from_dlpack(t, copy=True).flags.writeable)

    def test_other_types_are_copied_and_said(self):
        for kind, becomes in ((np.float16, np.float32), (bool, np.uint8), (np.int8, np.int64), (np.uint16, np.int64),
                              (np.int32, np.int64)):
            a = np.array([[0, 1], [2, 3]]).astype(kind)[:, ::-1]
            same(a.astype(becomes), tern.tensor(a).numpy())
            with self.assertRaisesRegex(ValueError, "copy=False"):
                tern.tensor(a, copy=False)

    def test_what_cannot_be_shared_is_refused(self):
        for a in (np.zeros(3, np.uint64), np.zeros(3, np.complex64), np.zeros(3, ">f4"), np.array(["a"]),
                  np.zeros(3, [("x", "f4"), ("y", "i2")])["x"], [1, 2], "text", None):
            with self.assertRaises(TypeError):
                tern.tensor(a)
        if torch:
            with self.assertRaisesRegex(TypeError, "resolve_neg"):
                tern.tensor(torch.tensor([1 + 2j]).conj().imag)
        odd = np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float32)
        with self.assertRaisesRegex(tern.Error, "no multiple of 4"):
            tern.tensor(odd)
        with self.assertRaises(tern.Error):
            tern.tensor(np.zeros((1,) * 20, np.float32))

    def test_big_arrays(self):
        a = np.zeros((2**16, 2**15 + 1), np.uint8)  # more than 2^31 elements; pages that nobody touches cost nothing
        t = tern.tensor(a)
        a[-1, -1] = 7
        self.assertEqual(t.numpy()[-1, -1], 7)
        self.assertEqual(t.numpy().size, a.size)

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_pytorch(self):
        x = torch.arange(6.0).reshape(2, 3).T
        y = torch.from_dlpack(tern.tensor(x))
        self.assertEqual(x.data_ptr(), y.data_ptr())
        y[0, 0] = 9
        self.assertTrue(torch.equal(x, y))
        del x
        gc.collect()
        self.assertEqual(y[0, 0], 9)
        bf16 = torch.randn(3, 4).bfloat16().T
        same(tern.tensor(bf16).numpy(), bf16.float().numpy())
        same(tern.tensor(torch.tensor([True, False])).numpy(), np.array([1, 0], np.uint8))
        for bad in (torch.ones(2, requires_grad=True), torch.eye(2).to_sparse(),
                    torch.ones(2, dtype=torch.complex64), torch.ones(2, device="meta")):
            with self.assertRaises(TypeError):
                tern.tensor(bad)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.safetensors"
            tern.save_tensors(path, {"a": np.arange(3.0), "b": tern.tensor(np.ones((2, 3), np.uint8).T)})
            back = tern.load_tensors(path)
            self.assertEqual(sorted(back), ["a", "b"])
            same(back["a"].numpy(), np.arange(3.0))
            same(back["b"].numpy(), np.ones((3, 2), np.uint8))
            with self.assertRaisesRegex(tern.Error, "x.safetensors.none"):
                tern.load_tensors(f"{path}.none")
            with self.assertRaisesRegex(tern.Error, "\udcff"):
                tern.load_tensors(os.fsdecode(os.fsencode(folder) + b"/\xff"))
            with self.assertRaises(TypeError):
                tern.save_tensors(path, {"a": [1, 2]})
            self.assertEqual(sorted(tern.load_tensors(path)), ["a", "b"])


class Module(unittest.TestCase):
    def test_import_brings_nothing_heavy(self):
        self.assertEqual(HEAVY, set())

    def test_facts(self):
        text = (PACKAGE.parents[1] / "version.h").read_text()
        self.assertIn(f'"{tern.__version__}"', text)
        self.assertIn(" thread", tern.build_info())
        before = tern.num_threads()
        tern.set_num_threads(3)
        self.assertEqual(tern.num_threads(), 3)
        tern.set_num_threads(before)
        with self.assertRaisesRegex(tern.Error, "0"):
            tern.set_num_threads(0)
        self.assertTrue(issubclass(tern.Error, RuntimeError))
        self.assertEqual(tern.Error.__module__, "tern")

    def test_stubs_name_everything(self):
        stub = (pathlib.Path(tern.__file__).parent / "__init__.pyi").read_text()
        for name in dir(tern):
            if not name.startswith("_") and name not in ("os", "json"):
                self.assertRegex(stub, rf"(class|def) {name}\b")
        self.assertTrue((pathlib.Path(tern.__file__).parent / "py.typed").exists())


def published(folder, name, tokenizer):
    """A folder as transformers writes it: a model of tests/reference with a tokenizer."""
    folder.mkdir()
    for file in ("config.json", "model.safetensors"):
        (folder / file).write_bytes((REFERENCE / name / file).read_bytes())
    for file, text in tokenizer.items():
        (folder / file).write_text(text if isinstance(text, str) else json.dumps(text))


LETTERS = {chr(ord("0") + i): i for i in range(61)}
LLAMA = {
    "tokenizer.json": {"added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                       "decoder": None, "model": {"type": "BPE", "vocab": LETTERS, "merges": []}},
    "tokenizer_config.json": {"eos_token": "@", "chat_template":
                              "{% for m in messages %}{{ m['role'][0] }}{{ m['content'] }}@{% endfor %}a"},
    "generation_config.json": {"do_sample": True, "temperature": 0.6},
}
MINILM = {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n.\n"}


class Published(unittest.TestCase):
    """Models of transformers, against its numbers."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        published(cls.folder / "llama", "gpt/llama", LLAMA)
        published(cls.folder / "minilm", "encoders/minilm", MINILM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cls.llama = tern.load(cls.folder / "llama")
        cls.answers = {k: t.numpy() for k, t in tern.load_tensors(REFERENCE / "gpt/llama/answers.safetensors").items()}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_logits(self):
        prompt, wanted = self.answers["prompt"], self.answers["logits"]
        for ids in (prompt, prompt.astype(np.int32), prompt.tolist(), tern.tensor(prompt), prompt[:, ::-1][:, ::-1]):
            np.testing.assert_allclose(self.llama.logits(ids), wanted, rtol=1e-4, atol=1e-5)
        same(self.llama.logits(prompt[1].tolist()), self.llama.logits(prompt)[1])
        for bad in ([[0.5]], [[[1]]], [[61]], [[-1]], [[0] * (self.llama.context + 1)], [[]]):
            with self.assertRaises(tern.Error):
                self.llama.logits(bad)

    def test_generate_and_chat(self):
        lm, prompt = self.llama, "".join(chr(ord("0") + i) for i in self.answers["prompt"][0])
        self.assertEqual(lm.encode(prompt), self.answers["prompt"][0].tolist())
        text = lm.decode(self.answers["greedy"][0].tolist())
        ends = text.find("@") if "@" in text else len(text)
        count = len(self.answers["greedy"][0])
        self.assertTrue(text[:ends].startswith(lm.generate(prompt, max_tokens=count, temperature=0)) and ends > 0)
        self.assertEqual(lm.generate(prompt, max_tokens=3, seed=1), lm.generate(prompt, max_tokens=3, seed=1))
        with self.assertRaisesRegex(TypeError, "warmth"):
            lm.generate(prompt, warmth=1)
        for wrong in ({"max_tokens": 0}, {"temperature": -1}, {"stop": [""]}):
            with self.assertRaises(tern.Error):
                lm.generate(prompt, **wrong)
        with self.assertRaisesRegex(tern.Error, "takes 1 prompt"):
            lm.generate([prompt, prompt], on_text=print)
        with self.assertWarnsRegex(UserWarning, "tokens of a prompt were not read"):
            lm.generate("abc" * lm.context, max_tokens=1)
        before = lm.generate(prompt, max_tokens=9, temperature=0)
        chat = lm.chat(system="S", max_tokens=4, temperature=0)
        pieces = []
        self.assertEqual(chat.ask("ab", on_text=pieces.append), "".join(pieces))
        self.assertEqual(chat.ask("cd"), lm.generate(f"sS@uab@a{''.join(pieces)}@ucd@a", max_tokens=4, temperature=0))
        self.assertEqual(before, lm.generate(prompt, max_tokens=9, temperature=0))  # the template's ends stay there

        def again(piece):
            chat.ask("ef")

        with self.assertRaisesRegex(tern.Error, "still being written"):
            chat.ask("ef", on_text=again)
        with self.assertWarnsRegex(UserWarning, "forgets the oldest turns"):
            for _ in range(4):
                chat.ask("ef")  # in order again

    def test_interrupts(self):
        def interrupt(piece):
            os.kill(os.getpid(), signal.SIGINT)

        for call in (lambda: self.llama.generate("abc", on_text=interrupt, max_tokens=40),
                     lambda: self.llama.chat(max_tokens=8).ask("abc", on_text=interrupt)):
            with self.assertRaises(KeyboardInterrupt):
                call()

        def fail(piece):
            raise LookupError(piece)

        with self.assertRaises(LookupError):
            self.llama.generate("abc", on_text=fail)

    def test_other_threads_run_meanwhile(self):
        def ran_meanwhile(call):
            order, begun = [], threading.Event()

            def compute():
                begun.set()
                call()
                order.append("computed")

            thread = threading.Thread(target=compute)
            thread.start()
            begun.wait()
            order.append("meanwhile")
            thread.join()
            return order[0] == "meanwhile"

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # a thread keeps the GIL until it gives it away
        try:
            for call in (lambda: self.llama.generate("abc", max_tokens=25), lambda: tern.Encoder(self.folder / "minilm")):
                self.assertTrue(any(ran_meanwhile(call) for _ in range(50)))
            self.assertFalse(any(ran_meanwhile(lambda: self.llama.encode("abc")) for _ in range(50)))  # the check itself
        finally:
            sys.setswitchinterval(interval)

    def test_threads_share_a_model(self):
        results = in_threads(lambda: (self.llama.generate("abc", max_tokens=20, seed=3),
                                      self.llama.logits([[1, 2, 3]]).tobytes()))
        self.assertEqual((len(results), len(set(results))), (4, 1))

    def test_fork(self):
        wanted = self.llama.logits(self.answers["prompt"])
        child = multiprocessing.get_context("fork").Process(
            target=lambda: os._exit(0 if (self.llama.logits(self.answers["prompt"]) == wanted).all() else 1))
        child.start()
        child.join()
        self.assertEqual(child.exitcode, 0)

    def test_loading(self):
        with self.assertWarnsRegex(UserWarning, "temperature 0.6"):
            wanted = self.llama.logits([1])
            errors = [np.abs(tern.load(self.folder / "llama", weights=w).logits([1]) - wanted).max() / np.abs(wanted).max()
                      for w in ("f32", "bf16", "int8", "int4")]
        self.assertEqual(errors[0], 0)
        self.assertTrue(0 < errors[1] < 0.02 and errors[1] < errors[2] < errors[3] < 0.5, errors)
        with self.assertRaisesRegex(tern.Error, "int7"):
            tern.load(self.folder / "llama", weights="int7")
        with self.assertRaisesRegex(tern.Error, "no such folder"):
            tern.load(self.folder / "none")
        with self.assertRaisesRegex(TypeError, "weights"):
            tern.load(self.folder / "minilm", weights="int8")
        with self.assertRaisesRegex(tern.Error, "no such file or folder"):
            tern.load_run(self.folder / "none")
        with self.assertRaisesRegex(tern.Error, "there is no config.json"):
            tern.load_run(self.folder)
        (self.folder / "run.json").write_text('{"program": "ntm"}')
        with self.assertRaisesRegex(tern.Error, "a run of ntm"):
            tern.load_run(self.folder)
        with self.assertRaisesRegex(tern.Error, "metadata has no tokenizer"):
            tern.load(REFERENCE / "gguf_models/llama.gguf")

    def test_encoder(self):
        encoder = tern.load(self.folder / "minilm")
        texts = ["the cat", "the cat sat .", "the cat"]
        vectors = encoder.embed(texts)
        self.assertEqual((vectors.dtype, vectors.shape), (np.float32, (3, 16)))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        same(vectors[0], vectors[2])
        same(encoder.embed(texts[0]), vectors[0])
        self.assertEqual(encoder.embed([]).shape[0], 0)


def run(folder, *words, **options):
    result = subprocess.run([PROGRAMS / words[0], *words[1:]], cwd=folder, text=True, capture_output=True, **options)
    assert result.returncode == 0, (words, result.stderr)
    return result.stdout


@unittest.skipUnless(PROGRAMS, "needs tern's programs")
class Runs(unittest.TestCase):
    """What the programs write with a folder, and what the package computes with it."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        words = [f"the {a} {b} sat on the {c} ." for a in ("small", "old", "red") for b in ("cat", "dog", "cow")
                 for c in ("mat", "box", "hill")]
        (cls.folder / "text").write_text("\n".join(words * 12) + "\n")
        run(cls.folder, "lm", "train", "--text", "text", "--dim", "16", "--heads", "2", "--layers", "1", "--context",
            "64", "--epochs", "2", "--out", "lm")
        run(cls.folder, "translate", "train", "--first", "60", "--dim", "32", "--heads", "2", "--ffn", "32",
            "--layers", "1", "--epochs", "20", "--lr", "5e-3", "--out", "runs/de-en")
        run(cls.folder, "train_cifar", "--limit", "64", "--epochs", "1", "--hold-out", "0.5", "--tta", "mirror",
            "--out", "runs/pets")
        published(cls.folder / "SmolLM2-135M-Instruct", "gpt/llama", LLAMA)
        published(cls.folder / "all-MiniLM-L6-v2", "encoders/minilm", MINILM)
        (cls.folder / "cat.png").write_bytes((REFERENCE / "pictures/rgb.png").read_bytes())

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_language_model(self):
        lm = tern.load_run(self.folder / "lm")
        for prompt in ("the old dog", ""):
            for flags, options in ((["--temperature", "0"], {"temperature": 0}), (["--seed", "3"], {"seed": 3})):
                printed = run(self.folder, "lm", "generate", "--model", "lm", "--prompt", prompt, "--max-tokens", "12",
                              *flags)
                self.assertEqual(prompt + lm.generate(prompt, max_tokens=12, **options) + "\n", printed)
        text = lm.generate("the old dog", max_tokens=12, temperature=0)
        pieces = []
        self.assertEqual(lm.generate("the old dog", pieces.append, max_tokens=12, temperature=0), text)
        self.assertEqual("".join(pieces), text)
        self.assertEqual(lm.generate(["the old dog"] * 2, max_tokens=12, temperature=0), [text, text])
        ids = lm.encode("the old dog")
        for _ in range(12):
            ids.append(int(lm.logits(ids)[-1].argmax()))
        self.assertEqual(lm.decode(ids), "the old dog" + text)
        with self.assertRaisesRegex(tern.Error, "template"):
            lm.chat()

    def test_chat(self):
        printed = run(self.folder, "lm", "chat", "--model", "SmolLM2-135M-Instruct", "--max-tokens", "5", "--temperature",
                      "0", "--system", "S", input="ab\ncd\n")
        with self.assertWarns(UserWarning):
            chat = tern.load(self.folder / "SmolLM2-135M-Instruct").chat("S", max_tokens=5, temperature=0)
        self.assertEqual("".join(chat.ask(line) + "\n" for line in ("ab", "cd")), printed)

    def test_encoder(self):
        texts = ["the cat", "the cat sat .", "the cat"]
        (self.folder / "texts").write_text("\n".join(texts) + "\n")
        lines = run(self.folder, "lm", "embed", "--model", "all-MiniLM-L6-v2", "--text", "texts").splitlines()
        same(tern.load(self.folder / "all-MiniLM-L6-v2").embed(texts),
             np.array([json.loads(line) for line in lines], np.float32))

    def test_translator(self):
        lines = ["The cat sleeps.", "", "The small dog sees the cat. " * 40, "Привет"]
        for flags, options in (([], {}), (["--beam", "3", "--alpha", "1"], {"beam": 3, "alpha": 1}),
                               (["--int8"], {"weights": "int8"})):
            printed = run(self.folder, "translate", "run", "--model", "runs/de-en", *flags, input="\n".join(lines) + "\n")
            translate = tern.load_run(self.folder / "runs/de-en", **options)
            with self.assertWarnsRegex(UserWarning, "line 4: 1 of 1 words are unknown"):
                self.assertEqual(translate(lines), printed.split("\n")[:-1])
            self.assertNotEqual(printed.split("\n")[0], "")
        self.assertEqual(translate(lines[0]), printed.split("\n")[0])
        self.assertEqual(translate([]), [])
        self.assertEqual(len(set(in_threads(lambda: translate(lines[0])))), 1)
        with self.assertRaisesRegex(tern.Error, "f16"):
            tern.load_run(self.folder / "runs/de-en", weights="f16")

    def test_classifier(self):
        files = sorted(str(p) for kind in ("png", "jpg") for p in (REFERENCE / "pictures").glob(f"*.{kind}"))
        lines = run(self.folder, "train_cifar", "--weights", "runs/pets", "--format", "jsonl", "--top", "10", "--predict",
                    *files).splitlines()
        classify = tern.load_run(self.folder / "runs/pets")
        self.assertEqual(len(classify(files[0])), 3)
        found = classify(files, top=10)
        for line, guesses in zip(map(json.loads, lines), found, strict=True):
            self.assertEqual(line["classes"], [{"class": name, "probability": round(float(np.float32(p)), 6)}
                                               for name, p in guesses])
        for (name, one), (wanted, other) in zip(classify(files[0], top=10), found[0], strict=True):
            self.assertEqual(name, wanted)
            self.assertAlmostEqual(one, other, delta=1e-6)  # another batch: sums in another order
        if PIL:
            pictures = [PIL.Image.open(f) for f in files if "rgb16" not in f and "cmyk" not in f]
            some = [f for f in files if "rgb16" not in f and "cmyk" not in f]
            self.assertEqual(classify(pictures, top=10), classify(some, top=10))
            self.assertEqual(classify(np.asarray(pictures[0].convert("RGB"))), classify(some[0]))
            wide = PIL.Image.fromarray((np.arange(40 * 40, dtype=np.uint16) * 40).reshape(40, 40))
            wide.save(self.folder / "grey16.png")
            self.assertEqual(classify(wide), classify(self.folder / "grey16.png"))
            with self.assertRaisesRegex(tern.Error, "not of mode F"):
                classify(PIL.Image.fromarray(np.zeros((4, 4), np.float32)))
        grey = np.arange(40 * 40, dtype=np.uint8).reshape(40, 40)
        self.assertEqual(classify(grey), classify(np.stack([grey] * 3, 2)))
        self.assertEqual({name for name, _ in found[0]}, set(classify.classes))
        self.assertEqual(len(set(in_threads(lambda: tuple(classify(grey))))), 1)
        for bad in (grey.astype(np.float32), grey > 9, grey[:0], np.zeros((4, 4, 4), np.uint8)):
            with self.assertRaisesRegex(tern.Error, "a picture is"):
                classify(bad)
        for bad in ("none.png", [files[0], str(self.folder / "text")]):
            with self.assertRaises(tern.Error):
                classify(bad)
        with self.assertRaises(TypeError):
            tern.load_run(self.folder / "runs/pets", beam=2)

    def test_readme(self):
        blocks = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
        self.assertEqual(len(blocks), 4)
        for block in blocks:
            subprocess.run([sys.executable, "-W", "ignore", "-c", block], cwd=self.folder, check=True, capture_output=True,
                           env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))


if __name__ == "__main__":
    print(tern.build_info())
    unittest.main()
