// The C++ of docs/howto.md about training: the code that the page quotes, then its checks.
#include <fmt/core.h>
#include <tern/tern.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

using namespace tern;

struct Net {
  nn::Linear body, head;
  explicit Net(Rng& rng) : body(2, 64, rng), head(64, 2, rng) {}
  Tensor operator()(const Tensor& x) const { return head(gelu(body(x))); }
  static void fields(auto& m, auto&& visit) { visit("body", m.body), visit("head", m.head); }
};

struct Point {
  Tensor x, label;  // f32 (2) and i64 (), in a batch (B, 2) and (B)
  static void fields(auto& p, auto&& visit) { visit("x", p.x), visit("label", p.label); }
};

struct Circle {  // outside of a circle, or inside?
  uint64_t seed = 7;
  int64_t size() const { return 2000; }
  Point get(int64_t i) const {
    Rng rng = Rng(seed).stream(i);
    Tensor x = randn({2}, rng);
    return {x, gt(norm(x), 1.18).to(DType::i64)};
  }
};

datasets::Loader<Point> batches(uint64_t seed) {
  return datasets::dataset_loader(datasets::Dataset(Circle{}), datasets::Stack{},
                                  {.batch = 64, .seed = seed, .workers = 2});
}

datasets::Loader<Point> flowers(const std::string& path) {
  const datasets::Table table = datasets::load_csv(path, {.categories = {"species"}});
  const Tensor x = table.columns({"length", "width"});  // (rows, 2)
  const Tensor scaled = (x - mean(x, 0, true)) / stddev(x, 0, 1, true);
  const Tensor label = table.column("species");  // (rows); table.categories[0].names are the names
  const auto row = [=](int64_t i) { return Point{scaled[i], label[i]}; };
  return datasets::dataset_loader(datasets::Dataset(x.size(0), row), datasets::Stack{},
                                  {.batch = 4, .shuffle = false});
}

std::array<datasets::Dataset<Point>, 2> split(const datasets::Dataset<Point>& all,
                                              int64_t held_out) {
  const datasets::Dataset<Point> mixed = all.shuffle(0);  // the same order in every run
  std::vector<int64_t> rest(all.size() - held_out);
  std::iota(rest.begin(), rest.end(), held_out);
  return {mixed.subset(rest), mixed.limit(held_out)};
}

Tensor loss_of(const Net& net, const Point& p) { return cross_entropy(net(p.x), p.label); }

datasets::Loader<Point> noisy_batches() {
  auto augment = [](Point p, Rng& rng) {
    p.x = p.x + 0.05 * randn_like(p.x, rng);
    return p;
  };
  return datasets::dataset_loader(datasets::Dataset(Circle{}), augment, datasets::Stack{},
                                  {.batch = 64});
}

datasets::Loader<Point> balanced_batches(const std::vector<int64_t>& labels) {
  std::array<double, 2> count{};
  for (int64_t label : labels) ++count[label];
  std::vector<double> weights;
  for (int64_t label : labels) weights.push_back(1 / count[label]);
  return datasets::dataset_loader(datasets::Dataset(Circle{}), datasets::Stack{},
                                  {.batch = 64, .sampler = datasets::weighted_sampler(weights)});
}

struct Sentence {
  Tensor ids, label;  // i64 (T) with a T of its own, and i64 ()
  static void fields(auto& s, auto&& visit) { visit("ids", s.ids), visit("label", s.label); }
};

auto sentence_batches(const datasets::Dataset<Sentence>& sentences) {
  return datasets::dataset_loader(sentences, datasets::Pad{.value = 0}, {.batch = 3});
}

Tensor encode(const nn::TransformerEncoder& encoder, const nn::Embedding& embed,
              const datasets::Padded<Sentence>& batch) {
  return encoder(embed(batch.values.ids), nn::Mask::lengths(batch.lengths.ids));
}

void freeze_body(Net& net) {
  nn::freeze(net.body);  // nn::unfreeze(net.body): it is trained again
}

optim::AdamW slow_body(const Net& net) {
  return optim::AdamW(
      std::vector<optim::ParameterGroup>{
          {.parameters = nn::named_parameters(net.body, "body."), .lr = 1e-4},
          {.parameters = nn::named_parameters(net.head, "head.")}},
      {.lr = 1e-2});
}

optim::AdamW no_decay_on_biases(const Net& net) {
  return optim::AdamW(optim::decay_groups(nn::named_parameters(net), 0.05), {.lr = 1e-2});
}

void fit(Net& net, optim::Optimizer& optimizer, datasets::Loader<Point>& loader, int64_t epochs) {
  const int64_t total = epochs * loader.batches_per_epoch();
  const optim::Schedule schedule = optim::cosine({.warmup = 10, .total = total});
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (Point& p : loader) {
      loss_of(net, p).backward();
      optim::clip_grad_norm(optimizer.parameters(), 1);
      optimizer.set_lr_factor(schedule(step++));
      optimizer.step();
      optimizer.zero_grad();
    }
}

void accumulated_step(const Net& net, optim::Optimizer& optimizer,
                      const std::vector<Point>& parts) {
  for (const Point& p : parts) (loss_of(net, p) / static_cast<double>(parts.size())).backward();
  optimizer.step();
  optimizer.zero_grad();
}

double accuracy(Net& net, const Point& p) {
  nn::EvalScope evaluating(net);  // no dropout; batch norm by its running statistics
  NoGradGuard no_grad;            // nothing is recorded for backward
  return mean(eq(argmax(net(p.x), 1), p.label).to(DType::f32)).item();
}

Tensor confusion_matrix(const Tensor& predicted, const Tensor& label, int64_t classes) {
  return reshape(bincount(label * classes + predicted, {}, classes * classes), {classes, classes});
}

Tensor f1_of_classes(const Tensor& confusion) {  // (classes): a row for each label
  return 2 * diagonal(confusion) / (sum(confusion, 0) + sum(confusion, 1));
}

double roc_auc(const Tensor& score, const Tensor& label) {  // label 0 or 1
  const Tensor good = masked_select(score, label == 1);
  const Tensor bad = sort(masked_select(score, label == 0)).values;
  // The share of pairs in which the good one is ranked higher. Equal scores count half.
  const Tensor below = searchsorted(bad, good) + searchsorted(bad, good, true);
  return mean(below.to(DType::f64)).item() / (2.0 * static_cast<double>(bad.numel()));
}

double good_rate(Net& net, datasets::Loader<Point>& loader) {
  optim::AdamW optimizer(nn::named_parameters(net));
  const auto loss = [&](const Point& p) { return loss_of(net, p); };
  return training::find_rate(net, optimizer, loader, loss).minimum_by_10();
}

training::EpochRecord fit_in_folder(Net& net, datasets::Loader<Point>& loader,
                                    const std::string& folder) {
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  training::Learner learner(net, optimizer,
                            {.plateau = {{.factor = 0.5, .patience = 2}}, .clip = 1});
  const datasets::Dataset held_out(Circle{.seed = 8});
  const Point valid =
      *datasets::dataset_loader(held_out, datasets::Stack{}, {.batch = 2000}).next();
  training::Loop loop(learner, loader,
                      {.loss = [&](const Point& p) { return loss_of(net, p); },
                       .evaluate = [&]() -> training::Metrics {
                         return {{"valid_loss", loss_of(net, valid).item()}};
                       }},
                      {.epochs = 100,
                       .folder = folder,
                       .best = {"valid_loss"},  // {"accuracy", true}: larger is better
                       .patience = 5,  // epochs no better than the best before the run ends
                       .tensorboard = true});
  loop.resume();  // continues a stopped run in this folder
  loop.run();
  return loop.best_epoch();
}

void fit_by_plateau(Net& net, optim::Optimizer& optimizer, datasets::Loader<Point>& loader,
                    const std::function<double()>& valid_loss) {
  optim::Plateau plateau({.factor = 0.5, .patience = 2});
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (Point& p : loader) {
      loss_of(net, p).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    optimizer.set_lr_factor(plateau.update(valid_loss()));
  }
}

struct Curve {
  nn::Linear in, hidden, out;
  explicit Curve(Rng& rng) : in(1, 32, rng), hidden(32, 32, rng), out(32, 1, rng) {}
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(tanh(in(x))))); }
  static void fields(auto& m, auto&& visit) {
    visit("in", m.in), visit("hidden", m.hidden), visit("out", m.out);
  }
};

// u'' = -u with u(0) = 0 and u'(0) = 1
Tensor residual(const Curve& u, const Tensor& x) {
  const Tensor y = u(x), slope = grad({sum(y)}, {x}, {.create_graph = true})[0];
  const Tensor bend = grad({sum(slope)}, {x}, {.create_graph = true})[0];
  return mean(square(bend + y)) + sum(square(y[0])) + sum(square(slope[0] - 1));
}

void solve(Curve& u) {
  const Tensor x = reshape(linspace(0, 6, 100), {100, 1}).set_requires_grad();
  optim::Lbfgs optimizer(nn::named_parameters(u), {.strong_wolfe = true});
  for (int step = 0; step < 30; ++step)
    optimizer.step([&] {
      const Tensor loss = residual(u, x);
      loss.backward();
      return loss;
    });
}

double averaged_accuracy(Net& net, optim::Optimizer& optimizer, datasets::Loader<Point>& loader,
                         const Point& test) {
  optim::Ema ema(nn::state_dict(net), {.decay = 0.98});
  for (Point& p : loader) {
    loss_of(net, p).backward();
    optimizer.step();
    optimizer.zero_grad();
    ema.update();
  }
  optim::EmaScope averaged(ema);  // while it lives, the weights are the averages
  return accuracy(net, test);
}

void load_average(Net& net, const std::vector<std::string>& files) {
  nn::load_state_dict(net, nn::average_weights(files));  // one file at a time in memory
}

double bf16_step(const Net& net, optim::Optimizer& optimizer, const Point& p) {
  MatmulPrecisionScope precision(MatmulPrecision::bf16);
  Tensor loss = loss_of(net, p);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  return loss.item();
}

Tensor weighted_loss(const Tensor& logits, const Tensor& label) {
  return cross_entropy(logits, label,
                       {.weight = tensor({1, 3}, {2}), .ignore_index = -1, .label_smoothing = 0.1});
}

struct SignSgd {
  double lr = 1e-3;
  static constexpr const char* name = "SignSgd";

  template <class T>
  void update(const optim::Piece<T>& p) const {
    for (int64_t i = 0; i < p.count; ++i)
      p.parameter[i] -= T(p.lr) * (T(p.gradient[i] > 0) - T(p.gradient[i] < 0));
  }
};
using SignSgdOptimizer = optim::OptimizerOf<SignSgd>;

// ---- Checks ------------------------------------------------------------------------------------

bool same(const Tensor& a, const Tensor& b) { return all(eq(a, b)).item<bool>(); }

Point some(uint64_t seed, int64_t n) {
  return *datasets::dataset_loader(datasets::Dataset(Circle{}), datasets::Stack{},
                                   {.batch = n, .seed = seed})
              .next();
}

/// Takes one step with the optimizer of make(net). Returns which parts have changed weights.
template <class Make>
std::pair<bool, bool> changed(Make make, bool freeze) {
  Rng rng(0);
  Net net(rng);
  const Net before = net;
  if (freeze) freeze_body(net);
  auto optimizer = make(net);
  loss_of(net, some(1, 64)).backward();
  optimizer.step();
  return {!same(net.body.weight, before.body.weight), !same(net.head.weight, before.head.weight)};
}

void check_freezing() {
  auto plain = [](const Net& net) { return optim::AdamW(nn::named_parameters(net)); };
  check(changed(plain, false) == std::pair(true, true), "a step changes both parts");
  check(changed(plain, true) == std::pair(false, true), "a frozen part stays as it is");
  Rng rng(0);
  Net net(rng);
  freeze_body(net);
  optim::AdamW optimizer(nn::named_parameters(net));
  training::Learner learner(net, optimizer, {.clip = 1});  // also works in the training layer
  learner.backward(loss_of(net, some(1, 64)));
  learner.step();
  nn::unfreeze(net.body);
  const Tensor before = nn::state_dict(net)[0].second.clone();
  loss_of(net, some(1, 64)).backward();
  optimizer.step();
  check(!same(net.body.weight, before), "a part that was frozen learns again");
  optimizer.zero_grad();
  freeze_body(net);  // the optimizer is not told
  const Tensor again = nn::state_dict(net)[0].second.clone();
  loss_of(net, some(1, 64)).backward();
  optimizer.step();
  check(same(net.body.weight, again), "it is frozen later, too");
}

void check_groups() {
  Rng rng(0);
  Net net(rng);
  optim::AdamW slow = slow_body(net), decays = no_decay_on_biases(net);
  check(slow.lr(0) == 1e-4 && slow.lr(1) == 1e-2, "a rate for each group");
  check(decays.weight_decay(0) == 0.05 && decays.weight_decay(1) == 0, "no decay on biases");
  const Tensor first = nn::state_dict(net)[0].second.clone();
  loss_of(net, some(1, 64)).backward();
  slow.step();
  // The first step of Adam has the size of the rate, whatever the gradient, plus the weight decay.
  const double moved = max(abs(net.body.weight - first)).item();
  check(moved > 0.5e-4 && moved < 1.1e-4, "the body moves by its own rate, not by {}", moved);
}

void check_data() {
  check(batches(1).next()->x.shape() == Shape{64, 2}, "batches are stacked");
  auto noisy = noisy_batches();
  const Tensor first = noisy.next()->x;
  check(!same(first, batches(0).next()->x), "noise is added");
  noisy.seek({.epoch = 0, .batch = 0});
  check(same(first, noisy.next()->x), "in the same place the same noise");

  const auto [train, valid] = split(datasets::Dataset(Circle{}), 400);
  std::set<std::vector<float>> points;
  for (const auto& part : {train, valid})
    for (int64_t i = 0; i < part.size(); ++i) points.insert(part.get(i).x.to_vector<float>());
  check(train.size() == 1600 && valid.size() == 400 && points.size() == 2000,
        "each sample is in one part");

  // One point in twenty is this close to the centre.
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 2000; ++i) labels.push_back(norm(Circle{}.get(i).x).item() < 0.3);
  double rare = 0, drawn = 0;
  auto balanced = balanced_batches(labels);
  for (const Point& p : balanced) {
    rare += sum(lt(norm(p.x, 2, 1), 0.3)).item();
    drawn += static_cast<double>(p.x.size(0));
  }
  // Half of 2000 draws, with a standard deviation of 22.
  check(drawn == 2000 && std::abs(rare - 1000) < 110, "{} of {} are of the rare class", rare,
        drawn);
}

void check_lengths() {
  auto sentence = [](int64_t i) { return Sentence{arange(1, i + 2), scalar(i % 2, DType::i64)}; };
  auto loader = sentence_batches(datasets::Dataset<Sentence>(3, sentence));
  const datasets::Padded<Sentence> batch = *loader.next();
  check(batch.values.ids.shape() == Shape{3, 3} && batch.values.label.shape() == Shape{3},
        "padded");
  Rng rng(0);
  const nn::Embedding embed(5, 8, rng);
  const nn::TransformerEncoder encoder(1, {.dim = 8, .heads = 2, .ffn = 16, .dropout = 0}, rng);
  const Tensor y = encode(encoder, embed, batch);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t length = batch.lengths.ids[i].item<int64_t>();
    const Tensor alone = encoder(embed(unsqueeze(arange(1, length + 1), 0)));
    check(all_close(narrow(y[i], 0, 0, length), alone[0], 1e-5, 1e-6), "as each one alone");
  }
  check(pad_sequence({arange(0, 3), arange(0, 1)}).shape() == Shape{2, 3}, "without a loader");
}

void check_training() {
  Rng rng(0);
  const Net fresh(rng);
  const Point test = some(9, 1000);
  auto loader = batches(1);
  Net net = fresh, again = fresh;
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-2});
  fit(net, optimizer, loader, 4);
  check(accuracy(net, test) > 0.95, "it has learned: {}", accuracy(net, test));
  check(net(test.x).requires_grad(), "gradients are recorded again afterwards");
  optim::AdamW other(nn::named_parameters(again), {.lr = 1e-2});
  auto same_order = batches(1);
  fit(again, other, same_order, 4);
  check(same(again.body.weight, net.body.weight), "the same seeds give the same bits");

  Net parts = fresh, whole = fresh;
  optim::Sgd of_parts(nn::named_parameters(parts), {.lr = 1}),
      of_whole(nn::named_parameters(whole), {.lr = 1});
  auto half = [&](int64_t i) {
    return Point{narrow(test.x, 0, 500 * i, 500), narrow(test.label, 0, 500 * i, 500)};
  };
  accumulated_step(parts, of_parts, {half(0), half(1)});
  accumulated_step(whole, of_whole, {test});
  check(all_close(parts.body.weight, whole.body.weight, 1e-4, 1e-6), "two halves are the whole");

  Net found = fresh;
  const double rate = good_rate(found, loader);
  check(rate > 1e-3 && rate < 0.5, "a rate of {}", rate);
  check(same(found.body.weight, fresh.body.weight), "the weights are as they were");

  Net averaged = fresh;
  optim::AdamW third(nn::named_parameters(averaged), {.lr = 1e-2});
  check(averaged_accuracy(averaged, third, loader, test) > 0.7, "the averages have learned");
  nn::save_weights("fresh.safetensors", fresh), nn::save_weights("net.safetensors", net);
  Net middle = fresh;
  load_average(middle, {"fresh.safetensors", "net.safetensors"});
  check(all_close(middle.head.weight, (fresh.head.weight + net.head.weight) / 2),
        "the mean of two files");
  Net rounded = fresh;
  optim::AdamW fourth(nn::named_parameters(rounded), {.lr = 1e-2});
  const double in_bf16 = bf16_step(rounded, fourth, test), exact = loss_of(fresh, test).item();
  check(in_bf16 != exact && std::abs(in_bf16 - exact) < 0.01, "{} in bf16, {}", in_bf16, exact);
}

void check_table() {
  std::ofstream("flowers.csv") << "width,species,length\n1,rose,5\n2,daisy,5\n3,rose,8\n";
  const Point all = *flowers("flowers.csv").next();
  check(all.label.to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1}, "daisy is 0, rose 1");
  const double third = std::sqrt(1. / 3);  // lengths 5, 5, 8: mean 6, deviation sqrt(3)
  const Tensor want = tensor({{-third, -1.}, {-third, 0.}, {2 * third, 1.}});
  check(all_close(all.x, want, 1e-6, 1e-6), "columns in the order that was asked for");
}

void check_loop() {
  std::filesystem::remove_all("run");
  Rng rng(0);
  Net net(rng);
  // Few points, which are soon learned by heart.
  auto few = datasets::dataset_loader(datasets::Dataset(Circle{}).limit(40), datasets::Stack{},
                                      {.batch = 4});
  const training::EpochRecord best = fit_in_folder(net, few, "run");
  check(best["valid_loss"] < 0.6, "the best loss is {}", best["valid_loss"]);
  check(best.epoch < 95, "it ended before the hundredth epoch; the best was {}", best.epoch);
  check(std::filesystem::exists("run/best.safetensors"), "the best weights are there");
  check(training::has_event_files("run"), "TensorBoard's files are there");
  Net loaded(rng);
  nn::load_weights("run/best.safetensors", loaded);
  const datasets::Dataset held_out(Circle{.seed = 8});
  const Point valid =
      *datasets::dataset_loader(held_out, datasets::Stack{}, {.batch = 2000}).next();
  check(std::abs(loss_of(loaded, valid).item() - best["valid_loss"]) < 1e-6, "they are the best");

  // The loss never falls: the rate is reduced after epochs 4, 7 and 10.
  auto loader = batches(1);
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-3});
  fit_by_plateau(net, optimizer, loader, [] { return 1.0; });
  check(optimizer.lr() == 1e-3 / 8, "the rate is {}", optimizer.lr());
}

void check_losses() {
  Rng rng(0);
  const Tensor logits = randn({5, 2}, rng), label = tensor(std::vector{0, 1, -1, 1, 0});
  const Tensor kept = index_select(logits, 0, tensor(std::vector{0, 1, 3, 4}));
  const Tensor labels = tensor(std::vector{0, 1, 1, 0});
  const Tensor p = log_softmax(kept, 1), w = tensor({1, 3}, {2});
  // PyTorch's formula: the sum over classes of q w (-log p), divided by the weights of the targets.
  const Tensor q = 0.9 * one_hot(labels, 2).to(DType::f32) + 0.05;
  const Tensor want = -sum(q * w * p) / sum(index_select(w, 0, labels));
  check(all_close(weighted_loss(logits, label), want, 1e-5, 1e-6), "weights and smoothing");
}

void check_scores() {
  const Tensor label = tensor(std::vector{0, 1, 1, 0, 2, 1});
  const Tensor confusion = confusion_matrix(tensor(std::vector{0, 1, 2, 0, 2, 1}), label, 3);
  check(all(confusion == tensor({{2, 0, 0}, {0, 2, 1}, {0, 0, 1}})).item<bool>(), "confusion");
  // 2 precision recall / (precision + recall) of classes 1 and 2
  check(all_close(f1_of_classes(confusion), tensor({1, 0.8, 2. / 3}, {3})), "F1");
  const Tensor ranked = tensor({0.1, 0.4, 0.35, 0.8}, {4}), truth = tensor({0, 0, 1, 1});
  check(roc_auc(ranked, truth) == 0.75, "AUC of scikit-learn's example");
  check(roc_auc(zeros({4}), truth) == 0.5, "equal scores");
}

void check_own_optimizer() {
  Rng rng(0);
  Net net(rng);
  const Tensor before = nn::state_dict(net)[0].second.clone();
  SignSgdOptimizer optimizer(nn::named_parameters(net), {.lr = 0.125});
  loss_of(net, some(1, 64)).backward();
  const Tensor sign_of_it = sign(net.body.weight.grad());
  optimizer.step();
  check(all_close(net.body.weight, before - 0.125 * sign_of_it), "steps of one length");
}

void check_solution() {
  Rng rng(0);
  Curve u(rng);
  solve(u);
  NoGradGuard no_grad;
  const Tensor x = reshape(linspace(0.03, 5.97, 50), {50, 1});
  check(max(abs(u(x) - sin(x))).item() < 1e-3, "the solution of u'' = -u");
}

int main() {
  check_freezing();
  check_groups();
  check_data();
  check_table();
  check_lengths();
  check_training();
  check_loop();
  check_losses();
  check_scores();
  check_own_optimizer();
  check_solution();
}
