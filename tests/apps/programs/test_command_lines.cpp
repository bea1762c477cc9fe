// What programs say of flags: versions, misspelt ones, numbers, idle ones; and what is generated
// from them for shells and man.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_command_lines {
namespace {

const std::vector<std::string> kPrograms = {"train_cifar", "translate", "lm", "ntm", "tern"};

std::string share(const std::string& name) { return TERN_BINARY_DIR "/apps/share/" + name; }

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// A program's commands by its --help; a program without any has one of no name.
std::vector<std::string> commands(const std::string& program) {
  const std::string help = run_program(program, {"--help"}).out;
  const size_t at = help.find("\nCommands:\n");
  if (at == help.npos) return {""};
  const std::string list = help.substr(at, help.find("\n\n", at) - at);
  std::vector<std::string> names;
  const std::regex line("\n  ([a-z]+) ");
  for (std::sregex_iterator it(list.begin(), list.end(), line), end; it != end; ++it)
    names.push_back((*it)[1]);
  return names;
}

/// --help of a command, or of the program if its name is empty.
std::string help_of(const std::string& program, const std::string& command,
                    const RunOptions& options = {}) {
  std::vector<std::string> arguments = {"--help"};
  if (!command.empty()) arguments.insert(arguments.begin(), command);
  const Ran ran = run_program(program, arguments, options);
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  return ran.out;
}

/// The flags that --help lists in front of its lines.
std::set<std::string> flags(const std::string& program, const std::string& command) {
  const std::string help = help_of(program, command);
  std::set<std::string> names;
  const std::regex line("\n  ((?:-[a-z], |--[-a-z0-9]+, )?--[-a-z0-9]+)");
  const std::regex name("--[a-z0-9][-a-z0-9]*");
  for (std::sregex_iterator it(help.begin(), help.end(), line), end; it != end; ++it) {
    const std::string list = (*it)[1];
    for (std::sregex_iterator n(list.begin(), list.end(), name); n != end; ++n)
      names.insert(n->str());
  }
  return names;
}

/// The examples of a --help.
std::vector<std::string> examples(const std::string& help) {
  const std::string heading = "\n\nExamples:\n";
  const size_t at = help.find(heading);
  if (at == help.npos) return {};
  std::istringstream in(help.substr(at + heading.size()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && line.starts_with("  ");)
    lines.push_back(line.substr(2));
  return lines;
}

/// What bash offers for the last of the words.
std::set<std::string> completions(const std::string& program, const std::string& line,
                                  const std::string& folder = ".") {
  std::string script = "source '" + share(program + ".bash") + "'; COMP_WORDS=(" + line +
                       "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tern_" + program +
                       "; printf '%s\n' \"${COMPREPLY[@]}\"";
  const Ran ran = run_words({"bash", "-u", "-c", script}, {.folder = folder});
  CHECK(ran.err == "");
  const std::vector<std::string> found = words(ran.out);
  return {found.begin(), found.end()};
}

TEST_CASE("programs: each says which tern it is of") {
  const std::string list = read_file(TERN_SOURCE_DIR "/CMakeLists.txt");
  std::smatch version;
  REQUIRE(std::regex_search(list, version, std::regex("project\\(tern VERSION ([0-9.]+)")));
  for (const std::string& program : kPrograms) {
    const Ran ran = run_program(program, {"--version"});
    CHECK(ran.code == 0);
    CHECK(ran.err == "");
    CHECK(ran.out.starts_with(program + " (tern) " + version[1].str()));
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
  }
  CHECK(run_program("lm", {"train", "--version"}).out == run_program("lm", {"--version"}).out);
}

struct Refused {
  const char* line;
  const char* says;
};

TEST_CASE("programs: what is misspelt, no number or would change nothing is refused by name") {
  const Refused kRefused[] = {
      {"train_cifar --epoch 3", "there is no flag --epoch; did you mean --epochs?"},
      {"train_cifar --label_smoothing=1", "did you mean --label-smoothing?"},
      {"lm generate --model a --top-k 5 --tokens 5", "generate has no flag --tokens"},
      {"train_cifar --model gmlp-5m", "gmlp-5m'; it must be one of gmlp-4m, "},
      {"train_cifar --model gmlp-5m", "; did you mean gmlp-4m?"},
      {"train_cifar 7", "nothing takes the word '7'"},
      {"train_cifar --epochs 1.5", "--epochs is '1.5'; it must be a whole number from 1 to"},
      {"train_cifar --epochs 1e99", "--epochs is '1e99'; it must be a whole number from 1 to"},
      {"train_cifar --epochs nan", "--epochs is 'nan'; it must be a whole number"},
      {"train_cifar --epochs=", "--epochs is ''; it must be a whole number"},
      {"train_cifar --epochs", "--epochs needs a value: --epochs N"},
      {"train_cifar --out --dry-run", "--out needs a value: --out DIR"},
      {"train_cifar --epochs 3 --epochs 4", "--epochs is given twice"},
      {"train_cifar --mixup 1001", "--mixup is '1001'; it must be a number from 0 to 1000"},
      {"train_cifar --lr 0", "--lr is '0'; it must be a number above 0 and at most"},
      {"train_cifar --dry-run=maybe", "--dry-run is 'maybe'; it must be true or false"},
      {"train_cifar -e 3", "there is no flag -e (see --help)"},
      {"train_cifar -- --epochs", "nothing takes the word '--epochs'"},
      {"lm generate --prompt a", "--model is missing: folder of a trained model"},
      {"lm fill --model x", "text is missing"},
      {"lm fill --model x a b", "nothing takes the word 'b'"},
      {"tern report", "runs is missing"},
      {"train_cifar --xyzzy", "there is no flag --xyzzy (see --help)"},
      {"lm trian", "there is no command 'trian'; did you mean train?"},
      {"lm --epochs 3", "there is no flag --epochs; did you mean lm train --epochs?"},
      {"lm train --wieght-decay 0",
       "train has no flag --wieght-decay; did you mean --weight-decay?"},
      {"lm eval --modle x --text y", "did you mean --model?"},  // which is missing then
      {"lm train --model lama", "; did you mean llama?"},
      {"lm generate --model x --temperature 0 --seed 3", "--seed would change nothing"},
      {"lm generate --model x --temperature 0 --top-p 0.9", "--top-p would change nothing"},
      {"lm generate --model x --top-k 1 --temperature 2", "--temperature would change nothing"},
      {"lm train --model llama --cased", "--cased would change nothing"},
      {"translate train --bpe 100", "--bpe would change nothing"},
      {"translate train --hold-out 0 --best bleu", "--best would change nothing"},
      {"translate run --model x --alpha 1", "--alpha would change nothing"},
      {"translate score --hypothesis x", "did you mean --hypotheses?"},
      {"ntm train --task cpoy", "did you mean copy?"},
      {"ntm train --baseline --slots 9", "--slots would change nothing"},
      {"ntm train --sequences 4 --every 9", "--every 9 would change nothing"},
      {"ntm train --heads 0", "--heads is '0'; it must be a whole number from 1 to 64"},
      {"ntm eval --lengths 10,1.5", "--lengths is '1.5'; it must be a whole number"},
      {"ntm train --without content,shift,content", "--without names content twice"},
      {"ntm train --without content --without content", "--without names content twice"},
      {"ntm eval --lengths 10,20,1e1", "--lengths names 10 twice"},
      {"lm train --text a b a", "--text names a twice"},
      {"lm eval --model m --text a --text a", "--text names a twice"},
      {"train_cifar --predict a.png --weights w --format xml", "one of text, csv, jsonl"},
      {"train_cifar --top 3", "--top would change nothing: it is for --predict"},
  };
  TempDir empty;
  for (const Refused& refused : kRefused) {
    CAPTURE(refused.line);
    std::vector<std::string> line = words(refused.line);
    const std::string program = line[0];
    line.erase(line.begin());
    const Ran ran = run_program(program, line, {.folder = empty.path()});
    CHECK(ran.code == 2);
    CHECK(ran.out == "");
    CHECK_MESSAGE(has(ran.err, refused.says), ran.err);
    CHECK(std::filesystem::is_empty(empty.path()));
  }
}

TEST_CASE("programs: lm's defaults are those of texts, and stories have theirs beside them") {
  const std::string help = run_program("lm", {"train", "--help"}).out;
  const std::string page = read_file(share("lm.1"));
  const std::string line = std::regex_replace(help, std::regex("\\s+"), " ");
  CHECK(contains(line, " --vocab N size of the vocabulary to learn"));
  CHECK(contains(line, " (default 2048) --"));
  CHECK(contains(line, "the defaults are --vocab 512 --epochs 8 --batch 4 --lr 0.003 --dropout 0"));
  CHECK(contains(page, " (default 2048)\n"));
}

TEST_CASE("programs: a number may be written with an exponent") {
  TempDir empty;
  const RunOptions there{.folder = empty.path()};
  const std::vector<std::string> exponents = {"train", "--sequences", "1e3",   "--every",
                                              "5e2",   "--lr",        "1e-3",  "--heads",
                                              "1e0,2", "--seed",      "1.2e1", "--dry-run"};
  const std::vector<std::string> plain = {"train", "--sequences", "1000",  "--every",
                                          "500",   "--lr",        "0.001", "--heads",
                                          "1,2",   "--seed",      "12",    "--dry-run"};
  const Ran ran = run_program("ntm", exponents, there);
  const std::string memory = "needs up to";  // what is free behind it changes
  CHECK(ran.err == "");
  CHECK(has(ran.out, memory));
  CHECK(ran.out.substr(0, ran.out.find(memory)) == [&](const std::string& out) {
    return out.substr(0, out.find(memory));
  }(run_program("ntm", plain, there).out));
}

TEST_CASE("programs: --help begins with the usage and fits the terminal, no word broken") {
  for (const std::string& program : kPrograms) {
    std::vector<std::string> all = commands(program);
    if (all[0] != "") all.insert(all.begin(), "");
    for (const std::string& command : all) {
      CAPTURE(program + " " + command);
      const std::string whole = help_of(program, command, {.environment = {{"COLUMNS", "9999"}}});
      CHECK(whole.starts_with("Usage: " + program + " " + command));
      for (const int columns : {20, 40, 60, 80, 200}) {
        CAPTURE(columns);
        const std::string help = help_of(program, command, {.columns = columns});
        CHECK(words(help) == words(whole));
        for (const std::string& row : rows(help)) {
          CAPTURE(row);
          // A flag or a word that is longer has a line of its own.
          const std::string text = row.substr(row.find_first_not_of(' '));
          CHECK((characters(row) <= std::max(columns, 40) || words(text).size() <= 2));
        }
        if (columns == 60)
          CHECK(help_of(program, command, {.environment = {{"COLUMNS", "60"}}}) == help);
        if (columns == 80) CHECK(help_of(program, command) == help);
      }
    }
  }
}

TEST_CASE("programs: a training's flags are in groups") {
  for (const std::string& program : kPrograms) {
    if (program == "tern") continue;
    CAPTURE(program);
    const std::string command = commands(program)[0];
    const std::string help = help_of(program, command, {.environment = {{"COLUMNS", "9999"}}});
    size_t at = 0;
    for (const char* group : {"Data", "Model", "Training", "Optimizer", "Memory and speed",
                              "Run and output", "Help", "Examples"}) {
      CAPTURE(group);
      const size_t next = help.find(fmt::format("\n\n{}:\n  ", group));
      REQUIRE(next != help.npos);
      CHECK(next > at);
      at = next;
    }
    CHECK(has(help.substr(help.find("\nOptimizer:")), "\n  --lr X"));
  }
}

TEST_CASE("programs: every command has real examples, and a program shows the first of each") {
  const RunOptions wide{.environment = {{"COLUMNS", "9999"}}};
  for (const std::string& program : kPrograms) {
    CAPTURE(program);
    std::vector<std::string> first;
    for (const std::string& command : commands(program)) {
      CAPTURE(command);
      const std::vector<std::string> lines = examples(help_of(program, command, wide));
      REQUIRE(!lines.empty());
      first.push_back(lines[0]);
      for (const std::string& line : lines) {
        const std::vector<std::string> example = words(line);
        REQUIRE(example.size() > 2);
        CHECK(example[0] == program);
        const std::set<std::string> known = flags(program, command.empty() ? "" : example[1]);
        for (const std::string& word : example) {
          CAPTURE(word);
          CHECK((!word.starts_with("--") || known.count(word) == 1));
        }
      }
    }
    if (program != "train_cifar") CHECK(examples(help_of(program, "", wide)) == first);
  }
}

TEST_CASE("programs: --help is one of its flags, anywhere, but no value of another") {
  const std::string help = help_of("ntm", "train");
  CHECK(run_program("ntm", {"train", "--sequences", "9", "--help"}).out == help);
  CHECK(run_program("ntm", {"train", "--seqences", "9", "-h"}).out == help);
  CHECK(run_program("ntm", {"train", "--without", "content", "--help"}).out == help);
  CHECK(run_program("lm", {"fill", "--model", "x", "--", "--help"}).code == 2);
}

TEST_CASE("programs: an error fits the terminal, and is one line in a pipe") {
  TempDir dir;
  const RunOptions pipe{.folder = dir.path()};
  const std::vector<std::string> line = {"--model", "gmlp-5m"};
  const Ran piped = run_program("train_cifar", line, pipe);
  CHECK(std::count(piped.err.begin(), piped.err.end(), '\n') == 1);
  for (const int columns : {40, 80}) {
    const Ran ran = run_program("train_cifar", line, {.columns = columns, .folder = dir.path()});
    CHECK(words(ran.out) == words(piped.err));
    CHECK(rows(ran.out).size() > 1);
    for (const std::string& row : rows(ran.out)) CHECK(characters(row) <= columns);
  }
  // A command that is to be copied stays in one piece.
  write_file(dir / "w.pt", std::string("PK\3\4", 4) + "archive/data.pkl");
  const Ran torch = run_program("train_cifar", {"--init", "w.pt", "--limit", "8"},
                                {.columns = 80, .folder = dir.path()});
  CHECK(torch.code == 2);
  CHECK(has(torch.out, "this is a PyTorch file"));
  CHECK(std::regex_search(torch.out, std::regex("\n  python3 -c '[^\n]*' w.pt w.safetensors\n")));
}

TEST_CASE("programs: completion and manual page have every flag and command") {
  for (const std::string& program : kPrograms) {
    CAPTURE(program);
    const std::string zsh = read_file(share("_" + program)), man = read_file(share(program + ".1"));
    CHECK(run_words({"bash", "-n", share(program + ".bash")}).code == 0);
    CHECK(zsh.starts_with("#compdef " + program + "\n"));
    size_t count = 0;
    for (const std::string& command : commands(program)) {
      CAPTURE(command);
      if (!command.empty()) {
        CHECK(completions(program, program + " " + command.substr(0, 2)).count(command) == 1);
        CHECK(has(zsh, command + "\\:\""));
        CHECK(has(man, "\n.SS " + program + " " + command + "\n"));
      }
      const std::set<std::string> offered = completions(program, program + " " + command + " --");
      for (const std::string& flag : flags(program, command)) {
        CAPTURE(flag);
        ++count;
        CHECK(offered.count(flag) == 1);
        CHECK(std::regex_search(zsh, std::regex("'[^']*\\)?" + flag + "(=|\\[)")));
        CHECK(has(man, "\\fB" + std::regex_replace(flag, std::regex("-"), "\\-") + "\\fR"));
      }
    }
    CHECK(count >= (program == "tern" ? 2 : 20));
  }
}

TEST_CASE("programs: bash completes flags, choices, folders and files") {
  using Words = std::set<std::string>;
  TempDir dir;
  std::filesystem::create_directory(dir / "runs");
  write_file(dir / "rows.txt", "");
  const std::string there = dir.path();
  CHECK(completions("train_cifar", "train_cifar --ep") == Words{"--epochs"});
  CHECK(completions("lm", "lm t") == Words{"train"});
  CHECK(completions("lm", "lm train --model g") == Words{"gpt", "gmlp"});
  CHECK(completions("lm", "lm train --model = ll") == Words{"llama"});  // as bash cuts --model=ll
  CHECK(completions("lm", "lm train --model =") == Words{"gpt", "llama", "gmlp", "bert"});
  CHECK(completions("lm", "lm train --optimizer-bits ''") == Words{"32", "8"});
  CHECK(completions("lm", "lm train --epochs ''") == Words{});
  CHECK(completions("lm", "lm train --out r", there) == Words{"runs"});
  CHECK(completions("lm", "lm train --text r", there) == Words{"runs", "rows.txt"});
  CHECK(completions("lm", "lm train --text a.txt r", there) == Words{"runs", "rows.txt"});
  CHECK(completions("lm", "lm train --text a.txt --top") == Words{});
  CHECK(completions("lm", "lm generate --top") == Words{"--top-k", "--top-p"});
  CHECK(completions("ntm", "ntm --v") == Words{"--version"});
}

TEST_CASE("programs: the generated texts are those that the shell and man ask for") {
  CHECK(run_program("lm", {"--print-completion", "bash"}).out == read_file(share("lm.bash")));
  CHECK(run_program("lm", {"--print-man"}).out == read_file(share("lm.1")));
  const Ran fish = run_program("lm", {"--print-completion", "fish"});
  CHECK(fish.code == 2);
  CHECK(has(fish.err, "bash or zsh, not 'fish'"));
  const std::string man = read_file(share("translate.1"));
  CHECK(man.starts_with(".TH TRANSLATE 1 \"\" \"tern "));
  CHECK(has(man, "\n.nh\n"));  // a flag that is hyphenated cannot be copied
  for (const char* section :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS"})
    CHECK(has(man, std::string("\n.SH ") + section + "\n"));
  std::istringstream lines(man);  // a request is known, or text begins the line
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("."))
      CHECK(std::regex_match(line, std::regex("\\.(TH|SH|SS|PP|TP|br|nh|ad)( .*)?")));
}

}  // namespace
}  // namespace tern::test::test_command_lines
