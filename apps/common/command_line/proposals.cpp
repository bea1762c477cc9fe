// Error messages for unknown flags and words, with a proposal from tables of synonyms, spelling
// distance, and the flags of other commands.
#include "tern/apps/common/command_line/proposals.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "tern/apps/common/command_line/help.h"
#include "tern/apps/common/command_line/started.h"
#include "tern/core/base/terminal_text.h"

namespace tern::apps {
namespace {

using Words = std::vector<std::string>;

/// Names that users of other programs type. Spaces separate the items of a list.
struct Synonym {
  const char* names;      ///< without leading dashes, with - for _
  const char* flags;      ///< the first one that a command has is proposed
  const char* note = "";  ///< proposed instead of a flag
};

constexpr Synonym kSynonyms[] = {
    {"learning-rate lr-max max-lr peak-lr base-lr eta", "--lr"},
    {"batch-size bs b train-batch-size per-device-train-batch-size mini-batch", "--batch"},
    {"epoch e num-epochs n-epochs num-train-epochs max-epoch max-epochs", "--epochs --sequences"},
    {"max-iters max-iter iters iterations max-steps num-steps train-steps max-update updates steps",
     "--steps --sequences --epochs"},
    {"eval-interval eval-every validate-every valid-freq log-interval", "--eval-steps --every"},
    {"output output-dir outdir out-dir o save-dir save-path logdir log-dir run-name experiment",
     "--out"},
    {"resume-from-checkpoint resume-from restore continue restart load-checkpoint", "--resume"},
    {"checkpoint ckpt model-path model-dir model-name-or-path load m",
     "--weights --model --resume"},
    {"pretrained init-from finetune finetune-from warm-start", "--init --from"},
    {"train-data train dataset data-dir data-path data-root train-dir input i",
     "--data --pairs --text"},
    {"corpus train-file file files", "--text --pairs --data"},
    {"val valid-data validation validation-file val-file dev", "--valid --valid-source"},
    {"val-split validation-split valid-fraction test-size val-fraction", "--hold-out"},
    {"src train-source source-file src-file", "--source"},
    {"tgt trg train-target target-file tgt-file", "--target"},
    {"hyp hypothesis predictions", "--hypotheses"},
    {"ref references refs", "--reference"},
    {"max-samples max-train-samples subset num-samples", "--limit --first --samples"},
    {"img-size image-size input-size imgsz resolution size", "--side"},
    {"arch architecture net network model-name", "--model"},
    {"num-layers n-layers n-layer depth", "--layers"},
    {"num-heads n-heads n-head attention-heads", "--heads"},
    {"hidden-size d-model n-embd embed-dim embedding-dim emb-dim hidden-dim", "--dim --hidden"},
    {"block-size seq-len seq-length max-seq-len max-length context-length n-ctx ctx-size c",
     "--context --max-tokens"},
    {"vocab-size bpe-size", "--vocab --bpe"},
    {"drop dropout-rate drop-rate", "--dropout"},
    {"wd l2 weightdecay", "--weight-decay"},
    {"grad-clip clip-grad max-grad-norm clip-norm gradient-clip-val", "--clip"},
    {"gradient-accumulation-steps grad-accum accum-steps update-freq accumulate-grad-batches",
     "--accumulate"},
    {"optim opt", "--optimizer"},
    {"scheduler lr-scheduler lr-schedule sched lr-scheduler-type", "--schedule"},
    {"warmup-steps warmup-iters warmup-updates num-warmup-steps", "--warmup"},
    {"adam-beta2 betas", "--beta2"},
    {"early-stopping early-stop early-stopping-patience", "--patience"},
    {"random-seed manual-seed s", "--seed"},
    {"smoothing", "--label-smoothing"},
    {"save-total-limit keep-last", "--keep"},
    {"gradient-checkpointing checkpointing activation-checkpointing", "--recompute"},
    {"jobs j t cores num-threads n-threads cpus", "--threads"},
    {"workers num-workers dataloader-num-workers", "--threads"},
    {"bf16 fp16 half amp mixed-precision dtype autocast", "--precision"},
    {"quantize quantization load-in-8bit quant", "--int8"},
    {"load-in-4bit", "--int4"},
    {"wandb report-to tb", "--tensorboard"},
    {"max-new-tokens n-predict n max-tokens num-tokens length max-len", "--max-tokens"},
    {"temp t", "--temperature"},
    {"p text-prompt", "--prompt"},
    {"repeat-penalty rep-penalty", "--repetition-penalty"},
    {"beam-size num-beams beams beam-width", "--beam"},
    {"lenpen length-penalty len-penalty", "--alpha"},
    {"nbest num-return-sequences", "--n-best"},
    {"test validate evaluate eval-only only-eval", "--eval"},
    {"infer inference classify image", "--predict"},
    {"gpu gpus cuda device n-gpu gpu-ids ngl n-gpu-layers use-cuda fp8", "",
     "tern runs on the CPU: leave it out"},
    {"cpu no-cuda", "", "tern always runs on the CPU: leave it out"},
    {"config cfg config-file", "", "settings are flags: see --help"},
    {"do-train", "", "the command says so already: leave it out"},
    {"verbose v debug quiet q no-progress", "", "there are no levels of output: leave it out"},
    {"overwrite overwrite-output-dir force f", "",
     "a run is never written over: give another --out, or remove the folder"},
};

/// Synonyms of commands.
constexpr Synonym kCommands[] = {
    {"fit training finetune fine-tune pretrain learn", "train"},
    {"test evaluate validate evaluation perplexity ppl valid", "eval"},
    {"sample continue write infer inference predict", "generate run"},
    {"translate decode", "run"},
    {"bleu chrf sacrebleu", "score"},
    {"attention show visualize", "plot"},
    {"mask unmask fill-mask", "fill"},
    {"compare comparison diff", "report"},
    {"interactive", "complete run"},
    {"chat generate complete embed fill gpt llama", "lm"},
    {"classify cifar pictures images vision", "train-cifar"},
};

/// Synonyms of the values of flags.
constexpr Synonym kValues[] = {
    {"fp16 float16 bfloat16 half 16 amp mixed", "bf16"},
    {"fp32 float32 float single 32 full", "f32"},
    {"cosine-annealing cosineannealing cosine-decay", "cosine"},
    {"none fixed", "constant"},
    {"reduce-on-plateau reducelronplateau", "plateau"},
    {"mkl openblas", "blas"},
};

Words split_words(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

template <size_t n>
const Synonym* find_synonym(const Synonym (&table)[n], const std::string& name) {
  for (const Synonym& s : table)
    if (is_one_of(split_words(s.names), name)) return &s;
  return nullptr;
}

std::string called(const Program& program, const Command& command) {
  return as_started(program.name) + (command.name.empty() ? "" : " " + command.name);
}

// Whether the setting may take the value: a toggle takes none, and a choice only words that are
// similar to one of its choices (so not a folder).
bool accepts(const Setting& s, const std::string& value) {
  if (s.is_toggle()) return value.empty();
  return value.empty() || s.words.empty() || !nearest_word(value, s.words).empty();
}

// The first other command with one of these flags that may take the value: "lm train --epochs".
std::string in_other_command(const Program& program, const Command* command, const Words& flags,
                             const std::string& value) {
  for (const std::string& flag : flags)
    for (const Command& c : program.commands) {
      if (&c == command) continue;
      const CommandRows rows(c);
      const Setting* const row = rows.list.find_flag(flag);
      if (row && accepts(*row, value)) return called(program, c) + " " + flag;
    }
  return "";
}

std::string did_you_mean_this(const std::string& what) {
  return what.empty() ? "" : "; did you mean " + what + "?";
}

// A proposal from the table of synonyms: a flag of this command, or of any if none was named.
std::string by_synonym(const Program& program, const Command* command, const Settings& list,
                       const std::string& flag, const std::string& value) {
  const std::string name = plain_name(flag);
  for (const Synonym& s : kSynonyms) {
    if (!is_one_of(split_words(s.names), name) && !is_one_of(split_words(s.flags), "--" + name))
      continue;
    if (*s.note) return fmt::format("; {}", s.note);
    for (const std::string& meant : split_words(s.flags))
      if (const Setting* row = list.find_flag(meant); row && accepts(*row, value))
        return did_you_mean_this(meant);
  }
  if (const Synonym* s = find_synonym(kSynonyms, name); s && !command)
    return did_you_mean_this(in_other_command(program, command, split_words(s->flags), value));
  return "";
}

std::string about_flag(const Program& program, const Command* command, const Settings& list,
                       const Words& line, const UnknownWord& unknown) {
  const std::string& word = line[unknown.at];
  const size_t equals = word.find('=');
  const std::string flag = word.substr(0, equals);
  const bool next = unknown.at + 1 < line.size() && !is_dashed(line[unknown.at + 1]);
  const std::string value = equals != word.npos ? word.substr(equals + 1)
                            : next              ? line[unknown.at + 1]
                                                : "";
  std::string meant = did_you_mean_this(in_other_command(program, command, {flag}, value));
  if (flag.starts_with("--no-"))
    if (const Setting* row = list.find_flag("--" + flag.substr(5)); row && row->is_toggle())
      meant = fmt::format("; --{}=false turns it off", flag.substr(5));
  if (meant.empty()) meant = by_synonym(program, command, list, flag, value);
  if (meant.empty()) meant = did_you_mean(flag, flag_names(list));
  const bool named = command && !command->name.empty();
  return fmt::format("{} no flag {}{}", named ? command->name + " has" : "there is", flag, meant);
}

bool is_number(const std::string& word) {
  return word.find_first_of("0123456789") != word.npos &&
         word.find_first_not_of("0123456789.,eE+-") == word.npos;
}

// The word without a leading en dash, em dash or minus sign, as text editors make of "--":
// "–epochs". Empty if it has none.
std::string without_long_dash(const std::string& word) {
  for (const char* dash : {"\u2013", "\u2014", "\u2212"})
    if (word.starts_with(dash)) return word.substr(std::string(dash).size());
  return "";
}

// Puts quotes around a text of several words that was given without them. A setting took its first
// word.
std::string quoted_text(const Words& line, const UnknownWord& unknown) {
  std::string text = line[unknown.at - 1];
  for (size_t i = unknown.at; i < line.size() && !is_dashed(line[i]); ++i) text += " " + line[i];
  return "\"" + text + "\"";
}

// The required setting that takes a folder and was not given; nullptr if there is none.
const Setting* missing_folder(const Settings& list,
                              const std::function<bool(const Setting&)>& given) {
  for (const Setting& s : list.rows())
    if (s.required && !s.is_positional() && s.type.starts_with("DIR") && !given(s)) return &s;
  return nullptr;
}

// A proposal for a word that is neither a flag nor the value of one.
std::string meaning(const Program& program, const Command& command, const Settings& list,
                    const Words& line, const UnknownWord& unknown,
                    const std::function<bool(const Setting&)>& given) {
  const std::string& word = line[unknown.at];
  const std::string name = word.substr(0, word.find('='));
  if (unknown.only_values && is_dashed(word)) return "; after --, no word is read as a flag";
  if (word == "help" || word == "version") return did_you_mean_this("--" + word);
  std::error_code error;
  const bool folder = std::filesystem::is_directory(word, error);
  if (word == "train" && command.name.empty() && !folder)
    return fmt::format("; {} trains without it: leave it out", title_of(program.name));
  if (const std::string flag = "--" + without_long_dash(name); list.find_flag(flag))
    return fmt::format("; it begins with a long dash, did you mean {}?", flag);
  if (unknown.after && unknown.after->type == "TEXT")
    return did_you_mean_this(quoted_text(line, unknown));
  if (unknown.after && unknown.after->is_toggle() &&
      is_one_of({"true", "false", "yes", "no"}, word))
    return did_you_mean_this(line[unknown.at - 1] + "=" + word);
  if (list.find_flag("--" + name)) return did_you_mean_this("--" + word);
  for (const Setting& s : list.rows())
    if (!s.is_positional() && !s.flags.empty() && is_one_of(s.words, word))
      return did_you_mean_this(s.names()[0] + " " + word);
  if (is_number(word)) return "; flags begin with --";
  const Setting* const model = missing_folder(list, given);
  if (model && folder) return did_you_mean_this(model->names()[0] + " " + shell_word(word));
  if (command.bare == kBareInput)
    return fmt::format("; {0} reads standard input: echo {1} | {0} ...", called(program, command),
                       shell_word(word));
  const Setting* const bare = list.find_flag(command.bare);
  if (bare && (!given(*bare) || bare->is_list() || bare->repeated))
    return did_you_mean_this(command.bare + " " + shell_word(word));
  return "; flags begin with --";
}

// Lists the commands, for a line that names none of them.
std::string commands_text(const Program& program) {
  Words names;
  for (const Command& c : program.commands) names.push_back(c.name);
  if (names.size() == 1) return "The only command is " + names[0];
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("The commands are {} and {}", fmt::join(names, ", "), last);
}

// Proposes to pipe a word with spaces into the command that reads standard input, if there is one.
std::string text_meaning(const Program& program, const std::string& word) {
  for (const Command& c : program.commands)
    if (c.bare == kBareInput && word.find(' ') != word.npos)
      return fmt::format("echo {} | {} ...", shell_word(word), called(program, c));
  return "";
}

// Proposes "lm train --text book.txt" for a path in place of a command.
std::string path_meaning(const Program& program, const std::string& word) {
  std::error_code error;
  const bool only = program.commands.size() == 1;
  if (!only && word.find_first_of("./") == word.npos && !std::filesystem::exists(word, error))
    return "";
  const bool folder = std::filesystem::is_directory(word, error);
  for (const Command& c : program.commands) {
    const CommandRows rows(c);
    const Setting* const model = missing_folder(rows.list, [](const Setting&) { return false; });
    if (folder && model)
      return called(program, c) + " " + model->names()[0] + " " + shell_word(word);
    for (const Setting& s : rows.list.rows())
      if (s.is_positional() && s.is_path()) return called(program, c) + " " + shell_word(word);
    if (!folder && rows.list.find_flag(c.bare))
      return fmt::format("{} {} {}", called(program, c), c.bare, shell_word(word));
  }
  return "";
}

std::string about_command(const Program& program, const std::string& word) {
  Words names;
  for (const Command& c : program.commands) names.push_back(c.name);
  std::string meant, note;
  if (word == "help" || word == "version") meant = "--" + word;
  if (const Synonym* s = find_synonym(kCommands, plain_name(word)); s && meant.empty())
    for (const std::string& name : split_words(s->flags))
      if (meant.empty() && is_one_of(names, name)) meant = name, note = s->note;
  if (meant.empty()) meant = nearest_word(word, names);
  if (meant.empty()) meant = text_meaning(program, word);
  if (meant.empty()) meant = path_meaning(program, word);
  if (!note.empty()) note = "; " + note;
  return fmt::format("there is no command '{}'{}{} {}", word, note,
                     meant.empty() ? "." : did_you_mean_this(meant), commands_text(program));
}

}  // namespace

bool is_dashed(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string did_you_mean_value(const std::string& word, const Words& known) {
  if (const Synonym* s = find_synonym(kValues, plain_name(word)); s && is_one_of(known, s->flags))
    return did_you_mean_this(s->flags);
  return did_you_mean(word, known);
}

std::string about_unknown(const Program& program, const Command* command, const Settings& list,
                          const Words& line, const UnknownWord& unknown,
                          const std::function<bool(const Setting&)>& given) {
  // An unknown command comes first: without a command its flags are unknown too.
  if (!command && !is_dashed(line[0])) return about_command(program, line[0]);
  const std::string& word = line[unknown.at];
  if (is_dashed(word) && !unknown.only_values)
    return about_flag(program, command, list, line, unknown);
  if (!command) return about_command(program, word);  // it follows flags
  return fmt::format("unexpected argument '{}'{}", word,
                     meaning(program, *command, list, line, unknown, given));
}

}  // namespace tern::apps
