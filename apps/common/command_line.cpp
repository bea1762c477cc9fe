#include "tern/apps/common/command_line.h"

#include <fmt/format.h>

#include <memory>
#include <type_traits>

#include "tern/apps/common/app.h"
#include "tern/apps/common/flags.h"
#include "tern/apps/common/run_record.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"

namespace tern::apps {
namespace {

template <class T>
void add_value(CLI::App& app, const Setting& s, T& value) {
  CLI::Option* option = app.add_option(s.flags, value, s.about)->type_name(s.type);
  if constexpr (std::is_arithmetic_v<T>) {
    option->transform(number_rule(s.bounds, std::is_integral_v<T>));
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    option->delimiter(',')->transform(number_rule(s.bounds, true));
  } else if (!s.words.empty()) {
    if constexpr (!std::is_same_v<T, std::string>) option->delimiter(',');
    option->check(word_rule(s.words));
  }
  if constexpr (requires { value.empty(); })
    if (value.empty()) option->default_str("");  // and not "[]"
  if (s.required) option->required();
  if (s.repeated) option->allow_extra_args(false);  // or "[END]" would be taken for a list
}

void add_flag(CLI::App& app, const Setting& s) {
  if (s.flags.empty()) return;
  if (bool* const* on = std::get_if<bool*>(&s.value))
    app.add_flag(s.flags, **on, s.about);
  else
    std::visit(
        [&]<class T>(T* value) {
          if constexpr (!std::is_same_v<T, bool>) add_value(app, s, *value);
        },
        s.value);
}

Settings list_of(const Command& command) {
  Settings list;
  if (command.settings) command.settings(list);
  return list;
}

// Flags that would change nothing are refused rather than ignored.
void check_flags_count(const Settings& list, const Given& given) {
  for (const Setting& s : list.rows())
    if (!s.counts) given.check_none({s.flags.substr(0, s.flags.find(','))}, s.why);
}

// The options of a command, its own or the program's.
CLI::App* add_command(CLI::App& program, const Command& command) {
  CLI::App* app =
      command.name.empty() ? &program : program.add_subcommand(command.name, command.about);
  app->option_defaults()->always_capture_default();
  const Settings list = list_of(command);
  for (const Setting& s : list.rows()) add_flag(*app, s);
  return app;
}

void use_threads(Settings& list) {
  const Setting* s = list.find("threads");
  const int threads = s ? *std::get<int*>(s->value) : 0;
  if (threads > 0) set_num_threads(threads);
}

}  // namespace

bool Given::operator()(const std::string& flag) const {
  const CLI::Option* option = app_.get_option_no_throw(flag);
  return option && option->count() > 0;
}

void Given::check_none(const std::vector<std::string>& flags, const std::string& why) const {
  for (const std::string& flag : flags)
    check(!(*this)(flag), "{} would change nothing: {}", flag, why);
}

void Given::check_beside(const std::string& flag, const std::vector<std::string>& allowed,
                         const std::string& why) const {
  check_flags_beside(app_, flag, allowed, why);
}

const Command* parse(const Program& program, int argc, char** argv) {
  CLI::App app(program.about, program.name);
  app.get_formatter()->column_width(36);
  app.require_subcommand(0, 1);
  std::vector<CLI::App*> apps;
  for (const Command& command : program.commands) apps.push_back(add_command(app, command));
  if (!parse_flags(app, argc, argv)) return nullptr;
  size_t chosen = 0;
  for (size_t i = 0; i < apps.size(); ++i)
    if (apps[i] != &app && apps[i]->parsed()) chosen = i;
  const Command& command = program.commands[chosen];
  const Given given(*apps[chosen], command_line(argc, argv));
  if (command.check) command.check(given);
  check_flags_count(list_of(command), given);
  return &command;
}

int run_program(const std::string& name, const std::function<Program()>& make, int argc,
                char** argv) {
  return run_app(name.c_str(), [&] {
    const Program program = make();
    const Command* command = parse(program, argc, argv);
    if (!command) return 0;
    Settings list = list_of(*command);
    use_threads(list);
    const Setting* s = list.find("precision");
    const std::string precision = s ? *std::get<std::string*>(s->value) : "f32";
    const MatmulPrecisionScope scope(matmul_precision(precision));
    return command->run();
  });
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
  return s.number("threads", threads, {0, 1024}, "0: all cores").not_in_files();
}

Setting& add_precision(Settings& s, std::string& precision) {
  return s.word("precision", precision, {"f32", "bf16"},
                "of matrix products: bf16 rounds what goes into them, for processors with AMX or "
                "AVX512_BF16");
}

}  // namespace tern::apps
