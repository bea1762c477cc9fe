"""Writes small random encoders of transformers as folders, and what they answer.

usage: make_encoders.py OUT_DIR        needs: pip install torch transformers (5.x)

NAME/config.json and NAME/model.safetensors are the files that save_pretrained() writes.
NAME/answers.safetensors holds
  tokens, lengths               what goes in, i64; the padding has the model's pad token
  hidden                        the last states (B, T, D), in evaluation; 0 at the padding
  words | classes               the logits of the head for masked words, or of the classifier
"""
import os
import shutil
import sys

import torch
import transformers as tf
from safetensors.torch import save_file

BERT = dict(vocab_size=23, hidden_size=12, num_hidden_layers=1, num_attention_heads=3,
            intermediate_size=20, max_position_embeddings=11)
ROBERTA = dict(BERT, max_position_embeddings=13, type_vocab_size=1, layer_norm_eps=1e-5,
               pad_token_id=1, bos_token_id=0, eos_token_id=2)
DISTIL = dict(vocab_size=23, dim=12, n_layers=1, n_heads=3, hidden_dim=20,
              max_position_embeddings=11, activation="gelu")
ELECTRA = dict(BERT, embedding_size=8)
MPNET = {k: v for k, v in ROBERTA.items() if k != "type_vocab_size"}
LABELS = dict(num_labels=4)

MODELS = {
    # 8 channels a head, without a prefix and heads, as the files of sentence-transformers
    "minilm": (tf.BertModel, tf.BertConfig(**dict(BERT, hidden_size=16, num_attention_heads=2))),
    "ner": (tf.BertForTokenClassification, tf.BertConfig(**BERT, **LABELS)),
    "answers_to_questions": (tf.BertForQuestionAnswering, tf.BertConfig(**BERT)),
    "roberta": (tf.RobertaForMaskedLM, tf.RobertaConfig(**ROBERTA)),
    "roberta_classifier": (tf.RobertaForSequenceClassification,
                           tf.RobertaConfig(**ROBERTA, **LABELS)),
    "xlm_roberta": (tf.XLMRobertaModel, tf.XLMRobertaConfig(**ROBERTA)),
    "distilbert": (tf.DistilBertForMaskedLM, tf.DistilBertConfig(**DISTIL)),
    "distilbert_classifier": (tf.DistilBertForSequenceClassification,
                              tf.DistilBertConfig(**DISTIL, **LABELS)),
    "electra": (tf.ElectraForMaskedLM, tf.ElectraConfig(**ELECTRA)),
    "electra_classifier": (tf.ElectraForSequenceClassification,
                           tf.ElectraConfig(**BERT, embedding_size=12, **LABELS)),
    "mpnet": (tf.MPNetModel, tf.MPNetConfig(**dict(MPNET, max_position_embeddings=44))),
}


def write(folder, kind, config):
    model = kind(config).eval()
    with torch.no_grad():  # away from where they start, norms and biases too
        for p in model.parameters():
            p += torch.randn_like(p) * 0.3
        model.tie_weights()
        longest = 40 if config.model_type == "mpnet" else 9
        lengths = torch.tensor([longest, 4, 7])
        tokens = torch.randint(3, config.vocab_size, (3, longest))
        mask = (torch.arange(longest) < lengths[:, None]).long()
        tokens = torch.where(mask == 1, tokens, config.pad_token_id)
        out = model(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    answers = {"hidden": out.hidden_states[-1] * mask[:, :, None]}
    if "MaskedLM" in kind.__name__:
        answers["words"] = out.logits * mask[:, :, None]
    elif kind.__name__.endswith("TokenClassification"):
        answers["classes"] = out.logits * mask[:, :, None]
    elif kind.__name__.endswith("SequenceClassification"):
        answers["classes"] = out.logits
    save_file({"tokens": tokens, "lengths": lengths,
               **{k: v.contiguous() for k, v in answers.items()}},
              os.path.join(folder, "answers.safetensors"))


if __name__ == "__main__":
    for name, (kind, config) in MODELS.items():
        torch.manual_seed(5)
        write(os.path.join(sys.argv[1], name), kind, config)
