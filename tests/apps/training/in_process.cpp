// The four programs behind one interface.
#include "tern/tests/apps/training/in_process.h"

#include <sstream>

#include "tern/apps/lm/program.h"
#include "tern/apps/lm/training.h"
#include "tern/apps/ntm/program.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/apps/translate/program.h"
#include "tern/core/base/error.h"

namespace tern::test {
namespace {

/// Parses `line`, and gives flags and command to `use`.
template <class Flags, class Use>
auto parsed_by(apps::Program (*describe)(Flags&, int, char**), const std::string& line, Use use) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const auto argc = static_cast<int>(argv.size());
  Flags flags;
  const apps::Program program = describe(flags, argc, argv.data());
  const apps::Command* const command = apps::parse(program, argc, argv.data());
  return use(flags, *command);
}

/// Calls `use` with the flags and the command that `line` gives, whichever program it is of.
template <class Use>
auto with_flags(const std::string& line, Use use) {
  const std::string program = line.substr(0, line.find(' '));
  if (program == "ntm") return parsed_by(apps::ntm::ntm_program, line, use);
  if (program == "translate") return parsed_by(apps::translate::translate_program, line, use);
  if (program == "lm") return parsed_by(apps::lm::lm_program, line, use);
  check(program == "train_cifar", "{} is no program that trains", program);
  return parsed_by(apps::train_cifar::cifar_program, line, use);
}

using Made = std::unique_ptr<apps::TrainingProgram>;

Made made(const apps::ntm::NtmFlags& f) {
  return std::make_unique<apps::ntm::NtmProgram>(f.config);
}
Made made(const apps::translate::TranslateFlags& f) {
  return std::make_unique<apps::translate::TranslateProgram>(f.config, f.given);
}
Made made(const apps::lm::LmFlags& f) {
  if (f.config.model.model == apps::lm::kBert)
    return std::make_unique<apps::lm::BertProgram>(f.config);
  return std::make_unique<apps::lm::GptProgram>(f.config);
}
Made made(const apps::train_cifar::CifarFlags& f) {
  return std::make_unique<apps::train_cifar::CifarProgram>(f);
}

}  // namespace

int run_line(const std::string& line) {
  return with_flags(line, [](const auto&, const apps::Command& c) { return c.run(); });
}

std::unique_ptr<apps::TrainingProgram> program_of(const std::string& line) {
  return with_flags(line, [](const auto& flags, const apps::Command&) { return made(flags); });
}

std::vector<Training> all_trainings() {
  std::vector<Training> all = kPrograms;
  Training by_bleu = all[1], bert = all[2];
  by_bleu.name += " by BLEU";
  by_bleu.held_out += " --best bleu";
  by_bleu.metric = "valid_bleu";
  bert.name += " bert";
  bert.flags += " --model bert";
  all.insert(all.end(), {by_bleu, bert});
  return all;
}

}  // namespace tern::test
