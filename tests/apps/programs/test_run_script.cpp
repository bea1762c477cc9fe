// The script ./run in a small copy of the tree. cmake, g++, apt-get and the like are replaced by
// scripts that record their calls.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_run_script {
namespace {

namespace fs = std::filesystem;

const std::string kSource = TERN_SOURCE_DIR;

// Like cmake: refuses a build folder configured for other sources. Built programs print their
// arguments.
constexpr const char* kCmake = R"(case "$1" in
-S)
  echo "CXX=$CXX" >> "$CALLS"
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$4/CMakeCache.txt" 2>/dev/null)
  case "$home" in ''|"$2") ;; *) echo "CMakeCache.txt is of $home"; exit 1 ;; esac
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" > "$4/CMakeCache.txt" ;;
--build)
  mkdir -p "$2/apps"
  printf '#!/bin/sh\necho ntm runs "$@"\n' > "$2/apps/ntm"
  chmod +x "$2/apps/ntm" ;;
esac
)";

struct Clone {
  TempDir dir;
  std::string root = dir / "tern", bin = dir / "bin";

  Clone() {
    fs::create_directories(root + "/docs");
    fs::copy_file(kSource + "/run", root + "/run");
    fs::copy_file(kSource + "/docs/commands.md", root + "/docs/commands.md");
    for (const char* name : {"train_cifar", "translate", "lm", "ntm", "tern"}) {
      const std::string folder = std::string("/apps/") + name;
      fs::create_directories(root + folder);
      fs::copy_file(kSource + folder + "/main.cpp", root + folder + "/main.cpp");
    }
    fs::create_directory(bin);
    stub("cmake", kCmake);
    stub("ninja", "");
    stub("g++", "echo ${GXX-12}\n");
    stub("dpkg-query",
         "case \" $MISSING \" in *\" $4 \"*) ;; *) echo install ok installed ;; esac\n");
    stub("apt-get", "");
    stub("sudo", "exec \"$@\"\n");
  }
  void stub(const std::string& name, const std::string& body) const {
    write_file(bin + "/" + name,
               "#!/bin/sh\necho " + name + " \"$@\" >> '" + (dir / "calls") + "'\n" + body);
    fs::permissions(bin + "/" + name, fs::perms::owner_all);
  }
  /// `typed`: input typed into a terminal; if empty, there is no terminal.
  Ran run(const Words& words, std::map<std::string, std::string> environment = {},
          const std::string& typed = "") const {
    const char* const path = std::getenv("PATH");
    environment.insert({"PATH", bin + ":" + std::string(path ? path : "")});
    environment.insert({"CI", ""});
    environment.insert({"CXX", "g++"});
    environment.insert({"CALLS", dir / "calls"});
    return run_words(with({root + "/run"}, words), {.columns = typed.empty() ? 0 : 200,
                                                    .folder = dir.path(),
                                                    .typed = typed,
                                                    .environment = environment});
  }
  std::string calls() const {
    return fs::exists(dir / "calls") ? read_file(dir / "calls") : std::string();
  }
};

TEST_CASE("run: prints how to use it") {
  const std::string script = kSource + "/run";
  const Ran bare = run_words({script});
  CHECK(bare.code == 2);
  CHECK(bare.out == "");
  for (const char* name :
       {"train_cifar", "translate", "lm", "ntm", "install", "tests", "bench", "fuzz"})
    CHECK(std::regex_search(bare.err, std::regex(std::string("\n  ") + name + " +[a-z]")));
  for (const std::string& row : rows(bare.err)) CHECK(characters(row) <= 80);
  const Ran help = run_words({script, "--help"});
  CHECK(help.code == 0);
  CHECK(help.out == bare.err);
  // Works with sh, too. Without bash it says so.
  CHECK(run_words({"sh", script, "--help"}).out == help.out);
  TempDir none;
  const Ran without = run_words({"/bin/sh", script}, {.environment = {{"PATH", none.path()}}});
  CHECK(without.code == 2);
  CHECK(without.err == "run: this script needs bash\n");
}

TEST_CASE("run: an unknown program name is answered with the nearest one") {
  const std::string script = kSource + "/run";
  for (const auto& [word, meant] : std::vector<std::pair<std::string, std::string>>{
           {"train_cifer", "; did you mean train_cifar?"},
           {"train", "; did you mean train_cifar?"},
           {"tarnslate", "; did you mean translate?"},
           {"test", "; did you mean tests?"},
           {"report", "; did you mean tern report?"},
           {"xyzzy", ""}}) {
    const Ran ran = run_words({script, word});
    CHECK(ran.code == 2);
    CHECK(ran.err.substr(0, ran.err.find('\n')) ==
          "run: there is no program '" + word + "'" + meant);
  }
}

TEST_CASE("run: --help needs no build, and is the program's text") {
  const Clone clone;
  for (const Words& words :
       {Words{"train_cifar", "--help"}, Words{"lm", "--help"}, Words{"lm", "train", "-h"},
        Words{"translate", "run", "--beam", "5", "--help"}, Words{"tern", "report", "--help"}}) {
    CAPTURE(words[0]);
    const Ran shown = clone.run(words);
    CHECK(shown.code == 0);
    const Ran said = run_program(words[0], {words.begin() + 1, words.end()},
                                 {.environment = {{"COLUMNS", "80"}}});
    CHECK(shown.out == said.out);
  }
  CHECK(clone.run({"tern", "lm", "train", "--help"}).out ==
        run_program("lm", {"train", "--help"}, {.environment = {{"COLUMNS", "80"}}}).out);
  CHECK(clone.run({"train-cifar", "--help"}).out == clone.run({"train_cifar", "--help"}).out);
  const Ran misspelt = clone.run({"ntm", "trian", "--help"});
  CHECK(misspelt.code == 2);
  CHECK(misspelt.err == "run: ntm has no command 'trian'; its commands are: train, eval, export\n");
  CHECK(clone.calls() == "");
  CHECK_FALSE(fs::exists(clone.root + "/build"));
  // A built program prints its own help. After -- there are no flags.
  REQUIRE(clone.run({"ntm", "--", "--help"}).out == "ntm runs -- --help\n");
  CHECK(clone.run({"ntm", "--help"}).out == "ntm runs --help\n");
  // But an older one may lack flags.
  fs::last_write_time(clone.root + "/docs/commands.md",
                      fs::last_write_time(clone.root + "/build/apps/ntm") + std::chrono::hours(1));
  CHECK(clone.run({"ntm", "--help"}).out.starts_with("Usage: ntm COMMAND"));
}

TEST_CASE("run: a copied or moved clone is configured again") {
  const Clone clone;
  const Ran first = clone.run({"ntm", "a"});
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(first.out == "ntm runs a\n");
  CHECK_FALSE(contains(first.err, "anew"));
  CHECK_FALSE(contains(clone.run({"ntm"}).err, "anew"));
  const std::string old = clone.root + "/build/CMakeFiles/old";
  fs::create_directories(old);
  write_file(clone.root + "/build/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/else where\n");
  const Ran moved = clone.run({"ntm", "b"});
  CHECK_MESSAGE(moved.code == 0, moved.err);
  CHECK(moved.out == "ntm runs b\n");
  CHECK(contains(moved.err,
                 "build was configured for /else where: this clone was copied or moved; "
                 "configuring anew"));
  CHECK_FALSE(fs::exists(old));
}

TEST_CASE("run: packages are installed only with consent") {
  const std::map<std::string, std::string> missing = {{"MISSING", "zlib1g-dev"}};
  const auto installs = [](const Clone& clone) {
    return contains(clone.calls(), "apt-get -q install -y --no-install-recommends zlib1g-dev\n");
  };
  {
    const Clone clone;
    const Ran ran = clone.run({"ntm"}, missing);
    CHECK(ran.out == "ntm runs\n");  // they may be present in another form
    CHECK(contains(ran.err,
                   "packages are missing: zlib1g-dev. Without a terminal to ask on, nothing is "
                   "installed; ./run --yes ntm does it, or: apt-get install zlib1g-dev"));
    CHECK_FALSE(contains(clone.calls(), "apt-get"));
    CHECK(clone.run({"--yes", "ntm"}, missing).code == 0);
    CHECK(installs(clone));
  }
  {
    const Clone clone;
    CHECK(clone.run({"ntm"}, {{"MISSING", "zlib1g-dev"}, {"CI", "true"}}).code == 0);
    CHECK(installs(clone));
  }
  for (const char* answer : {"n\n", "y\n"}) {
    const Clone clone;
    const Ran ran = clone.run({"ntm"}, missing, answer);
    CHECK(contains(ran.out, "Install them with apt-get? [Y/n]"));
    CHECK(installs(clone) == (answer[0] == 'y'));
  }
}

TEST_CASE("run: an old compiler is reported before anything is built") {
  const Clone clone;
  clone.stub("g++-9", "echo 9\n");
  const Ran old = clone.run({"ntm"}, {{"CXX", "g++-9"}});
  CHECK(old.code == 1);
  CHECK(contains(old.err, "g++-9 is version 9, and tern needs g++ 12, clang 14 or newer"));
  CHECK(contains(old.err, "CXX=g++-12 ./run ntm"));
  CHECK_FALSE(contains(clone.calls(), "cmake"));
  CHECK(clone.run({"ntm"}, {{"GXX", "13.2.0"}}).code == 0);
  CHECK(clone.run({"ntm"}, {{"GXX", "unknown"}}).code == 0);
}

TEST_CASE("run: beside a g++ that is too old it takes a newer one") {
  const Clone clone;
  clone.stub("g++-99", "echo 99\n");
  const Ran ran = clone.run({"ntm"}, {{"GXX", "11"}});
  CHECK_MESSAGE(ran.code == 0, ran.err);
  CHECK(contains(ran.err, "g++ is version 11, too old for tern: compiling with g++-99"));
  CHECK_FALSE(contains(ran.err, "packages are missing"));
  CHECK(contains(clone.calls(), "CXX=g++-99\n"));
  CHECK(contains(clone.run({"ntm"}, {{"CXX", "g++-98"}}).err, "packages are missing: g++-98."));
}

TEST_CASE("run: install also wants make, which CMake takes by itself in a project of one's own") {
  const Clone clone;
  const std::string tools = clone.dir / "tools";  // those of the system without make
  fs::create_directory(tools);
  for (const fs::directory_entry& tool : fs::directory_iterator("/usr/bin"))
    if (tool.path().filename() != "make")
      fs::create_symlink(tool.path(), fs::path(tools) / tool.path().filename());
  const std::string path = clone.bin + ":" + tools;
  const Ran ran = clone.run({"install", clone.dir / "to"}, {{"PATH", path}});
  CHECK(contains(ran.err, "packages are missing: make."));
  CHECK_FALSE(contains(clone.run({"ntm"}, {{"PATH", path}}).err, "missing"));
}

TEST_CASE("run: --build names the folder to build in") {
  const Clone clone;
  const std::string to = clone.dir / "another place";
  const Ran ran = clone.run({"--build", to, "ntm"});
  CHECK_MESSAGE(ran.code == 0, ran.err);
  CHECK(fs::exists(to + "/apps/ntm"));
  CHECK_FALSE(fs::exists(clone.root + "/build"));
  write_file(clone.dir / "file", "");
  const Ran none = clone.run({"--build", clone.dir / "file/build", "ntm"});
  CHECK(none.code == 1);
  CHECK(contains(none.err, "file/build; build in another folder: ./run --build DIR ntm"));
  CHECK(clone.run({"--build"}).code == 2);
}

TEST_CASE("run: install installs libraries and programs, and prints where") {
  const Clone clone;
  const std::string to = clone.dir / "my tern";
  const Ran ran = clone.run({"install", to});
  CHECK_MESSAGE(ran.code == 0, ran.err);
  for (const char* part : {"libraries", "programs"})
    CHECK(contains(clone.calls(), std::string(" --component ") + part + " --prefix " + to + "\n"));
  CHECK(contains(ran.err, "the program is " + to + "/bin/tern; its commands are the programs"));
  CHECK(contains(ran.err, "export PATH=\"" + to + "/bin:$PATH\""));
  const Ran there =
      clone.run({"install", to},
                {{"PATH", clone.bin + ":" + to + "/bin:" + std::string(std::getenv("PATH"))}});
  CHECK(there.code == 0);
  CHECK_FALSE(contains(there.err, "export PATH"));
  const Ran empty = clone.run({"install", ""});
  CHECK(empty.code == 2);
  CHECK(contains(empty.err, "install: the name of the folder is empty"));
}

}  // namespace
}  // namespace tern::test::test_run_script
