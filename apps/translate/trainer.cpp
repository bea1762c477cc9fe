#include "tern/apps/translate/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tern/apps/common/checkpoint.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/clip.h"
#include "tern/optim/training_graph.h"

namespace tern::apps {

// NaN has no JSON: what there was no validation for is null.
void to_json(nlohmann::json& j, const EpochScores& e) {
  auto number = [](double v) { return std::isnan(v) ? nlohmann::json() : nlohmann::json(v); };
  j = {{"epoch", e.epoch},
       {"train_loss", e.train_loss},
       {"valid_loss", number(e.valid_loss)},
       {"valid_ppl", number(e.valid_ppl)},
       {"valid_bleu", number(e.valid_bleu)},
       {"tokens_per_s", e.tokens_per_s},
       {"lr", e.lr},
       {"seconds", e.seconds}};
}

void from_json(const nlohmann::json& j, EpochScores& e) {
  auto number = [&](const char* key) {
    return j.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at(key).get<double>();
  };
  e = {j.at("epoch"),        j.at("train_loss"),   number("valid_loss"), number("valid_ppl"),
       number("valid_bleu"), j.at("tokens_per_s"), j.at("lr"),           j.at("seconds")};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TranslationState, step, batch, loss_sum, tokens, pairs,
                                   train_seconds, test_seconds, history)

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

data::PairLoaderOptions loader_options(const TrainConfig& c) {
  return {.batch = c.batch, .batch_tokens = c.batch_tokens, .seed = c.seed};
}

optim::Schedule make_schedule(const TrainConfig& c, int64_t steps) {
  if (c.schedule == "noam") return optim::noam(c.model.dim, std::max<int64_t>(c.warmup, 1));
  if (c.schedule == "inverse-sqrt") return optim::inverse_sqrt(std::max<int64_t>(c.warmup, 1));
  if (c.schedule == "cosine")
    return optim::cosine({.warmup = c.warmup, .total = std::max(steps, c.warmup + 1)});
  return optim::constant(c.warmup);
}

int64_t target_tokens(const data::PairBatch& b) { return sum(b.target_lengths).item<int64_t>(); }

void check_finite(const NamedTensors& weights) {
  for (const auto& [name, t] : weights)
    if (is_float(t.dtype()) && !all(isfinite(t)).item<bool>())
      throw Diverged(fmt::format("the weights {} are no longer finite", name));
}

}  // namespace

std::string state_to_json(const TranslationState& state) { return nlohmann::json(state).dump(); }

TranslationState state_from_json(const std::string& json) {
  try {
    return nlohmann::json::parse(json).get<TranslationState>();
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its progress cannot be read: {}", e.what()));
  }
}

std::string log_line(const EpochScores& epoch) {
  nlohmann::json sorted = epoch;
  nlohmann::ordered_json line;
  for (const char* key : {"epoch", "train_loss", "valid_loss", "valid_ppl", "valid_bleu",
                          "tokens_per_s", "lr", "seconds"})
    line[key] = sorted[key];
  return line.dump();
}

TranslationTrainer::TranslationTrainer(const TrainConfig& config, const Corpus& corpus,
                                       const Tokenizers& tokenizers)
    : config_(config),
      corpus_(corpus),
      tokenizers_(tokenizers),
      model_(config.model, config.seed),
      loader_(data::pair_loader(corpus.train.pairs, loader_options(config))),
      optimizer_(model_.parameters(),
                 {.lr = config.lr, .beta2 = config.beta2, .weight_decay = config.weight_decay}) {
  const int64_t steps = (batches_per_epoch() + config.accumulate - 1) / config.accumulate;
  schedule_ = make_schedule(config, config.epochs * steps);
  if (config.ema > 0)
    ema_.emplace(model_.state_dict(), optim::EmaOptions{.decay = config.ema, .warmup = true});
}

std::vector<data::PairBatch> TranslationTrainer::next_batches() {
  std::vector<data::PairBatch> batches;
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    std::optional<data::PairBatch> batch = loader_.next();
    if (!batch) break;
    batches.push_back(std::move(*batch));
  }
  return batches;
}

void TranslationTrainer::train_step() {
  check(!epoch_trained(), "train_step: the epoch is to be tested and closed first");
  const std::vector<data::PairBatch> batches = next_batches();
  int64_t tokens = 0;
  for (const data::PairBatch& b : batches) tokens += target_tokens(b);
  double total = 0;
  for (const data::PairBatch& b : batches) {
    Tensor logits = model_.logits(b);
    Tensor loss =
        cross_entropy(flatten(logits, 0, 1), flatten(b.target_out),
                      {.ignore_index = data::kPadId, .label_smoothing = config_.label_smoothing});
    // The mean over the tokens of all batches.
    const auto share = static_cast<double>(target_tokens(b)) / static_cast<double>(tokens);
    if (batches.size() > 1) loss = loss * share;
    const auto value = loss.item();
    if (!std::isfinite(value))
      throw Diverged(
          fmt::format("the loss is {} in step {} (epoch {})", value, state_.step + 1, epoch()));
    if (!std::exchange(graph_checked_, true))
      optim::check_training_graph(loss, model_.parameters(), optimizer_);
    loss.backward();
    total += value;
    state_.pairs += b.source.size(0);
  }
  if (config_.clip > 0) optim::clip_grad_norm(optimizer_.parameters(), config_.clip);
  optimizer_.set_lr_factor(schedule_(state_.step));
  optimizer_.step();
  optimizer_.zero_grad();
  if (ema_) ema_->update();
  ++state_.step;
  state_.batch += std::ssize(batches);
  state_.tokens += tokens;
  state_.loss_sum += total * static_cast<double>(tokens);
}

void TranslationTrainer::with_counting_weights(const std::function<void()>& f) {
  model_.set_training(false);
  if (ema_) ema_->swap();
  f();
  if (ema_) ema_->swap();
  model_.set_training(true);
}

data::BleuOptions TranslationTrainer::bleu_options() const {
  return {.lowercase = config_.lowercase || config_.tokens == "d2l"};
}

std::optional<Validation> TranslationTrainer::validate(const TranslationProgress& progress) {
  if (corpus_.valid.pairs->empty()) return Validation{kNaN, kNaN, {}};
  const int64_t pairs = std::ssize(*corpus_.valid.pairs);
  bool stopped = false;
  auto watch = [&](int64_t offset) {
    return [&, offset](int64_t done) {
      stopped = stopped || (progress && !progress(offset + done));
      return !stopped;
    };
  };
  Validation v;
  std::vector<std::string> sources, references;
  for (const data::SentencePair& p : corpus_.valid_text) {
    sources.push_back(p.source);
    references.push_back(p.target);
  }
  with_counting_weights([&] {
    v.loss = token_loss(model_, corpus_.valid, watch(0));
    if (stopped) return;
    for (auto& best : translate_lines(model_, tokenizers_, sources, {}, watch(pairs)))
      v.translations.push_back(best[0].text);
  });
  if (stopped) return std::nullopt;
  if (!std::isfinite(v.loss))
    throw Diverged(fmt::format("the validation's loss after epoch {} is {}", epoch(), v.loss));
  v.bleu = data::corpus_bleu(v.translations, references, bleu_options()).score;
  return v;
}

const EpochScores& TranslationTrainer::close_epoch(const Validation& v) {
  check(epoch_trained(), "close_epoch: the epoch is not over");
  TranslationState& s = state_;
  const auto tokens = static_cast<double>(s.tokens);
  EpochScores e{.epoch = epoch(),
                .train_loss = s.loss_sum / tokens,
                .valid_loss = v.loss,
                .valid_ppl = std::exp(v.loss),
                .valid_bleu = v.bleu,
                .tokens_per_s = s.train_seconds > 0 ? tokens / s.train_seconds : 0,
                .lr = config_.lr * schedule_(s.step - 1),
                .seconds = s.train_seconds + s.test_seconds};
  s.history.push_back(e);
  s = {.step = s.step, .history = std::move(s.history)};
  loader_.seek({.epoch = std::ssize(s.history), .batch = 0});
  return s.history.back();
}

const EpochScores& TranslationTrainer::best_epoch() const {
  const std::vector<EpochScores>& h = state_.history;
  check(!h.empty(), "best_epoch: no epoch is done");
  if (std::isnan(h.back().valid_loss)) return h.back();
  const bool by_bleu = config_.best == "bleu";
  return *std::min_element(h.begin(), h.end(), [&](const EpochScores& a, const EpochScores& b) {
    return by_bleu ? a.valid_bleu > b.valid_bleu : a.valid_loss < b.valid_loss;
  });
}

bool TranslationTrainer::last_is_best() const {
  return best_epoch().epoch == state_.history.back().epoch;
}

SafeTensors TranslationTrainer::state() const {
  SafeTensors s;
  const NamedTensors model = model_.state_dict();
  check_finite(model);
  append_prefixed(s.tensors, "model.", model);
  append_prefixed(s.tensors, "generator.", model_.generator_state());
  append_prefixed(s.tensors, "optimizer.", optimizer_.state_dict());
  if (ema_) append_prefixed(s.tensors, "ema.", ema_->state_dict());
  s.metadata = {{"progress", state_to_json(state_)}, {"data", corpus_.checksum}};
  return s;
}

void TranslationTrainer::load_progress(const std::string& json) {
  TranslationState s = state_from_json(json);
  const int64_t epochs = std::ssize(s.history);
  check(epochs <= config_.epochs && s.batch >= 0 && s.step >= 0,
        "its {} epochs do not fit a run of {}", epochs, config_.epochs);
  loader_.seek({.epoch = epochs, .batch = s.batch});
  state_ = std::move(s);
}

void TranslationTrainer::load_state(const SafeTensors& s, const std::string& path) {
  const std::string& data = metadata(s, "data", path);
  check_io(data == corpus_.checksum,
           "{}: the run was started with other data: {}, but what is given has {}", path, data,
           corpus_.checksum);
  const std::string& progress = metadata(s, "progress", path);
  try {
    load_progress(progress);
    model_.load_state_dict(take_prefixed(s, "model."));
    model_.load_generator_state(take_prefixed(s, "generator."));
    optimizer_.load_state_dict(take_prefixed(s, "optimizer."));
    if (ema_) ema_->load_state_dict(take_prefixed(s, "ema."));
  } catch (const Error& e) {
    fail_io(fmt::format("{}: {}", path, e.what()));
  }
}

NamedTensors TranslationTrainer::weights() const {
  return ema_ ? ema_->averages() : model_.state_dict();
}

}  // namespace tern::apps
