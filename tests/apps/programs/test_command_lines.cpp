// Command lines of all programs: versions, mistakes in flags, numbers, --help, the completions and
// manual pages that are generated from the flags, and `tern`, which has the others as commands.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"
#include "tern/version.h"

namespace tern::test::test_command_lines {
namespace {

const std::vector<std::string> kPrograms = {"train_cifar", "translate", "lm", "ntm", "tern"};

const std::map<std::string, std::string> kParts = {  // commands of `tern`
    {"train-cifar", "train_cifar"},
    {"translate", "translate"},
    {"lm", "lm"},
    {"ntm", "ntm"}};

std::string share(const std::string& name) { return TERN_BINARY_DIR "/apps/share/" + name; }

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// A program's commands as --help lists them; one empty name for a program without commands.
std::vector<std::string> commands(const std::string& program) {
  const std::string help = run_program(program, {"--help"}).out;
  const size_t at = help.find("\nCommands:\n");
  if (at == help.npos) return {""};
  const std::string list = help.substr(at, help.find("\n\n", at) - at);
  std::vector<std::string> names;
  const std::regex line("\n  ([a-z-]+) ");
  for (std::sregex_iterator it(list.begin(), list.end(), line), end; it != end; ++it)
    names.push_back((*it)[1]);
  return names;
}

/// --help of a command ("train", "lm train"), or of the program if its name is empty.
std::string help_of(const std::string& program, const std::string& command,
                    const RunOptions& options = {}) {
  std::vector<std::string> arguments = words(command);
  arguments.emplace_back("--help");
  const Ran ran = run_program(program, arguments, options);
  CHECK(ran.code == 0);
  CHECK(ran.err == "");
  return ran.out;
}

/// The flags that --help lists at the start of its lines.
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

/// The examples in a --help text.
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

/// bash's completions of the last word.
std::set<std::string> completions(const std::string& program, const std::string& line,
                                  const std::string& folder = ".") {
  std::string script = "source <('" TERN_BINARY_DIR "/apps/" + program +
                       "' --print-completion bash); COMP_WORDS=(" + line +
                       "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tern_" + program +
                       "; printf '%s\n' \"${COMPREPLY[@]}\"";
  const Ran ran = run_words({"bash", "-u", "-c", script}, {.folder = folder});
  CHECK(ran.err == "");
  const std::vector<std::string> found = words(ran.out);
  return {found.begin(), found.end()};
}

TEST_CASE("programs: each prints tern's version") {
  for (const std::string& program : kPrograms) {
    const Ran ran = run_program(program, {"--version"});
    CHECK(ran.code == 0);
    CHECK(ran.err == "");
    // The other lines have what a bug report needs besides.
    CHECK(ran.out.starts_with(fmt::format("tern {}", kVersion)));
    CHECK(std::regex_search(
        ran.out, std::regex("\ncompiler: (g|clang)\\+\\+ [0-9.]+[^\n]*\nprocessor: .+, [0-9]+ "
                            "threads?\nvector code: (AVX|base|NEON)[^\n]*; bf16 products by "
                            "[^\n]+; the processor has [^\n]+\nBLAS: .*(BLAS|BLIS|MKL)[^\n]*, "
                            "kernels [^\n]+\nlicence: MIT")));
  }
  CHECK(run_program("tern", {"lm", "--version"}).out == run_program("lm", {"--version"}).out);
  CHECK(run_program("lm", {"train", "--version"}).out == run_program("lm", {"--version"}).out);
}

/// A line of command_lines.txt, its exit code, and parts of its output.
struct Case {
  std::string line;
  int code;
  std::vector<std::string> says;
};

std::vector<Case> cases() {
  std::istringstream in(read_file(TERN_SOURCE_DIR "/tests/apps/programs/command_lines.txt"));
  std::vector<Case> all;
  for (std::string line, answer; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    check(static_cast<bool>(std::getline(in, answer)) && answer.size() > 2, "no answer: {}", line);
    Case c{line, answer[0] - '0', {}};
    for (size_t at = 2, end; at < answer.size(); at = end + 4) {
      end = std::min(answer.find(" && ", at), answer.size());
      c.says.push_back(answer.substr(at, end - at));
    }
    all.push_back(std::move(c));
  }
  return all;
}

TEST_CASE("programs: the answer to a wrong command line names the mistake and a way out") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "pics");
  write_file(dir / "book.txt", "Once upon a time.\n");
  const RunOptions there = with_programs(dir.path());
  const std::vector<Case> all = cases();
  CHECK(all.size() > 180);
  for (const Case& c : all) {
    CAPTURE(c.line);
    const Ran ran = run_words({"sh", "-c", c.line + " < /dev/null"}, there);
    CHECK(ran.code == c.code);
    CHECK((c.code == 0 ? ran.err : ran.out) == "");
    for (const std::string& words : c.says)
      CHECK_MESSAGE(contains(c.code == 0 ? ran.out : ran.err, words), ran.err);
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 2);
    CHECK(std::filesystem::is_empty(dir / "pics"));
  }
}

TEST_CASE("programs: --help gives lm's defaults for texts, and beside them those for stories") {
  const std::string help = run_program("lm", {"train", "--help"}).out;
  const std::string page = read_file(share("tern-lm.1"));
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
  const std::string memory = "needs up to";  // the free memory after it changes
  CHECK(ran.err == "");
  CHECK(contains(ran.out, memory));
  CHECK(ran.out.substr(0, ran.out.find(memory)) == [&](const std::string& out) {
    return out.substr(0, out.find(memory));
  }(run_program("ntm", plain, there).out));
}

TEST_CASE("programs: --help begins with the usage and fits the terminal without breaking words") {
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
          // A longer flag or word has a line of its own.
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

TEST_CASE("programs: the flags of training commands are in groups") {
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
    CHECK(contains(help.substr(help.find("\nOptimizer:")), "\n  --lr X"));
  }
}

TEST_CASE(
    "programs: every command has working examples, and --help of the program has the first ones") {
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
        std::string path = command.empty() ? "" : example[1];
        if (program == "tern" && !example[2].starts_with("-") && path != "report")
          path += " " + example[2];
        const std::set<std::string> known = flags(program, path);
        for (const std::string& word : example) {
          CAPTURE(word);
          CHECK((!word.starts_with("--") || known.count(word) == 1));
        }
      }
    }
    if (program != "train_cifar") CHECK(examples(help_of(program, "", wide)) == first);
  }
}

TEST_CASE("programs: --help works anywhere on the line, but not as the value of a flag") {
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
  // A command to copy stays in one piece.
  write_file(dir / "w.pt", "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
  const Ran torch = run_program("train_cifar", {"--init", "w.pt", "--limit", "8"},
                                {.columns = 80, .folder = dir.path()});
  CHECK(torch.code == 2);
  CHECK(contains(torch.out, "this is a PyTorch file"));
  CHECK(std::regex_search(torch.out, std::regex("\n  python3 -c '[^\n]*' w.pt w.safetensors\n")));
}

TEST_CASE("programs: train_cifar --eval names the views that it averages over") {
  TempDir dir;
  const RunOptions there{.folder = dir.path()};
  REQUIRE(run_program(
              "train_cifar",
              {"--limit", "8", "--batch", "8", "--epochs", "1", "--tta", "mirror", "--out", "run"},
              there)
              .code == 0);
  Words eval = {"--eval", "run", "--data", "run/data", "--limit", "8"};
  CHECK(contains(run_program("train_cifar", eval, there).err, " % with mirror images\n"));
  eval.insert(eval.end(), {"--tta", "none"});
  CHECK_FALSE(contains(run_program("train_cifar", eval, there).err, " with "));
}

TEST_CASE("programs: only a new training says that it generates its pairs") {
  TempDir dir;
  const RunOptions there{.folder = dir.path()};
  const Ran first = run_program("translate",
                                {"train", "--first", "40", "--dim", "16", "--schedule", "constant",
                                 "--epochs", "1", "--out", "run"},
                                there);
  REQUIRE(first.code == 0);
  CHECK(contains(first.out + first.err, "no files given"));
  const Ran resumed =
      run_program("translate", {"train", "--resume", "run", "--epochs", "2"}, there);
  REQUIRE(resumed.code == 0);
  CHECK_FALSE(contains(resumed.out + resumed.err, "no files given"));
}

TEST_CASE("programs: completions and manual pages have every flag and command") {
  for (const std::string& program : kPrograms) {
    CAPTURE(program);
    const std::string zsh = run_program(program, {"--print-completion", "zsh"}).out,
                      man = run_program(program, {"--print-man"}).out;
    CHECK(zsh.starts_with("#compdef " + program + "\n"));
    size_t count = 0;
    for (const std::string& command : commands(program)) {
      CAPTURE(command);
      if (!command.empty()) {
        CHECK(completions(program, program + " " + command.substr(0, 2)).count(command) == 1);
        CHECK(contains(zsh, command + "\\:\""));
        CHECK(contains(man, "\n.SS " + program + " " + command + "\n"));
      }
      const bool part = program == "tern" && kParts.contains(command);  // has a page of its own
      const std::string page = part ? run_program(program, {command, "--print-man"}).out : man;
      const std::set<std::string> offered = completions(program, program + " " + command + " --");
      for (const std::string& flag : flags(program, command)) {
        CAPTURE(flag);
        ++count;
        CHECK(offered.count(flag) == 1);
        CHECK(std::regex_search(zsh, std::regex("'[^']*\\)?" + flag + "(=|\\[)")));
        CHECK(contains(page, "\\fB" + std::regex_replace(flag, std::regex("-"), "\\-") + "\\fR"));
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
  CHECK(completions("lm", "lm train --model = ll") == Words{"llama"});  // bash splits --model=ll so
  CHECK(completions("lm", "lm train --model =") == Words{"gpt", "llama", "gmlp", "bert"});
  CHECK(completions("lm", "lm train --optimizer-bits ''") == Words{"32", "8"});
  CHECK(completions("lm", "lm train --epochs ''") == Words{});
  CHECK(completions("lm", "lm train --out r", there) == Words{"runs"});
  CHECK(completions("lm", "lm train --text r", there) == Words{"runs", "rows.txt"});
  CHECK(completions("lm", "lm train --text a.txt r", there) == Words{"runs", "rows.txt"});
  CHECK(completions("lm", "lm train --text a.txt --top") == Words{});
  CHECK(completions("lm", "lm generate --top") == Words{"--top-k", "--top-p"});
  CHECK(completions("ntm", "ntm --v") == Words{"--version"});
  CHECK(completions("tern", "tern t") == Words{"train-cifar", "translate"});
  CHECK(completions("tern", "tern report --o") == Words{"--out"});
  CHECK(completions("tern", "tern report r", there) == Words{"runs"});
  CHECK(completions("tern", "tern train-cifar --ep") == Words{"--epochs"});
  CHECK(completions("tern", "tern lm t") == Words{"train"});
  CHECK(completions("tern", "tern lm train --model g") == Words{"gpt", "gmlp"});
  CHECK(completions("tern", "tern lm train --model = ll") == Words{"llama"});
  CHECK(completions("tern", "tern lm train --text a.txt r", there) == Words{"runs", "rows.txt"});
}

TEST_CASE(
    "programs: generated completions and manual pages have the syntax of the shell and of man") {
  CHECK(run_words({"bash", "-n", share("tern.bash")}).code == 0);
  CHECK(run_program("tern", {"--print-completion", "bash"}).out == read_file(share("tern.bash")));
  CHECK(run_program("tern", {"--print-completion", "zsh"}).out == read_file(share("_tern")));
  CHECK(run_program("tern", {"--print-man"}).out == read_file(share("tern.1")));
  CHECK(run_program("tern", {"lm", "--print-man"}).out == read_file(share("tern-lm.1")));
  for (const auto& [command, program] : kParts) {
    CHECK(
        contains(read_file(share("tern.1")),
                 "\\fBtern\\-" + std::regex_replace(command, std::regex("-"), "\\-") + "\\fR(1)"));
    CHECK(contains(read_file(share("_tern")), "\n_tern_" + program + "() {\n"));
  }
  const Ran fish = run_program("lm", {"--print-completion", "fish"});
  CHECK(fish.code == 2);
  CHECK(contains(fish.err, "bash or zsh, not 'fish'"));
  const std::string man = read_file(share("tern-translate.1"));
  CHECK(man.starts_with(".TH TERN-TRANSLATE 1 \"\" \"tern "));
  CHECK(contains(man, "\n\\fBtern translate\\fR \\fBtrain\\fR [FLAGS]\n"));
  CHECK(contains(man, "\n.nh\n"));  // no hyphenation: a hyphenated flag cannot be copied
  for (const char* section :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS"})
    CHECK(contains(man, std::string("\n.SH ") + section + "\n"));
  std::istringstream lines(man);  // a line that starts with a dot must be a known request
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("."))
      CHECK(std::regex_match(line, std::regex("\\.(TH|SH|SS|PP|TP|br|nh|ad)( .*)?")));
}

TEST_CASE("programs: docs/commands.md is their --help; tools/commands_page.sh writes it") {
  const std::string page = read_file(TERN_SOURCE_DIR "/docs/commands.md");
  std::string said = page.substr(0, page.find("## "));
  for (const std::string& program : kPrograms) said += run_program(program, {"--print-help"}).out;
  CHECK((page == said));  // no message: the texts are long
  // Each command has a section with its --help text.
  for (const std::string& program : kPrograms)
    for (const std::string& command : commands(program)) {
      if (program == "tern" && kParts.contains(command)) continue;
      const std::string name = command.empty() ? "## " + program : "### " + program + " " + command;
      CHECK(contains(page, "\n" + name + "\n\n```text\n" +
                               help_of(program, command, {.environment = {{"COLUMNS", "80"}}}) +
                               "```\n"));
    }
}

TEST_CASE("tern: every program is a command, whose help names it so") {
  const RunOptions wide{.environment = {{"COLUMNS", "9999"}}};
  for (const auto& part : kParts) {
    const std::string command = part.first, program = part.second;
    CAPTURE(command);
    std::vector<std::string> inner = commands(program);
    if (inner[0] != "") inner.insert(inner.begin(), "");
    for (const std::string& name : inner) {
      CAPTURE(name);
      // The same text, but for usage, examples and the line on flags.
      const std::regex called("(Usage: |\n  |`)" + program + " ");
      CHECK(help_of("tern", command + " " + name, wide) ==
            std::regex_replace(help_of(program, name, wide), called, "$1tern " + command + " "));
      std::vector<std::string> help = words("help " + command + " " + name);
      CHECK(run_program("tern", help, wide).out == help_of("tern", command + " " + name, wide));
    }
  }
  CHECK(run_program("tern", {"help"}).out == help_of("tern", ""));
  const Ran bare = run_program("tern", {});
  CHECK(bare.code == 2);
  CHECK(bare.out == "");
  CHECK(bare.err == help_of("tern", ""));
}

TEST_CASE("tern: messages name commands as the process was started") {
  const std::string build = TERN_BINARY_DIR "/apps/";
  for (const auto& started : std::vector<std::pair<std::string, std::string>>{
           {build + "tern ntm", build + "tern ntm"},
           {build + "ntm", build + "ntm"},
           {"exec -a '../run tern' " + build + "tern ntm", "../run tern ntm"},
           {"exec -a '../run ntm' " + build + "ntm", "../run ntm"}}) {
    const std::string start = started.first, as = started.second;
    CAPTURE(start);
    TempDir dir;
    const Ran ran = run_words({"bash", "-c",
                               start + " train --hidden 6 --slots 9 --width 4 "
                                       "--sequences 2 --every 2 --out it"},
                              {.folder = dir.path()});
    CHECK_MESSAGE(ran.code == 0, ran.err);
    CHECK(contains(ran.err, "\nto test it: " + as + " eval --model it\n"));
    const std::string record = read_file(dir / "it/run.json");
    CHECK(contains(record, "\"command\": \"" + as + " train --hidden 6 "));
    CHECK(contains(record, "\"resume\": \"" + as + " train --resume it\""));
    // A run of another program is opened by a program that was started the same way.
    const std::string other = std::regex_replace(start, std::regex("ntm"), "lm");
    const Ran refused =
        run_words({"bash", "-c", other + " train --resume it"}, {.folder = dir.path()});
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "; " + as + " train --resume it continues it\n"));
  }
}

}  // namespace
}  // namespace tern::test::test_command_lines
