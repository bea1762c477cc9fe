// The settings of lm and their checks: sizes of models, text and tokenizer, and the defaults for
// the generated stories.
#include "tern/apps/lm/config.h"

#include <fmt/format.h>

#include "tern/apps/lm/family.h"
#include "tern/train/optimizer.h"

namespace tern::apps::lm {

TrainConfig story_defaults(TrainConfig c) {
  c.vocab_size = 512;
  c.epochs = c.model.model == kBert ? 4 : 8;
  c.lr = 2e-3;
  if (c.model.model == kBert) return c;
  // Small batches: the model needs a few thousand steps until it remembers who lost what where.
  c.batch = 4;
  c.lr = 3e-3;
  c.model.dropout = 0;
  return c;
}

namespace {

std::string story_flags(const char* model) {
  TrainConfig c;
  c.model.model = model;
  c = story_defaults(c);
  return fmt::format("--vocab {} --epochs {} --batch {} --lr {:g} --dropout {:g}", c.vocab_size,
                     c.epochs, c.batch, c.lr, c.model.dropout);
}

void add_data(Settings& s, TrainConfig& c) {
  s.group(Group::data);
  const bool learned = c.tokenizer.empty() && c.from.empty();
  s.texts("text", c.text, "FILE...",
          fmt::format("files of text of any size, plain or .gz, or folders of .txt and .gz files; "
                      "without them the text is generated stories, and the defaults are {}, for "
                      "bert {}",
                      story_flags("gpt"), story_flags(kBert)));
  s.texts("valid", c.valid, "FILE...", "files of text for validation, or folders");
  s.number("hold_out", c.hold_out, {0, 0.9},
           "share of the text that is held out for validation without --valid; 0: none")
      .only_if(!is_demo(c), "stories for validation are generated too")
      .only_if(c.valid.empty(), "there are files for validation");
  s.text("documents", c.documents, "MARK",
         "mark between the documents of a file: the model learns where a document ends, and stops "
         "there when it writes; \"\": files have none")
      .only_if(!is_demo(c), "the stories are one text")
      .came_later([&c] { c.documents.clear(); });
  s.number("documents_found", c.documents_found, kAnyCount, "").flag("").came_later();
  s.number("vocab_size", c.vocab_size, {257, 1 << 24},
           "size of the vocabulary to learn: of byte-level BPE, for bert of WordPiece")
      .flag("--vocab")
      .only_if(learned, "there is a tokenizer already");
  s.toggle("cased", c.cased, "for bert: WordPiece keeps capitals and accents")
      .only_if(c.model.model == kBert, fmt::format("a {} has none", c.model.model))
      .only_if(learned, "there is a tokenizer already");
  s.toggle("pairs", c.pairs,
           "for bert: learn whether lines follow one another; blank lines separate documents")
      .flag("--pairs,!--no-pairs")
      .only_if(c.model.model == kBert, fmt::format("a {} has none", c.model.model));
  s.text("tokenizer", c.tokenizer, "DIR",
         "folder of a tokenizer to use: tokenizer.json, or vocab.json and merges.txt; for bert "
         "vocab.txt")
      .only_if(c.from.empty(), "a model brings its own");
  s.toggle("published_tokenizer", c.published_tokenizer, "").flag("").came_later();
  s.text("from", c.from, "DIR|FILE",
         fmt::format("folder of a trained model, or GGUF file, to start from, with its tokenizer, "
                     "sizes and dropout; it is only read. The learning rate is then {:g}, and "
                     "windows have --context tokens, at most {} unless it is given",
                     kFineTuneRate, kFineTuneWindow));
}

}  // namespace

void settings(Settings& s, ModelConfig& m) {
  const std::string none = fmt::format("a {} has none", m.model);
  std::vector<std::string> names = family_names();
  names.emplace_back(kBert);
  s.group(Group::model);
  s.word("model", m.model, names, "what to train");
  s.number("vocab", m.vocab, {1, 1 << 24}, "").flag("");
  s.number("context", m.context, {2, 1 << 24},
           "context length in tokens; with --from, tokens of a training window");
  s.number("layers", m.layers, {1, 1000}, "number of blocks");
  s.number("dim", m.dim, {1, 1 << 16}, "width of the model");
  s.number("heads", m.heads, {1, 1 << 16}, "heads of attention")
      .only_if(has_size(m.model, "--heads"), none);
  s.number("kv_heads", m.kv_heads, {0, 1 << 16}, "heads of keys and values; 0: as many as --heads")
      .only_if(has_size(m.model, "--kv-heads"), none);
  s.number("ffn", m.ffn, {0, 1 << 20},
           "hidden units of the feed-forward layers; 0: what suits --dim");
  s.number("dropout", m.dropout, kShare, "dropout on embeddings, sublayers and attention");
  s.number("attention_dim", m.attention_dim, {0, 1 << 16},
           "width of the tiny attention that makes a gmlp an aMLP, such as 64; 0: none")
      .only_if(has_size(m.model, "--attention-dim"), none);
  s.toggle("tie", m.tie, "the output layer has the table of embeddings as its weight")
      .flag("--tie,!--no-tie")
      .only_if(has_size(m.model, "--tie"), none);
  s.toggle("bias", m.bias, "").flag("");
  s.number("eps", m.eps, {0, 1, true, true}, "").flag("");
  s.number("rope_base", m.rope_base, {1, 1e12, true, true}, "").flag("");
  s.text("published", m.published, "", "").flag("").came_later();
}

void settings(Settings& s, TrainConfig& c) {
  const bool bert = c.model.model == kBert;
  add_data(s, c);
  s.inside("model", [&] { settings(s, c.model); });
  for (const char* key : {"pairs", "model.model", "model.layers", "model.dim", "model.heads",
                          "model.kv_heads", "model.ffn", "model.attention_dim", "model.tie"})
    s.find(key)->only_if(c.from.empty(), "the model of --from has its sizes");
  s.group(Group::training);
  s.number("epochs", c.epochs, kCount, "passes over the text; with --parts, parts of a pass")
      .says(true, "{} epoch{}", c.epochs, c.epochs == 1 ? "" : "s");
  s.number("parts", c.parts, kCount, "cut each pass over the text into so many epochs")
      .only_if(!bert, "a bert has none")
      .says(c.parts > 1, "{} per pass", c.parts);
  s.number("batch", c.batch, kCount, "windows of --context tokens in a batch")
      .says(true, "batches of {} {} of {} tokens{}", c.batch, bert ? "sequences" : "windows",
            c.window_tokens(), bert ? " at most" : "");
  s.number("window", c.window, {0, 1 << 24}, "").flag("").came_later();
  add_training_settings(
      s, c,
      {.optimizers = training::optimizer_names(),
       .noam = true,
       .muon_lr = fmt::format("{:g} (a bert on --text: {:g})", kMuonRate, kBertMuonRate)});
  counted_otherwise(s, c.length, {}, {"parts"});
}

void check_config(const TrainConfig& c) { check_training_options(c); }

void check_sizes(const ModelConfig& config) {
  ModelConfig m = config;
  check_settings(settings_of(m));
}

}  // namespace tern::apps::lm
