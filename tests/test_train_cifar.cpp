#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/common/checkpoint.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/run.h"
#include "tern/apps/train_cifar/trainer.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"

namespace tern::apps {
namespace {

namespace fs = std::filesystem;

struct TempFolder {
  fs::path path =
      fs::temp_directory_path() / fmt::format("tern_train_cifar_{}", static_cast<int>(getpid()));
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Everything random and everything with a state is on. Four steps an epoch, the last one short.
TrainOptions busy_options(const char* model) {
  TrainOptions o;
  o.model = model;
  o.epochs = 3;
  o.batch = 6;
  o.lr = 1e-3;
  o.schedule = "cosine";
  o.warmup = 3;
  o.label_smoothing = 0.1;
  o.augment = "strong";
  o.mixup = 0.2;
  o.cutmix = 1;
  o.ema = 0.9;
  o.clip = 1;
  o.seed = 5;
  return o;
}

const data::Cifar10& tiny_data() {
  static const data::Cifar10 kData = draw_cifar10(20, 10, 1);
  return kData;
}

// One step; epochs are tested and closed as soon as they are over, unless `leave_open`.
void step(Trainer& t, bool leave_open = false) {
  if (t.epoch_trained()) t.close_epoch(*t.test());
  t.train_step();
  if (t.epoch_trained() && !leave_open) t.close_epoch(*t.test());
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return dispatch(a.dtype(), [&]<class T>() {
    std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>();
    return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
  });
}

void check_same_state(const Trainer& a, const Trainer& b) {
  SafeTensors x = a.state(), y = b.state();
  CHECK(x.metadata == y.metadata);
  REQUIRE(x.tensors.size() == y.tensors.size());
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    CAPTURE(x.tensors[i].first);
    CHECK(x.tensors[i].first == y.tensors[i].first);
    CHECK(same_bits(x.tensors[i].second, y.tensors[i].second));
  }
}

void check_resumes(const char* model, int stop_at, int steps) {
  CAPTURE(stop_at);
  TempFolder folder;
  TrainOptions o = busy_options(model);
  Trainer whole(o, tiny_data(), make_model(o)), first(o, tiny_data(), make_model(o));
  for (int i = 0; i < steps; ++i) step(whole);
  for (int i = 0; i < stop_at; ++i) step(first, i + 1 == stop_at);
  save_checkpoint(folder.file("c"), first.state());

  SafeTensors saved = load_checkpoint(folder.file("c"));
  TrainOptions read;
  options_from_json(metadata(saved, "options", "c"), read);
  Trainer second(read, tiny_data(), make_model(read));
  second.load_state(saved, "c");
  for (int i = stop_at; i < steps; ++i) step(second);
  check_same_state(whole, second);
  CHECK(whole.progress().history.size() == static_cast<size_t>(steps / 4));
}

TEST_CASE("train_cifar: k steps, a checkpoint and the rest equal an unbroken run bit for bit") {
  check_resumes("gmlp-small", 0, 3);
  check_resumes("gmlp-small", 2, 9);
  check_resumes("gmlp-small", 4, 6);  // the epoch is trained, but not tested
  check_resumes("gmlp-small", 5, 8);
  check_resumes("gmlp-stem", 3, 5);  // batch norm, stochastic depth
}

TEST_CASE("train_cifar: a run does not depend on the number of threads") {
  TrainOptions o = busy_options("gmlp-small");
  Trainer a(o, tiny_data(), make_model(o)), b(o, tiny_data(), make_model(o));
  int before = num_threads();
  for (int i = 0; i < 5; ++i) step(a);
  set_num_threads(before == 1 ? 2 : 1);
  for (int i = 0; i < 5; ++i) step(b);
  set_num_threads(before);
  check_same_state(a, b);
}

TEST_CASE("train_cifar: a state of another model or of other data is refused") {
  TrainOptions small = busy_options("gmlp-small"), stem = busy_options("gmlp-stem");
  Trainer a(small, tiny_data(), make_model(small)), b(stem, tiny_data(), make_model(stem));
  CHECK_THROWS_AS(b.load_state(a.state(), "file"), IoError);
  Trainer c(small, draw_cifar10(20, 10, 2), make_model(small));
  CHECK_THROWS_WITH_AS(c.load_state(a.state(), "file"),
                       doctest::Contains("file: the run was started with other data"), IoError);
  SafeTensors damaged = a.state();
  damaged.metadata["progress"] = "{\"step\": 99999}";
  CHECK_THROWS_AS(a.load_state(damaged, "file"), IoError);
}

TEST_CASE("train_cifar: training stops before weights that are no numbers are kept") {
  TrainOptions o = busy_options("gmlp-small");
  models::Gmlp model = make_model(o);
  {
    NoGradGuard no_grad;
    fill_(model.head.bias.tensor(), std::numeric_limits<double>::quiet_NaN());
  }
  Trainer t(o, tiny_data(), model);
  CHECK_THROWS_WITH_AS(t.train_step(), "the loss is nan in step 1 (epoch 1)", Diverged);
  CHECK_THROWS_WITH_AS(t.state(), "the weights head.bias are no longer finite", Diverged);
}

TEST_CASE("train_cifar: rank_of") {
  const float scores[] = {0.1f, 0.5f, 0.5f, 0.2f};
  CHECK(rank_of(scores, 4, 1) == 0);
  CHECK(rank_of(scores, 4, 2) == 1);
  CHECK(rank_of(scores, 4, 3) == 2);
  CHECK(rank_of(scores, 4, 0) == 3);
  const float broken[] = {0.1f, NAN, 0.5f};
  CHECK(rank_of(broken, 3, 2) == 3);
}

TEST_CASE("train_cifar: an evaluation is that of each picture on its own") {
  TrainOptions o = busy_options("gmlp-small");
  models::Gmlp model = make_model(o);
  nn::set_training(model, false);
  data::Dataset<data::ImageSample> data = data::image_dataset(draw_cifar10(5, 30, 3).test);
  Evaluation e = *evaluate(model, data);
  double loss = 0;
  std::array<double, 5> top = {};
  NoGradGuard no_grad;
  for (int64_t i = 0; i < data.size(); ++i) {
    data::ImageSample sample = data.get(i);
    Tensor x = empty({1, 3, 32, 32});
    data::normalize(*sample.image, {}, x.mutable_data<float>());
    std::vector<double> p = softmax(model(x), -1).to_vector<double>();
    auto label = static_cast<size_t>(sample.label);
    loss -= std::log(p[label]) / 30;
    size_t better = 0;
    for (double other : p) better += other > p[label];
    for (size_t k = better; k < 5; ++k) top[k] += 1.0 / 30;
    CHECK(e.probabilities[static_cast<size_t>(i) * 10 + label] ==
          doctest::Approx(p[label]).epsilon(1e-4));
  }
  CHECK(e.images == 30);
  CHECK(e.loss == doctest::Approx(loss).epsilon(1e-5));
  for (size_t k = 0; k < 5; ++k) CHECK(e.top[k] == doctest::Approx(top[k]));
  CHECK(std::accumulate(e.confusion.begin(), e.confusion.end(), int64_t{0}) == 30);
  CHECK_FALSE(evaluate(model, data, [](int64_t) { return false; }).has_value());
}

TEST_CASE("train_cifar: progress and options come back from text bit for bit") {
  RunProgress p{.step = 7, .loss_sum = 0.1 + 0.2, .seen = 3, .correct = 1, .train_seconds = 1e-310};
  p.history.push_back({.epoch = 1, .train_loss = 1.0 / 3, .test_top = {0.1, 0.2, 0.3, 0.4, 0.7}});
  RunProgress q = progress_from_json(progress_to_json(p));
  CHECK(q.loss_sum == p.loss_sum);
  CHECK(q.train_seconds == p.train_seconds);
  CHECK(q.history.at(0).train_loss == p.history[0].train_loss);
  CHECK(q.history[0].test_top == p.history[0].test_top);
  CHECK_THROWS_AS(progress_from_json("{}"), Error);
  CHECK_THROWS_AS(progress_from_json("[1"), Error);

  TrainOptions o = busy_options("gmlp-stem"), back;
  options_from_json(options_to_json(o), back);
  CHECK(options_to_json(back) == options_to_json(o));
  CHECK(back.mixup == 0.2);
  CHECK_THROWS_AS(options_from_json("{\"lr\": \"x\"}", back), IoError);
}

TrainOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train_cifar");
  TrainOptions o;
  parse_options(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data()), o);
  return o;
}

TEST_CASE("train_cifar: flags") {
  TrainOptions post = parse({"--data", "x"});
  CHECK(post.model == "gmlp-4m");
  CHECK(post.epochs == 10);
  CHECK(post.batch == 32);
  CHECK(post.lr == 1e-4);
  CHECK(post.dropout == 0.1);
  CHECK(parse({}).model == "gmlp-small");
  CHECK(parse({"--model", "gmlp-stem"}).dropout == 0);
  CHECK(parse({"--model", "gmlp-stem", "--dropout", ".3"}).dropout == 0.3);
  CHECK(parse({"--resume", "d", "--threads", "2", "--data", "x"}).resume == "d");
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"--no-such-flag"},
                                             {"--lr", "0"},
                                             {"--lr", "nan"},
                                             {"--epochs", "1.5"},
                                             {"--batch", "0"},
                                             {"--seed", "-1"},
                                             {"--model", "vgg"},
                                             {"--augment", "wild"},
                                             {"--resume", "d", "--lr", "1"}})
    CHECK_THROWS_AS(parse(wrong), Error);
}

TEST_CASE("train_cifar: a run, its folder, its end and its evaluation") {
  TempFolder folder;
  TrainOptions o = busy_options("gmlp-small");
  o.data = folder.file("data");
  o.out = folder.file("run");
  data::write_cifar10(o.data, tiny_data());
  REQUIRE(start_run(o) == 0);
  CHECK_THROWS_WITH_AS(start_run(o), doctest::Contains("holds a run already"), Error);

  RunFolder run{o.out};
  CHECK(slurp(run.report()).find("<svg") != std::string::npos);
  std::string log = slurp(run.log());
  std::istringstream lines(log);
  nlohmann::json line;
  int64_t epoch = 0;
  for (std::string text; std::getline(lines, text);) {
    line = nlohmann::json::parse(text);
    CHECK(line.at("epoch") == ++epoch);
    for (const char* key : {"train_loss", "train_top1", "test_loss", "test_top1", "test_top2",
                            "test_top3", "test_top4", "test_top5", "images_per_s", "lr", "seconds"})
      CHECK(line.at(key).is_number());
  }
  CHECK(epoch == 3);

  models::Gmlp model = make_model(o);
  nn::load_weights(run.last_weights(), model);
  nn::set_training(model, false);
  CHECK(evaluate(model, data::image_dataset(tiny_data().test))->loss == line.at("test_loss"));
  o.eval = run.best_weights();
  CHECK(evaluate_weights(o) == 0);

  TrainOptions again;
  again.resume = o.out;
  CHECK(resume_run(again) == 0);  // it is finished: nothing but the report is made again
  CHECK(slurp(run.log()) == log);
  std::string checkpoint = slurp(run.checkpoint());
  std::string half = checkpoint.substr(0, checkpoint.size() / 2);
  std::ofstream(run.checkpoint(), std::ios::binary) << half;
  CHECK_THROWS_AS(resume_run(again), IoError);
  CHECK(slurp(run.checkpoint()) == half);
}

}  // namespace
}  // namespace tern::apps
