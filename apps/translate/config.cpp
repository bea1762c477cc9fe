// The presets with their sources, and the settings of translate with their help and checks.
#include "tern/apps/translate/config.h"

#include <utility>

#include "tern/core/base/error.h"
#include "tern/train/optimizer.h"

namespace tern::apps::translate {
namespace {

using Preset = void (*)(TrainConfig&);

// Dive into Deep Learning (https://d2l.ai): words separated by spaces, rare words unknown, Adam at
// 0.005, no pairs held out.
void d2l(TrainConfig& c) {
  c.tokens = "d2l";
  c.hold_out = 0;
  c.lr = 0.005;
}

// Second edition, section 11.4.
void d2l_bahdanau(TrainConfig& c) {
  d2l(c);
  c.model = {.model = "bahdanau", .form = "d2l", .layers = 2, .dropout = 0.2};
  c.epochs = 30;
}

// First edition, section 10.7.
void d2l_transformer(TrainConfig& c) {
  d2l(c);
  c.model = {.layers = 2, .dim = 32, .heads = 4, .ffn = 64, .final_norm = false};
  c.batch = 64;
  c.epochs = 200;
}

// Averages weights: otherwise the length of translations changes from epoch to epoch, and BLEU with
// it, by a point or two. Sizes and learning rate are the defaults.
void multi30k_transformer(TrainConfig& c) {
  c.ema = 0.995;
  c.best = "bleu";
}

void multi30k_bahdanau(TrainConfig& c) {
  multi30k_transformer(c);
  c.model = {.model = "bahdanau", .dropout = 0.3};
  c.epochs = 6;
  c.lr = 1e-3;
}

// One vocabulary for both languages; presets add --tie all, one embedding table.
void one_table(TrainConfig& c) {
  c.tokens = "bpe";
  c.shared = true;
  c.batch = 0;
  c.beta2 = 0.98;
  c.label_smoothing = 0.1;
}

// Our own recipe for small corpora: few channels, averaged weights, R-Drop.
void multi30k_best(TrainConfig& c) {
  one_table(c);
  c.model = {.layers = 4,
             .dim = 128,
             .heads = 4,
             .ffn = 256,
             .norm_first = true,
             .tie = "all",
             .dropout = 0.1};
  c.epochs = 24;
  c.r_drop = 5;
  c.batch_tokens = 2048;
  c.optimizer = "muon";
  c.lr = 5e-3;
  c.schedule = "cosine";
  c.warmup = 300;
  c.ema = 0.999;
  c.best = "bleu";
}

// Vaswani et al. 2017, table 3: 25,000 tokens per side and step, one vocabulary of 37,000 pieces.
void base(TrainConfig& c) {
  one_table(c);
  c.bpe = 37000;
  c.lowercase = false;
  c.model = {.layers = 6, .dim = 512, .heads = 8, .ffn = 2048, .final_norm = false, .tie = "all"};
  c.batch_tokens = 3125;
  c.accumulate = 8;
  c.lr = 1;
  c.schedule = "noam";
  c.warmup = 4000;
  c.clip = 0;
}

// For the user's own pairs: keeps case, and no word is unknown. choose.cpp adapts settings to the
// number of pairs; these suit a few thousand.
void own(TrainConfig& c) {
  one_table(c);
  c.bpe = 2000;
  c.lowercase = false;
  c.model = {.layers = 4, .dim = 128, .heads = 4, .ffn = 256, .norm_first = true, .tie = "all"};
  c.epochs = 40;
  c.batch_tokens = 512;
  c.lr = 2e-3;
  c.schedule = "cosine";
  c.warmup = 300;
  c.best = "bleu";
}

// For the generated pairs: less than half a minute on two cores.
void demo(TrainConfig& c) {
  c.model = {.layers = 2, .dim = 128, .heads = 4, .ffn = 256};
  c.epochs = 8;
  c.batch = 64;
  c.lr = 2e-3;
  c.schedule = "cosine";
  c.warmup = 100;
  c.min_freq = 1;
  c.lowercase = false;
}

constexpr std::pair<const char*, Preset> kPresets[] = {
    {kOwn, own},
    {"d2l-bahdanau", d2l_bahdanau},
    {"d2l-transformer", d2l_transformer},
    {"multi30k-transformer", multi30k_transformer},
    {"multi30k-bahdanau", multi30k_bahdanau},
    {"multi30k-best", multi30k_best},
    {"base", base},
    {"demo", demo}};

void add_data(Settings& s, TrainConfig& c) {
  s.group(Group::data);
  s.text("pairs", c.pairs, "FILE",
         "sentence pairs: in each line a sentence, a TAB and its translation; plain or .gz");
  s.text("source", c.source, "FILE", "sentences of one language, one in each line, plain or .gz");
  s.text("target", c.target, "FILE", "their translations, line by line");
  s.text("valid_source", c.valid_source, "FILE", "sentences for validation, as --source");
  s.text("valid_target", c.valid_target, "FILE", "their translations");
  s.text("from", c.from, "DIR",
         "folder of a trained model to start from, with its tokens and sizes; it is only read")
      .came_later();
  s.toggle("reverse", c.reverse,
           "translate from the second language into the first; without either flag: as the model "
           "of --from, if there is one")
      .flag("--reverse,!--no-reverse");
  s.number("first", c.first, kAnyCount, "use only the first N pairs; 0: all");
  s.number("hold_out", c.hold_out, {-1, 1e9},
           "pairs held out for validation without --valid-source; -1: 5 %, at most 1000")
      .only_if(c.valid_source.empty(), "there are files for validation");
  s.number("max_length", c.max_length, kAnyCount,
           "leave out longer training pairs, in tokens; 0: none");
  const std::string tokens = "--tokens is " + c.tokens;
  s.word("tokens", c.tokens, {"words", "bpe", "d2l"},
         "what a token is: words, byte pairs (bpe), or words as in d2l.ai's chapter (d2l)");
  s.number("bpe", c.bpe, kCount, "merges to learn with --tokens bpe")
      .only_if(c.tokens == "bpe", tokens);
  s.number("bpe_dropout", c.bpe_dropout, kShare,
           "share of the merges that training skips at random (BPE dropout), so that words have "
           "other pieces in each epoch; batches then have more tokens than their limit, which "
           "counts the usual pieces")
      .only_if(c.tokens == "bpe" || !c.from.empty(), tokens)
      .says(c.bpe_dropout > 0, "BPE dropout {:g}", c.bpe_dropout)
      .came_later();
  s.toggle("shared", c.shared, "one vocabulary for both languages").flag("--shared,!--no-shared");
  s.number("min_freq", c.min_freq, kCount, "words that occur fewer times are unknown")
      .only_if(c.tokens == "words", tokens);
  s.toggle("lowercase", c.lowercase, "turn all text into lower case")
      .flag("--lowercase,!--no-lowercase")
      .only_if(c.tokens != "d2l", "d2l.ai's form is lower case");
}

void add_model(Settings& s, ModelConfig& m) {
  const bool transformer = m.model == "transformer", bahdanau = m.model == "bahdanau";
  const std::string none = "a " + m.model + " has none";
  s.group(Group::model);
  s.word("model", m.model, {"transformer", "bahdanau", "seq2seq"}, "kind of model");
  s.word("form", m.form, {"paper", "d2l"}, "form of bahdanau: the paper's or d2l.ai's")
      .only_if(bahdanau, "only bahdanau has two");
  s.number("layers", m.layers, {1, 1000}, "layers of the encoder, and of the decoder")
      .only_if(!bahdanau || m.form == "d2l", "bahdanau in the paper's form has one");
  s.number("dim", m.dim, {1, 1 << 16}, "width; in recurrent models of the embeddings");
  s.number("hidden", m.hidden, {1, 1 << 16}, "hidden units of recurrent models")
      .only_if(!transformer, "a transformer's width is --dim");
  s.number("heads", m.heads, {1, 1 << 16}, "heads of attention").only_if(transformer, none);
  s.number("ffn", m.ffn, {1, 1 << 18}, "hidden units of the feed-forward layers")
      .only_if(transformer, none);
  s.number("dropout", m.dropout, kShare, "dropout on embeddings, sublayers and attention");
  s.toggle("norm_first", m.norm_first,
           "norms before the sublayers (pre-norm), or after them (post-norm)")
      .flag("--norm-first,!--norm-last")
      .only_if(transformer, none);
  s.toggle("final_norm", m.final_norm, "").flag("");
  s.word("tie", m.tie, {"none", "target", "all"},
         "share one table: of target embeddings and output, or of source embeddings too")
      .only_if(transformer, none);
  s.toggle("reverse_source", m.reverse_source, "let seq2seq read the source backwards")
      .only_if(m.model == "seq2seq", "only seq2seq reads backwards");
  s.number("source_vocab", m.source_vocab, {1, 1 << 26}, "").flag("");
  s.number("target_vocab", m.target_vocab, {1, 1 << 26}, "").flag("");
  s.number("length_ratio", m.length_ratio, {0, 1000, true}, "").flag("");
}

}  // namespace

void settings(Settings& s, TrainConfig& c) {
  s.text("preset", c.preset, "", "").flag("");  // only for files; program.cpp has the flag
  add_data(s, c);
  s.inside("model", [&] { add_model(s, c.model); });
  s.group(Group::training);
  s.number("epochs", c.epochs, kCount, "passes over the training pairs")
      .says(true, "{} epoch{}", c.epochs, c.epochs == 1 ? "" : "s");
  s.number("batch", c.batch, kAnyCount, "most pairs in a batch; 0: no limit")
      .says(c.batch > 0, "batches of up to {} pairs", c.batch);
  s.number("batch_tokens", c.batch_tokens, kAnyCount,
           "most tokens per side of a batch, padding included; 0: any number")
      .says(c.batch_tokens > 0, "batches of up to {} tokens", c.batch_tokens);
  s.number("label_smoothing", c.label_smoothing, kShare,
           "share of each target that is spread over all words")
      .says(c.label_smoothing > 0, "label smoothing {:g}", c.label_smoothing);
  s.number("r_drop", c.r_drop, {0, 1000},
           "R-Drop, its alpha; 0: off, 5 is usual: reads each pair twice, with other dropout, and "
           "pulls both predictions together; a step takes about twice as long, and holds the "
           "logits of both passes")
      .only_if(c.model.dropout > 0 || !c.from.empty(), "--dropout is 0")
      .says(c.r_drop > 0, "R-Drop {:g}", c.r_drop)
      .came_later();
  s.word("best", c.best, {"loss", "bleu"},
         "metric of the validation that chooses the weights to keep")
      .only_if(!c.valid_source.empty() || c.hold_out != 0,
               "without validation the last weights are kept; give --hold-out");
  for (const char* key : {"tokens", "bpe", "shared", "min_freq", "lowercase", "model.model",
                          "model.form", "model.layers", "model.dim", "model.hidden", "model.heads",
                          "model.ffn", "model.norm_first", "model.tie", "model.reverse_source"})
    s.find(key)->only_if(c.from.empty(), "the model of --from has its own tokens and sizes");
  add_training_settings(s, c, {.optimizers = training::optimizer_names(), .noam = true});
  s.find("decay_all")->came_later([&c] { c.decay_all = true; });  // as earlier versions always did
  s.find("optimizer")->came_later([&c] {  // earlier versions chose it by the weight decay
    if (c.weight_decay > 0) c.optimizer = "adamw";
  });
  s.find("weight_decay")->about +=
      "; without --optimizer it chooses adamw in place of adam, not of muon";
  s.find("memory_use.recompute")
      ->only_if(c.model.model == "transformer", "a " + c.model.model + " has no blocks");
}

void check_config(const TrainConfig& c) {
  check(c.pairs.empty() || (c.source.empty() && c.target.empty()),
        "--pairs and --source/--target cannot be given together");
  check(c.source.empty() == c.target.empty(), "--source and --target belong together");
  check(c.valid_source.empty() == c.valid_target.empty(),
        "--valid-source and --valid-target belong together");
  check(c.batch + c.batch_tokens > 0, "one of --batch and --batch-tokens must be above 0");
  check(c.model.model != "transformer" || c.model.dim % c.model.heads == 0,
        "--dim {} is not a multiple of --heads {}", c.model.dim, c.model.heads);
  check(c.model.tie != "all" || c.shared, "--tie all needs --shared, one vocabulary for both");
  check(c.bpe_dropout == 0 || c.tokens == "bpe", "--bpe-dropout {:g} needs --tokens bpe, not {}",
        c.bpe_dropout, c.tokens);
  check(c.r_drop == 0 || c.model.dropout > 0,
        "--r-drop {:g} compares two passes with different dropout, but --dropout is 0", c.r_drop);
  check(c.max_length == 0 || c.batch_tokens == 0 || c.batch_tokens > c.max_length,
        "--batch-tokens {} is less than a pair of --max-length {} needs", c.batch_tokens,
        c.max_length);
  check_training_options(c);
}

void apply_preset(const std::string& name, TrainConfig& config) {
  for (const auto& [n, set] : kPresets)
    if (name == n) {
      set(config);
      config.preset = name;
    }
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, set] : kPresets) names.emplace_back(name);
  return names;
}

}  // namespace tern::apps::translate
