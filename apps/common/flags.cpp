#include "tern/apps/common/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <type_traits>

#include "tern/apps/common/program_text.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/common/suggest.h"
#include "tern/apps/common/version.h"
#include "tern/core/base/error.h"

namespace tern::apps {

namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<CLI::App*> commands(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "; did you mean lm train --epochs?" of a flag that only commands have.
std::string command_with(CLI::App& app, const std::string& flag) {
  for (const CLI::App* command : commands(app)) {
    const std::vector<std::string> known = flag_names(*command);
    if (std::find(known.begin(), known.end(), flag) != known.end())
      return fmt::format("; did you mean {} {} {}?", app.get_name(), command->get_name(), flag);
  }
  return "";
}

// What is said of a word that is neither flag nor value.
std::string unknown_word(CLI::App& app, const std::string& word) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& in = parsed.empty() ? app : *parsed.back();
  const std::string flag = word.substr(0, word.find('='));
  if (flag.starts_with("-") && flag.size() > 1) {
    const std::string elsewhere = parsed.empty() ? command_with(app, flag) : "";
    return fmt::format("{} no flag {}{}", parsed.empty() ? "there is" : in.get_name() + " has",
                       flag, elsewhere.empty() ? did_you_mean(flag, flag_names(in)) : elsewhere);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : commands(app)) names.push_back(command->get_name());
  if (!parsed.empty() || names.empty())
    return fmt::format("nothing takes the word '{}'; flags begin with --", word);
  return fmt::format("there is no command '{}'{} The commands are {}", word,
                     nearest_word(word, names).empty() ? "." : did_you_mean(word, names),
                     fmt::join(names, ", "));
}

// The first flag of the command line that nothing takes, else the first such word: a word may stand
// there a second time, as the value of a flag.
std::string first_extra(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> extras = app.remaining(true);
  std::string first;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (std::find(extras.begin(), extras.end(), word) == extras.end()) continue;
    if (word.starts_with("--")) return word;
    if (first.empty()) first = word;
  }
  return first;
}

void add_version(CLI::App& app) {
  const std::string text = fmt::format("{} (tern) {}", app.get_name(), tern_version());
  app.set_version_flag("--version", text, "Print the version and exit");
  for (CLI::App* command : commands(app))
    command->set_version_flag("--version", text)->group("");  // known, but not listed again
}

// --print-man and --print-completion; false if they were not asked for.
bool print_generated(const CLI::App& app, int argc, char** argv) {
  const std::string flag = argc > 1 ? argv[1] : "", shell = argc > 2 ? argv[2] : "";
  if (flag == "--print-man") {
    print(man_page(program_text(app), tern_version()));
    return true;
  }
  if (flag != "--print-completion") return false;
  check(shell == "bash" || shell == "zsh", "--print-completion is for bash or zsh, not '{}'",
        shell);
  const ProgramText program = program_text(app);
  print(shell == "bash" ? bash_completion(program) : zsh_completion(program));
  return true;
}

}  // namespace

CLI::Validator number_rule(const Bounds& bounds, bool whole) {
  auto rule = [bounds, whole](std::string& given) -> std::string {
    double v = 0;
    const bool decimal = given.find_first_of("xX") == std::string::npos;
    const bool inside = decimal && CLI::detail::lexical_cast(given, v) &&
                        (bounds.open_high ? v < bounds.high : v <= bounds.high) &&
                        (bounds.open_low ? v > bounds.low : v >= bounds.low);
    if (!inside || (whole && v != std::floor(v)))
      return fmt::format("must be {}{} {:g} and {} {:g}, got '{}'", whole ? "a whole number, " : "",
                         bounds.open_low ? "above" : "at least", bounds.low,
                         bounds.open_high ? "below" : "at most", bounds.high, given);
    if (whole) given = fmt::format("{:.0f}", v);  // 1000 for 1e3
    return "";
  };
  return {rule, ""};
}

CLI::Validator word_rule(const std::vector<std::string>& choices) {
  auto rule = [choices](std::string& given) -> std::string {
    if (std::find(choices.begin(), choices.end(), given) != choices.end()) return "";
    return fmt::format("there is no '{}'{} It is one of {}", given,
                       nearest_word(given, choices).empty() ? "." : did_you_mean(given, choices),
                       fmt::join(choices, ", "));
  };
  return {rule, ""};
}

bool parse_flags(CLI::App& app, int argc, char** argv) {
  add_version(app);
  if (print_generated(app, argc, argv)) return false;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // help, version
    std::ostringstream text;
    app.exit(e, text);
    print(text.str());
    return false;
  } catch (const CLI::ParseError& e) {
    // A flag that is missing may be there misspelt.
    const std::string extra = first_extra(app, argc, argv);
    fail(fmt::format("{} (see --help)", extra.empty() ? e.what() : unknown_word(app, extra)));
  }
  return true;
}

void check_flags_beside(const CLI::App& app, const std::string& flag,
                        const std::vector<std::string>& allowed, const std::string& why) {
  for (const CLI::Option* other : app.get_options()) {
    std::string name = other->get_name();
    bool free = name == flag || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
    check(other->count() == 0 || free, "{} cannot be given with {}: {}", name, flag, why);
  }
}

}  // namespace tern::apps
