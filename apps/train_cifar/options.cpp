#include "tern/apps/train_cifar/options.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tern/apps/common/board.h"
#include "tern/apps/common/config_checks.h"
#include "tern/apps/common/dry_run.h"
#include "tern/apps/common/flags.h"
#include "tern/apps/common/json_config.h"
#include "tern/apps/common/run_record.h"
#include "tern/apps/train_cifar/classifier.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"
#include "tern/train/optimizer.h"
#include "tern/train/schedule.h"

namespace tern::apps::train_cifar {

// What makes a run the run it is, by the names in the checkpoint.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainOptions, data, model, epochs, batch, optimizer, lr,
                                   weight_decay, schedule, warmup, label_smoothing, augment, mixup,
                                   cutmix, ema, clip, dropout, seed, limit, hold_out, precision,
                                   init, memory_use, epoch_end)

namespace {

constexpr const char* kAbout =
    "Trains an image classifier on CIFAR-10.\n"
    "Without --data it draws ten classes of shapes and trains gmlp-small on them, in less "
    "than a minute. With --data and no other flag it trains gmlp-4m: patches of 8, batch 32, "
    "AdamW, 10 epochs. A run has a folder with log, weights, checkpoint and report.html; Ctrl-C "
    "saves it, --resume goes on. The defaults below are gmlp-4m's.";

// The defaults of other models, a line for those that share them.
std::string other_defaults() {
  std::string text;
  const ClassifierEntry* previous = nullptr;
  for (const ClassifierEntry& e : classifiers()) {
    const Recipe& r = e.recipe;
    if (r == Recipe{}) continue;
    if (previous && previous->recipe == r) {
      text.insert(text.rfind(": --batch"), ", " + e.name);
    } else {
      text += fmt::format(
          "\n{}: --batch {} --optimizer {} --lr {:g} --weight-decay {:g} --schedule {} --warmup {} "
          "--label-smoothing {:g} --augment {} --clip {:g}",
          e.name, r.batch, r.optimizer, r.lr, r.weight_decay, r.schedule, r.warmup,
          r.label_smoothing, r.augment, r.clip);
    }
    previous = &e;
  }
  return text.empty() ? "" : "\nOther models have other defaults:" + text;
}

void add_recipe(CLI::App& app, TrainOptions& o) {
  const Bounds count{.low = 1, .high = 1e9}, any_count{.low = 0, .high = 1e9};
  const Bounds share{.low = 0, .high = 0.999999}, any{.low = 0, .high = 1000};
  add_choice(app, "--model", o.model, "what to train", classifier_names());
  add_number(app, "--epochs", o.epochs, "passes over the training images", count);
  add_number(app, "--batch", o.batch, "images a step", count);
  add_choice(app, "--optimizer", o.optimizer,
             "muon: Muon for the matrices of blocks, AdamW for the rest, at one rate",
             train::optimizer_names());
  add_number(app, "--lr", o.lr, "learning rate, its highest value", {.low = 0, .open_low = true});
  add_number(app, "--weight-decay", o.weight_decay, "of the optimizer, on all weights", any);
  add_choice(app, "--schedule", o.schedule, "of the learning rate", train::schedule_names(false));
  add_number(app, "--warmup", o.warmup, "steps in which the rate rises from 0", any_count);
  add_number(app, "--label-smoothing", o.label_smoothing, "share spread over all classes", share);
  add_choice(app, "--augment", o.augment,
             "of the training images: standard crops and flips, strong adds RandAugment and cutout",
             {"none", "standard", "strong"});
  add_number(app, "--mixup", o.mixup, "alpha of mixup; 0: off", any);
  add_number(app, "--cutmix", o.cutmix, "alpha of cutmix; 0: off", any);
  add_number(app, "--ema", o.ema,
             "decay of averaged weights, which are then what is tested and saved; 0: off", share);
  add_number(app, "--clip", o.clip, "largest norm of the gradient; 0: off", any);
  add_number(app, "--dropout", o.dropout, "of the model; default: its own", share);
  add_number(app, "--seed", o.seed, "of everything random", {.low = 0, .high = 1e15});
  add_number(app, "--limit", o.limit, "train and test on the first N images only; 0: all",
             any_count);
  add_number(app, "--hold-out", o.hold_out,
             "share of the training images that chooses the best epoch's weights, which alone are "
             "tested, at the end; 0: nothing is chosen, and the last epoch's count",
             share);
  add_precision(app, o.precision);
  add_memory_flags(app, o.memory_use);
  add_recompute_flag(app, o.memory_use);
  add_epoch_end_flags(app, o.epoch_end);
}

// Reads the flags into o, which keeps what they do not say; nothing if they asked for help.
std::unique_ptr<CLI::App> parse_once(int argc, char** argv, TrainOptions& o) {
  auto app = std::make_unique<CLI::App>(kAbout + other_defaults(), "train_cifar");
  app->option_defaults()->always_capture_default();
  app->get_formatter()->column_width(36);
  app->add_option("--data", o.data, "folder or .tar.gz with CIFAR-10's binary files")
      ->type_name("DIR|TAR.GZ");
  add_recipe(*app, o);
  add_number(*app, "--threads", o.threads, "0: all cores", {.low = 0, .high = 1024});
  app->add_option("--out", o.out, "folder of the run; default runs/NAME")->type_name("DIR");
  app->add_option("--resume", o.resume, "folder of a run to go on with")->type_name("DIR");
  app->add_option("--init", o.init, "weights to start from")->type_name("FILE");
  add_dry_run(*app, o.dry_run);
  add_tensorboard(*app, o.tensorboard);
  app->add_option("--eval", o.eval, "only test these weights")->type_name("FILE");
  return parse_flags(*app, argc, argv) ? std::move(app) : nullptr;
}

void check_options(const TrainOptions& o) {
  find_classifier(o.model);
  check_choice("optimizer", o.optimizer, train::optimizer_names());
  check_optimizer_bits(o.optimizer, o.memory_use);
  check_choice("schedule", o.schedule, train::schedule_names(false));
  check_choice("precision", o.precision, {"f32", "bf16"});
  check_choice("augment", o.augment, {"none", "standard", "strong"});
  check_count("epochs", static_cast<double>(o.epochs));
  check_count("batch", static_cast<double>(o.batch));
  check_any_count("warmup", static_cast<double>(o.warmup));
  check_any_count("limit", static_cast<double>(o.limit));
  check_above_zero("lr", o.lr);
  for (const auto& [name, value] : {std::pair("weight_decay", o.weight_decay),
                                    {"mixup", o.mixup},
                                    {"cutmix", o.cutmix},
                                    {"clip", o.clip}})
    check_range(name, value, 0, 1000);
  for (const auto& [name, value] : {std::pair("label_smoothing", o.label_smoothing),
                                    {"ema", o.ema},
                                    {"dropout", o.dropout},
                                    {"hold_out", o.hold_out}})
    check_share(name, value);
}

}  // namespace

bool parse_options(int argc, char** argv, TrainOptions& o) {
  std::unique_ptr<CLI::App> app = parse_once(argc, argv, o);
  if (!app) return false;
  if (!o.resume.empty())
    check_resume_flags(*app, {"--threads", "--data", "--epochs", "--tensorboard"});
  if (!o.eval.empty())
    check_flags_beside(*app, "--eval", {"--data", "--model", "--threads", "--limit", "--precision"},
                       "nothing is trained");
  auto given = [&](const char* flag) { return app->count(flag) > 0; };
  // The drawn set is easy: a small model learns it in seconds.
  const bool drawn = o.data.empty();
  if (drawn && !given("--model")) o.model = "gmlp-small";
  const ClassifierEntry& model = find_classifier(o.model);
  // The flags once more, on top of what the model, and then the drawn set, wants.
  const std::string name = o.model;
  o = {};
  static_cast<Recipe&>(o) = model.recipe;
  o.model = name;
  o.dropout = model.dropout;
  if (drawn) {
    o.epochs = 6;
    o.lr = 1e-3;
    if (!given("--schedule") && !given("--warmup")) {
      o.schedule = "cosine";
      o.warmup = 100;
    }
  }
  app = parse_once(argc, argv, o);
  check(!given("--dropout") || model.has_dropout, "--dropout would change nothing: {} has none",
        o.model);
  check(!given("--recompute") || model.has_recompute,
        "--recompute would change nothing: {} has no blocks", o.model);
  check_optimizer_bits(o.optimizer, o.memory_use);
  if (o.resume.empty() && o.eval.empty()) {
    check_memory(o.memory_use, o.clip, 1);
    check_plateau_flags(*app, o.schedule);
    check_held_out(o.epoch_end, o.schedule, o.hold_out > 0, "--hold-out");
  }
  o.command_line = command_line(argc, argv);
  o.model_given = given("--model");
  o.epochs_given = given("--epochs");
  o.warmup_given = given("--warmup");
  return true;
}

std::string options_to_json(const TrainOptions& options) { return config_json(options).dump(); }

void options_from_json(const std::string& json, TrainOptions& options) {
  try {
    nlohmann::json config = parse_json(json);
    if (config.is_object()) config.emplace("hold_out", 0.0);  // earlier versions had none
    read_config(std::move(config), options);
    check_options(options);
  } catch (const nlohmann::json::exception& e) {
    fail_io(fmt::format("checkpoint: its configuration cannot be read: {}", e.what()));
  } catch (const Error& e) {
    fail_io(fmt::format("checkpoint: its configuration cannot be: {}", e.what()));
  }
}

}  // namespace tern::apps::train_cifar
