#include "tern/apps/common/program_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace tern::apps {
namespace {

FlagText flag_text(const CLI::Option& option) {
  FlagText flag{.names = {},
                .value = option.get_items_expected_max() > 0 ? option.get_type_name() : "",
                .by_default = {},
                .about = option.get_description(),
                .positional = option.get_positional(),
                .required = option.get_required(),
                .many = option.get_items_expected_max() > 1};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (flag.positional) flag.names = {option.get_name()};
  const std::string given = option.get_default_str();
  if (!flag.value.empty() && given != "[]" && given != "\"\"") flag.by_default = given;
  return flag;
}

CommandText command_text(const CLI::App& app) {
  CommandText command{app.get_name(), app.get_description(), {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) command.flags.push_back(flag_text(*option));
  return command;
}

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  }) && text[0] != '.';
}

}  // namespace

std::vector<std::string> FlagText::choices() const {
  std::vector<std::string> words;
  for (size_t at = 0; at <= value.size();) {
    const size_t end = std::min(value.find('|', at), value.size());
    words.push_back(value.substr(at, end - at));
    if (!is_word(words.back())) return {};
    at = end + 1;
  }
  return words;
}

bool FlagText::takes_folder() const { return value == "DIR"; }
bool FlagText::takes_file() const {
  return value.find("FILE") != value.npos || value.find("DIR|") != value.npos;
}

ProgramText program_text(const CLI::App& app) {
  ProgramText program{command_text(app), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    program.commands.push_back(command_text(*command));
  return program;
}

}  // namespace tern::apps
