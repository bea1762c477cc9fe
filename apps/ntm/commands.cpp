#include "tern/apps/ntm/commands.h"

#include <fmt/format.h>

#include "tern/apps/common/attention_record.h"
#include "tern/apps/common/new_run.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/common/weights_fit.h"
#include "tern/apps/ntm/dry_run.h"
#include "tern/apps/ntm/report.h"
#include "tern/apps/ntm/training.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::ntm {
namespace {

constexpr uint64_t kReportSeed = 1;   // of the sequences that a report shows
constexpr int64_t kReportCount = 50;  // of each length

// After the last epoch: lengths, sample sequences and the report, with the best weights.
bool finish(const NtmTraining& t, const Facts& facts, const RunRecord& record) {
  const train::RunFolder& folder = t.loop.folder();
  const train::EpochRecord& best = t.loop.best_epoch();
  const SequenceModel model = load_best_model(folder, t.config);
  const auto lengths = score_lengths(model, t.task, report_lengths(t.task), kReportCount,
                                     kReportSeed, [] { return !train::interrupted(); });
  if (!lengths) return false;
  NtmReport report{
      .run = summary_of(fmt::format("{} on {}", t.config.baseline ? "LSTM" : "NTM", t.task.name),
                        facts, record, t.loop),
      .task = t.task,
      .lengths = *lengths,
      .episodes = {}};
  for (int64_t length : {t.task.lengths.high, 2 * t.task.lengths.high})
    report.episodes.push_back(observe(model, t.task, length, kReportSeed));
  const std::string page = save_page(t.loop, make_report(report));
  std::string reached =
      fmt::format("best after {} sequences: {:.4f} bits a sequence, {:.3f} wrong bits",
                  train::grouped(static_cast<int64_t>(best["sequences"])),
                  best["bits_per_sequence"], best["wrong_bits"]);
  if (best.has("best_predictor"))
    reached += fmt::format("; the best predictor costs {:.4f} bits", best["best_predictor"]);
  train::say(reached + "\n\n" + length_table(t.task, *lengths));
  train::say(fmt::format("weights {}", folder.best_weights()));
  train::say(fmt::format("report  {}", page));
  return true;
}

int go(NtmTraining& t, const Facts& more, const NtmCommand& command) {
  const RunRecord record = record_start(t.loop, "ntm", command.command_line, to_json(t.config));
  Facts facts = describe(t.config, t.model);
  facts.insert(facts.end() - 1, more.begin(), more.end());  // behind the recipe
  return run_loop("ntm", t.loop, facts, [&] { return finish(t, facts, record); });
}

}  // namespace

int start_training(const NtmCommand& command) {
  NtmConfig c = command.config;
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  if (!command.out.empty()) check_new_folder(command.out);
  Facts more;
  train::ScheduleOptions schedule{.name = c.schedule, .warmup = c.warmup};
  if (!command.warmup_given) fit_warmup(schedule, c.steps(), more);
  c.warmup = schedule.warmup;
  train::make_schedule(schedule, c.steps());  // what cannot be trained leaves no folder behind
  if (command.dry_run) return dry_run(c);
  NewRunGuard guard(command.out);
  const LockedFolder folder = make_run_folder(command.out, c.name());
  guard.made(folder.lock);
  save_config(folder, c);
  NtmTraining training(c, folder.loop_options(command.tensorboard));
  guard.keep();
  return go(training, more, command);
}

int resume_training(const NtmCommand& command) {
  const LockedFolder folder = resumed_folder(command.resume, "config.json");
  const std::optional<SafeTensors> state = load_resumed(folder);
  const NtmConfig c = load_config(folder);
  if (state) check_resumed_fits(*state, config_file(folder), [&] { return SequenceModel(c); });
  const MatmulPrecisionScope precision(matmul_precision(c.precision));
  NtmTraining training(c, folder.loop_options(command.tensorboard));
  if (state) training.loop.load_state(*state, folder.checkpoint());
  return go(training, {}, command);
}

int evaluate_model(const NtmCommand& command) {
  const train::RunFolder folder{command.model};
  check_first_epoch_over(folder.best_weights());
  const NtmConfig c = load_config(folder);
  check(command.repeats == 0 || c.task == "repeat-copy",
        "--repeats would change nothing: {} learned {}", folder.path, c.task);
  check(command.attention.empty() || !c.baseline, "--attention: an LSTM has no weightings");
  const MatmulPrecisionScope precision(matmul_precision(command.config.precision));
  SequenceModel model = load_best_model(folder, c);
  const int64_t n = command.repeats;
  const data::SequenceTask task =
      n > 0 ? data::repeat_copy_task({.repeats = {n, n}}) : data::sequence_task(c.task);
  const std::vector<int64_t> lengths =
      command.lengths.empty() ? report_lengths(task) : command.lengths;
  for (const auto& [heading, text] : describe(c, model))
    train::say(fmt::format("{:8} {}", heading, text), stderr);
  const auto scores = score_lengths(model, task, lengths, command.count, command.seed);
  print(length_table(task, *scores));
  if (!command.attention.empty()) {
    write_attention(command.attention, fmt::format("Weightings of {}", folder.path),
                    {observe_weights(model, task, lengths.front(), command.seed)});
    train::say(fmt::format("weightings {}", command.attention), stderr);
  }
  return 0;
}

}  // namespace tern::apps::ntm
