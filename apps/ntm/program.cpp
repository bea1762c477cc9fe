// The commands of ntm: flags, dry run, and the report at the end of a run.
#include "tern/apps/ntm/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/ntm/report.h"
#include "tern/core/base/error.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {
namespace {

constexpr const char* kAbout =
    "Trains Neural Turing Machines on the tasks of their paper and tests how they generalise.\n"
    "Without a command or flags it learns to copy, in about half a minute.";

constexpr uint64_t kReportSeed = 1;   // for the sequences that a report shows
constexpr int64_t kReportCount = 50;  // sequences per length

// The largest of 200 batches. Lengths are uniform over at most a few dozen values, so the longest
// is among them.
datasets::SequenceBatch longest_batch(const NtmConfig& c) {
  constexpr int kLooked = 200;
  datasets::Loader<datasets::SequenceBatch> loader = training_batches(c);
  datasets::SequenceBatch longest;
  for (int i = 0; i < kLooked; ++i) {
    std::optional<datasets::SequenceBatch> batch = loader.next();
    if (!batch) break;
    if (!longest.input.defined() || batch->input.numel() > longest.input.numel())
      longest = std::move(*batch);
  }
  return longest;
}

void add_train_settings(Settings& s, NtmFlags& f) {
  settings(s, f.config);
  s.group(Group::model);
  s.numbers("heads", f.heads, {1, 64}, "N[,N]",
            "read heads and write heads: one number for both, or two, such as 4,1")
      .not_in_files()
      .only_if(!f.config.baseline, "an LSTM has no memory");
}

void check_train(NtmFlags& f, const Given& given) {
  NtmConfig& c = f.config;
  check(f.heads.size() <= 2, "--heads takes one number or two");
  if (!f.heads.empty()) {
    c.read_heads = f.heads.front();
    c.write_heads = f.heads.back();
  }
  if (c.length.steps == 0) {
    check(!given("--every") || c.every <= c.sequences,
          "--every {} would change nothing: there are {} sequences in all", c.every, c.sequences);
    c.every = std::min(c.every, c.sequences);
  }
  check(!given("--batch") || c.batch <= c.every,
        "--batch {} is more than the {} sequences from one validation to the next; give a smaller "
        "batch, or more sequences with --every and --sequences",
        c.batch, c.every);
  check_config(c);
}

void add_eval_settings(Settings& s, NtmFlags& f) {
  s.text("model", f.model, "DIR", "folder of a run");
  s.numbers("lengths", f.lengths, {1, 1 << 20}, "N,...",
            "lengths of sequences; default: up to six times those of the training");
  s.number("count", f.count, {1, 1e6}, "sequences per length");
  s.number("repeats", f.repeats, {0, 1000},
           "repeats of repeat-copy; 0: drawn at random, as in training");
  s.number("seed", f.seed, {}, "random seed of the sequences");
  s.text("attention", f.attention, "FILE.html|.svg|.png",
         "write the weightings of a sequence of the first length");
  add_computing(s, f.config.precision, f.config.matmul, f.train.threads);
}

void check_run(const NtmFlags& f) {
  std::error_code error;
  check(f.model != NtmFlags().model || std::filesystem::exists(f.model, error),
        "there is no run in {}; make one with `{} train`, or name another with --model", f.model,
        as_started("ntm"));
}

Command export_command(NtmFlags& f) {
  return {.name = "export",
          .about =
              "Writes one step of a model as an ONNX file, for onnxruntime: x f32 (N, inputs) and "
              "the state after the previous step to logits f32 (N, outputs) and the next state. "
              "Where begin u8 (N) is 1, a sequence begins, and the given state is not used.",
          .settings =
              [&f](Settings& s) {
                s.text("model", f.model, "DIR", "folder of a run");
                s.text("out", f.out, "FILE.onnx", "the file to write").must_be_given();
                add_opset(s, f.opset);
              },
          .run =
              [&f] {
                check_run(f);
                return export_model(f);
              },
          .examples = "export --model runs/recall --out recall.onnx",
          .bare = "--model"};
}

}  // namespace

Program ntm_program(NtmFlags& f, int argc, char** argv) {
  // These three flags set the defaults before the other flags are read.
  f.config =
      default_config(value_of("--task", argc, argv, "copy"), has_flag("--baseline", argc, argv),
                     value_of("--controller", argc, argv, ""));
  Command train = train_command(f.train, f.config,
                                {.name = "train",
                                 .about = "Trains a model in a new folder, or resumes a run.",
                                 .settings = [&f](Settings& s) { add_train_settings(s, f); },
                                 .check = [&f](const Given& given) { check_train(f, given); }});
  train.examples =
      "train --task recall --out runs/recall\n"
      "train --resume runs/recall";
  train.more =
      "Defaults depend on --task, --baseline and --controller: `train --task recall --help` shows "
      "those of recall.";
  train.run = [&f] { return train_ntm(f); };
  Command eval{.name = "eval",
               .about = "Tests a model on sequences of other lengths.",
               .settings = [&f](Settings& s) { add_eval_settings(s, f); },
               .run =
                   [&f] {
                     check_run(f);
                     return evaluate_model(f);
                   },
               .examples =
                   "eval --model runs/recall --lengths 10,20\n"
                   "eval --lengths 20 --attention weightings.html",
               .bare = "--model"};
  return {"ntm", kAbout, {train, eval, export_command(f)}};
}

int train_ntm(const NtmFlags& f) {
  NtmProgram program(f.config);
  return train(program, f.train);
}

Summary NtmProgram::summary() const {
  const datasets::SequenceBatch longest = longest_batch(config);
  const int64_t batches = training_batches(config).batches_per_epoch();
  ShapeOnlyScope nothing;
  const SequenceModel model(config);
  datasets::SequenceBatch batch;
  auto make_batch = [&] {
    batch = {zeros_like(longest.input), zeros_like(longest.target), zeros_like(longest.mask)};
  };
  return tern::summary(
      model, [&] { return datasets::cost_in_nats(model(batch.input), batch); },
      {.batch = make_batch,
       .optimizer = [&](const NamedTensors& p) { return make_ntm_optimizer(config, p); },
       .learner = learner_options(config),
       .accumulate = std::min(config.accumulate, batches),
       .optimizer_ranks = config.parallel.optimizer_ranks()});
}

Facts NtmProgram::describe() const {
  ShapeOnlyScope nothing;
  return ntm::describe(config, SequenceModel(config));
}

void NtmProgram::check_fits(const SafeTensors& checkpoint, const std::string& path) const {
  check_resumed_fits(checkpoint, path, [&] { return SequenceModel(config); });
}

training::Loop& NtmProgram::make_loop(training::LoopOptions options, bool) {
  training = std::make_unique<NtmTraining>(config, std::move(options));
  return training->loop;
}

// Scores lengths and records sample sequences with the best weights, and writes the report.
bool NtmProgram::finish() {
  const NtmTraining& t = *training;
  const training::RunFolder& folder = t.loop.folder();
  const training::EpochRecord& best = t.loop.best_epoch();
  const SequenceModel model = load_best_model(folder, config);
  const auto lengths = score_lengths(model, t.task, report_lengths(t.task), kReportCount,
                                     kReportSeed, [] { return !training::interrupted(); });
  if (!lengths) return false;
  NtmReport report{
      .run = summary_of(fmt::format("{} on {}", config.baseline ? "LSTM" : "NTM", t.task.name),
                        facts, record, t.loop),
      .task = t.task,
      .lengths = *lengths,
      .episodes = {}};
  for (int64_t length : {t.task.lengths.high, 2 * t.task.lengths.high})
    report.episodes.push_back(observe(model, t.task, length, kReportSeed));
  const std::string page = save_page(t.loop, make_report(report));
  std::string reached =
      fmt::format("best after {} sequences: {:.4f} bits per sequence, {:.3f} wrong bits",
                  training::grouped(static_cast<int64_t>(best["sequences"])),
                  best["bits_per_sequence"], best["wrong_bits"]);
  if (best.has("best_predictor"))
    reached += fmt::format("; the best predictor costs {:.4f} bits", best["best_predictor"]);
  training::say(reached + "\n\n" + length_table(t.task, *lengths));
  training::say(fmt::format("weights {}", folder.best_weights()), t.loop.output());
  training::say(fmt::format("report  {}", page), t.loop.output());
  return true;
}

NtmConfig load_config(const training::RunFolder& folder) {
  return apps::load_config<NtmConfig>(folder.file("config.json"));
}

int evaluate_model(const NtmFlags& f) {
  const training::RunFolder folder{f.model};
  check_first_epoch_over(folder.best_weights());
  const NtmConfig c = load_config(folder);
  check(f.repeats == 0 || c.task == "repeat-copy", "--repeats would change nothing: {} learned {}",
        folder.path, c.task);
  check_attention_file(f.attention);
  check(f.attention.empty() || !c.baseline, "--attention: an LSTM has no weightings");
  SequenceModel model = load_best_model(folder, c);
  const int64_t n = f.repeats;
  const datasets::SequenceTask task =
      n > 0 ? datasets::repeat_copy_task({.repeats = {n, n}}) : datasets::sequence_task(c.task);
  const std::vector<int64_t> lengths = f.lengths.empty() ? report_lengths(task) : f.lengths;
  Facts facts = describe(c, model);
  facts.emplace_back("folder", folder.path);
  for (const auto& [heading, text] : facts)
    training::say(fmt::format("{:8} {}", heading, text), stderr);
  const auto scores = score_lengths(model, task, lengths, f.count, f.seed);
  for (const LengthScore& s : *scores)
    check_finite_result(folder.best_weights(), "cost of a sequence", s.bits);
  print(length_table(task, *scores));
  if (!f.attention.empty()) {
    write_attention(f.attention, fmt::format("Weightings of {}", folder.path),
                    {observe_weights(model, task, lengths.front(), f.seed)});
    training::say(fmt::format("weightings {}", f.attention), stderr);
  }
  return 0;
}

}  // namespace tern::apps::ntm
