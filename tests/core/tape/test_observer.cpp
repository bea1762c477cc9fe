// Observers of ops: the calls they receive, and the profiler, anomaly detector and memory timeline
// that are built on them.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tools/anomaly.h"
#include "tern/core/tools/memory_timeline.h"
#include "tern/core/tools/profile.h"
#include "tern/nn/nn.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_observer {
namespace {

using test::error_of, test::kNan;

struct Block {
  nn::Linear up, down;
  explicit Block(Rng& rng) : up(8, 16, rng), down(16, 8, rng) {}
  Tensor operator()(const Tensor& x) const { return x + down(gelu(up(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
  }
};

struct Net {
  std::vector<Block> blocks;
  explicit Net(Rng& rng) {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(rng);
  }
  Tensor operator()(Tensor x) const {
    for (const Block& b : blocks) x = b(x);
    return x;
  }
  static void fields(auto& m, auto&& visit) { visit("blocks", m.blocks); }
};

/// The text of the error that fn throws.
/// Records every op as a line "name module"; ops of the backward pass begin with "~".
struct Scribe : Observer {
  std::vector<std::string> told;
  int depth = 0, deepest = 0;
  void begin(const OpScope& op) override {
    deepest = std::max(deepest, ++depth);
    told.push_back(
        fmt::format("{}{} {}", op.pass() == Pass::backward ? "~" : "", op.name(), op.module()));
  }
  void end(const OpScope&) noexcept override { --depth; }
  bool heard(const std::string& line) const {
    return std::find(told.begin(), told.end(), line) != told.end();
  }
};

TEST_CASE("an observer sees every op, forward and backward, with its module") {
  Rng rng(1);
  Net net(rng);
  nn::num_parameters(net);  // the walk gives the parameters their names
  Tensor x = randn({4, 8}, rng);
  Scribe scribe;
  {
    ObserverScope watching(scribe);
    backward(sum(net(x)));
  }
  CHECK(scribe.heard("linear blocks.0.up"));
  CHECK(scribe.heard("linear blocks.1.down"));
  CHECK(scribe.heard("~linear blocks.0.up"));
  CHECK(
      scribe.heard("gelu blocks.0.up"));  // without parameters, an op belongs to its input's module
  CHECK(scribe.heard("~gelu blocks.1.up"));
  CHECK(scribe.heard("sum blocks.1.down"));
  CHECK(scribe.depth == 0);
  CHECK(scribe.deepest >= 2);  // the ops inside a VJP
  size_t before = scribe.told.size();
  static_cast<void>(net(x));
  CHECK(scribe.told.size() == before);
}

TEST_CASE("an observer: an op in a checkpoint has its own module in both of its runs") {
  Rng rng(1);
  Net net(rng);
  nn::num_parameters(net);
  const Tensor x = randn({4, 8}, rng);
  Scribe scribe;
  {
    const ObserverScope watching(scribe);
    const auto second = [&](std::span<const Tensor> in) { return net.blocks[1](in[0]); };
    backward(sum(checkpoint(second, {net.blocks[0](x)})));
  }
  const auto is_gelu = [](const std::string& line) { return line.find("gelu blocks") < 2; };
  std::erase_if(scribe.told, std::not_fn(is_gelu));
  CHECK(scribe.told == std::vector<std::string>{"gelu blocks.0.up", "gelu blocks.1.up",
                                                "~gelu blocks.1.up", "~gelu blocks.1.up",
                                                "~gelu blocks.0.up"});
}

TEST_CASE("an observer gets an end for every begin, even when an op throws") {
  Scribe scribe;
  ObserverScope watching(scribe);
  CHECK_THROWS_AS(matmul(ones({2, 3}), ones({2, 3})), Error);
  CHECK(scribe.depth == 0);
  CHECK(current_op() == nullptr);
}

TEST_CASE("several observers watch; each sees the ops of its own thread and scope") {
  Scribe outer, inner;
  ObserverScope a(outer);
  static_cast<void>(ones({2}));
  {
    ObserverScope b(inner);
    static_cast<void>(zeros({2}));
  }
  Region region("by hand");
  CHECK(outer.told.size() == 3);
  CHECK(inner.told.size() == 1);
  CHECK(outer.heard("by hand "));
}

TEST_CASE("errors say in which module they happened") {
  Rng rng(2);
  Net net(rng);
  CHECK_THROWS_WITH_AS(net(ones({5, 7})), doctest::Contains("linear: the input"), Error);
  nn::state_dict(net);
  CHECK_THROWS_WITH_AS(net(ones({5, 7})),
                       doctest::Contains("blocks.0.up: linear: the input (5, 7) does not end in"),
                       Error);
  CHECK(parameter_name(net.blocks[1].down.weight) == "blocks.1.down.weight");
  nn::num_parameters(net.blocks[1]);  // a walk over a part of the model keeps the longer names
  CHECK(parameter_name(net.blocks[1].down.weight) == "blocks.1.down.weight");
  nn::set_requires_grad(net, false);  // frozen parameters keep their names
  CHECK(error_of([&] { return net(ones({5, 7})); }).starts_with("blocks.0.up: linear"));
  Net copy = net;
  CHECK(error_of([&] { return copy(ones({5, 7})); }).starts_with("linear"));
  // A name belongs to a place. A parameter that has moved has no name rather than a wrong one.
  std::swap(net.blocks[0], net.blocks[1]);
  CHECK(error_of([&] { return net.blocks[0](ones({5, 7})); }).starts_with("linear"));
  nn::num_parameters(net);
  net.blocks[0] = Block(rng);
  CHECK(error_of([&] { return net.blocks[0](ones({5, 7})); }).starts_with("blocks.0.up: linear"));
  std::vector<nn::Linear> layers;
  for (int64_t n : {3, 4, 5}) layers.emplace_back(n, n, rng);
  nn::num_parameters(layers);
  layers.erase(layers.begin());
  CHECK(parameter_name(layers[0].weight) == "0.weight");
  CHECK(parameter_name(layers[1].weight) == "");
}

struct Encoder {
  nn::MultiHeadAttention self_attn;
  nn::Gru gru;
  explicit Encoder(Rng& rng) : self_attn(8, rng, {.heads = 2}), gru(8, 8, rng) {}
  static void fields(auto& m, auto&& visit) {
    visit("self_attn", m.self_attn);
    visit("gru", m.gru);
  }
};

TEST_CASE("errors and ops of layers with their own checks or weight views name the module") {
  Rng rng(7);
  Encoder encoder(rng);
  nn::num_parameters(encoder);
  CHECK(error_of([&] {
          return encoder.self_attn(ones({2, 3, 9}));
        }).starts_with("self_attn: MultiHeadAttention"));
  CHECK(error_of([&] { encoder.gru(ones({2, 3, 9})); }).starts_with("gru: recurrent"));
  Scribe scribe;
  {
    ObserverScope watching(scribe);
    Tensor x = randn({2, 3, 8}, rng), y = randn({2, 4, 8}, rng);
    backward(sum(encoder.self_attn(encoder.gru(x).output, y, y)));
  }
  CHECK(scribe.heard("linear self_attn"));
  CHECK(scribe.heard("attention self_attn"));
  CHECK(scribe.heard("~attention self_attn"));
  CHECK(scribe.heard("linear self_attn.out_proj"));
  CHECK(scribe.heard("rnn_layer gru"));
}

TEST_CASE("a profile counts calls, operations and bytes by op and by module") {
  Rng rng(3);
  Net net(rng);
  nn::num_parameters(net);
  Tensor x = randn({4, 8}, rng);
  Profile profile;
  backward(sum(net(x)));
  profile.stop();
  static_cast<void>(net(x));
  auto row = [&](const std::vector<Profile::Row>& rows, auto matches) {
    auto it = std::find_if(rows.begin(), rows.end(), matches);
    REQUIRE(it != rows.end());
    return *it;
  };
  auto named = [](const char* op, Pass pass) {
    return [=](const Profile::Row& r) { return r.op == op && r.pass == pass; };
  };
  Profile::Row linear = row(profile.by_op(), named("linear", Pass::forward));
  CHECK(linear.calls == 4);
  CHECK(linear.flops == 4 * 2 * 4 * 8 * 16);
  // x, w, b and the result of `up` are (4, 8), (16, 8), (16), (4, 16); `down` swaps 8 and 16.
  CHECK(linear.bytes == 2 * 4 * ((32 + 128 + 16 + 64) + (64 + 128 + 8 + 32)));
  CHECK(linear.total_seconds >= linear.self_seconds);
  // dW of all four calls, dX of all but the first, because x needs no gradient.
  CHECK(row(profile.by_op(), named("linear", Pass::backward)).flops == 7 * 2 * 4 * 8 * 16);
  Profile::Row up = row(profile.by_module(), [](const Profile::Row& r) {
    return r.module == "blocks.1.up" && r.pass == Pass::forward;
  });
  CHECK(up.calls == 2);  // linear and gelu
  // Operations count once, though the products are ops inside linear's VJP.
  Profile::Row up_backward = row(profile.by_module(), [](const Profile::Row& r) {
    return r.module == "blocks.1.up" && r.pass == Pass::backward;
  });
  CHECK(up_backward.flops == 2 * 2 * 4 * 8 * 16);
  for (const Profile::Row& r : profile.by_module()) CHECK(r.total_seconds >= r.self_seconds - 1e-9);
  std::string table = profile.table();
  CHECK(table.find("linear backward") != std::string::npos);
  CHECK(table.find("blocks.1.down") != std::string::npos);
  Profile in_place;
  x += x;  // reads two tensors and writes one
  CHECK(row(in_place.by_op(), named("operator+=", Pass::forward)).bytes == 3 * 4 * 32);
}

TEST_CASE("a profile of convolutions and attention counts their operations once") {
  Rng rng(4);
  Tensor x = randn({2, 3, 8, 8}, rng), w = randn({5, 3, 3, 3}, rng);
  Tensor q = randn({2, 4, 6, 8}, rng), k = randn({2, 4, 7, 8}, rng);
  Profile profile;
  static_cast<void>(conv2d(x, w));
  static_cast<void>(attention(q, k, k));
  int64_t flops = 0;
  for (const Profile::Row& r : profile.by_op()) flops += r.flops;
  CHECK(flops == 2 * 2 * 5 * 36 * 27 + 2 * 2 * (2 * 4 * 6 * 7 * 8));
}

TEST_CASE("a profile counts the time and the operations of a part within itself once") {
  Profile profile;
  {
    const Region whole("whole"), outer("part"), between("between"), inner("part");
    static_cast<void>(matmul(ones({20, 30}), ones({30, 40})));
  }
  std::map<std::string, Profile::Row> rows;
  for (const Profile::Row& r : profile.by_op()) rows[r.op] = r;
  CHECK(rows["part"].flops == 2 * 20 * 30 * 40);
  CHECK(rows["part"].total_seconds <= rows["whole"].total_seconds);
  CHECK(rows["part"].calls == 1);
}

TEST_CASE("a trace is JSON that viewers open") {
  const test::TempDir folder;
  const std::string path = folder / "trace.json";
  {
    Profile profile;
    {
      Region step("step");
      static_cast<void>(exp(ones({3})));
    }
    profile.write_trace(path);
  }
  std::ifstream in(path);
  nlohmann::json trace = nlohmann::json::parse(in);
  std::map<std::string, nlohmann::json> events;
  for (const auto& e : trace.at("traceEvents")) events[e.at("name")] = e;
  REQUIRE(events.contains("step"));
  REQUIRE(events.contains("exp"));
  const auto &step = events["step"], &op = events["exp"];
  CHECK(op.at("ph") == "X");
  CHECK(op.at("args").at("inputs") == "f32 (3,)");
  CHECK(op.at("ts").get<double>() >= step.at("ts").get<double>());
  CHECK(op.at("ts").get<double>() + op.at("dur").get<double>() <=
        step.at("ts").get<double>() + step.at("dur").get<double>() + 1e-3);
}

TEST_CASE("the anomaly detector names the first op with a NaN, its inputs and its module") {
  Rng rng(5);
  Net net(rng);
  nn::num_parameters(net);
  {
    NoGradGuard guard;
    for (int64_t unit : {3, 4}) fill_(net.blocks[1].up.weight.tensor()[unit], 3e38);
  }
  // Two units become infinite. Where their weights in `down` differ in sign, the sum is NaN.
  AnomalyDetector detector;
  std::string text = error_of([&] { return net(full({4, 8}, 10)); });
  CHECK(text.starts_with("blocks.1.down: NaN first seen in linear, forward"));
  CHECK(text.find("before that, blocks.1.up: infinity first seen in linear") != text.npos);
}

TEST_CASE("the anomaly detector: an op is not blamed for a NaN in its input data") {
  const Tensor bad = tensor({1, kNan, 3}, {3});
  const std::string told = "exp was given NaN; inputs: f32 (3,) in [1, 3], 1 NaN";
  {
    AnomalyDetector given;
    CHECK(error_of([&] { return exp(bad) * 2; }) == told);
    CHECK(given.first_given() == told);
    CHECK(error_of([&] { return exp(bad) * 2; }) == told);  // reported every time
  }
  {
    // For an op composed of ops, the outermost op is named.
    AnomalyDetector given;
    CHECK(error_of([&] { return stddev(bad); }).starts_with("std was given NaN"));
  }
  {
    // A checkpoint runs modules: the op in it is named, with its module.
    Rng rng(4);
    const Net net(rng);
    nn::num_parameters(net);
    AnomalyDetector given;
    const auto fn = [&net](std::span<const Tensor> in) { return net(in[0]); };
    CHECK(error_of([&] {
            return checkpoint(fn, {full({4, 8}, kNan)});
          }).starts_with("blocks.0.up: linear was given NaN"));
    const Tensor y = checkpoint(fn, {ones({4, 8})});
    CHECK(error_of([&] {
            backward(y, {.gradient = full({4, 8}, kNan)});
          }).starts_with("blocks.1.down: add was given NaN"));
  }
  {
    // The op that computes with the NaN is named, not ops that only move elements.
    AnomalyDetector given;
    const Tensor list = tensor(std::vector<int64_t>{1, 0, 1}, {3});
    const Tensor made = tensor({1, kNan}, {2}, DType::f64);
    const std::vector<std::function<Tensor()>> movers = {
        [&] { return bad.clone(); },
        [&] { return made; },
        [&] { return bad.to(DType::f64); },
        [&] {
          return transpose(stack({bad, bad}), 0, 1).contiguous();
        },
        [&] { return index_select(bad, 0, list); },
        [&] { return gather(bad, 0, list); },
        [&] { return take_along_axis(bad, list, 0); },
        [&] { return repeat(bad, 2); },
        [&] { return flip(bad, 0); },
        [&] { return roll(bad, 1, 0); },
        [&] { return sort(bad, 0).values; },
        [&] { return scatter(zeros({3}), 0, list, bad); }};
    for (const auto& move : movers) {
      Tensor moved;
      CHECK_NOTHROW(moved = move());
      CHECK(error_of([&] { return exp(moved); }).starts_with("exp was given NaN; inputs: "));
    }
  }
  // Ops that test, copy or mask the NaN are not named, and a later NaN is still found.
  AnomalyDetector detector;
  Tensor clean;
  CHECK_NOTHROW(clean = where(isnan(bad), zeros({3}), stack({bad})[0]));
  CHECK_NOTHROW(exp(clean).to_vector<float>());
  CHECK(detector.first_given().find("was given NaN; inputs: f32 (3,)") != std::string::npos);
  CHECK(error_of([&] { return sqrt(clean - 2); }).starts_with("NaN first seen in sqrt, forward"));
}

TEST_CASE("the anomaly detector: a training loop with a NaN in the data or in a weight") {
  Rng rng(4);
  Net net(rng);
  nn::num_parameters(net);
  Tensor x = randn({4, 8}, rng);
  {
    NoGradGuard guard;
    fill_(x[2], kNan);
  }
  AnomalyDetector detector;
  CHECK(error_of([&] {
          backward(sum(net(x)));
        }).starts_with("blocks.0.up: linear was given NaN; inputs: f32 (4, 8)"));
  {
    NoGradGuard guard;
    fill_(x[2], 1);
    fill_(net.blocks[1].down.bias.tensor()[0], kNan);
  }
  CHECK(
      error_of([&] { backward(sum(net(x))); }).starts_with("blocks.1.down: linear was given NaN"));
}

TEST_CASE("the anomaly detector: forward and backward") {
  AnomalyDetector detector;
  CHECK_THROWS_WITH_AS(
      sqrt(tensor({4, -1}, {2})),
      doctest::Contains("NaN first seen in sqrt, forward: 1 of 2 elements of the result (2,); "
                        "inputs: f32 (2,) in [-1, 4]"),
      Error);
  Tensor x = tensor({0, 1}, {2});
  x.set_requires_grad();
  Tensor y = sqrt(x) * tensor({0, 1}, {2});  // 0 * infinity in backward
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("sqrt, backward"), Error);
}

TEST_CASE("the anomaly detector: ops that write in place, and gradients that are added") {
  AnomalyDetector detector;
  const Tensor infinite = tensor({2, HUGE_VAL}, {2});
  const std::string inputs = "inputs: f32 (2,) in [0, 1]; f32 (2,) in [2, 2], 1 infinite";
  const Tensor x = tensor({1, 0}, {2});
  CHECK(error_of([&] { mul_(x, infinite); }) ==
        "NaN first seen in mul_, forward: 1 of 2 elements of the result (2,); " + inputs);
  const Tensor y = tensor({1, 0}, {2});
  CHECK(error_of([&] { y *= infinite; }).starts_with("NaN first seen in operator*=, forward"));
  const Tensor w = tensor({1, 2}, {2}).set_requires_grad();
  w.set_grad(infinite.clone());
  CHECK(error_of([&] {
          backward(w * 1, {.gradient = -infinite});
        }).starts_with("NaN first seen in add_, backward: 1 of 2 elements of the result (2,)"));
  // The first op that reads a NaN that was given is named, not the one that adds it.
  const Tensor z = tensor({1, 2}, {2});
  CHECK_NOTHROW(z += tensor({1, kNan}, {2}));
  CHECK(error_of([&] { return exp(z); }).starts_with("exp was given NaN"));
}

TEST_CASE("the anomaly detector does not blame an op for a NaN already in the gradient") {
  Rng rng(9);
  Net net(rng);
  nn::num_parameters(net);
  Tensor x = randn({4, 8}, rng);
  const nn::Parameter& w = net.blocks[1].down.weight;
  w.tensor().set_grad(full(w.shape(), kNan));
  {
    AnomalyDetector detector;
    CHECK(error_of([&] { backward(sum(net(x))); }) ==
          "blocks.1.down: the gradient gathered for input 1 of linear already had NaN: f32 (8, "
          "16), 128 NaN");
  }
  w.tensor().set_grad(full(w.shape(), HUGE_VAL));
  AnomalyDetector strict({.infinities = true});
  CHECK_NOTHROW(backward(sum(net(x))));
}

TEST_CASE("the anomaly detector does not read uninitialized results") {
  Rng rng(8);
  Tensor x = randn({16, 16}, rng);
  AnomalyDetector detector;
  auto spoil_free_memory = [] {
    std::vector<Tensor> blocks;
    for (int64_t rows : {16, 17, 18, 32})
      for (int i = 0; i < 4; ++i) blocks.push_back(full({rows, 16}, kNan));
  };
  spoil_free_memory();
  Tensor y = cat({x, x}), z = stack({x, x}), p = pad(x, {0, 0, 1, 1});
  spoil_free_memory();
  Tensor filled = empty({16, 16});
  fill_(filled, 1);
  spoil_free_memory();
  Tensor copied = empty({16, 16});
  copy_(copied, x);
  CHECK(detector.first_given() == "");
  CHECK_THROWS_WITH_AS(sqrt(-square(x)), doctest::Contains("NaN first seen in sqrt"), Error);
}

TEST_CASE("the anomaly detector remembers infinities, and stops at them on request") {
  {
    AnomalyDetector detector;
    Tensor huge = exp(tensor({1000}, {1}));
    CHECK_THROWS_WITH_AS(huge - huge, doctest::Contains("before that, infinity first seen in exp"),
                         Error);
  }
  AnomalyDetector strict({.infinities = true});
  CHECK_NOTHROW(masked_fill(ones({2}), ones({2}, DType::u8), -HUGE_VAL));
  CHECK_THROWS_WITH_AS(exp(tensor({1000}, {1})), doctest::Contains("infinity first seen in exp"),
                       Error);
}

TEST_CASE("a memory timeline names the ops that made the largest tensors, at the peak and now") {
  Rng rng(6);
  nn::Linear layer(64, 32, rng);
  nn::num_parameters(layer);
  Tensor x = randn({128, 64}, rng);
  constexpr int64_t kBig = 4 << 20;
  MemoryTimeline timeline;
  Tensor small = exp(x), module_result = layer(x);
  {
    Tensor y = tanh(zeros({kBig / 4})), z = sin(y), v = cos(y);
    CHECK(timeline.largest(1)[0].bytes >= kBig);
    CHECK(timeline.live_bytes() >= 2 * kBig);
  }
  CHECK(timeline.live_bytes() < kBig);
  CHECK(timeline.peak_bytes() >= 2 * kBig);
  std::vector<MemoryTimeline::Block> now = timeline.largest(),
                                     at_peak = timeline.largest_at_peak(3);
  REQUIRE(now.size() == 2);
  CHECK(now[0].maker == "exp");
  CHECK(now[1].maker == "linear");
  std::set<std::string> makers;
  for (const MemoryTimeline::Block& b : at_peak) makers.insert(b.maker);
  CHECK(makers == std::set<std::string>{"cos", "sin", "tanh"});
  CHECK(timeline.report().find("sin") != std::string::npos);
  CHECK_THROWS_WITH_AS([] { const MemoryTimeline second; }(), doctest::Contains("another one"),
                       Error);
}

TEST_CASE("a memory timeline lists the requested number of tensors, also at the peak") {
  MemoryTimeline timeline;
  {
    std::vector<Tensor> kept;
    for (int i = 0; i < 40; ++i) kept.push_back(ones({1000}));
    CHECK(timeline.largest(30).size() == 30);
  }
  CHECK(timeline.largest().empty());
  CHECK(timeline.largest_at_peak(30).size() == 30);
  CHECK(timeline.largest_at_peak(1000).size() >= 38);  // the peak is known to 1 %
}

TEST_CASE("the error of the memory cap lists the largest tensors while a timeline exists") {
  struct Cap {
    ~Cap() { set_memory_cap(0); }
  } cap;
  trim_memory();
  MemoryTimeline timeline;
  Tensor kept = tanh(ones({1 << 18}));
  set_memory_cap(memory_stats().live + memory_stats().cached + (1 << 20));
  CHECK_THROWS_WITH_AS(exp(ones({1 << 22})), doctest::Contains("the largest tensors alive"), Error);
  CHECK_THROWS_WITH_AS(exp(ones({1 << 22})), doctest::Contains("tanh"), Error);
}

}  // namespace
}  // namespace tern::test_observer
