"""Runs models of tern, and shares arrays with NumPy and PyTorch. Models are trained by tern's programs."""
import json
import os

from ._tern import *
from ._tern import __version__, _is_encoder


def load(path: "str | os.PathLike", **options) -> "LanguageModel | Encoder":
    """The model in a folder of transformers, sentence-transformers or lm train, or in a GGUF file.

    BERT, RoBERTa, MPNet and the like are Encoders. options: those of the class, such as weights="int8".
    """
    return (Encoder if _is_encoder(path) else LanguageModel)(path, **options)


def load_run(folder: "str | os.PathLike", **options) -> "Classifier | Translator | LanguageModel | Encoder":
    """What a run of train_cifar, translate train or lm train made. options: those of that class."""

    def has(name):
        return os.path.exists(os.path.join(folder, name))

    if has("lm.json"):
        return load(folder, **options)
    if has("vocabulary.json") or has("source.json"):
        return Translator(folder, **options)
    if has("run.json"):
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            program = json.load(file).get("program")
        if program != "train_cifar":
            raise Error(f"load_run {os.fspath(folder)}: the package cannot use a run of {program}")
    return Classifier(folder, **options)
