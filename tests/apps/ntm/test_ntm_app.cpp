// ntm: training on every task, exact resume, configurations, scores by length, reports, flags.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/ntm/program.h"
#include "tern/apps/ntm/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/apps/config_faults.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/threads.h"
#include "tern/tests/train/run_checks.h"

namespace tern::apps::ntm::test_ntm_app {
namespace {

namespace fs = std::filesystem;

struct TempFolder {
  fs::path path =
      fs::temp_directory_path() / fmt::format("tern_ntm_{}", static_cast<int>(getpid()));
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Three epochs of 7, 7 and 3 sequences in batches of 3.
NtmConfig tiny(const std::string& task, bool baseline = false) {
  NtmConfig c = default_config(task, baseline, "lstm");
  c.hidden = 6;
  c.layers = 1;
  c.slots = 9;
  c.width = 4;
  c.read_heads = c.write_heads = 1;
  c.sequences = 17;
  c.every = 7;
  c.batch = 3;
  c.ema = 0.9;
  return c;
}

/// All weights, one after the other.
std::vector<float> weights_of(const NtmTraining& t) {
  std::vector<float> out;
  for (const auto& [name, w] : nn::named_parameters(t.model))
    for (float v : w.to_vector<float>()) out.push_back(v);
  return out;
}

void step(NtmTraining& t) {
  t.loop.step();
  if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
}

NtmFlags parse(const std::vector<std::string>& words) {
  return test::parsed(ntm_program, "ntm", words);
}

}  // namespace

TEST_CASE("ntm: epochs, their sequences and steps") {
  const NtmConfig c = tiny("copy");
  CHECK(c.validations() == 3);
  CHECK(c.epoch_sequences(0) == 7);
  CHECK(c.epoch_sequences(2) == 3);
  CHECK(c.epoch_sequences(3) == 0);
  CHECK(c.steps() == 3 + 3 + 1);
  NtmTraining t(c, {.terminal = false});
  std::vector<int64_t> sizes;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (datasets::SequenceBatch& b : t.loader) sizes.push_back(b.input.size(0));
  CHECK(sizes == std::vector<int64_t>{3, 3, 1, 3, 3, 1, 3});
}

TEST_CASE("ntm: a stopped and resumed run equals an unbroken one bit for bit, on every task") {
  for (const std::string& task : datasets::sequence_task_names())
    for (int stop_at : {2, 3}) {
      INFO(task, ", stopped at ", stop_at);
      NtmConfig c = tiny(task);
      if (task == "ngrams" || task == "sort") c.sequences = 8;
      c.optimizer = stop_at == 2 ? "adam" : "rmsprop";
      NtmTraining whole(c, {.terminal = false}), first(c, {.terminal = false});
      NtmTraining second(c, {.terminal = false});
      const auto steps = static_cast<int>(c.steps());
      for (int i = 0; i < steps; ++i) step(whole);
      for (int i = 0; i < stop_at; ++i) step(first);
      second.loop.load_state(first.loop.state(), "file");
      for (int i = stop_at; i < steps; ++i) step(second);
      CHECK(weights_of(second) == weights_of(whole));
      CHECK(whole.loop.finished());
      CHECK(whole.loop.history().back()["sequences"] == static_cast<double>(c.sequences));
    }
}

TEST_CASE("ntm: same bits on any number of threads") {
  const NtmConfig c = tiny("copy");
  test::check_threads({2}, [&] {
    NtmTraining t(c, {.terminal = false});
    for (int i = 0; i < 4; ++i) step(t);
    return weights_of(t);
  });
}

TEST_CASE("ntm: a run resumes only with the configuration that it was started with") {
  TempFolder folder;
  NtmFlags o, resume;
  o.config = tiny("copy");
  o.train.out = resume.train.resume = folder.file("run");
  REQUIRE(train_ntm(o) == 0);
  const std::string path = folder.file("run/config.json"), kept = slurp(path);
  NtmConfig other = o.config;
  other.lr *= 2;
  save_config(path, settings_of(other));
  CHECK_THROWS_WITH_AS(train_ntm(resume),
                       doctest::Contains("the run was started with a different configuration"),
                       IoError);
  // A configuration without members that came in later versions.
  nlohmann::json older = nlohmann::json::parse(kept);
  for (const char* member : {"accumulate", "memory_use", "epoch_end"}) older.erase(member);
  std::ofstream(path) << older.dump();
  CHECK(train_ntm(resume) == 0);
}

TEST_CASE("ntm: steps inside backward have the same bits; only Adam takes 8 bits") {
  NtmConfig c = tiny("copy");
  c.clip = 0;
  NtmConfig inside = c;
  inside.memory_use.step_in_backward = true;
  NtmTraining a(c, {.terminal = false}), b(inside, {.terminal = false});
  for (int i = 0; i < 3; ++i) {
    a.loop.step();
    b.loop.step();
  }
  const NamedTensors x = nn::named_parameters(a.model), y = nn::named_parameters(b.model);
  for (size_t i = 0; i < x.size(); ++i) CHECK(test::same_bits(x[i].second, y[i].second));
  inside.clip = 1;
  CHECK_THROWS_WITH_AS(check_config(inside), doctest::Contains("--clip 1 needs the norm"), Error);
  c.memory_use.optimizer_bits = 8;
  CHECK(config_from_json<NtmConfig>(to_json(c)).memory_use.optimizer_bits == 8);
  c.optimizer = "rmsprop";
  CHECK_THROWS_WITH_AS(check_config(c), doctest::Contains("rmsprop keeps 32"), Error);
}

TEST_CASE("ntm: configurations are read back from JSON; damaged ones are refused") {
  NtmConfig c = tiny("sort");
  c.without = {"content", "shift"};
  CHECK(to_json(config_from_json<NtmConfig>(to_json(c))) == to_json(c));
  auto damaged = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json j = nlohmann::json::parse(to_json(c));
    j[key] = value;
    return j.dump();
  };
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, nlohmann::json>>{{"slots", int64_t{1} << 40},
                                                           {"hidden", 0},
                                                           {"lr", -1},
                                                           {"lr", "x"},
                                                           {"task", "juggle"},
                                                           {"memory", "none"},
                                                           {"without", {"key"}},
                                                           {"every", 0},
                                                           {"batch", -3}})
    CHECK_THROWS_AS(config_from_json<NtmConfig>(damaged(key, value)), Error);
  CHECK_THROWS_AS(config_from_json<NtmConfig>("{"), Error);
  nlohmann::json before = nlohmann::json::parse(to_json(c));  // as an earlier version wrote it
  before.erase("precision");
  CHECK(to_json(config_from_json<NtmConfig>(before.dump())) == to_json(c));
}

TEST_CASE("ntm: values that no flag could set are refused by name") {
  NtmConfig c = tiny("sort");
  c.memory_use.optimizer_bits = 8;
  c.epoch_end.keep = 3;
  test::check_every_option(
      to_json(c), config_from_json<NtmConfig>, {"seed"},
      {"task", "controller", "memory", "optimizer", "schedule", "precision", "recompute"},
      {"accumulate"});
}

TEST_CASE("ntm: every model option reaches the model") {
  NtmConfig c = tiny("copy");
  c.controller = "ff";
  c.layers = 2;
  c.read_heads = 3;
  c.write_heads = 2;
  c.shift = 2;
  c.memory = "learned";
  c.without = {"sharpening"};
  const SequenceModel model(c);
  const models::Ntm& m = *model.machine();
  CHECK(m.dense.size() == 2);
  CHECK(m.lstm.empty());
  CHECK(m.read_heads.size() == 3);
  CHECK(m.write_heads.size() == 2);
  CHECK(m.options.shift == 2);
  CHECK(m.learned_memory.defined());
  CHECK_FALSE(m.options.addressing.sharpening);
  CHECK(m.options.addressing.content);
  CHECK(SequenceModel(tiny("copy", true)).machine() == nullptr);
  CHECK(default_config("sort", false, "ff").read_heads == 8);
  CHECK(default_config("repeat-copy", true, "lstm").hidden == 512);
}

TEST_CASE("ntm: flags") {
  const NtmFlags plain = parse({});
  CHECK(to_json(plain.config) == to_json(default_config("copy", false, "lstm")));
  const NtmFlags sort = parse({"train", "--task", "sort", "--controller=ff", "--heads", "4,1"});
  CHECK(sort.config.hidden == 512);
  CHECK(sort.config.read_heads == 4);
  CHECK(sort.config.write_heads == 1);
  CHECK(parse({"train", "--heads", "3"}).config.write_heads == 3);
  CHECK(parse({"train", "--baseline"}).config.layers == 3);
  CHECK(parse({"train", "--baseline=false"}).config.layers == 1);
  CHECK(parse({"train", "--sequences", "300"}).config.every == 300);
  CHECK(parse({"train", "--without", "content,shift"}).config.without.size() == 2);
  const NtmFlags eval = parse({"eval", "--lengths", "10,20,120", "--count", "7"});
  CHECK(eval.lengths == std::vector<int64_t>{10, 20, 120});
  CHECK(eval.model == "runs/ntm-copy");
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"train", "--task", "juggle"},
                                             {"train", "--lr", "0"},
                                             {"train", "--heads", "0"},
                                             {"train", "--heads", "1,2,3"},
                                             {"train", "--baseline", "--slots", "9"},
                                             {"train", "--without", "key"},
                                             {"train", "--without", "shift", "--shift", "2"},
                                             {"train", "--without", "content,interpolation"},
                                             {"train", "--resume", "d", "--lr", "1"},
                                             {"eval", "--lengths", "0"},
                                             {"eval", "--lengths", "10,x"},
                                             {"eval", "--attention", "w.pdf"},
                                             {"--no-such-flag"}})
    CHECK_THROWS_AS(parse(wrong), Error);
}

TEST_CASE("ntm: scores are the means over sequences, for any batch size") {
  const datasets::SequenceTask task = datasets::sequence_task("copy");
  const SequenceModel model(tiny("copy"));
  const auto scores = score_lengths(model, task, {2, 5}, 30, 4);
  REQUIRE(scores->size() == 2);
  NoGradGuard no_grad;
  Rng rng = Rng(4).stream(5);
  double bits = 0, wrong = 0, perfect = 0;
  for (int64_t n : {25, 5}) {
    const datasets::SequenceBatch b = task.draw_length(n, 5, rng);
    bits += static_cast<double>(n) * datasets::cost_in_bits(model(b.input), b) / 30;
    for (double w : datasets::wrong_bits(model(b.input), b).to_vector<double>()) {
      wrong += w / 30;
      perfect += (w == 0) / 30.0;
    }
  }
  CHECK((*scores)[1].bits == doctest::Approx(bits));
  CHECK((*scores)[1].wrong == doctest::Approx(wrong));
  CHECK((*scores)[1].perfect == doctest::Approx(perfect));
  CHECK((*scores)[1].target_bits == 40);
  CHECK((*scores)[1].sequences == 30);
  CHECK_FALSE(score_lengths(model, task, {2}, 30, 4, [] { return false; }).has_value());
  const datasets::SequenceTask ngrams = datasets::sequence_task("ngrams");
  const SequenceModel guess(tiny("ngrams"));
  const SequenceScore s = *validate(guess, ngrams);
  CHECK(s.best > 100);
  CHECK(s.best < s.bits);
  const std::string table = length_table(ngrams, {{s, 200}});
  CHECK(table.find(" best\n") != std::string::npos);
  for (size_t at = 0, end = 0; (end = table.find('\n', at)) != table.npos; at = end + 1)
    CHECK(end - at < 60);  // fits a narrow terminal
}

TEST_CASE("ntm: the lengths of a report") {
  CHECK(report_lengths(datasets::sequence_task("copy")) ==
        std::vector<int64_t>{10, 20, 30, 40, 60, 80, 100, 120});
  CHECK(report_lengths(datasets::sequence_task("recall")).front() == 3);
}

TEST_CASE("ntm: an episode records input, output, memory and weightings") {
  NtmConfig c = tiny("copy");
  c.read_heads = 2;
  const SequenceModel model(c);
  const datasets::SequenceTask task = datasets::sequence_task("copy");
  const Episode e = observe(model, task, 6, 3);
  CHECK(e.input.steps == 13);
  CHECK(e.input.rows == 9);
  CHECK(e.output.rows == 8);
  REQUIRE(e.weights.size() == 3);
  CHECK(e.weights[0].title == "write weightings");
  CHECK(e.weights[2].title == "read weightings, head 2");
  for (const Strip& w : e.weights)
    for (int64_t t = 0; t < 13; ++t) {
      double sum = 0;
      for (int64_t n = 0; n < 9; ++n)
        sum += static_cast<double>(w.values[static_cast<size_t>(t * 9 + n)]);
      CHECK(sum == doctest::Approx(1));
    }
  CHECK(e.memory.back().step == 13);
  for (size_t i = 0; i < 7 * 8; ++i) CHECK(e.output.values[i] == 0);  // before the recall starts
  const AttentionSentence s = observe_weights(model, task, 6, 3);
  CHECK(s.groups.size() == 2);
  CHECK(s.groups[1].matrices.size() == 2);
  const SequenceModel baseline(tiny("copy", true));
  CHECK(observe(baseline, task, 6, 3).weights.empty());
  CHECK_THROWS_AS(observe_weights(baseline, task, 6, 3), Error);
}

TEST_CASE("ntm: a run in bf16 resumes in bf16, bit for bit") {
  TempFolder folder;
  NtmFlags o;
  o.config = tiny("copy");
  o.train.out = folder.file("f32");
  REQUIRE(train_ntm(o) == 0);
  o.config.precision = "bf16";
  o.train.out = folder.file("whole");
  REQUIRE(train_ntm(o) == 0);
  const training::RunFolder f32{folder.file("f32")}, whole{o.train.out},
      broken{folder.file("broken")};
  CHECK(slurp(f32.weights()) != slurp(whole.weights()));
  {
    const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
    fs::create_directories(broken.path);
    save_config(broken.file("config.json"), settings_of(o.config));
    NtmTraining t(o.config, {.folder = broken.path});
    for (int i = 0; i < 4; ++i) step(t);
    t.loop.checkpoint().save(broken.checkpoint());
  }
  CHECK(matmul_precision() == MatmulPrecision::f32);
  NtmFlags resume;
  resume.train.resume = broken.path;
  REQUIRE(train_ntm(resume) == 0);
  CHECK(slurp(broken.weights()) == slurp(whole.weights()));
  CHECK(slurp(broken.file("report.html")).find("products in bf16 by") != std::string::npos);
}

TEST_CASE("ntm: a run, its folder, a stop, its end and its evaluation") {
  TempFolder folder;
  NtmFlags o;
  o.config = tiny("copy");
  o.train.out = folder.file("run");
  o.train.tensorboard = true;
  o.train.command_line = "ntm train <x>";
  REQUIRE(train_ntm(o) == 0);
  test::check_run_files(o.train.out, o.train.command_line, "weightings/");
  CHECK_THROWS_WITH_AS(train_ntm(o), doctest::Contains("holds a run already"), Error);
  const training::RunFolder run{o.train.out};
  const std::string report = slurp(run.file("report.html"));
  CHECK(report.find("<svg") != std::string::npos);
  CHECK(report.find("read weightings") != std::string::npos);
  CHECK(report.find("on 160 validation sequences</p>") != std::string::npos);
  // All strips of a sequence are in one column: a step has the same position in all of them.
  CHECK(report.find(".strips figure { display: block; }") != std::string::npos);
  const size_t strips = report.find("<div class=\"strips\">");
  const std::string column = report.substr(strips, report.find("</div>", strips) - strips);
  for (const char* title : {"input", "target", "output", "output minus target"})
    CHECK(column.find(std::string("<figcaption>") + title) != std::string::npos);
  CHECK(column.find("weightings") != std::string::npos);
  std::istringstream lines(slurp(run.log()));
  std::vector<nlohmann::json> log;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("{\"step\"")) log.push_back(nlohmann::json::parse(line));
  REQUIRE(log.size() == 3);
  CHECK(log[0]["sequences"] == 7);
  CHECK(log[2]["sequences"] == 17);
  CHECK(log[1]["bits_per_sequence"].get<double>() ==
        doctest::Approx(log[1]["loss"].get<double>() / std::log(2.0)));

  NtmFlags resume;  // finished: nothing changes
  resume.train.resume = o.train.out;
  CHECK(train_ntm(resume) == 0);
  CHECK(slurp(run.file("report.html")).size() > report.size() / 2);

  NtmFlags eval;
  eval.model = o.train.out;
  eval.lengths = {3, 5};
  eval.count = 4;
  eval.attention = folder.file("weights.svg");
  CHECK(evaluate_model(eval) == 0);
  CHECK(slurp(eval.attention).find("<svg") != std::string::npos);
  eval.out = folder.file("step.onnx");
  CHECK(export_model(eval) == 0);
  const test::OnnxFile step(eval.out);
  CHECK(step.inputs[1].name == "begin");
  CHECK(step.inputs.back().name == "past.memory");
  CHECK(step.outputs.back().name == "present.memory");
  CHECK(step.outputs.back().shape == step.inputs.back().shape);
  CHECK(step.outputs[0].shape == std::vector<std::string>{"N", "8"});
  eval.repeats = 3;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("would change nothing"), Error);
  eval.model = folder.file("nowhere");
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("the folder of a run?"), IoError);
  NtmConfig huge = o.config;  // 32 GB
  huge.layers = 100;
  huge.hidden = 1 << 14;
  save_config(run.file("config.json"), settings_of(huge));
  eval.repeats = 0;
  eval.model = o.train.out;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("mismatched"), IoError);
  CHECK_THROWS_WITH_AS(train_ntm(resume), doctest::Contains("config.json: it describes"), IoError);
  std::ofstream(run.file("config.json")) << "{\"task\": 3}";
  eval.model = o.train.out;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("config.json: its configuration"),
                       IoError);
}

}  // namespace tern::apps::ntm::test_ntm_app
