// The flags of the shared recipe with their help, its text, its checks, and the conversion to
// options of the optimizer, learner, schedule and loop.
#include "tern/apps/common/training/training_options.h"

#include <fmt/format.h>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/core/base/error.h"
#include "tern/nn/recompute.h"
#include "tern/train/loop.h"
#include "tern/train/optimizer.h"

namespace tern::apps {
namespace {

bool has_beta2(const TrainingOptions& o) {
  return is_one_of(training::optimizer_names(), o.optimizer) && training::has_beta2(o.optimizer);
}

void add_optimizer(Settings& s, TrainingOptions& o, const TrainingTraits& traits) {
  s.group(Group::optimizer);
  s.word("optimizer", o.optimizer, traits.optimizers,
         is_one_of(traits.optimizers, "muon")
             ? "what updates the weights; muon is Muon for the matrices and convolutions of "
               "blocks, AdamW for the rest"
             : "what updates the weights")
      .came_later()
      .says(true, "{}", o.optimizer);
  s.number("lr", o.lr, kAboveZero,
           fmt::format("highest learning rate{}{}",
                       traits.noam ? "; with --schedule noam a factor, 1 unless it is given" : "",
                       traits.muon_lr.empty()
                           ? ""
                           : fmt::format("; for muon {} unless it is given", traits.muon_lr)))
      .says(true, "lr {:g} {}", o.lr, o.schedule);
  s.word("schedule", o.schedule, training::schedule_names(traits.noam),
         "how the learning rate changes during the run");
  s.number("warmup", o.warmup, kAnyCount, "steps in which the learning rate rises from 0")
      .says(o.warmup > 0, "warm-up {}", o.warmup);
  s.number("beta2", o.beta2, kShare, "beta2 of Adam and its variants; 0: the optimizer's default")
      .came_later()
      .only_if(has_beta2(o), o.optimizer + " has none")
      .says(has_beta2(o) && o.beta2 > 0, "beta2 {:g}", o.beta2);
  s.number("weight_decay", o.weight_decay, {0, 1000},
           "weight decay; biases and norms have none without --decay-all")
      .came_later()
      .says(o.weight_decay > 0, "weight decay {:g}{}", o.weight_decay,
            o.decay_all ? " of all weights" : "");
  s.toggle("decay_all", o.decay_all,
           "apply the weight decay to all weights, biases and norms included")
      .flag("--decay-all,!--no-decay-all")
      .came_later()
      .only_if(o.weight_decay > 0, "--weight-decay is 0");
}

void add_details(Settings& s, TrainingOptions& o) {
  OptimizerDetails& d = o.details;
  const bool sgd = o.optimizer == "sgd";
  const std::string why = o.optimizer + " has none";
  s.group(Group::optimizer);
  s.number("momentum", d.momentum, kShare, "momentum of sgd")
      .only_if(sgd, why)
      .says(sgd, "momentum {:g}{}", d.momentum, d.nesterov ? " (Nesterov)" : "");
  s.toggle("nesterov", d.nesterov, "Nesterov's momentum for sgd").only_if(sgd, why);
  s.number("norm_bias_lr", d.norm_bias_lr, kAboveZero,
           "factor of the learning rate of the biases of norms; their weight decay stays as fast")
      .says(d.norm_bias_lr != 1, "rate of norms' biases times {:g}", d.norm_bias_lr);
  s.number("lookahead", d.lookahead, {0, 1e6},
           "average the weights with earlier ones after every N steps and go on from the average; "
           "the share of the earlier ones rises as the cube of the step to 0.95^N; 0: off")
      .says(d.lookahead > 0, "lookahead every {} steps", d.lookahead);
}

void add_gradient(Settings& s, TrainingOptions& o) {
  s.group(Group::training);
  s.number("accumulate", o.accumulate, kCount,
           "batches whose gradients are averaged for one step of the optimizer")
      .came_later()
      .says(o.accumulate > 1, "batches per step {}", o.accumulate);
  s.number("clip", o.clip, {0, 1e9}, "largest norm of the gradient; 0: no limit")
      .group(Group::optimizer)
      .says(o.clip > 0, "clip {:g}", o.clip);
  s.number("ema", o.ema, kShare,
           "decay of averaged weights, which are then tested and saved; 0: no averages")
      .says(o.ema > 0, "averaged weights {:g}", o.ema);
  s.number("seed", o.seed, {}, "random seed of the weights and of what training draws")
      .says(true, "seed {}", o.seed);
  add_precision(s, o.precision).came_later();
  add_matmul(s, o.matmul, o.precision).came_later();
}

void add_length(Settings& s, LengthOptions& l) {
  s.group(Group::training);
  s.number("steps", l.steps, kAnyCount,
           "length of the run in steps of the optimizer; it may end within an epoch; 0: in epochs")
      .came_later();
  s.number("eval_steps", l.eval_steps, kAnyCount,
           "evaluate, log and keep weights after every N steps and at the end, not at the end of "
           "each epoch; --patience and --keep count these evaluations; 0: at the end of each epoch")
      .came_later()
      .says(l.eval_steps > 0, "evaluated every {} steps", l.eval_steps);
}

// Phrases of the recipe.
std::string describe_epoch_end(const TrainingOptions& o) {
  const EpochEndOptions& e = o.epoch_end;
  const char* const word = o.length.eval_steps > 0 ? "evaluation" : "epoch";
  std::string s;
  if (o.schedule == "plateau")
    s += fmt::format(", rate times {:g} after {} {}{} no better", e.plateau_factor,
                     e.plateau_patience + 1, word, e.plateau_patience == 0 ? "" : "s");
  if (e.patience > 0) s += fmt::format(", patience {}", e.patience);
  if (e.keep > 0) s += fmt::format(", keeps {} {}{}", e.keep, word, e.keep == 1 ? "" : "s");
  return s;
}

void add_epoch_end(Settings& s, TrainingOptions& o) {
  EpochEndOptions& e = o.epoch_end;
  const std::string why = "--schedule is " + o.schedule, text = describe_epoch_end(o);
  s.group(Group::training);
  s.number("patience", e.patience, kAnyCount,
           "stop early after N epochs in a row that are no better on held-out data; 0: never")
      .says(!text.empty(), "{}", text.empty() ? "" : text.substr(2));
  s.number("keep", e.keep, kAnyCount,
           "keep checkpoint and weights of the last N epochs in files of their own");
  s.group(Group::optimizer);
  s.number("plateau_patience", e.plateau_patience, kAnyCount,
           "for --schedule plateau: epochs in a row that may be no better on held-out data")
      .only_if(o.schedule == "plateau", why);
  s.number("plateau_factor", e.plateau_factor, {0, 1, true, true},
           "for --schedule plateau: one more such epoch multiplies the learning rate by this")
      .only_if(o.schedule == "plateau", why);
}

void add_parallel(Settings& s, ParallelOptions& p) {
  s.group(Group::training);
  s.number("blocks", p.blocks, {0, 4096},
           "cut each batch into N blocks, which the ranks of mpirun share; the numbers of a run "
           "depend on the blocks, not on the ranks; 0: one process, whole batches; default under "
           "mpirun: 8, or the next power of two from the number of ranks")
      .only_if(p.local_steps == 0, "with --local-steps each rank has a part of the batch")
      .says(p.blocks > 0, "{} blocks per batch", p.blocks);
  s.toggle("shard_optimizer", p.shard_optimizer,
           "each rank keeps a part of the optimizer's state: less memory, the same numbers")
      .group(Group::memory)
      .only_if(p.blocks > 0, "it is for ranks that share a batch: --blocks, or mpirun");
  s.number("local_steps", p.local_steps, {0, 1e6},
           "for slow networks (DiLoCo): ranks train apart for N steps and then exchange weights; "
           "the numbers of a run depend on its ranks; 0: ranks share every step")
      .says(p.local_steps > 0, "{} local steps", p.local_steps);
  s.number("rank_timeout", p.rank_timeout, {0, 1e6, true},
           "seconds that a rank of mpirun waits for another one before the job ends; a block of a "
           "batch must not take as long")
      .not_in_files()
      .type = "SECONDS";
}

}  // namespace

void add_memory_settings(Settings& s, MemoryOptions& m, bool blocks) {
  s.group(Group::memory);
  s.toggle("step_in_backward", m.step_in_backward,
           "update each weight as soon as its gradient is complete, and free the gradient: less "
           "memory, the same numbers; needs --clip 0");
  s.word("recompute", m.recompute, nn::recompute_names(),
         "recompute in the backward pass instead of storing, with the same numbers: selective, "
         "norms, gates and GELU (1 to 19 % slower, by model); full, whole blocks (a third slower)")
      .flag(blocks ? "--recompute" : "");
  s.number("optimizer_bits", m.optimizer_bits, {8, 32},
           "bits per number of Adam's state; 8 bits take a quarter of the memory")
      .says(m != MemoryOptions{}, "{}", m == MemoryOptions{} ? "" : describe_memory(m).substr(2))
      .type = "32|8";  // check_training_options refuses numbers in between
}

std::string describe_memory(const MemoryOptions& o) {
  std::string s;
  if (o.optimizer_bits != 32) s += fmt::format(", optimizer state of {} bits", o.optimizer_bits);
  if (o.recompute != "none") s += fmt::format(", {} recomputation", o.recompute);
  if (o.step_in_backward) s += ", steps in backward";
  return s;
}

void add_training_settings(Settings& s, TrainingOptions& o, const TrainingTraits& traits) {
  add_length(s, o.length);
  counted_otherwise(s, o.length, {"epochs"}, {});
  if (Setting* const epochs = s.find("epochs")) epochs->phrase = describe_length(o);
  add_optimizer(s, o, traits);
  if (traits.details)
    s.inside(
        "optimizer_details", [&] { add_details(s, o); }, true);
  add_gradient(s, o);
  s.inside(
      "memory_use", [&] { add_memory_settings(s, o.memory_use, traits.blocks); }, true);
  s.inside(
      "epoch_end", [&] { add_epoch_end(s, o); }, true);
  s.inside(
      "parallel", [&] { add_parallel(s, o.parallel); }, true);
}

void counted_otherwise(Settings& s, const LengthOptions& length,
                       const std::vector<const char*>& lengths,
                       const std::vector<const char*>& evaluations) {
  for (const char* key : lengths)
    if (Setting* const row = s.find(key))
      row->only_if(length.steps == 0, "--steps says how long the run is");
  for (const char* key : evaluations)
    if (Setting* const row = s.find(key))
      row->only_if(length.eval_steps == 0, "--eval-steps says when to evaluate");
}

std::string describe_length(const TrainingOptions& o) {
  const bool steps = o.length.steps > 0;
  const int64_t count = steps ? o.length.steps : o.epochs;
  return fmt::format("{} {}{}", count, steps ? "step" : "epoch", count == 1 ? "" : "s");
}

int64_t run_steps(const TrainingOptions& o, int64_t steps) {
  return o.length.steps > 0 ? o.length.steps : steps;
}

void check_training_options(const TrainingOptions& o) {
  const MemoryOptions& m = o.memory_use;
  check(m.optimizer_bits == 32 || m.optimizer_bits == 8, "optimizer_bits is {}; 32 or 8",
        m.optimizer_bits);
  check(m.optimizer_bits == 32 || o.optimizer == "adam" || o.optimizer == "adamw",
        "--optimizer-bits is for adam and adamw; {} keeps 32", o.optimizer);
  check(!o.details.nesterov || o.details.momentum > 0, "--nesterov needs a --momentum above 0");
  check(!m.step_in_backward || o.clip == 0,
        "--step-in-backward frees each gradient as soon as its weight is stepped, but --clip {:g} "
        "needs the norm of all of them before the first step; give --clip 0",
        o.clip);
  check(!m.step_in_backward || o.accumulate == 1,
        "--step-in-backward frees each gradient as soon as its weight is stepped, but --accumulate "
        "{} adds those of several batches before a step; leave one of the two out",
        o.accumulate);
  const int64_t blocks = o.parallel.blocks;
  const bool apart = o.parallel.local_steps > 0;
  check(blocks != 1, "--blocks 1 would be a whole batch: give 2 or more, or 0");
  check(blocks == 0 || o.accumulate == 1,
        "--blocks {0} adds the gradients of blocks, and --accumulate {1} those of batches; give "
        "--accumulate 1 and batches {1} times as large",
        blocks, o.accumulate);
  check(blocks == 0 || !m.step_in_backward,
        "--step-in-backward steps each weight as soon as it has a gradient, but --blocks {} first "
        "adds the gradients of several blocks; leave one of the two out",
        blocks);
  check(!apart || (blocks == 0 && !o.parallel.shard_optimizer && o.accumulate == 1 &&
                   !m.step_in_backward),
        "--local-steps cannot be given with --blocks, --shard-optimizer, --accumulate or "
        "--step-in-backward");
  check(
      !apart || o.details.lookahead == 0,
      "--local-steps lets ranks train apart and then averages what they changed; the slow weights "
      "of --lookahead {} would undo most of that: give --lookahead 0",
      o.details.lookahead);
}

void check_held_out(const TrainingOptions& o, bool held_out, const char* remedy) {
  check(held_out || o.epoch_end.patience == 0,
        "--patience {} needs held-out data to judge an epoch by, and nothing is held out; give {}",
        o.epoch_end.patience, remedy);
  check(held_out || o.schedule != "plateau",
        "--schedule plateau needs held-out data to judge an epoch by, and nothing is held out; "
        "give {}",
        remedy);
}

training::LearnerOptions learner_options(const TrainingOptions& o) {
  std::optional<optim::LookaheadOptions> lookahead;
  if (o.details.lookahead > 0) lookahead = {.every = o.details.lookahead};
  return {.clip = o.clip,
          .ema = o.ema,
          .lookahead = lookahead,
          .allocate_state = !o.parallel.shard_optimizer,  // else each rank allocates its part later
          .step_in_backward = o.memory_use.step_in_backward};
}

training::ScheduleOptions schedule_options(const TrainingOptions& o, int64_t width) {
  return {.name = o.schedule,
          .warmup = o.warmup,
          .dim = width,
          .plateau_patience = o.epoch_end.plateau_patience,
          .plateau_factor = o.epoch_end.plateau_factor};
}

training::LearnerOptions learner_options(const TrainingOptions& o, int64_t steps, int64_t width,
                                         bool largest) {
  training::LearnerOptions options = learner_options(o);
  options.schedule = training::make_schedule(schedule_options(o, width), run_steps(o, steps));
  options.plateau = training::make_plateau(schedule_options(o, width), largest);
  if (options.lookahead) options.lookahead->total = run_steps(o, steps);
  return options;
}

optim::ParameterGroups parameter_groups(const TrainingOptions& o, const NamedTensors& parameters) {
  optim::ParameterGroups groups = parameters;
  if (!o.decay_all && o.weight_decay > 0) groups = optim::decay_groups(parameters, o.weight_decay);
  if (o.details.norm_bias_lr == 1) return groups;
  return optim::scale_norm_biases(groups, o.details.norm_bias_lr, o.lr, o.weight_decay);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainingOptions& o,
                                                 const NamedTensors& parameters) {
  training::OptimizerOptions options{.name = o.optimizer,
                                     .lr = o.lr,
                                     .weight_decay = o.weight_decay,
                                     .state_bits = static_cast<int>(o.memory_use.optimizer_bits),
                                     .momentum = o.details.momentum,
                                     .nesterov = o.details.nesterov};
  if (o.beta2 > 0 && training::has_beta2(o.optimizer)) options.beta2 = o.beta2;
  return training::make_optimizer(options, parameter_groups(o, parameters));
}

void set_loop_options(training::LoopOptions& loop, const TrainingOptions& o) {
  loop.epochs = o.length.steps > 0 ? 1 : o.epochs;
  loop.steps = o.length.steps;
  loop.evaluate_steps = o.length.eval_steps;
  loop.accumulate = o.accumulate;
  loop.patience = o.epoch_end.patience;
  loop.keep =
      loop.folder.empty() ? 0 : o.epoch_end.keep;  // a loop that is only timed has no folder
}

}  // namespace tern::apps
