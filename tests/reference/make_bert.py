"""Writes small random models of transformers and what they answer.

usage: make_bert.py OUT_DIR        needs: pip install torch transformers (5.x)

NAME.safetensors is the file that save_pretrained() writes; NAME.answers.safetensors holds
  tokens, mask (1: no padding), segments    what goes in, i64
  words | next | classes                    the logits of its heads, in evaluation
"""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining,
                          BertForSequenceClassification)

CONFIG = dict(vocab_size=53, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
              intermediate_size=20, max_position_embeddings=11, num_labels=4)
MODELS = {"masked_lm": (BertForMaskedLM, {"logits": "words"}),
          "pretraining": (BertForPreTraining,
                          {"prediction_logits": "words", "seq_relationship_logits": "next"}),
          "classifier": (BertForSequenceClassification, {"logits": "classes"})}


def write(folder, name, kind, heads):
    model = kind(BertConfig(**CONFIG)).eval()
    with torch.no_grad():  # away from where they start, norms and biases too
        for p in model.parameters():
            p += torch.randn_like(p) * 0.3
        model.tie_weights()
        tokens = torch.randint(0, CONFIG["vocab_size"], (3, 9))
        mask = (torch.arange(9) < torch.tensor([9, 4, 7])[:, None]).long()
        segments = (torch.arange(9) >= torch.tensor([5, 2, 3])[:, None]).long()
        out = model(input_ids=tokens, attention_mask=mask, token_type_ids=segments)
    model.save_pretrained(os.path.join(folder, name + ".tmp"))
    made = os.path.join(folder, name + ".tmp")
    os.replace(os.path.join(made, "model.safetensors"), os.path.join(folder, name + ".safetensors"))
    os.remove(os.path.join(made, "config.json"))
    os.rmdir(made)
    answers = {ours: out[theirs].contiguous() for theirs, ours in heads.items()}
    save_file({"tokens": tokens, "mask": mask, "segments": segments, **answers},
              os.path.join(folder, name + ".answers.safetensors"))


if __name__ == "__main__":
    torch.manual_seed(5)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, (kind, heads) in MODELS.items():
        write(sys.argv[1], name, kind, heads)
