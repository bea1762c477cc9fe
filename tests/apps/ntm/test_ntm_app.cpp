// ntm: epochs of sequences, configurations, scores by length, reports, flags.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tern/apps/ntm/program.h"
#include "tern/apps/ntm/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::ntm::test_ntm_app {
namespace {

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

TEST_CASE("ntm: steps of several batches: their number, and the sequences after each") {
  NtmConfig c = default_config("copy", false, "lstm");
  c.sequences = 25, c.every = 10, c.batch = 2, c.accumulate = 2;
  CHECK(c.steps() == 3 + 3 + 2);
  CHECK(c.sequences_after(2) == 8);
  CHECK(c.sequences_after(3) == 10);
  CHECK(c.sequences_after(8) == 25);
  c.length = {.steps = 9, .eval_steps = 3};  // they replace `sequences` and `every`
  c.sequences = 9, c.batch = 3, c.accumulate = 1;
  CHECK(c.sequences_after(9) == 23);  // an epoch of ten has four batches, the last of one sequence
}

TEST_CASE("ntm: only Adam takes 8 bits") {
  NtmConfig c = tiny("copy");
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
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"hidden", 0}, {"without", {"key"}}, {"every", 0}})
    CHECK_THROWS_AS(config_from_json<NtmConfig>(damaged(key, value)), Error);
  nlohmann::json before = nlohmann::json::parse(to_json(c));  // as an earlier version wrote it
  before.erase("precision");
  CHECK(to_json(config_from_json<NtmConfig>(before.dump())) == to_json(c));
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
  CHECK(default_config("sort", false, "lstm").layers == 2);
  CHECK(default_config("repeat-copy", true, "lstm").hidden == 512);
}

TEST_CASE("ntm: flags") {
  const NtmFlags plain = parse({});
  CHECK(to_json(plain.config) == to_json(default_config("copy", false, "lstm")));
  const NtmFlags sort = parse({"train", "--task", "sort", "--controller=ff", "--heads", "4,1"});
  CHECK(sort.config.hidden == 100);
  CHECK(sort.config.read_heads == 4);
  CHECK(sort.config.write_heads == 1);
  CHECK(to_json(parse({"train", "--task", "sort"}).config) ==
        to_json(default_config("sort", false, "ff")));
  CHECK(default_config("sort", false, "ff").optimizer == "rmsprop");
  CHECK(parse({"train", "--task", "sort", "--baseline"}).config.controller == "lstm");
  CHECK(parse({"train", "--heads", "3"}).config.write_heads == 3);
  CHECK(parse({"train", "--baseline"}).config.layers == 3);
  CHECK(parse({"train", "--baseline=false"}).config.layers == 1);
  CHECK(parse({"train", "--sequences", "300"}).config.every == 300);
  CHECK(parse({"train", "--batch", "1000"}).config.batch == 1000);
  CHECK_THROWS_WITH_AS(parse({"train", "--batch", "1001"}),
                       doctest::Contains("--batch 1001 is more than the 1000 sequences"), Error);
  CHECK(parse({"train", "--without", "content,shift"}).config.without.size() == 2);
  const NtmFlags eval = parse({"eval", "--lengths", "10,20,120", "--count", "7"});
  CHECK(eval.lengths == std::vector<int64_t>{10, 20, 120});
  CHECK(eval.model == "runs/ntm-copy");
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"train", "--task", "juggle"},
                                             {"train", "--heads", "0"},
                                             {"train", "--heads", "1,2,3"},
                                             {"train", "--baseline", "--slots", "9"},
                                             {"train", "--without", "key"},
                                             {"train", "--without", "shift", "--shift", "2"},
                                             {"train", "--without", "content,interpolation"},
                                             {"eval", "--lengths", "0"},
                                             {"eval", "--lengths", "10,x"},
                                             {"eval", "--attention", "w.pdf"}})
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

TEST_CASE("ntm: the report and the log of a run, its evaluation and its export") {
  test::TempDir folder;
  NtmFlags o;
  o.config = tiny("copy");
  o.train.out = folder / "run";
  REQUIRE(train_ntm(o) == 0);
  const training::RunFolder run{o.train.out};
  const std::string report = test::read_file(run.file("report.html"));
  CHECK(report.find("read weightings") != std::string::npos);
  CHECK(report.find("on 160 validation sequences</p>") != std::string::npos);
  // All strips of a sequence are in one column: a step has the same position in all of them.
  CHECK(report.find(".strips figure { display: block; }") != std::string::npos);
  const size_t strips = report.find("<div class=\"strips\">");
  const std::string column = report.substr(strips, report.find("</div>", strips) - strips);
  for (const char* title : {"input", "target", "output", "output minus target"})
    CHECK(column.find(std::string("<figcaption>") + title) != std::string::npos);
  CHECK(column.find("weightings") != std::string::npos);
  const std::vector<training::EpochRecord> log = training::read_log(run.log()).epochs;
  REQUIRE(log.size() == 3);
  CHECK(log[0]["sequences"] == 7);
  CHECK(log[2]["sequences"] == 17);
  CHECK(log[1]["bits_per_sequence"] == doctest::Approx(log[1]["loss"] / std::log(2.0)));

  NtmFlags eval;
  eval.model = o.train.out;
  eval.lengths = {3, 5};
  eval.count = 4;
  eval.attention = folder / "weights.svg";
  CHECK(evaluate_model(eval) == 0);
  CHECK(test::read_file(eval.attention).find("<svg") != std::string::npos);
  eval.out = folder / "step.onnx";
  CHECK(export_model(eval) == 0);
  const test::OnnxFile step(eval.out);
  CHECK(step.inputs[1].name == "begin");
  CHECK(step.inputs.back().name == "past.memory");
  CHECK(step.outputs.back().name == "present.memory");
  CHECK(step.outputs.back().shape == step.inputs.back().shape);
  CHECK(step.outputs[0].shape == std::vector<std::string>{"N", "8"});
  eval.repeats = 3;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("would change nothing"), Error);
  eval.model = folder / "nowhere";
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("the folder of a run?"), IoError);
  NtmConfig huge = o.config;  // 32 GB
  huge.layers = 100;
  huge.hidden = 1 << 14;
  save_config(run.file("config.json"), settings_of(huge));
  eval.repeats = 0;
  eval.model = o.train.out;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("mismatched"), IoError);
  test::write_file(run.file("config.json"), "{\"task\": 3}");
  eval.model = o.train.out;
  CHECK_THROWS_WITH_AS(evaluate_model(eval), doctest::Contains("config.json: its configuration"),
                       IoError);
}

}  // namespace tern::apps::ntm::test_ntm_app
