#include "tern/apps/train_cifar/trainer.h"

#include <zlib.h>

#include <cmath>
#include <utility>

#include "tern/apps/common/checkpoint.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"
#include "tern/optim/clip.h"
#include "tern/optim/training_graph.h"

namespace tern::apps {
namespace {

data::Dataset<data::ImageSample> some_images(const std::shared_ptr<const data::ImageSet>& set,
                                             int64_t limit) {
  data::Dataset<data::ImageSample> all = data::image_dataset(set);
  return limit > 0 ? all.limit(limit) : all;
}

data::ImageLoaderOptions loader_options(const TrainOptions& o) {
  return {.order = {.batch = o.batch, .seed = o.seed},
          .augment = data::AugmentOptions::named(o.augment),
          .mix = {.mixup = o.mixup, .cutmix = o.cutmix}};
}

optim::Schedule make_schedule(const TrainOptions& o, int64_t steps_per_epoch) {
  if (o.schedule == "cosine")
    return optim::cosine({.warmup = o.warmup, .total = o.epochs * steps_per_epoch});
  return optim::constant(o.warmup);
}

int64_t count_equal(const Tensor& a, const Tensor& b) { return sum(eq(a, b)).item<int64_t>(); }

void check_finite(const NamedTensors& weights) {
  for (const auto& [name, t] : weights)
    if (is_float(t.dtype()) && !all(isfinite(t)).item<bool>())
      throw Diverged(fmt::format("the weights {} are no longer finite", name));
}

void append_floats(std::vector<float>& to, const Tensor& from) {
  std::vector<float> values = from.to_vector<float>();
  to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

models::Gmlp make_model(const TrainOptions& o) {
  models::GmlpOptions options = models::gmlp_options(o.model);
  options.dropout = o.dropout;
  Rng rng(o.seed);
  models::Gmlp model(options, rng);
  if (!o.init.empty()) load_weights_of(o.init, o.model, model);
  return model;
}

void load_weights_of(const std::string& path, const std::string& name, models::Gmlp& model) {
  SafeTensors file = load_safetensors(path);
  check_io(!file.metadata.count("progress"),
           "{}: this is the checkpoint of a run, not a model's weights; these are in "
           "model.safetensors beside it",
           path);
  auto said = file.metadata.find("model");
  if (said != file.metadata.end())
    check_io(said->second == name, "{}: these are the weights of {}, not of {}", path, said->second,
             name);
  try {
    nn::load_state_dict(model, file.tensors);
  } catch (const Error& e) {
    fail_io(fmt::format("{}: not the weights of {}: {}", path, name, e.what()));
  }
}

std::string data_checksum(const data::Cifar10& data) {
  uLong crc = 0;
  for (const data::ImageSet* set : {data.train.get(), data.test.get()}) {
    crc = crc32_z(crc, set->labels.data(), set->labels.size());
    for (const data::Image& image : set->images) crc = crc32_z(crc, image.data(), image.size());
  }
  return fmt::format("{} + {} images, {:08x}", data.train->size(), data.test->size(), crc);
}

Trainer::Trainer(const TrainOptions& options, const data::Cifar10& data, models::Gmlp model)
    : options_(options),
      data_checksum_(data_checksum(data)),
      train_(some_images(data.train, options.limit)),
      test_(some_images(data.test, options.limit)),
      loader_(data::image_loader(train_, loader_options(options))),
      model_(std::move(model)),
      optimizer_(nn::named_parameters(model_),
                 {.lr = options.lr, .weight_decay = options.weight_decay}),
      schedule_(make_schedule(options, loader_.batches_per_epoch())),
      initial_(model_.spatial_weights()) {
  if (options.ema > 0)
    ema_.emplace(nn::state_dict(model_), optim::EmaOptions{.decay = options.ema, .warmup = true});
}

data::Batch Trainer::next_batch() {
  std::optional<data::Batch> batch = loader_.next();
  if (!batch) batch = loader_.next();  // the epoch before has ended
  check(batch.has_value(), "train_cifar: there are no training images");
  return std::move(*batch);
}

void Trainer::count(const Tensor& logits, const data::Batch& batch, double loss) {
  NoGradGuard no_grad;
  int64_t images = batch.labels.size(0);
  progress_.loss_sum += loss * static_cast<double>(images);
  progress_.correct += count_equal(argmax(logits, -1), batch.labels);
  progress_.seen += images;
  ++progress_.step;
}

double Trainer::train_step() {
  check(!epoch_trained(), "train_step: the epoch is to be tested and closed first");
  data::Batch batch = next_batch();
  Tensor logits = model_(batch.images);
  Tensor loss = cross_entropy(logits, batch.targets.defined() ? batch.targets : batch.labels,
                              {.label_smoothing = options_.label_smoothing});
  auto value = loss.item();
  if (!std::isfinite(value))
    throw Diverged(
        fmt::format("the loss is {} in step {} (epoch {})", value, progress_.step + 1, epoch()));
  if (!std::exchange(graph_checked_, true))
    optim::check_training_graph(loss, nn::named_parameters(model_), optimizer_);
  loss.backward();
  if (options_.clip > 0) optim::clip_grad_norm(optimizer_.parameters(), options_.clip);
  optimizer_.set_lr_factor(schedule_(progress_.step));
  optimizer_.step();
  optimizer_.zero_grad();
  if (ema_) ema_->update();
  count(logits, batch, value);
  return value;
}

bool Trainer::epoch_trained() const { return progress_.step >= epoch() * steps_per_epoch(); }

// Runs f while the model has the weights that count.
template <class F>
void Trainer::with_counting_weights(F f) {
  if (ema_) ema_->swap();
  f();
  if (ema_) ema_->swap();
}

std::optional<Evaluation> Trainer::test(const EvaluationProgress& progress) {
  nn::set_training(model_, false);
  std::optional<Evaluation> result;
  with_counting_weights([&] { result = evaluate(model_, test_, progress); });
  nn::set_training(model_, true);
  return result;
}

const EpochRecord& Trainer::close_epoch(const Evaluation& test) {
  check(epoch_trained(), "close_epoch: the epoch is not over");
  RunProgress& p = progress_;
  auto seen = static_cast<double>(p.seen);
  EpochRecord e{.epoch = epoch(),
                .train_loss = p.loss_sum / seen,
                .train_top1 = static_cast<double>(p.correct) / seen,
                .test_loss = test.loss,
                .test_top = test.top,
                .images_per_s = p.train_seconds > 0 ? seen / p.train_seconds : 0,
                .lr = options_.lr * schedule_(p.step - 1),
                .seconds = p.train_seconds + p.test_seconds};
  p.history.push_back(e);
  p = {.step = p.step, .history = std::move(p.history)};
  return p.history.back();
}

SafeTensors Trainer::state() const {
  SafeTensors s;
  NamedTensors model = nn::state_dict(model_);
  check_finite(model);
  append_prefixed(s.tensors, "model.", model);
  append_prefixed(s.tensors, "generator.", nn::generator_state(model_));
  append_prefixed(s.tensors, "optimizer.", optimizer_.state_dict());
  if (ema_) append_prefixed(s.tensors, "ema.", ema_->state_dict());
  for (size_t i = 0; i < initial_.size(); ++i)
    s.tensors.emplace_back(fmt::format("initial.{}", i), initial_[i]);
  s.metadata = {{"options", options_to_json(options_)},
                {"progress", progress_to_json(progress_)},
                {"data", data_checksum_}};
  return s;
}

void Trainer::load_progress(const std::string& json) {
  progress_ = progress_from_json(json);
  const RunProgress& p = progress_;
  int64_t epochs = std::ssize(p.history), per_epoch = steps_per_epoch();
  check(p.step >= epochs * per_epoch && p.step <= (epochs + 1) * per_epoch &&
            epochs <= options_.epochs,
        "its {} steps do not fit {} epochs of {}", p.step, epochs, per_epoch);
  loader_.seek({.epoch = p.step / per_epoch, .batch = p.step % per_epoch});
}

void Trainer::load_state(const SafeTensors& s, const std::string& path) {
  const std::string& data = metadata(s, "data", path);
  check_io(data == data_checksum_,
           "{}: the run was started with other data: {}, but what is given has {}", path, data,
           data_checksum_);
  const std::string& progress = metadata(s, "progress", path);
  NamedTensors initial;
  for (size_t i = 0; i < initial_.size(); ++i)
    initial.emplace_back(fmt::format("{}", i), initial_[i]);
  try {
    load_progress(progress);
    nn::load_state_dict(model_, take_prefixed(s, "model."));
    nn::load_generator_state(model_, take_prefixed(s, "generator."));
    optimizer_.load_state_dict(take_prefixed(s, "optimizer."));
    if (ema_) ema_->load_state_dict(take_prefixed(s, "ema."));
    tern::load_state("initial weights", initial, take_prefixed(s, "initial."));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", path, e.what()));
  }
}

NamedTensors Trainer::weights() const { return ema_ ? ema_->averages() : nn::state_dict(model_); }

std::vector<SpatialWeights> Trainer::spatial_weights() {
  std::vector<SpatialWeights> out;
  std::vector<Tensor> now;
  with_counting_weights([&] { now = model_.spatial_weights(); });
  for (size_t i = 0; i < now.size(); ++i) {
    SpatialWeights w{.name = fmt::format("Layer {}", i + 1),
                     .heads = now[i].ndim() == 3 ? now[i].size(0) : 1,
                     .n = now[i].size(-1)};
    append_floats(w.before, initial_[i]);
    append_floats(w.after, now[i]);
    out.push_back(std::move(w));
  }
  return out;
}

}  // namespace tern::apps
