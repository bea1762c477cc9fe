// The C++ of docs/howto.md about models, gradients and files: the quoted code, then its checks.
#include <fmt/core.h>
#include <tern/core/ops/fused.h>
#include <tern/tern.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

using namespace tern;

struct Block {
  nn::LayerNorm norm;
  nn::Linear up, down;
  nn::Dropout dropout;
  Block(int64_t dim, Rng& rng)
      : norm(dim), up(dim, 4 * dim, rng), down(4 * dim, dim, rng), dropout(0.1, rng) {}
  Tensor operator()(const Tensor& x) const { return x + dropout(down(gelu(up(norm(x))))); }
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.norm), visit("up", m.up), visit("down", m.down), visit("dropout", m.dropout);
  }
};

struct Deep {
  std::vector<Block> blocks;  // named blocks.0, blocks.1, ...
  nn::Linear head;
  Deep(int64_t dim, int64_t depth, int64_t classes, Rng& rng) : head(dim, classes, rng) {
    for (int64_t i = 0; i < depth; ++i) blocks.emplace_back(dim, rng);
  }
  Tensor operator()(Tensor x) const {
    for (const Block& block : blocks) x = block(x);  // a copy would have weights of its own
    return head(x);
  }
  static void fields(auto& m, auto&& visit) { visit("blocks", m.blocks), visit("head", m.head); }
};

struct Tied {  // the logits come from the matrix of the embedding
  nn::Embedding embed;
  nn::Linear body;
  Tied(int64_t words, int64_t dim, Rng& rng) : embed(words, dim, rng), body(dim, dim, rng) {}
  Tensor operator()(const Tensor& ids) const {
    return linear(gelu(body(embed(ids))), embed.weight);
  }
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed), visit("body", m.body);
    visit("head.weight", m.embed.weight);  // if files of others have it under this name, too
  }
};

struct Reader {
  std::shared_ptr<nn::Embedding> table;  // of several readers
  nn::Linear head;
  Reader(std::shared_ptr<nn::Embedding> shared, Rng& rng)
      : table(std::move(shared)), head(table->weight.size(1), 2, rng) {}
  Tensor operator()(const Tensor& ids) const { return head((*table)(ids)); }
  static void fields(auto& m, auto&& visit) { visit("table", *m.table), visit("head", m.head); }
};

optim::AdamW optimizer_of_both(const Reader& first, const Reader& second) {
  NamedTensors all = nn::named_parameters(first, "first.");  // with the table
  for (const auto& entry : nn::named_parameters(second.head, "second.head.")) all.push_back(entry);
  return optim::AdamW(all, {.lr = 1e-2});
}

void initialise(Deep& model, Rng& rng) {
  for (const auto& [name, weight] : nn::named_parameters(model)) {
    if (weight.ndim() == 2)
      nn::init::trunc_normal(weight, rng, {.std = 0.02});
    else if (name.ends_with("bias"))
      nn::init::constant(weight, 0);
  }
}

int64_t trained_weights(const Deep& model) {
  int64_t n = 0;
  for (const Tensor& weight : nn::parameters(model))
    if (weight.requires_grad()) n += weight.numel();
  return n;
}

void check_my_layer() {
  Rng rng(0);
  nn::check_module(Block(8, rng), {randn({3, 5, 8}, rng)});
}

SafeTensors outputs_of_layers(const Deep& model, const Tensor& x) {
  nn::named_parameters(model);  // gives the layers their names
  ActivationRecorder recorder;
  const Tensor y = model(x);
  return recorder.recording();  // "output/000000/blocks.0.norm", ...
}

struct SmallestInput : Observer {  // told of every op of this thread
  double smallest = 0;
  void begin(const OpScope& op) override {
    if (op.name() == std::string("gelu")) smallest = std::min(smallest, min(op.input(0)).item());
  }
};

double smallest_input_of_gelu(const Deep& model, const Tensor& x) {
  SmallestInput seen;
  ObserverScope watching(seen);
  const Tensor y = model(x);
  return seen.smallest;
}

Tensor without_up(const Deep& model, const Tensor& x) {
  nn::LinearHook hook(model, "blocks.0.up.weight",
                      [](const Tensor&, const Tensor& y) { return zeros_like(y); });
  return model(x);
}

Tensor with_small_gradient(const Tensor& x) {
  return on_gradient(x, [](const Tensor& dy) { return clamp(dy, -0.1, 0.1); });
}

// e^x whose gradient is bounded: y is what PyTorch's ctx.save_for_backward keeps.
Tensor bounded_exp(const Tensor& x) {
  Op op("bounded_exp", x);
  Fresh y = Fresh::adopt(exp(x.detach()));
  return op.record(y, [y = save(y)](const Tensor& dy) { return dy * minimum(y.get(), 10.); });
}

Tensor tanh_exp(const Tensor& x) {
  return fused(
      "tanh_exp", [](auto v) { return v * tanh(exp(v)); }, x);
}

Tensor quantile_loss(const Tensor& predicted, const Tensor& target, double q) {
  const Tensor d = target - predicted;
  return mean(maximum(q * d, (q - 1) * d));
}

void load_averages(Deep& model, const std::string& path) {
  nn::load_state_dict(model, load_torch(path, {.member = "model_ema"}).tensors);
}

void load_without_head(Deep& model, const std::string& path) {
  NamedTensors found;
  for (const auto& [name, weight] : load_tensors(path).tensors)
    if (!name.starts_with("head.")) found.emplace_back(name, weight);
  nn::load_state_dict(model, found, {.strict = false});  // the head stays as it was made
}

struct Text {
  Tensor ids, label;  // i64 (T) with the tokenizer's [CLS] and [SEP], and i64 ()
  static void fields(auto& t, auto&& visit) { visit("ids", t.ids), visit("label", t.label); }
};

models::Bert text_classifier(const std::string& file, int64_t classes, Rng& rng) {
  models::BertOptions options = models::load_bert_encoder(file, rng).options;
  options.classes = classes;
  models::Bert model(options, rng);
  models::load_bert_weights(file, model, {.strict = false});  // all but the classifier
  return model;
}

Tensor text_loss(const models::Bert& model, const datasets::Padded<Text>& batch) {
  const nn::Mask mask = nn::Mask::lengths(batch.lengths.ids);
  return cross_entropy(model({batch.values.ids, {}, mask}).classes, batch.values.label);
}

struct LowRank {  // W + b a in the place of the matrix W called `name`
  std::string name;
  nn::Parameter a, b;
  LowRank(const Deep& model, std::string matrix, int64_t rank, Rng& rng) : name(matrix) {
    for (const auto& [found, w] : nn::named_parameters(model))
      if (found == name) {
        a = nn::Parameter(randn({rank, w.size(1)}, rng) / std::sqrt(w.size(1)));
        b = nn::Parameter(zeros({w.size(0), rank}));
      }
  }
  Tensor loss(const Deep& model, const Tensor& x, const Tensor& label) const {
    auto add = [&](const Tensor& in, const Tensor& out) { return out + linear(linear(in, a), b); };
    nn::LinearHook adapted(model, name, add);
    return cross_entropy(model(x), label);
  }
  static void fields(auto& m, auto&& visit) { visit("a", m.a), visit("b", m.b); }
};

void write_onnx(const Deep& model, Rng& rng) {
  const Tensor two = randn({2, 16}, rng), five = randn({5, 16}, rng);
  export_onnx("deep.onnx", model, {{two}, {five}}, {.inputs = {"x"}, .outputs = {"logits"}});
}

void write_both(const Deep& model, Rng& rng) {
  auto fn = [&](const OnnxTensors& x) {
    const Tensor y = model(x[0] + x[1]);
    return OnnxTensors{y, softmax(y, -1)};
  };
  const OnnxTensors two = {randn({2, 16}, rng), randn({2, 16}, rng)};
  const OnnxTensors five = {randn({5, 16}, rng), randn({5, 16}, rng)};
  export_onnx("both.onnx", model, fn, {two, five}, {.outputs = {"logits", "shares"}});
}

std::string where_the_time_goes(const Deep& model, const Tensor& x, const Tensor& label) {
  Profile profile;
  cross_entropy(model(x), label).backward();
  profile.stop();
  profile.write_trace("step.json");  // for ui.perfetto.dev and chrome://tracing
  return profile.table(10);          // by op and by module
}

std::string what_it_takes(const Deep& model) {
  return summary(model, Shape{64, 16}).text();  // weights, operations, memory of a training step
}

void find_the_first_nan(const Deep& model, const Tensor& x, const Tensor& label) {
  AnomalyDetector detector;  // throws at the first op that gives one, and names it
  cross_entropy(model(x), label).backward();
}

void log_to_tensorboard(const Deep& model, const std::string& folder) {
  training::EventWriter events(folder);
  for (int64_t step = 0; step < 3; ++step) events.add_scalar("train/loss", 1.0 / (step + 1), step);
  events.add_histogram("head.weight", model.head.weight, 2);
}

// ---- Checks ------------------------------------------------------------------------------------

bool same(const Tensor& a, const Tensor& b) { return all(eq(a, b)).item<bool>(); }

struct Setup {
  Rng rng{0};
  Deep model{16, 2, 3, rng};
  Tensor x = randn({8, 16}, rng), label = randint(0, 3, {8}, rng);
  Setup() { nn::set_training(model, false); }
};

void check_models() {
  Setup s;
  const int64_t block = 2 * 16 + 16 * 64 + 64 + 64 * 16 + 16, head = 16 * 3 + 3;
  check(nn::num_parameters(s.model) == 2 * block + head, "all weights");
  nn::set_requires_grad(s.model.blocks, false);
  check(trained_weights(s.model) == head, "those that are trained");
  initialise(s.model, s.rng);
  check(max(abs(s.model.head.bias)).item() == 0, "biases begin at 0");
  const double deviation = stddev(s.model.blocks[0].up.weight).item();
  check(deviation > 0.018 && deviation < 0.022, "weights deviate by {}", deviation);
  check(max(s.model.blocks[0].norm.weight).item() == 1, "norms stay as they are");
  check_my_layer();
}

void check_shared_weights() {
  Rng rng(0);
  const Tied tied(5, 4, rng);
  const Tensor ids = tensor({0, 3});
  check(nn::num_parameters(tied) == 5 * 4 + 4 * 4 + 4, "a tied weight counts once");
  check(tied(ids).shape() == Shape{2, 5}, "logits");
  sum(square(tied(ids))).backward();
  // Words that do not occur in the input get their gradient from the logits.
  check(norm(tied.embed.weight.grad()[1]).item() > 0, "both places give a gradient");

  const auto table = std::make_shared<nn::Embedding>(5, 4, rng);
  const Reader first(table, rng), second(table, rng), copy = first;
  check(nn::named_parameters(copy)[0].first == "table.weight" && copy.table == table, "shared");
  optim::AdamW optimizer = optimizer_of_both(first, second);
  const Tensor before = table->weight.own().clone();
  (sum(square(first(ids))) + sum(square(second(ids)))).backward();
  optimizer.step();
  // The first step of Adam has the size of the learning rate, plus the weight decay.
  const double moved = max(abs(table->weight - before)).item();
  check(moved > 0.9e-2 && moved < 1.1e-2, "the table moves once, by {}", moved);
  check(same(first.table->weight, second.table->weight), "in both");
}

void check_looking_inside() {
  Setup s;
  const SafeTensors outputs = outputs_of_layers(s.model, s.x);
  const Tensor of_head = outputs.find("output/000006/head");
  check(of_head.defined() && same(of_head, s.model(s.x)), "the head's output");
  check(smallest_input_of_gelu(s.model, s.x) < 0, "an observer sees inputs");
  const Tensor plain = s.model(s.x), other = without_up(s.model, s.x);
  check(!same(plain, other) && same(plain, s.model(s.x)), "a hook changes what it hooks");
  Tensor w = ones({3}).set_requires_grad();
  sum(with_small_gradient(w) * tensor({-5, 0.05, 5}, {3})).backward();
  check(all_close(w.grad(), tensor({-0.1, 0.05, 0.1}, {3})), "gradients are clamped");
}

void check_gradients() {
  Tensor x = tensor({0, 1, 5}, {3}, DType::f64).set_requires_grad();
  const Tensor y = bounded_exp(x);
  check(all_close(y, exp(x)), "the values of exp");
  const Tensor slope = grad({sum(y)}, {x})[0];
  check(all_close(slope, minimum(exp(x.detach()), 10.)), "its gradient");
  gradcheck([](const std::vector<Tensor>& in) { return tanh_exp(in[0]); }, {x});
  gradgradcheck([](const std::vector<Tensor>& in) { return tanh_exp(in[0]); }, {x});
  const Tensor target = tensor({0, 0, 10}, {3}, DType::f64);
  check(all_close(quantile_loss(x, target, 0.9), scalar((0 + 0.1 * 1 + 0.9 * 5) / 3, DType::f64)),
        "the loss of a quantile");
}

void check_files() {
  Setup s;
  nn::save_weights("deep.safetensors", s.model);
  Rng other(1);
  Deep wider(16, 2, 7, other);  // seven classes
  const Tensor head = wider.head.weight.own().clone();
  load_without_head(wider, "deep.safetensors");
  check(same(wider.blocks[1].down.weight, s.model.blocks[1].down.weight), "the body is loaded");
  check(same(wider.head.weight, head), "the head is not");

  nn::set_requires_grad(s.model, false);
  LowRank lora(s.model, "blocks.1.up.weight", 2, other);
  optim::AdamW optimizer(nn::named_parameters(lora), {.lr = 1e-2});
  const double before = lora.loss(s.model, s.x, s.label).item();
  check(before == cross_entropy(s.model(s.x), s.label).item(), "an adapter that changes nothing");
  const Tensor weight = s.model.blocks[1].up.weight.own().clone();
  for (int step = 0; step < 20; ++step) {
    lora.loss(s.model, s.x, s.label).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  check(lora.loss(s.model, s.x, s.label).item() < before, "the adapter learns");
  check(same(weight, s.model.blocks[1].up.weight), "the model does not");
}

void check_text_classifier() {
  Rng rng(0);
  models::BertOptions tiny = models::bert_options("tiny");
  tiny.vocab = 40, tiny.positions = 8, tiny.dropout = tiny.attention_dropout = 0;
  const models::Bert pretrained(tiny, rng);
  nn::save_weights("bert.safetensors", pretrained);
  std::ofstream("config.json") << models::bert_options_to_json(tiny);
  const models::Bert model = text_classifier("bert.safetensors", 3, rng);
  check(
      same(model.bert.layers[1].output.dense.weight, pretrained.bert.layers[1].output.dense.weight),
      "the encoder is loaded");
  auto text = [](int64_t i) { return Text{arange(5, i + 8), scalar(i % 3, DType::i64)}; };
  auto loader = datasets::dataset_loader(datasets::Dataset<Text>(4, text),
                                         datasets::Pad{.value = 0}, {.batch = 4});
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-3});
  const datasets::Padded<Text> batch = *loader.next();
  const double before = text_loss(model, batch).item();
  for (int step = 0; step < 3; ++step) {
    text_loss(model, batch).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  check(text_loss(model, batch).item() < before, "the classifier learns");
}

void check_export() {
  Setup s;
  write_onnx(s.model, s.rng);
  write_both(s.model, s.rng);
  const auto weights = nn::num_parameters(s.model) * 4;
  for (const char* file : {"deep.onnx", "both.onnx"})
    check(static_cast<int64_t>(std::filesystem::file_size(file)) > weights, "{}: weights", file);
}

void check_tools() {
  Setup s;
  check(where_the_time_goes(s.model, s.x, s.label).find("blocks.0.up") != std::string::npos,
        "modules are in the profile");
  check(std::filesystem::exists("step.json"), "the trace is written");
  check(what_it_takes(s.model).find("peak") != std::string::npos, "the memory is in the summary");
  find_the_first_nan(s.model, s.x, s.label);
  std::string said;
  try {
    find_the_first_nan(s.model, s.x / zeros_like(s.x), s.label);
  } catch (const Error& e) {
    said = e.what();
  }
  check(said.find("blocks.0.norm") != std::string::npos, "not where the NaN is: {}", said);
  log_to_tensorboard(s.model, "events");
  check(training::has_event_files("events"), "event files are there");
}

int main() {
  check_models();
  check_shared_weights();
  check_looking_inside();
  check_gradients();
  check_files();
  check_text_classifier();
  check_export();
  check_tools();
}
