// The steps of `train`: start or resume a run on all ranks, dry run, training, report, exit code.
#include "tern/apps/common/training/train_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/process/app.h"
#include "tern/apps/common/process/machine.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/core/base/error.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/reading.h"
#include "tern/core/base/terminal_text.h"
#include "tern/core/io/safetensors.h"
#include "tern/dist/shared_work.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

constexpr const char* kConfiguration = "configuration";  // key in the checkpoint's metadata

Settings rows_of(TrainingProgram& program) {
  Settings list;
  program.settings(list);
  return list;
}

std::string config_path(const TrainingProgram& program, const training::RunFolder& folder) {
  return folder.file(program.config_file());
}

// Describes model, data and recipe; `more` follows the recipe.
Facts recipe_facts(TrainingProgram& program, const Facts& more) {
  Facts facts = program.describe();
  facts.emplace_back("recipe", recipe_text(rows_of(program)));
  facts.insert(facts.end(), more.begin(), more.end());
  return facts;
}

// The same for a run.
Facts facts_of(TrainingProgram& program, const Facts& more, const dist::World& world) {
  Facts facts = recipe_facts(program, more);
  const int64_t local_steps = program.options().parallel.local_steps;
  if (world.size() > 1)
    facts.emplace_back("ranks", local_steps > 0 ? fmt::format("{} train apart for {} steps",
                                                              world.size(), local_steps)
                                                : fmt::format("{} share each batch", world.size()));
  facts.emplace_back("machine", describe_machine());
  return facts;
}

std::string resume_command(const TrainingProgram& program, const training::RunFolder& folder) {
  const std::string command = program.command().empty() ? "" : " " + program.command();
  return as_started(program.name()) + command + " --resume " + shell_word(folder.path);
}

training::Parallel parallel_options(TrainingProgram& program, const TrainFlags& flags) {
  const ParallelOptions& o = program.options().parallel;
  if (o.blocks > 0)
    return {.world = flags.world.get(),
            .blocks = o.blocks,
            .check_every = 100,  // takes .06 to .4 % of the time, depending on the model
            .shard_optimizer = o.shard_optimizer};
  if (o.local_steps > 0) return {.world = flags.world.get(), .local_steps = o.local_steps};
  return {};
}

training::LoopOptions loop_options(TrainingProgram& program, const LockedFolder& folder,
                                   const TrainFlags& flags) {
  training::LoopOptions options = {.folder = folder.path,
                                   .lock = folder.lock,
                                   .tensorboard = flags.tensorboard,
                                   .output = log_stream(),
                                   .how_to_resume = resume_command(program, folder)};
  options.parallel = parallel_options(program, flags);
  return options;
}

// Estimates the time of the run from a few steps in memory. Empty if several ranks train.
std::string time_of(TrainingProgram& program, const TrainFlags& flags, const Summary& summary) {
  if (flags.world->size() > 1) return "";
  const StepTime time = step_time(summary, [&]() -> training::Loop& {
    return program.make_loop({.terminal = false, .parallel = parallel_options(program, flags)},
                             false);
  });
  return run_time_text(time, run_steps(program.options(), program.steps()));
}

int run(TrainingProgram& program, training::Loop& loop, const TrainFlags& flags,
        const Facts& more) {
  const bool first = flags.world->first();
  flags.world->together([&] {
    if (first)
      program.record = record_start(
          loop, program.name(), flags.command_line, settings_to_json(rows_of(program)),
          flags.world->size(), flags_of(rows_of(program)), resume_command(program, loop.folder()));
    program.facts = facts_of(program, more, *flags.world);
  });
  for (const auto& [heading, text] : program.facts)
    training::say(fmt::format("{:8} {}", heading, text), loop.output());
  training::say(fmt::format("{:8} {}", "folder", loop.folder().path), loop.output());
  training::InterruptScope signals;
  try {
    if (loop.run() == training::Outcome::interrupted) return training::kExitInterrupted;
    bool finished = true;
    loop.on_first("the report", [&] {
      program.record = record_end(loop);
      finished = program.finish();
    });
    if (finished) {
      const auto [purpose, command] = program.next(shell_word(loop.folder().path));
      training::say(fmt::format("to {}: {}", purpose, command), loop.output());
      return 0;
    }
    training::say("stopped; to resume: " + resume_command(program, loop.folder()), loop.output());
    return training::kExitInterrupted;
  } catch (const training::Diverged& e) {
    throw training::Diverged(std::string(e.what()) +
                             ". A lower --lr or --clip, or a longer --warmup, may help");
  }
}

// Prints the table of --gbit. The steps that it times run in memory.
void print_scaling(TrainingProgram& program, const TrainFlags& flags, const Summary& summary) {
  const ParallelOptions& o = program.options().parallel;
  check(flags.world->size() == 1, "--gbit measures one process: start it without mpirun");
  check(o.local_steps == 0, "--gbit is for ranks that share every step, without --local-steps");
  OneMachine machine{.blocks = o.blocks > 0 ? o.blocks : training::Parallel{}.blocks,
                     .shard_optimizer = o.shard_optimizer,
                     .step = flags.network.step_ms / 1e3,
                     .memory_bytes_per_second = measure_memory()};
  if (machine.step == 0)
    machine.step = measure_step(program.make_loop(
        {.terminal = false, .parallel = {.world = flags.world.get(), .blocks = machine.blocks}},
        false));
  print(scaling_table(summary, machine, flags.network));
}

int dry_run(TrainingProgram& program, const TrainFlags& flags, const Facts& more) {
  Facts facts = recipe_facts(program, more);
  facts.emplace_back("",
                     fmt::format("{} steps; below is the cost of one step on the largest batch",
                                 training::grouped(run_steps(program.options(), program.steps()))));
  const Summary summary = program.summary();
  const ParallelOptions& parallel = program.options().parallel;
  std::optional<SharedStep> shared;
  if (parallel.blocks > 0)
    shared = {{.blocks = parallel.blocks, .shard_optimizer = parallel.shard_optimizer},
              flags.world->size()};
  const int code = report_dry_run(summary, facts,
                                  program.prefetched() + program.options().accumulate - 1, shared);
  if (const std::string time = code == 0 ? time_of(program, flags, summary) : ""; !time.empty())
    print("takes " + time + "\n");
  if (code == 0 && flags.network.gbit > 0) print_scaling(program, flags, summary);
  return code;
}

// The settings that no resumed run may change.
SettingTexts fixed_settings(const TrainingProgram& program, const std::string& text) {
  std::vector<std::string> free = program.may_change();
  free.insert(free.end(), {"epochs", "steps", "epoch_end.patience"});
  SettingTexts settings = settings_of(text);
  std::erase_if(settings, [&](const auto& setting) { return is_one_of(free, setting.first); });
  return settings;
}

// Stores the configuration in the checkpoint, and compares it when a run resumes. A checkpoint of
// an earlier version may have none; its run resumes without.
void expect_configuration(TrainingProgram& program, training::Loop& loop,
                          const std::optional<SafeTensors>& state, const std::string& path) {
  if (state && !state->metadata.contains(kConfiguration)) return;
  loop.checkpoint().add_text(
      kConfiguration, [&program] { return settings_to_json(rows_of(program)); },
      [&program, path](const std::string& kept) {
        const std::string now = settings_to_json(rows_of(program));
        settings_from_json(kept, rows_of(program));  // converts it to this version's form
        const std::string then = settings_to_json(rows_of(program));
        settings_from_json(now, rows_of(program));
        check_io(fixed_settings(program, now) == fixed_settings(program, then),
                 "the run was started with a different configuration from that in {}", path);
      });
}

// Facts that follow the recipe.
Facts more_facts(const TrainingOptions& o) {
  if (o.from.empty()) return {};
  return {{"", "starts from the weights of " + o.from}};
}

// Error if --from is no folder, unless the program takes files too, or the same as --out: the model
// to start from stays unchanged.
void check_from(TrainingProgram& program, const std::string& out) {
  const std::string from = program.options().from;
  if (from.empty()) return;
  const bool file =
      rows_of(program).find("from")->type == "DIR|FILE" && std::filesystem::is_regular_file(from);
  if (!file) check_folder(from, "--from " + from);
  std::error_code error;
  check(!std::filesystem::equivalent(from, out, error),
        "--out {}: this is the folder of --from, which must not change; choose another", out);
}

std::shared_ptr<dist::World> make_world(const TrainingOptions& o) {
  return std::make_shared<dist::World>(
      dist::WorldOptions{.timeout = o.parallel.rank_timeout, .exit_code = exit_code});
}

// Chooses --blocks for several ranks, which share the blocks. The run keeps the number, so that a
// different number of ranks can resume it.
void choose_blocks(ParallelOptions& o, const dist::World& world, bool given) {
  const int64_t ranks = world.size();
  if (ranks == 1 || o.local_steps > 0) return;
  if (!given) o.blocks = std::max<int64_t>(8, std::bit_ceil(static_cast<uint64_t>(ranks)));
  check(o.blocks >= ranks, "--blocks {}: {} ranks need at least as many blocks", o.blocks, ranks);
}

void check_blocks_of(const std::string& folder, const ParallelOptions& o,
                     const dist::World& world) {
  check(world.size() == 1 || o.blocks >= world.size() || o.local_steps > 0,
        "--resume {}: this run was started with {}, and {} ranks need at least as many blocks; {}",
        folder, o.blocks > 0 ? fmt::format("--blocks {}", o.blocks) : "whole batches", world.size(),
        o.blocks > 0 ? "start fewer" : "resume it without mpirun");
}

// Rank 0 has locked the folder, loaded the data and may have written them there. Now the other
// ranks call `load`, which reads that folder.
void load_on_others(TrainingProgram& program, dist::World& world, LockedFolder& folder,
                    const std::function<void()>& load) {
  folder.path = world.gather("the run's folder", folder.path)[0];
  dist::take_time(world, "loading the data", [&] {
    if (world.first()) return;
    check_folder(folder.path, "the run's folder " + folder.path);
    load();
  });
  world.check_same("the data", program.data_checksum());
}

// Loads the data of a new run and completes the configuration.
void load_new(TrainingProgram& program, const TrainFlags& flags, Facts& more) {
  TrainingOptions& o = program.options();
  program.load(nullptr);
  more = more_facts(o);
  const int64_t steps = run_steps(o, program.steps());
  training::ScheduleOptions schedule = schedule_options(o, program.width());
  if (!flags.warmup_given) fit_warmup(schedule, steps, more);
  o.warmup = schedule.warmup;
  training::make_schedule(schedule, steps);  // throws now, before the run's folder is made
}

void say_time(const std::string& time, const LengthOptions& length) {
  if (!time.empty())
    training::say(fmt::format("this training takes {}; {} sets another length", time,
                              length.steps > 0 ? "--steps" : "--epochs"),
                  log_stream());
}

// Makes the loop of a new run; nullptr for a dry run.
training::Loop* start(TrainingProgram& program, const TrainFlags& flags, Facts& more) {
  dist::World& world = *flags.world;
  std::string& from = program.options().from;
  make_absolute(from);
  world.check_same(settings_of(settings_to_json(rows_of(program))));
  NewRunGuard guard(flags.out);
  LockedFolder folder;
  dist::take_time(world, "loading the data on rank 0", [&] {
    if (!world.first()) return;
    check_from(program, flags.out);
    if (!flags.out.empty()) check_new_folder(flags.out);
    load_new(program, flags, more);
    if (flags.dry_run) return;
    if (program.chose_by_data())
      say_time(time_of(program, flags, program.summary()), program.options().length);
    folder = make_run_folder(flags.out, program.folder_name());
    guard.made(folder.lock);
    folder.lock->write([&](const training::RunFolder& here) {
      program.save(here);
      save_config(config_path(program, here), rows_of(program));
    });
  });
  if (flags.dry_run) return nullptr;
  load_on_others(program, world, folder, [&] {
    program.read_config(folder, std::nullopt);
    program.load(&folder);
  });
  training::Loop& loop = program.make_loop(loop_options(program, folder, flags), false);
  expect_configuration(program, loop, std::nullopt, config_path(program, folder));
  world.barrier("the start");
  guard.keep();
  return &loop;
}

// Applies --epochs, --steps and --patience to a resumed run. Returns whether its patience or length
// changed: either may move the end.
bool change_resumed(TrainingProgram& program, const TrainFlags& flags, Facts& more) {
  TrainingOptions& o = program.options();
  check(flags.epochs == 0 || o.length.steps == 0,
        "--epochs {}: the length of this run is counted in steps, {} of them; give --steps",
        flags.epochs, o.length.steps);
  const int64_t steps = flags.steps.value_or(o.length.steps);
  check((steps > 0) == (o.length.steps > 0),
        "--steps {}: the length of this run is {}counted in steps", steps,
        o.length.steps > 0 ? "" : "not ");
  const auto length = [&o] { return std::pair(o.epochs, o.length.steps); };
  const auto before = length();
  o.epochs = resumed_epochs(o.schedule, o.epochs, flags.epochs);
  o.length.steps = resumed_epochs(o.schedule, o.length.steps, steps, "steps");
  more = more_facts(o);
  int64_t& patience = o.epoch_end.patience;
  if (!flags.patience || *flags.patience == patience) return length() != before;
  more.emplace_back("",
                    fmt::format("patience {} from here on; it was {}", *flags.patience, patience));
  patience = *flags.patience;
  program.check_config();
  return true;
}

// Sets precision and backend of matrix products while a program trains.
struct ProductScopes {
  std::optional<MatmulPrecisionScope> precision;
  std::optional<MatmulBackendScope> backend;
  void open(const TrainingOptions& o) {
    precision.emplace(matmul_precision(o.precision));
    backend.emplace(matmul_backend(o.matmul));
  }
};

// The checkpoint of a run. If it cannot be read, the error says which weights are left.
SafeTensors checkpoint_of(const training::RunFolder& folder) {
  try {
    return training::load_checkpoint(folder.checkpoint());
  } catch (const IoError& e) {
    const std::string weights = folder.weights();
    const bool left = std::filesystem::exists(weights);
    fail_io(fmt::format("{}; the run cannot be resumed without it: {}", e.what(),
                        left ? "the weights of its epochs are left, see " + weights
                             : "start it again in another folder"));
  }
}

// Makes the loop of the run in flags.resume and loads its checkpoint.
training::Loop& resume(TrainingProgram& program, const TrainFlags& flags, ProductScopes& products,
                       Facts& more) {
  dist::World& world = *flags.world;
  LockedFolder folder;
  std::optional<SafeTensors> state;
  std::string kept, path;
  bool other_end = false;
  const auto load = [&] {
    if (std::filesystem::exists(folder.checkpoint()))  // else the run begins anew
      state = checkpoint_of(folder);
    program.read_config(folder, state);
    kept = settings_to_json(rows_of(program));
    path = config_path(program, folder);
    check_blocks_of(folder.path, program.options().parallel, world);
    other_end = change_resumed(program, flags, more);
    products.open(program.options());
    if (state) program.check_fits(*state, path);
    program.load(&folder);
  };
  dist::take_time(world, "loading the run on rank 0", [&] {
    if (!world.first()) return;
    folder = resumed_folder(flags.resume, program.config_file());
    folder.lock->write([&](const training::RunFolder& here) {
      load();
      program.save_missing(here);
    });
  });
  load_on_others(program, world, folder, load);
  training::Loop& loop = program.make_loop(loop_options(program, folder, flags), state.has_value());
  expect_configuration(program, loop, state, path);
  if (state) loop.load_state(*state, folder.checkpoint());
  if (state && other_end) loop.apply_patience();
  state.reset();
  if (settings_to_json(rows_of(program)) != kept && world.first())
    folder.lock->write([&](const training::RunFolder& here) {
      save_config(config_path(program, here), rows_of(program));
    });
  return loop;
}

}  // namespace

void save_config(const std::string& path, const Settings& settings) {
  write_file_atomically(path, settings_to_json(settings) + "\n");
}

void load_config(const std::string& path, const Settings& settings,
                 const std::function<void()>& check_all) {
  check_io(std::filesystem::exists(path), "{}: cannot be opened; is {} the folder of a run?", path,
           std::filesystem::path(path).parent_path().string());
  const std::string text = read_small_file(path);
  reading(path, [&] {
    settings_from_json(text, settings);
    if (check_all) check_all();
  });
}

void TrainingProgram::read_config(const training::RunFolder& folder,
                                  const std::optional<SafeTensors>&) {
  load_config(config_path(*this, folder), rows_of(*this), [this] { check_config(); });
}

int train(TrainingProgram& program, TrainFlags flags) {
  if (!flags.world) flags.world = make_world(program.options());
  program.options().parallel.ranks = flags.world->size();
  ProductScopes products;
  Facts more;
  training::Loop* loop = nullptr;
  flags.world->together([&] {
    if (!flags.resume.empty()) {
      loop = &resume(program, flags, products, more);
      return;
    }
    products.open(program.options());
    loop = start(program, flags, more);
  });
  if (!loop) return flags.world->first() ? dry_run(program, flags, more) : 0;
  try {
    const int code = run(program, *loop, flags, more);
    loop->check_folder();  // throws if the folder was moved or removed
    return code;
  } catch (const IoError&) {
    loop->check_folder();  // if that is the reason, throws the error that says so
    throw;
  }
}

Command train_command(TrainFlags& flags, TrainingOptions& options, Command command,
                      const std::vector<std::string>& more) {
  Command train = command;
  train.settings = [&flags, list = command.settings](Settings& s) {
    list(s);
    s.group(Group::run);
    add_threads(s, flags.threads);
    s.text("out", flags.out, "DIR", "folder of the run; without this flag a new one in runs")
        .not_in_files();
    s.text("resume", flags.resume, "DIR", "resume the run in this folder").not_in_files();
    s.toggle("dry_run", flags.dry_run,
             "say what the model and a step of training take, whether it fits this machine (exit "
             "code 1: it does not) and how long it takes; nothing is written")
        .not_in_files();
    add_network_settings(s, flags.network, flags.dry_run);
    s.toggle("tensorboard", flags.tensorboard,
             "write event files for TensorBoard into the run's folder")
        .not_in_files();
  };
  train.shares_work = [&flags] { return flags.world != nullptr; };
  train.check = [&flags, &options, more, check = command.check](const Given& given) {
    flags.command_line = given.text();
    flags.epochs = given("--epochs") ? options.epochs : 0;
    if (given("--steps")) flags.steps = options.length.steps;
    if (given("--patience")) flags.patience = options.epoch_end.patience;
    flags.warmup_given = given("--warmup");
    flags.world = make_world(options);
    flags.world->together([&] {
      std::vector<std::string> allowed = {"--threads", "--tensorboard", "--epochs",
                                          "--steps",   "--patience",    "--rank-timeout"};
      allowed.insert(allowed.end(), more.begin(), more.end());
      if (!flags.resume.empty())
        return given.check_beside("--resume", allowed, "the run resumes as it was started");
      choose_blocks(options.parallel, *flags.world, given("--blocks"));
      if (check) check(given);
      if (options.schedule == "noam" && !given("--lr")) options.lr = 1;
      check_training_options(options);
    });
  };
  return train;
}

}  // namespace tern::apps
