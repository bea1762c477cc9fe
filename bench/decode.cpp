// Translates lines with a model folder of translate several times, and prints the cost of each
// round as a line of JSON. bench/compare_decode compares it with CTranslate2.
//
//   decode_bench --model DIR --source FILE [--beam 5] [--int8 | --precision bf16]
//                [--threads 1] [--rounds 3] [--tokens FILE]
//
// Tokenising and reading are not timed. cpu_s: processor seconds of all threads per 1,000
// sentences.
// --tokens FILE receives "source ids ||| target ids" for every line.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/translate/translator.h"
#include "tern/data/text/lines/lines.h"

namespace {

using namespace tern;
using namespace tern::apps::translate;

struct Usage {
  double cpu, wall;
  int64_t peak_mb;
};

Usage usage() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {seconds(u.ru_utime) + seconds(u.ru_stime), std::chrono::duration<double>(now).count(),
          u.ru_maxrss / 1024};
}

void write_tokens(const std::string& path, const std::vector<std::vector<int64_t>>& sources,
                  const std::vector<std::vector<decoding::Hypothesis>>& found) {
  std::ofstream out(path);
  for (size_t i = 0; i < sources.size(); ++i)
    out << fmt::format("{} ||| {}\n", fmt::join(sources[i], " "),
                       fmt::join(found[i][0].tokens, " "));
}

struct Flags {
  std::string model, source, tokens, precision = "f32";
  SearchOptions search;
  int threads = 1, rounds = 3;
};

void add_settings(apps::Settings& s, Flags& f) {
  s.text("model", f.model, "MODEL", "folder of a model of translate").must_be_given();
  s.text("source", f.source, "FILE", "sentences").must_be_given();
  s.number("beam", f.search.beam, apps::kCount, "hypotheses of a sentence");
  s.toggle("int8", f.search.int8, "round the weights to 8 bits");
  s.number("rounds", f.rounds, apps::kCount, "times that all is translated");
  s.text("tokens", f.tokens, "FILE", "receives \"source ids ||| target ids\" of every line");
  apps::add_precision(s, f.precision);
  apps::add_threads(s, f.threads);
}

int run(const Flags& f) {
  Translator t = load_translator(f.model);
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& line : datasets::read_lines(f.source))
    sources.push_back(t.tokenizers.source.encode(line));
  SearchOptions search = f.search;
  search.log_probs = false;
  const Search decode(std::move(t.model), search);
  decode(std::span(sources).first(std::min<size_t>(64, sources.size())));
  for (int round = 0; round < f.rounds; ++round) {
    const Usage before = usage();
    const auto found = decode(sources);
    const Usage after = usage();
    const auto n = static_cast<double>(sources.size());
    int64_t said = 0;
    for (const auto& list : found) said += std::ssize(list[0].tokens);
    fmt::print(
        "{{\"cpu_s\": {:.4f}, \"sentences_per_s\": {:.1f}, \"tokens\": {}, "
        "\"peak_rss_mb\": {}}}\n",
        (after.cpu - before.cpu) / n * 1000, n / (after.wall - before.wall), said, after.peak_mb);
    if (round == 0 && !f.tokens.empty()) write_tokens(f.tokens, sources, found);
  }
  return 0;
}

apps::Program program(Flags& flags, int, char**) {
  const apps::Command command{.settings = [&](apps::Settings& s) { add_settings(s, flags); },
                              .run = [&] { return run(flags); }};
  return {"decode_bench", "Translates and says what it took.", {command}};
}

}  // namespace

int main(int argc, char** argv) { return apps::run_program("decode_bench", program, argc, argv); }
