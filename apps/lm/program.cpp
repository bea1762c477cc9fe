// The commands of lm with their flags, help and examples.
#include "tern/apps/lm/program.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/error.h"
#include "tern/models/sentence.h"
#include "tern/pretrained/chat_template.h"
#include "tern/pretrained/gpt_config.h"

namespace tern::apps::lm {
namespace {

constexpr const char* kAbout =
    "Trains language models on text, continues texts and talks with them, fills the gaps of a "
    "text, and computes vectors of texts.\n"
    "Without a command or files it trains a small GPT for about a minute on generated stories, and "
    "continues some of them.";

void add_model(Settings& s, LmFlags& f, const char* about, const char* type = "DIR") {
  s.text("model", f.model, type, about).must_be_given();
  add_computing(s, f.config.precision, f.config.matmul, f.train.threads);
}

// The model of a command that writes or scores text.
void add_text_model(Settings& s, LmFlags& f) {
  add_model(s, f, "folder of a trained model or of one from transformers, or a GGUF file",
            "DIR|FILE");
  s.toggle("int8", f.int8,
           "round the weights of a gpt or llama to 8 bits: a quarter of the memory, and faster");
  s.toggle(
      "int4", f.int4,
      "round them to 4 bits: a sixth of the memory, and faster, but less exact; weights of GGUF's "
      "Q4_0 and Q4_1 stay as they are");
}

void add_sampling(Settings& s, GenerateOptions& g, const char* stop) {
  const char *const no_heat = "with --temperature 0 nothing is drawn",
                    *const one = "with --top-k 1 nothing is drawn";
  const bool heat = g.temperature > 0, several = g.top_k != 1;
  s.number("max_tokens", g.max_tokens, kCount, "most tokens to write");
  s.number("temperature", g.temperature, {0, 100},
           "below 1 favours likely tokens; 0: always the likeliest token")
      .only_if(several || !heat, one);
  s.number("top_k", g.top_k, kAnyCount, "draw among the N likeliest tokens only; 0: among all")
      .only_if(heat, no_heat);
  s.number("top_p", g.top_p, {0, 1, true},
           "draw among the fewest tokens whose probabilities add up to this")
      .only_if(heat, no_heat)
      .only_if(several, one);
  s.number("min_p", g.min_p, {0, 1},
           "draw among tokens with at least this share of the likeliest one's probability")
      .only_if(heat, no_heat)
      .only_if(several, one);
  s.number("repetition_penalty", g.repetition_penalty, {0, 100, true},
           "above 1, tokens of the text so far become less likely (1.1 is usual)");
  s.number("repetition_window", g.repetition_window, kAnyCount,
           "how many of the last tokens the penalty looks at; 0: all")
      .only_if(g.repetition_penalty != 1, "there is no --repetition-penalty");
  s.texts("stop", g.stop, "TEXT", stop).one_each();
  s.number("seed", g.seed, {}, "random seed of the draws")
      .only_if(heat, no_heat)
      .only_if(several, one);
}

void add_generate_settings(Settings& s, LmFlags& f) {
  GenerateOptions& g = f.generate;
  add_text_model(s, f);
  s.texts("prompt", f.prompt, "TEXT",
          "text to continue; empty: the model begins a text, or a line if lm trained it on fewer "
          "than 20 documents; -: the text is standard input, without its last line end; may be "
          "given several times")
      .one_each();
  s.text("prompts", f.prompts, "FILE", "file with a prompt in each line, plain or .gz");
  s.text("prompt_file", f.prompt_file, "FILE",
         "file that is one prompt (plain or .gz), without its last line end");
  s.number("samples", g.samples, {1, 1e5}, "texts to write for each prompt, each drawn anew")
      .only_if(g.temperature > 0, "with --temperature 0 all would be equal")
      .only_if(g.top_k != 1, "with --top-k 1 all would be equal");
  add_sampling(s, g, "end before this text; may be given several times");
  s.text("attention", f.attention, "FILE.html|.svg|.png",
         "write what each token looked at; .html shows every head");
}

void add_complete_settings(Settings& s, LmFlags& f) {
  add_text_model(s, f);
  s.text("prompt_file", f.prompt_file, "FILE",
         "file with the text before the first line (plain or .gz), without its last line end");
  add_sampling(s, f.generate,
               "end a completion before this text, and no longer at a line end; may be given "
               "several times");
}

void add_chat_settings(Settings& s, LmFlags& f) {
  add_text_model(s, f);
  s.text("system", f.system, "TEXT", "what the model shall know or be, before the conversation");
  std::vector<std::string> formats = pretrained::ChatTemplate::names();
  formats.insert(formats.begin(), kAsModel);
  s.word("template", f.chat_template, formats,
         "format of a conversation; as-model: the model's own");
  add_sampling(s, f.generate, "end an answer before this text; may be given several times");
}

void add_fill_settings(Settings& s, LmFlags& f) {
  add_model(s, f,
            "folder of a trained bert, or of a BERT, RoBERTa, DistilBERT, ... from transformers");
  s.text("gaps", f.gaps, "TEXT",
         "text with gaps, such as \"the [MASK] sat\"; in a RoBERTa a gap is <mask>")
      .flag("text")
      .must_be_given();
  s.number("guesses", f.guesses, kCount, "tokens to list for each gap");
  s.text("attention", f.attention, "FILE.html|.svg|.png",
         "write what each token looked at; .html shows every head");
}

void add_eval_settings(Settings& s, LmFlags& f) {
  add_text_model(s, f);
  s.texts("text", f.text, "FILE...", "files of text, plain or .gz, or folders as in training")
      .must_be_given();
  s.number("stride", f.stride, kAnyCount,
           "tokens from one window to the next; 0: half of the model's context");
}

void add_embed_settings(Settings& s, LmFlags& f) {
  add_model(
      s, f,
      "folder of sentence-transformers or of an encoder of transformers (BERT, MiniLM, RoBERTa, "
      "DistilBERT, ELECTRA, MPNet), or of a trained bert");
  s.texts("text", f.text, "FILE...",
          "files with a text in each line, plain or .gz; without them: standard input");
  std::vector<std::string> poolings = models::pooling_names();
  poolings.insert(poolings.begin(), kAsModel);
  s.word("pooling", f.pooling, poolings,
         "which of the tokens' states make the vector; as-model: what the folder says, or mean");
  s.word("normalise", f.normalise, {kAsModel, "yes", "no"},
         "scale vectors to length 1; as-model: what the folder says, or yes");
  s.text("out", f.out, "FILE.npy|.jsonl",
         "write the vectors to this file instead of standard output; .npy is one array of f32");
}

void check_train(LmFlags& f, const Given& given) {
  TrainConfig& c = f.config;
  f.given = given_keys(settings_of(c), given);
  if (c.schedule == "noam") f.given.push_back("lr");  // a factor, also for --from
  auto unless_given = [&](const char* flag, auto& value, auto other) {
    if (!given(flag)) value = other;
  };
  if (is_demo(c)) {
    TrainConfig stories = c;
    if (!c.from.empty() && is_bert_folder(c.from)) stories.model.model = kBert;
    stories = story_defaults(stories);
    unless_given("--vocab", c.vocab_size, stories.vocab_size);
    unless_given("--epochs", c.epochs, stories.epochs);
    unless_given("--batch", c.batch, stories.batch);
    unless_given("--lr", c.lr, stories.lr);
    unless_given("--dropout", c.model.dropout, stories.model.dropout);
  }
  if (c.optimizer == "muon")
    unless_given("--lr", c.lr, c.model.model == kBert && !is_demo(c) ? kBertMuonRate : kMuonRate);
  check(c.valid.empty() || !is_demo(c), "--valid needs --text");
  const ModelConfig& m = c.model;
  check(m.dim % m.heads == 0, "--dim {} is not a multiple of --heads {}", m.dim, m.heads);
  check(m.kv_heads == 0 || m.heads % m.kv_heads == 0,
        "--heads {} is not a multiple of --kv-heads {}", m.heads, m.kv_heads);
}

void check_packed(const LmFlags& f) {
  check(!f.int8 || !f.int4, "--int8 and --int4 each say what weights are rounded to: choose one");
  check((!f.int8 && !f.int4) || f.config.precision == "f32",
        "{} and --precision bf16 each say what weights are rounded to: choose one",
        f.int8 ? "--int8" : "--int4");
}

/// The number of prompts that are read from standard input.
int64_t inputs(const LmFlags& f) {
  return std::count(f.prompt.begin(), f.prompt.end(), kStandardInput);
}

void check_generate(const LmFlags& f) {
  check_packed(f);
  check(!f.prompt.empty() + !f.prompts.empty() + !f.prompt_file.empty() <= 1,
        "give one of --prompt, --prompts and --prompt-file");
  check(inputs(f) <= 1, "--prompt - is given twice, and standard input can be read once");
  for (const std::string& stop : f.generate.stop) check(!stop.empty(), "--stop: the text is empty");
}

Command chat_command(LmFlags& f) {
  return {.name = "chat",
          .about =
              "Talks with a model that was trained for it: each line of standard input is a "
              "turn of a conversation, which the model answers and remembers.",
          .settings = [&f](Settings& s) { add_chat_settings(s, f); },
          .check = [&f](const Given&) { check_generate(f); },
          .run = [&f] { return chat_in_turns(f, standard_input(), std::cout); },
          .examples =
              "chat --model SmolLM2-135M-Instruct\n"
              "chat --model model.gguf --system \"Be brief.\" --temperature 0",
          .bare = kBareInput};
}

Command embed_command(LmFlags& f) {
  auto run = [&f] {
    return embed_lines(f, f.text.empty() ? standard_input() : std::cin, std::cout);
  };
  return {.name = "embed",
          .about =
              "Computes a vector for each line, as sentence-transformers does: texts of similar "
              "meaning have similar vectors. A line of output is a list of JSON.",
          .settings = [&f](Settings& s) { add_embed_settings(s, f); },
          .run = run,
          .examples =
              "embed --model all-MiniLM-L6-v2 --text sentences.txt --out vectors.npy\n"
              "embed --model all-MiniLM-L6-v2 < sentences.txt",
          .bare = "--text"};
}

Command export_command(LmFlags& f) {
  auto add = [&f](Settings& s) {
    s.text("model", f.model, "DIR|FILE",
           "folder of a trained model or of one from transformers, or a GGUF file")
        .must_be_given();
    s.toggle("caches", f.caches,
             "the keys and values of earlier tokens are inputs and outputs, to generate texts; for "
             "gpt and llama");
    s.text("out", f.out, "FILE.onnx", "the file to write").must_be_given();
    add_opset(s, f.opset);
  };
  return {.name = "export",
          .about =
              "Writes a model as an ONNX file, for onnxruntime: token ids i64 (N, T) to logits "
              "f32 (N, T, words), for any N, and any T up to the model's context. A bert also "
              "takes the lengths of the texts, i64 (N). With --caches a text's P earlier tokens "
              "are past.0.keys, past.0.values, ... (N, heads, P, channels), one pair for each "
              "layer; P may be 0. The outputs present.0.keys, ... are those of the next call.",
          .settings = add,
          .run = [&f] { return export_model(f); },
          .examples =
              "export --model runs/book --out book.onnx\n"
              "export --model SmolLM2-135M --caches --out smollm.onnx",
          .bare = "--model"};
}

}  // namespace

Program lm_program(LmFlags& f, int argc, char** argv) {
  // The family sets defaults before the other flags are read.
  const std::string model = value_of("--model", argc, argv);
  for (const Family& family : families())
    if (family.name == model) family.defaults(f.config.model);
  if (model == kBert) f.config.model.eps = 1e-12;
  Command train = train_command(f.train, f.config,
                                {.name = "train",
                                 .about = "Trains a model in a new folder, or resumes a run.",
                                 .settings = [&f](Settings& s) { settings(s, f.config); },
                                 .check = [&f](const Given& given) { check_train(f, given); }});
  train.examples =
      "train --text book.txt --out runs/book\n"
      "train --resume runs/book\n"
      "train --from SmolLM2-135M --text book.txt --context 512 --epochs 2";
  train.bare = "--text";
  train.run = [&f] { return train_lm(f); };
  Command generate{
      .name = "generate",
      .about = "Continues texts, and prints each token as soon as it is drawn.",
      .settings = [&f](Settings& s) { add_generate_settings(s, f); },
      .check = [&f](const Given&) { check_generate(f); },
      .run = [&f] { return generate_text(f, inputs(f) ? standard_input() : std::cin, std::cout); },
      .examples =
          "generate --model runs/book --prompt \"Once upon a time\" --max-tokens 100\n"
          "generate --model runs/book --prompts lines.txt --temperature 0 --int8\n"
          "generate --model runs/book --prompt - --samples 3 < beginning.txt",
      .bare = "--prompt"};
  Command lines{.name = "complete",
                .about =
                    "Completes each line of standard input as a text would go on, and remembers "
                    "the lines before. To talk with a model, use the command chat.",
                .settings = [&f](Settings& s) { add_complete_settings(s, f); },
                .check = [&f](const Given&) { check_generate(f); },
                .run = [&f] { return complete_lines(f, standard_input(), std::cout); },
                .examples =
                    "complete --model runs/book\n"
                    "complete --model runs/book --prompt-file beginning.txt --int8",
                .bare = kBareInput};
  Command fill{.name = "fill",
               .about = "Says which tokens may stand at each gap of a text.",
               .settings = [&f](Settings& s) { add_fill_settings(s, f); },
               .run = [&f] { return fill_gaps(f, std::cout); },
               .examples = "fill --model runs/lm-bert-demo \"Anna has five [MASK] cups.\""};
  Command eval{.name = "eval",
               .about = "Computes the perplexity and the bits per byte of texts.",
               .settings = [&f](Settings& s) { add_eval_settings(s, f); },
               .check = [&f](const Given&) { check_packed(f); },
               .run = [&f] { return evaluate_model(f); },
               .examples = "eval --model runs/book --text other.txt",
               .bare = "--text"};
  return {
      "lm",
      kAbout,
      {train, generate, chat_command(f), lines, fill, embed_command(f), eval, export_command(f)}};
}

namespace {

/// Takes sizes and dropout from the model that --from names, unless flags gave them, and the rate
/// and window of fine-tuning.
void take_from(const LmFlags& f, TrainConfig& c) {
  const auto given = [&](const char* key) { return std::ranges::count(f.given, key) > 0; };
  const ModelConfig asked = c.model;
  if (is_bert_folder(c.from))
    BertKind::take_from(c);
  else
    c.model = load_sizes({c.from});
  c.window = given("model.context") ? asked.context : std::min(c.model.context, kFineTuneWindow);
  check(c.window <= c.model.context, "--context {} is above the model's context of {}", c.window,
        c.model.context);
  if (given("model.dropout")) {
    c.model.dropout = asked.dropout;
    std::string& published = c.model.published;  // which may have another one in attention
    if (c.model.model == kBert)
      published.clear();
    else if (!published.empty())
      published = pretrained::with_dropout(published, asked.dropout);
  }
  if (!given("lr")) c.lr = kFineTuneRate;
}

}  // namespace

int train_lm(const LmFlags& f) {
  TrainConfig c = f.config;
  const ModelFiles resumed{f.train.resume};
  if (resumed.folder.empty()) {
    for (std::string* path : {&c.tokenizer, &c.from}) make_absolute(*path);
    for (std::vector<std::string>* list : {&c.text, &c.valid})
      for (std::string& path : *list) make_absolute(path);
    check_named_once(c);
    if (!c.from.empty()) take_from(f, c);
  } else if (std::filesystem::exists(resumed.config())) {
    c.model.model = load_config(resumed).model.model;
  }
  auto run = [&](auto program) {
    program.scratch = f.train.out;
    return train(program, f.train);
  };
  return c.model.model == kBert ? run(BertProgram(c)) : run(GptProgram(c));
}

}  // namespace tern::apps::lm
