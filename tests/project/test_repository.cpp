// Rules of the repository that no compiler checks: which rooms may include and link which, no
// circles of includes, which headers are installed, no numbers by locale, one way to print.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "tern/tests/project/source_text.h"

namespace fs = std::filesystem;

namespace tern::test::test_repository {
namespace {

using test::joined;

using Rooms = std::map<std::string, std::set<std::string>>;

/// What each room may include besides itself. A room is a folder or a folder in one; a file belongs
/// to the longest name here that it is below. The values are rooms, without the rooms in them, and
/// single headers. The arrows between rooms have an order. tests and bench may include everything.
const Rooms kMayInclude = {
    {"core/base", {}},
    {"core/kernels", {"core/base"}},
    {"core/tensor", {"core/base"}},
    {"core/tape", {"core/base", "core/tensor"}},
    {"core/ops", {"core/base", "core/kernels", "core/tensor", "core/tape"}},
    {"core/io", {"core/base", "core/tensor", "core/tape", "core/ops"}},
    {"core/tools", {"core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"nn", {"core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"onnx", {"nn", "core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"optim", {"core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"data/loading", {"core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"data/images",
     {"data/loading", "core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"data/text", {"data/loading", "core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"data/scores", {"data/text", "core/base", "core/tensor"}},
    {"data/tasks", {"core/base", "core/tensor", "core/tape", "core/ops"}},
    {"dist", {"nn", "core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"train",
     {"nn", "optim", "dist", "data/loading", "data/images/picture.h", "core/base", "core/tensor",
      "core/tape", "core/ops", "core/io", "core/tools"}},
    {"models", {"nn", "core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"decode",
     {"models", "nn", "core/base", "core/tensor", "core/tape", "core/ops",
      "core/io/tensor_file.h"}},
    {"pretrained",
     {"models", "nn", "data/loading", "data/text", "core/base", "core/tensor", "core/tape",
      "core/ops", "core/io"}},
    {"apps",
     {"train", "dist", "pretrained", "decode", "models", "onnx", "nn", "optim", "data/loading",
      "data/images", "data/text", "data/scores", "data/tasks", "core/base", "core/tensor",
      "core/tape", "core/ops", "core/io", "core/tools"}},
};

/// What the library of each folder links, besides the libraries of the folders that it may include.
const Rooms kMayLink = {
    {"core", {"fmt", "OpenMP", "CBLAS", "KissFFT", "utf8proc", "dl", "nlohmann_json"}},
    {"nn", {}},
    {"onnx", {}},
    {"optim", {}},
    {"data", {"ZLIB", "utf8proc", "PNG", "JPEG", "nlohmann_json"}},
    {"train", {"nlohmann_json", "ZLIB"}},
    {"models", {"nlohmann_json"}},
    {"decode", {}},
    {"pretrained", {"nlohmann_json"}},
    {"dist", {"MPI"}},
    {"apps", {"nlohmann_json", "ZLIB"}},
};

/// Headers that tern.h leaves out, for authors of their own ops.
const std::vector<std::string> kForAuthors = {"core/ops/elementwise.h", "core/ops/formula.h",
                                              "core/ops/composed.h", "core/ops/fused.h",
                                              "core/base/simd.h"};

std::string top_folder(const std::string& file) { return file.substr(0, file.find('/')); }

/// The longest room that `file` is below; empty if there is none.
std::string room_of(const std::string& file, const Rooms& rooms) {
  std::string longest;
  for (const auto& [room, allowed] : rooms)
    if (file.starts_with(room + "/") && room.size() > longest.size()) longest = room;
  return longest;
}

/// The includes of `file` that break the layering.
Findings layering(const std::string& file, const std::vector<std::string>& includes,
                  const Rooms& rooms = kMayInclude) {
  Findings findings;
  const std::string own = room_of(file, rooms);
  if (own.empty()) {
    for (const auto& [room, allowed] : rooms)
      if (room.starts_with(top_folder(file) + "/")) return {file + " stands in none of the rooms"};
    return findings;
  }
  for (const std::string& include : includes) {
    const std::string room = room_of(include, rooms);
    if (include == "version.h") continue;  // every room may say which version it is of
    if (room != own && !rooms.at(own).contains(room) && !rooms.at(own).contains(include))
      findings.push_back(fmt::format("{} must not include {}", file, include));
  }
  return findings;
}

IncludeGraph to_graph(const Rooms& rooms) {
  IncludeGraph graph;
  for (const auto& [room, allowed] : rooms) graph[room].assign(allowed.begin(), allowed.end());
  return graph;
}

/// "core/base/rng" for core/base/rng.h and core/base/rng.cpp.
std::string unit_of(const std::string& file) { return file.substr(0, file.rfind('.')); }

/// Sources with their headers. A header without a source is no unit and is in no circle.
IncludeGraph unit_graph(const IncludeGraph& files) {
  IncludeGraph units;
  for (const auto& [file, includes] : files)
    for (const std::string& include : includes)
      if (unit_of(include) != unit_of(file) && files.contains(unit_of(include) + ".cpp"))
        units[unit_of(file)].push_back(unit_of(include));
  return units;
}

IncludeGraph header_graph(IncludeGraph files) {
  std::erase_if(files, [](const auto& entry) { return !entry.first.ends_with(".h"); });
  return files;
}

/// Whether the names share their first word and are thus parts of one topic, as gemm and gemm_plan.
bool one_topic(const std::set<std::string>& units) {
  auto topic = [](std::string unit) {
    if (size_t inner = unit.find("/detail/"); inner != unit.npos) unit.erase(inner, 7);
    return unit.substr(0, unit.find('_', unit.rfind('/') + 1));
  };
  return std::all_of(units.begin(), units.end(),
                     [&](const std::string& u) { return topic(u) == topic(*units.begin()); });
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// "CBLAS" for $<LINK_ONLY:CBLAS::CBLAS>, "tern_core" for tern::core.
std::string linked_name(std::string name) {
  while (name.starts_with("$<") && name.ends_with(">"))
    name = name.substr(name.find(':') + 1, name.size() - name.find(':') - 2);
  if (name == "tern::tern") return "tern";
  return name.starts_with("tern::") ? "tern_" + name.substr(6) : name.substr(0, name.find("::"));
}

/// The library that contains a room's files: each room of data has a library of its own.
std::string library_of(const std::string& room) {
  if (top_folder(room) != "data") return "tern_" + top_folder(room);
  return "tern_data_" + room.substr(room.find('/') + 1);
}

/// The rooms whose files are in a library. tern_data has all rooms of data, tern_data_unicode some
/// files of data/text, and tern_models_images some of models.
std::vector<std::string> rooms_in(const std::string& library) {
  std::vector<std::string> rooms;
  for (const auto& [room, may] : kMayInclude)
    if (library_of(room) == library || (library == "tern_data" && top_folder(room) == "data") ||
        (library == "tern_data_unicode" && room == "data/text") ||
        (library == "tern_models_images" && room == "models"))
      rooms.push_back(room);
  return rooms;
}

/// What a line "tern_core: fmt::fmt;$<LINK_ONLY:ZLIB::ZLIB>" of the build's libraries.txt links
/// although its folder may not. Libraries of apps may link tern::tern, which stands for all others.
Findings linking(const std::string& line) {
  const size_t colon = line.find(':');
  const std::string library = line.substr(0, colon);
  const bool app = library.starts_with("tern_app");
  const std::vector<std::string> rooms = app ? std::vector<std::string>{"apps"} : rooms_in(library);
  if (rooms.empty()) return {fmt::format("{} is the library of no folder", library)};
  std::set<std::string> allowed = kMayLink.at(top_folder(rooms.front()));
  for (const std::string& room : rooms)
    for (const std::string& other : kMayInclude.at(room))
      allowed.insert(library_of(room_of(other + "/", kMayInclude)));
  if (library == "tern_data")
    for (const std::string& room : rooms) allowed.insert(library_of(room));
  if (app) allowed.insert({"tern", "tern_apps"});
  if (app || library == "tern_data_text") allowed.insert("tern_data_unicode");
  if (app || library == "tern_models") allowed.insert("tern_models_images");
  Findings findings;
  std::istringstream rest(line.substr(std::min(colon + 2, line.size())));
  for (std::string name; std::getline(rest, name, ';');)
    if (!allowed.contains(linked_name(name)))
      findings.push_back(fmt::format("{} must not link {}", library, name));
  return findings;
}

bool is_library(const std::string& file) {
  std::string folder = top_folder(file);
  return folder != "apps" && kMayLink.contains(folder);
}

/// Internal headers say so at the top, on one line: "Inside of core only."
bool is_internal(const std::vector<std::string>& lines) {
  static const std::regex kInside("Inside of [a-z]+ only");
  for (const std::string& line : lines) {
    if (!line.starts_with("//")) return false;
    if (std::regex_search(line, kInside)) return true;
  }
  return false;
}

/// Names of our files ("core/ops/ops.h") in a text that do not exist: the files have moved.
Findings moved_files(const std::vector<std::string>& lines) {
  static const std::regex kFile(
      "(^|[^a-z0-9_./-])((core|nn|optim|data|train|models|decode|pretrained|dist|apps|tests|bench|"
      "docs|cmake)"
      "/[a-z0-9_/]+\\.(h|cpp|cmake|md))");
  Findings findings;
  for (const std::string& line : lines)
    for (std::sregex_iterator it(line.begin(), line.end(), kFile), end; it != end; ++it)
      if (!fs::exists(source_root() / (*it)[2].str()))
        findings.push_back("no file " + (*it)[2].str());
  return findings;
}

/// Lines of a program that print without apps/common/process/standard_streams.h or
/// train/progress.h, which remove control characters of terminals.
Findings own_prints(const std::vector<std::string>& lines) {
  static const std::regex kPrints(
      "\\b(fmt::print|printf|fprintf|fputs|puts|fwrite|putchar)\\("
      "|std::cerr|std::clog|std::cout *<<");
  Findings findings;
  for (const std::string& line : lines)
    if (std::regex_search(line, kPrints)) findings.push_back("prints by itself: " + line);
  return findings;
}

/// Lines that write or read fractions by the locale of the C library: with a comma in half of
/// Europe.
Findings by_locale(const std::vector<std::string>& lines) {
  static const std::regex kByLocale(
      "\\b(strtod|strtof|strtold|atof|stod|stof|stold|setprecision|std::locale)\\b"
      "|\\bs?n?f?printf\\([^;]*%[-+ 0-9.*]*[aefgAEFG]|:[0-9.]*[aAL]\\}|\\btolower\\(static_cast");
  Findings findings;
  for (const std::string& line : lines)
    if (std::regex_search(line, kByLocale)) findings.push_back("depends on the locale: " + line);
  return findings;
}

}  // namespace

TEST_CASE("repository: no library writes or reads numbers by the locale") {
  for (const std::string& file : source_files()) {
    if (!is_library(file)) continue;
    CAPTURE(file);
    CHECK(by_locale(read_lines(source_root() / file)) == Findings{});
  }
  CHECK(by_locale({"x = std::strtod(p, &end);", "fmt::format(\"{:a}\", x)",
                   "fmt::format(\"{:.3L}\", x)", "std::fprintf(stderr, \"%g s\", x)",
                   "fmt::format(\"{:.3f} {:x}\", x, n)", "snprintf(to, 9, \"%d scans\", n)"})
            .size() == 4);
}

TEST_CASE("repository: programs print only through standard_streams") {
  // standard_streams itself, and a picture in shades, whose words are cleaned one by one.
  const std::map<std::string, size_t> kAllowed = {{"apps/common/process/standard_streams.cpp", 2},
                                                  {"apps/translate/commands.cpp", 1}};
  for (const std::string& file : source_files()) {
    if (top_folder(file) != "apps") continue;
    const auto allowed = kAllowed.find(file);
    const Findings found = own_prints(read_lines(source_root() / file));
    if (found.size() != (allowed == kAllowed.end() ? 0 : allowed->second))
      FAIL_CHECK(file << ": " << joined(found));
  }
}

TEST_CASE("repository: files that comments and documents name exist") {
  CHECK(moved_files({"see core/no_ops.h", "(core/ops/ops.h)", "core/ops/ops.h", "dist/no_world.h"})
            .size() == 2);
  std::vector<std::string> files = source_files();
  for (const char* page : {"README.md", "CONTRIBUTING.md", "docs/architecture.md"})
    files.push_back(page);
  for (const std::string& file : files) {
    if (file == "tests/project/test_repository.cpp" || file == "tests/project/test_style.cpp")
      continue;  // samples
    const Findings findings = moved_files(read_lines(source_root() / file));
    CHECK_MESSAGE(findings.empty(), file, ":", joined(findings));
  }
}

TEST_CASE("repository: includes follow the layers and are spelt tern/...") {
  auto graph = include_graph();
  REQUIRE(graph.size() > 10);
  for (const auto& [file, includes] : graph) {
    Findings findings = layering(file, includes);
    if (!file.starts_with("tests/consumer/") && !file.starts_with("tests/readme/") &&
        file != "tests/dist/example.cpp")
      our_includes(read_lines(source_root() / file), findings);
    for (const std::string& include : includes)
      if (!fs::exists(source_root() / include)) findings.push_back("no such file: " + include);
    const std::string text = file + ":" + joined(findings);
    CHECK_MESSAGE(findings.empty(), text);
  }
}

TEST_CASE("repository: rooms have an order; no files include each other in a circle") {
  for (const auto& circle : circles(to_graph(kMayInclude))) FAIL_CHECK("rooms: ", joined(circle));
  const IncludeGraph graph = include_graph();
  for (const auto& circle : circles(header_graph(graph))) FAIL_CHECK("headers: ", joined(circle));
  IncludeGraph libraries = graph;
  std::erase_if(libraries, [](const auto& entry) { return !is_library(entry.first); });
  for (const auto& circle : circles(unit_graph(libraries)))
    CHECK_MESSAGE(one_topic(circle), "sources and headers: ", joined(circle));
}

TEST_CASE("repository: libraries link what their folders may include, and nothing else") {
  const std::vector<std::string> lines = read_lines(fs::path(TERN_BINARY_DIR) / "libraries.txt");
  std::set<std::string> seen;
  for (const std::string& line : lines) {
    const Findings findings = linking(line);
    CHECK_MESSAGE(findings.empty(), joined(findings));
    seen.insert(line.substr(0, line.find(':')));
  }
  const IncludeGraph graph = include_graph();
  for (const auto& [room, may] : kMayInclude) CHECK(seen.contains(library_of(room)));
  for (const auto& [folder, links] : kMayLink) {
    auto first = graph.lower_bound(folder + "/");
    CHECK_MESSAGE((first != graph.end() && top_folder(first->first) == folder), "not looked at");
  }
}

// cmake/TernInstall.cmake installs every header that does not say "Inside of ... only.".
TEST_CASE("repository: installed headers are those that tern.h and the authors' headers include") {
  auto graph = include_graph();
  std::set<std::string> brought = reachable("tern.h", graph);
  for (const std::string& header : kForAuthors) {
    brought.insert(header);
    brought.merge(reachable(header, graph));
  }
  for (const auto& entry : graph) {
    const std::string& file = entry.first;  // clang 14 cannot capture a structured binding
    if (!file.ends_with(".h") || !is_library(file)) continue;
    const bool internal = is_internal(read_lines(source_root() / file));
    CHECK_MESSAGE(brought.contains(file) != internal, file,
                  internal ? " says that it is internal, but a public header includes it"
                           : " says not \"Inside of ... only.\", but no public header brings it");
  }
}

TEST_CASE("repository: the checks find what they look for") {
  CHECK(layering("core/ops/x.cpp", {"core/tensor/tensor.h", "core/kernels/y.h"}).empty());
  CHECK(layering("core/tape/x.cpp", {"core/ops/ops.h", "core/kernels/y.h"}).size() == 2);
  CHECK(layering("core/ops/x.cpp", {"nn/linear.h"}).size() == 1);
  CHECK(layering("models/x.cpp", {"nn/linear.h", "core/ops/ops.h", "models/y.h"}).empty());
  CHECK(layering("models/x.h", {"optim/adam.h", "data/loading/loader.h", "tern.h"}).size() == 3);
  CHECK(layering("nn/x.h", {"models/gmlp.h", "core/kernels/y.h"}).size() == 2);
  CHECK(layering("data/text/x.h", {"data/text/detail/y.h", "data/loading/z.h"}).empty());
  CHECK(layering("data/loading/x.h", {"data/text/y.h", "data/y.h"}).size() == 2);
  CHECK(layering("data/x.h", {}).size() == 1);
  CHECK(layering("core/x.h", {}).size() == 1);

  const Rooms rooms = {
      {"a", {"a/base"}}, {"a/base", {}}, {"a/base/deep", {"a/base", "b/x.h"}}, {"b", {"a"}}};
  CHECK(layering("a/x.h", {"a/base/y.h", "a/y.h"}, rooms).empty());
  CHECK(layering("a/base/x.h", {"a/y.h"}, rooms).size() == 1);
  CHECK(layering("a/base/deep/x.h", {"a/base/y.h", "b/x.h"}, rooms).empty());
  CHECK(layering("a/base/deep/x.h", {"b/y.h"}, rooms).size() == 1);
  CHECK(layering("b/x.h", {"a/y.h", "a/base/y.h", "a/bases.h"}, rooms).size() == 1);

  CHECK(circles({{"a", {"b"}}, {"b", {"c"}}, {"c", {}}, {"d", {"c", "a"}}}).empty());
  CHECK(circles({{"a", {"b"}}, {"b", {"c", "d"}}, {"c", {"a"}}, {"d", {}}}) ==
        std::vector<std::set<std::string>>{{"a", "b", "c"}});
  CHECK(circles(header_graph({{"x.h", {"y.h"}}, {"y.h", {"x.h"}}})).size() == 1);
  const IncludeGraph mutual = {
      {"x.cpp", {"x.h", "y.h"}}, {"x.h", {}}, {"y.cpp", {}}, {"y.h", {"x.h"}}};
  CHECK(circles(header_graph(mutual)).empty());
  CHECK(circles(unit_graph(mutual)) == std::vector<std::set<std::string>>{{"x", "y"}});
  CHECK(one_topic({"core/gemm", "core/gemm_plan"}));
  CHECK(one_topic({"data/text/bpe", "data/text/detail/bpe_chunks"}));
  CHECK_FALSE(one_topic({"core/gemm", "core/product"}));
  CHECK_FALSE(one_topic({"core/gemm", "nn/gemm"}));

  CHECK(linking("tern_models: tern::models_images;tern::nn;tern::core").empty());
  CHECK(linking("tern_models_images: tern::models;tern::nn").size() == 1);
  CHECK(linking("tern_core: fmt::fmt;$<LINK_ONLY:CBLAS::CBLAS>;$<BUILD_INTERFACE:dl>").empty());
  CHECK(linking("tern_app_translate: tern::apps").empty());
  CHECK(linking("tern_nn: tern::core;tern::optim").size() == 1);
  CHECK(linking("tern_optim: $<LINK_ONLY:tern_data>;ZLIB::ZLIB").size() == 2);
  CHECK(linking("tern_core: tern::tern").size() == 1);
  CHECK(linking("tern_data_scores: tern::data_text;tern::core;ZLIB::ZLIB").empty());
  CHECK(linking("tern_data_images: tern::data_text;tern::data_loading").size() == 1);
  CHECK(linking("tern_data: tern::data_text;tern::data_tasks").empty());
  CHECK(linking("tern_train: tern::data_loading;tern::data").size() == 1);
  CHECK(linking("tern_fun: tern::core").size() == 1);

  Findings spelling;
  std::vector<std::string> text = {"#include <vector>", "#include \"tern/core/ops/ops.h\"",
                                   "#include \"ops.h\"", "  # include <tern/core/base/rng.h>",
                                   "#include \"tern/../x.h\""};
  CHECK(our_includes(text, spelling) ==
        std::vector<std::string>{"core/ops/ops.h", "core/base/rng.h", "../x.h"});
  CHECK(spelling.size() == 3);
}

}  // namespace tern::test::test_repository
