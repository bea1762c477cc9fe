#include "tern/apps/train_cifar/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tern/core/error.h"

namespace tern::apps {

// What makes a run the run it is, by the names in the checkpoint.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainOptions, data, model, epochs, batch, lr, weight_decay,
                                   schedule, warmup, label_smoothing, augment, mixup, cutmix, ema,
                                   clip, dropout, seed, limit)

namespace {

constexpr const char* kAbout =
    "Trains a gMLP on CIFAR-10. Without --data it draws a set of its own and trains a small model "
    "on it; with --data and no other flag it trains gmlp-4m as 'Pay Attention to MLPs' posts do: "
    "patches of 8, batch 32, AdamW, 10 epochs.";

CLI::Validator above(double low) {
  return CLI::Validator(
      [low](std::string& text) {
        double v = 0;
        if (!CLI::detail::lexical_cast(text, v) || !std::isfinite(v) || v <= low)
          return fmt::format("must be a number above {}, got {}", low, text);
        return std::string();
      },
      fmt::format("> {}", low));
}

void add_recipe(CLI::App& app, TrainOptions& o) {
  const CLI::Range fraction(0.0, 0.999999), share(0.0, 100.0);
  app.add_option("--epochs", o.epochs, "passes over the training images")->check(above(0));
  app.add_option("--batch", o.batch, "images a step")->check(above(0));
  app.add_option("--lr", o.lr, "learning rate (its highest value)")->check(above(0));
  app.add_option("--weight-decay", o.weight_decay, "AdamW's decay")->check(share);
  app.add_option("--schedule", o.schedule, "of the learning rate")
      ->check(CLI::IsMember({"constant", "cosine"}));
  app.add_option("--warmup", o.warmup, "steps in which the rate rises from 0")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--label-smoothing", o.label_smoothing, "share spread over all classes")
      ->check(fraction);
  app.add_option("--augment", o.augment,
                 "of the training images: standard is crop and flip, strong adds RandAugment and "
                 "cutout")
      ->check(CLI::IsMember({"none", "standard", "strong"}));
  app.add_option("--mixup", o.mixup, "alpha of mixup; 0 is off")->check(share);
  app.add_option("--cutmix", o.cutmix, "alpha of cutmix; 0 is off")->check(share);
  app.add_option("--ema", o.ema, "decay of averaged weights, tested instead; 0 is off")
      ->check(fraction);
  app.add_option("--clip", o.clip, "largest norm of the gradient; 0 is off")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dropout", o.dropout, "after the positions")->check(fraction);
  app.add_option("--seed", o.seed, "of everything random");
  app.add_option("--limit", o.limit, "train and test on the first N images only")
      ->check(CLI::NonNegativeNumber);
}

// Every flag that --resume takes from the checkpoint instead.
void check_resume(const CLI::App& app) {
  for (const CLI::Option* flag : app.get_options()) {
    std::string name = flag->get_name();
    bool free = name == "--resume" || name == "--threads" || name == "--data";
    check(flag->count() == 0 || free,
          "{} cannot be given with --resume: the run goes on as it was started", name);
  }
}

}  // namespace

bool parse_options(int argc, char** argv, TrainOptions& o) {
  CLI::App app(kAbout, "train_cifar");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", o.data, "folder or .tar.gz with CIFAR-10's binary files")
      ->type_name("DIR|TAR.GZ");
  CLI::Option* model =
      app.add_option("--model", o.model, "what to train")
          ->check(CLI::IsMember({"gmlp-4m", "gmlp-51m", "gmlp-small", "gmlp-stem"}));
  add_recipe(app, o);
  app.add_option("--threads", o.threads, "0: all cores")->check(CLI::Range(0, 1024));
  app.add_option("--out", o.out, "folder of the run; default runs/NAME")->type_name("DIR");
  app.add_option("--resume", o.resume, "folder of a run to go on with")->type_name("DIR");
  app.add_option("--init", o.init, "weights to start from")->type_name("FILE");
  app.add_option("--eval", o.eval, "only test these weights")->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    fail(fmt::format("{} (see --help)", e.what()));
  }
  if (!o.resume.empty()) check_resume(app);
  if (o.data.empty() && o.resume.empty()) {
    // The drawn set is easy: a small model learns it in about a minute.
    if (model->count() == 0) o.model = "gmlp-small";
    if (app.count("--epochs") == 0) o.epochs = 4;
    if (app.count("--lr") == 0) o.lr = 1e-3;
  }
  return true;
}

std::string options_to_json(const TrainOptions& options) { return nlohmann::json(options).dump(); }

void options_from_json(const std::string& json, TrainOptions& options) {
  try {
    nlohmann::json::parse(json).get_to(options);
  } catch (const nlohmann::json::exception& e) {
    fail_io(fmt::format("checkpoint: its configuration cannot be read: {}", e.what()));
  }
}

}  // namespace tern::apps
