// Parses a command line into settings, handles --help, --version and the --print flags, and runs
// the chosen command.
#include "tern/apps/common/command_line/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tern/apps/common/command_line/help.h"
#include "tern/apps/common/command_line/proposals.h"
#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/process/app.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/terminal_text.h"
#include "tern/core/base/threads.h"
#include "tern/dist/world.h"

namespace tern::apps {
namespace {

using Words = std::vector<std::string>;

// Assigns each word of a command line to a row of the settings.
class Reader {
 public:
  struct Found {
    std::string name;  // the flag as the user wrote it
    Words words;
  };

  Reader(const Settings& list, const Words& words) : list_(list), words_(words) {
    const Setting* before = nullptr;
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word == "--" && !only_values_) {
        only_values_ = true;
      } else if (const Setting* flag = flag_of(word)) {
        take(*flag, word);
        before = flag;
      } else if (const Setting* value = positional(word)) {
        found_[value].name = value->flags;
        found_[value].words.push_back(word);
        before = value;
      } else {
        unknown_.push_back({at_ - 1, std::exchange(before, nullptr), only_values_});
      }
    }
  }

  const Found* find(const Setting& s) const {
    const auto found = found_.find(&s);
    return found == found_.end() ? nullptr : &found->second;
  }
  const Words& line() const { return words_; }
  // The first unknown flag, else the first other word that no row took; nullptr if there is none.
  const UnknownWord* unknown() const {
    for (const UnknownWord& u : unknown_)
      if (is_dashed(words_[u.at]) && !u.only_values) return &u;
    return unknown_.empty() ? nullptr : &unknown_[0];
  }

 private:
  const Setting* flag_of(const std::string& word) const {
    if (!is_dashed(word) || only_values_) return nullptr;
    return list_.find_flag(word.substr(0, word.find('=')));
  }

  const Setting* positional(const std::string& word) const {
    if (is_dashed(word) && !only_values_) return nullptr;
    for (const Setting& s : list_.rows())
      if (s.is_positional() && (s.is_list() || !find(s))) return &s;
    return nullptr;
  }

  void take(const Setting& s, const std::string& word) {
    const size_t equals = word.find('=');
    Found& found = found_[&s];
    found.name = word.substr(0, equals);
    check(found.words.empty() || s.is_list() || s.repeated, "{} is given twice", found.name);
    if (equals != word.npos) {
      found.words.push_back(word.substr(equals + 1));
    } else if (s.is_toggle()) {
      found.words.emplace_back("true");
    } else {
      check(at_ < words_.size() && !flag_of(words_[at_]), "{0} needs a value: {0} {1}", found.name,
            value_text(s));
      found.words.push_back(words_[at_++]);
    }
    while (s.is_list() && at_ < words_.size() && !is_dashed(words_[at_]))
      found.words.push_back(words_[at_++]);
  }

  const Settings& list_;
  const Words& words_;
  size_t at_ = 0;
  bool only_values_ = false;  // after "--"
  std::map<const Setting*, Found> found_;
  std::vector<UnknownWord> unknown_;
};

// The name of a missing setting in an error: "--model", "RUNS".
std::string missing_name(const Setting& s) {
  const std::string text = positional_text(s);
  return s.is_positional() ? text.substr(0, text.find('.')) : s.names()[0];
}

// --version: what a bug report needs.
std::string version_text() {
  const BuildInfo b = build_details();
  return fmt::format(
      "tern {}\n"
      "compiler: {}\n"
      "processor: {}, {} thread{}\n"
      "vector code: {}; bf16 products by {}; the processor has {}\n"
      "BLAS: {}, kernels {}\n"
      "licence: MIT, without warranty\n",
      tern_version(), b.compiler, b.cpu.empty() ? "unknown" : b.cpu, b.threads,
      b.threads == 1 ? "" : "s", b.vector, bf16_products(), b.highest, b.blas, b.blas_kernels);
}

// Sets the settings' values. Error if a word or a value is wrong, or a required flag is missing.
void assign(const Program& program, const Command* command, const Settings& list,
            const Reader& reader) {
  const auto given = [&](const Setting& s) { return reader.find(s) != nullptr; };
  if (const UnknownWord* unknown = reader.unknown())
    fail(about_unknown(program, command, list, reader.line(), *unknown, given) + " (see --help)");
  for (const Setting& s : list.rows())
    if (s.required && !given(s))
      fail(fmt::format("{} is missing: {}; usage: {} (see --help)", missing_name(s), s.about,
                       usage_text(program, command)));
  for (const Setting& s : list.rows())
    if (const Reader::Found* found = reader.find(s)) {
      set_from_words(s, found->name, found->words);
      if (s.turned_off_by(found->name)) {
        bool& on = *std::get<bool*>(s.value);
        on = !on;
      }
    }
}

// Error if a flag names the run folder of another program.
void check_folders(const Program& program, const Settings& list, const Reader& reader) {
  for (const Setting& s : list.rows()) {
    const auto* const path = std::get_if<std::string*>(&s.value);
    if (!path || !reader.find(s) || s.key == "out") continue;
    const bool folder = s.type == "DIR" || s.type == "DIR|FILE";
    if (folder || (*path)->ends_with(".safetensors"))
      check_program(program.name, s.names()[0], **path);
  }
}

// --print-man, --print-help and --print-completion; false if none of them was given.
bool print_generated(const Program& program, const Words& words) {
  const std::string flag = words.empty() ? "" : words[0], shell = words.size() > 1 ? words[1] : "";
  if (flag == "--print-man") {
    print(man_page(program, tern_version()));
    return true;
  }
  if (flag == "--print-help") {
    print(help_pages(program));
    return true;
  }
  if (flag != "--print-completion") return false;
  check(shell == "bash" || shell == "zsh", "--print-completion is for bash or zsh, not '{}'",
        shell);
  print(shell == "bash" ? bash_completion(program) : zsh_completion(program));
  return true;
}

// Refuses flags that would change nothing, instead of ignoring them.
void check_flags_count(const Settings& list, const Given& given) {
  for (const Setting& s : list.rows())
    for (const std::string& name : s.names())
      check(s.counts || !given(name), "{} would change nothing: {}", name, s.why);
}

// Whether this is a rank of mpirun other than 0: only rank 0 prints.
bool is_silent_rank(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "train";
  return dist::launched_rank() > 0 && (word == "train" || is_dashed(word));
}

// Says that ranks of mpirun repeat the work of each other.
void warn_ranks(const Program& program, const Command& command) {
  if (dist::launched_ranks() <= 1 || dist::launched_rank() > 0) return;
  if (command.shares_work && command.shares_work()) return;
  complain(fmt::format("{}: each of the {} ranks does the whole work; only training shares it",
                       title_of(program.name), dist::launched_ranks()));
}

void use_threads(Settings& list) {
  const Setting* s = list.find("threads");
  const int threads = s ? *std::get<int*>(s->value) : 0;
  if (threads > 0) set_num_threads(threads);
}

// The command line, quoted for a shell.
std::string text_of(const Program& program, int argc, const char* const* argv) {
  std::string text = as_started(program.name);
  for (int i = 1; i < argc; ++i) text += " " + shell_word(argv[i]);
  return text;
}

}  // namespace

GivenKeys given_keys(const Settings& settings, const Given& given) {
  GivenKeys keys;
  for (const Setting& s : settings.rows())
    if (!s.flags.empty() && given(s.names()[0])) keys.push_back(s.key);
  return keys;
}

bool Given::operator()(const std::string& flag) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&](const Words& names) { return is_one_of(names, flag); });
}

void Given::check_beside(const std::string& flag, const std::vector<std::string>& allowed,
                         const std::string& why) const {
  for (const Words& names : flags_)
    check(names[0] == flag || is_one_of(allowed, names[0]), "{} cannot be given with {}: {}",
          names[0], flag, why);
}

const Command* parse(const Program& program, int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (print_generated(program, words)) return nullptr;
  const Command* command = &program.commands[0];
  if (!command->name.empty() && !words.empty()) {
    const auto named = std::find_if(program.commands.begin(), program.commands.end(),
                                    [&](const Command& c) { return c.name == words[0]; });
    command = named == program.commands.end() ? nullptr : &*named;
    if (command) words.erase(words.begin());
  }
  const CommandRows rows(command ? *command : Command{});
  const Reader reader(rows.list, words);
  // After a word that is no command, --help would explain something else: assign() refuses it.
  const bool known = command || is_dashed(words[0]) || words[0] == "help";
  if (known && reader.find(*rows.help)) {
    print(help_text(program, command, help_columns()));
    return nullptr;
  }
  if (reader.find(*rows.version)) {
    print(version_text());
    return nullptr;
  }
  assign(program, command, rows.list, reader);
  check_folders(program, rows.list, reader);
  std::vector<Words> flags;
  for (const Setting& s : rows.list.rows())
    if (reader.find(s)) flags.push_back(s.names());
  const Given given(std::move(flags), text_of(program, argc, argv));
  if (command->check) command->check(given);
  check_flags_count(CommandRows(*command).list, given);  // a new list: it sees the values just set
  return command;
}

int run_program(const std::string& name, const std::function<Program()>& make, int argc,
                char** argv) {
  set_started(argv[0], name);
  const auto run = [&] {
    const Program program = make();
    const Command* command = parse(program, argc, argv);
    if (!command) return 0;
    warn_ranks(program, *command);
    CommandRows rows(*command);
    use_threads(rows.list);
    auto word = [&](const char* row, const char* otherwise) {
      const Setting* s = rows.list.find(row);
      return s ? *std::get<std::string*>(s->value) : std::string(otherwise);
    };
    const MatmulPrecisionScope precision(matmul_precision(word("precision", "f32")));
    const MatmulBackendScope backend(matmul_backend(word("matmul", "tiles")));
    return command->run();
  };
  return run_app(title_of(name).c_str(), run, is_silent_rank(argc, argv));
}

std::string value_of(const std::string& flag, int argc, char** argv, const std::string& otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == flag && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(flag + "=")) return word.substr(flag.size() + 1);
  }
  return otherwise;
}

bool has_flag(const std::string& flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (argv[i] == flag) return true;
  const std::string value = value_of(flag, argc, argv);
  const bool off = value == "false" || value == "off" || value == "no" || value == "0";
  return !value.empty() && !off;
}

Setting& add_threads(Settings& s, int& threads) {
  return s.number("threads", threads, {0, 1024}, "threads to compute with; 0: all cores")
      .not_in_files()
      .group(Group::memory);
}

Setting& add_precision(Settings& s, std::string& precision) {
  return s
      .word("precision", precision, {"f32", "bf16"},
            "precision of matrix products; bf16 rounds their operands, for processors with AMX and "
            "AMD's with AVX512_BF16")
      .group(Group::memory);
}

Setting& add_matmul(Settings& s, std::string& matmul, const std::string& precision) {
  return s
      .word("matmul", matmul, {"tiles", "blas"},
            "what computes matrix products in f32: tern's own code, with the same bits on all "
            "processors that have AVX2, AVX-512 or NEON, or the BLAS library")
      .only_if(precision == "f32", "products in bf16 are tern's own")
      .group(Group::memory);
}

void add_computing(Settings& s, std::string& precision, std::string& matmul, int& threads) {
  add_precision(s, precision);
  add_matmul(s, matmul, precision);
  add_threads(s, threads);
}

Setting& add_opset(Settings& s, int& opset) {
  Setting& row = s.number("opset", opset, {},
                          "version of ONNX's ops: 17, which most programs read, or 23 with "
                          "attention, RMSNorm and GELU as ops of their own");
  row.words = {"17", "23"};
  row.type = "17|23";
  return row;
}

}  // namespace tern::apps
