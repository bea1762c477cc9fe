// Every piece of C++ in the tables of docs/pytorch.md, compiled and, where the page gives a result,
// checked. tests/project/test_guide.cpp checks that none is missing.
#include <fmt/core.h>
#include <tern/tern.h>

#include <filesystem>

using namespace tern;

namespace {

void expect(const Tensor& is, const Tensor& wanted) {
  check(is.shape() == wanted.shape() && all_close(is, wanted, 1e-5, 1e-6), "{} is not {}", is,
        wanted);
}

void creation() {
  Rng rng(0);
  std::vector<double> values = {1, 2, 3};
  expect(tensor({1, 2, 3, 4}, {2, 2})[1], tensor({3, 4}, {2}));
  expect(tensor({{1., 2.}, {3., 4.}}), tensor({1, 2, 3, 4}, {2, 2}));
  check(tensor({1, 2}).dtype() == DType::i64, "integers");
  check(tensor(values).dtype() == DType::f64, "the type of the elements");
  expect(zeros({2, 3}), full({2, 3}, 0));
  check(ones({2, 3}, DType::f64).dtype() == DType::f64, "ones");
  check(randn({2, 3}, rng).shape() == Shape{2, 3}, "randn");
  check(max(uniform({2, 3}, 0, 1, rng)).item() < 1, "uniform");
  check(max(randint(0, 10, {8}, rng)).item() < 10, "randint");
  expect(sort(randperm(8, rng)).values, arange(0, 8));
  check(arange(5).dtype() == DType::i64, "arange");
  expect(linspace(0, 1, 5), tensor({0, 0.25, 0.5, 0.75, 1}, {5}));
  Tensor x = randn({2, 3}, rng), y = zeros_like(x);
  check(x.dtype() == DType::f32 && x.to(DType::f64).dtype() == DType::f64, "to");
  check(x.size(0) == 2 && x.ndim() == 2 && x.numel() == 6 && x.shape() == Shape{2, 3}, "sizes");
  check(rng.uniform() < 1 && rng.below(10) < 10, "single numbers");
  Tensor loss = mean(x);
  fmt::print("{}\n", x);
  fmt::print("{:.4f}\n", loss.item());
  expect(pad_sequence({ones({3}), ones({2})}), tensor({{1., 1., 1.}, {1., 1., 0.}}));
  check(sum(y).item() == 0 && x.to_vector<double>().size() == 6, "item, to_vector");
  check(x.span<float>()[0] == x.data<float>()[0], "span, data");
  x.mutable_span<float>()[0] = 3;
  x.increment_version();
  check(Tensor::wrap(values.data(), {3})[2].item() == 3, "wrap");
  datasets::save_npy("x.npy", x);
  expect(datasets::load_npy("x.npy"), x);
}

void views() {
  Rng rng(0);
  Tensor x = randn({2, 4}, rng);
  check(x[0].shape() == Shape{4} && x[0][1].shape() == Shape{}, "x[0]");
  check(slice(x, 1, 1, 3).shape() == Shape{2, 2}, "x[:, 1:3]");
  expect(slice(x, {{}, {1, 3}}), slice(x, 1, 1, 3));
  expect(slice(x, {{}, -1}), select(x, 1, -1));
  expect(slice(x, {1, {{}, {}, 2}}), stack({x[1][0], x[1][2]}));
  expect(select(x, 1, -1), squeeze(slice(x, 1, 3, {}), 1));
  expect(slice(x, 1, {}, {}, -1), flip(x, 1));
  check(view(x, {4, 2}).shape() == Shape{4, 2} && reshape(x, {-1}).shape() == Shape{8}, "view");
  check(transpose(x, 0, 1).shape() == Shape{4, 2}, "transpose");
  expect(permute(x, {1, 0}), transpose(x, 0, 1));
  check(unsqueeze(x, 0).shape() == Shape{1, 2, 4}, "unsqueeze");
  check(expand(x[0], {2, 4}).shape() == x.shape(), "expand");
  check(repeat(x, {2, 1}).shape() == Shape{4, 4}, "repeat");
  check(cat({x, x}, 1).shape() == Shape{2, 8} && stack({x, x}).shape() == Shape{2, 2, 4}, "cat");
  check(split(x, 2, 1).size() == 2 && chunk(x, 2, 1).size() == 2, "split");
  check(flatten(x).shape() == Shape{8}, "flatten");
  check(pad(x, {1, 1}).shape() == Shape{2, 6}, "pad");
  check(rearrange(x, "b (h d) -> b h d", {{"h", 2}}).shape() == Shape{2, 2, 2}, "rearrange");
  // In place.
  Tensor shared = x, copied = x.clone();
  x[0] = zeros({4});
  slice(x, {{}, {1, 3}}) = 0;
  x[0] += 1;
  copy_(x[1], zeros({4}));
  fill_(x[1], 2);
  mul_(x, 2);
  expect(shared, x);
  check(!all_close(copied, x), "clone");
}

void indices() {
  Tensor x = tensor({1, -2, 3, -4, 5, -6}, {2, 3});
  Tensor i = tensor(std::vector{1, 0}), j = tensor(std::vector{2, 2});
  expect(index_select(x, 0, i), flip(x, 0));
  Tensor w = x.clone(), rows = x.clone();
  w = index_add(w, 0, i, rows, -1);
  expect(w, x - flip(x, 0));
  expect(index(x, {i, j}), tensor({-6, 3}, {2}));
  expect(masked_select(x, x > 0), tensor({1, 3, 5}, {3}));
  expect(masked_fill(x, x < 0, 0), relu(x));
  expect(where(x > 0, x, 0), relu(x));
  expect(gather(x, 1, unsqueeze(j, 1)), tensor({3, -6}, {2, 1}));
  check(((x > 0) & (x < 4)).dtype() == DType::u8, "masks");
  expect(((x > 0).to(DType::i64) * 2 - 1).to(DType::f32), sign(x));
  check(min((x > 0) * 2 - 1).item() == 1 && max((x > 0) * 2 - 1).item() == 255, "u8 wraps around");
  expect(where(x < 0, x * 2, x), x + masked_fill(x, x > 0, 0));
  Tensor y = ones({2});
  expect(index_put(x, {i, j}, y, true)[1], tensor({-4, 5, -5}, {3}));
  check(argmax(x, 1)[0].item() == 2 && topk(x, 2).indices[0][0].item() == 2, "argmax, topk");
  expect(sort(x, 1).values[0], tensor({-2, 1, 3}, {3}));
  expect(one_hot(i, 2).to(DType::f32), flip(eye(2), 0));
}

void arithmetic() {
  Rng rng(0);
  Tensor x = randn({3, 3}, rng), y = randn({3, 3}, rng), v = randn({3}, rng);
  expect(2 * x + y - 1, y - 1 + x * 2);
  expect(pow(x, 2), square(x));
  expect(matmul(x, y), einsum("ij,jk->ik", {x, y}));
  check(sum(x, 1, true).shape() == Shape{3, 1} && mean(x, {0, 1}).ndim() == 0, "sum, mean");
  check(max(x, 1).values.shape() == Shape{3} && max(x).ndim() == 0, "max");
  expect(amax(x, {0, 1}), max(x));
  expect(max(x, y) + min(x, y), maximum(x, y) + minimum(x, y));
  expect(relu6(x), hardtanh(x, 0, 6));
  expect(hardtanh(x, -2, 2), clamp(x, -2, 2));
  expect(log_sigmoid(x), log(sigmoid(x)));
  check(stddev(x).item() > 0 && var(x, {}, 0).item() > 0, "std");
  expect(stddev(x, 1, 1, true), sqrt(unsqueeze(var(x, 1), 1)));
  check(norm(x).item() > 0 && norm(x, 1, 0).shape() == Shape{3}, "norm");
  expect(norm(x, 2, 1), sqrt(sum(x * x, 1)));
  check(max(abs(1 / 2 * x)).item() == 0, "C++ divides whole numbers");
  expect(softmax(x, -1), exp(log_softmax(x, -1)));
  expect(clamp(x, 0, {}), relu(x));
  expect(matmul(linalg::inv(x), x), eye(3));
  check(all_close(x, x) && all(eq(x, x)).item<bool>(), "all_close");
}

void formulas() {
  Rng rng(0);
  Tensor x = randn({3, 3}, rng), y = randn({3, 3}, rng), b = randn({3}, rng);
  check((matmul(x, y) + b).shape() == Shape{3, 3}, "addmm");
  check(reshape(einsum("ab,cd->acbd", {x, y}), {9, 9})[0][1].item() == (x[0][0] * y[0][1]).item(),
        "kron");
  check(cat({x, y}, 1).shape() == Shape{3, 6}, "hstack");
  expect(flip(transpose(x, 0, 1), 0)[0], select(x, 1, 2));
  expect(norm(x / clamp(norm(x, 2, 1, true), 1e-12, {}), 2, 1), ones({3}));
  double tau = 0.5, margin = 1;
  expect(sum(softmax((x - log(-log(uniform(x.shape(), 0, 1, rng)))) / tau, -1), 1), ones({3}));
  check(sum(where(x == x, x, 0)).item() == sum(x).item(), "nansum");
  expect(sum(where(x == x, x, 0)) / sum(x == x), mean(x));
  Tensor some = tensor({1, 2}), edges = tensor({-9., 0., 9.}).to(DType::f32);
  check(!any(any(unsqueeze(x, -1) == some, -1)).item<bool>() && sum(x != 0).item() == 9, "isin");
  expect(searchsorted(edges, x).to(DType::f32), 1 + (x > 0).to(DType::f32));
  Tensor p = sigmoid(y);
  expect(log(p) - log1p(-p), y);
  expect(where(x == 0, 0, x * log(p)), x * log(p));
  expect(sqrt(x * x + y * y), norm(stack({x, y}), 2, 0));
  Tensor t = ones({3, 3});
  check(mean(relu(margin - t * (x - y))).item() > 0 && mean(softplus(-t * x)).item() > 0,
        "margins");
  check(mean(exp(x) - y * x).ndim() == 0, "poisson_nll_loss");
  Tensor rows = randn({5, 4}, rng), i = randint(0, 5, {2, 3}, rng);
  check(mean(embedding(i, rows), 1).shape() == Shape{2, 4}, "embedding_bag");
  Tensor flat = randint(0, 5, {7}, rng), offsets = tensor({0, 3, 3});
  Tensor bags = index_add(zeros({3, 4}), 0, searchsorted(offsets, arange(0, 7), true) - 1,
                          embedding(flat, rows));
  expect(bags[0], sum(embedding(slice(flat, 0, 0, 3), rows), 0));
  expect(bags[1], zeros({4}));
  expect(bags[2], sum(embedding(slice(flat, 0, 3, 7), rows), 0));
  Tensor a = matmul(x, transpose(x, 0, 1)) + 3 * eye(3), l = linalg::cholesky(a);
  expect(diagonal(diag_embed(b)), b);
  check(diagonal(x).shape() == b.shape(), "diag");
  expect(exp(linalg::slogdet(a).logabsdet), linalg::det(a));
  expect(matmul(a, linalg::solve_triangular(transpose(l, -2, -1),
                                            linalg::solve_triangular(l, y, {}), {.upper = true})),
         y);
}

void more_formulas() {
  Rng rng(0);
  Tensor m = randn({3, 3}, rng), x = tanh(m), y = x.clone(), p = sigmoid(m), s = exp(m);
  expect(sin(atan2(x, sqrt(1 - x * x))), x);
  expect(cos(atan2(sqrt(1 - x * x), x)), x);
  expect((log1p(x) - log1p(-x)) / 2, m);
  check((rand_like(p, rng) < p).dtype() == DType::u8, "bernoulli");
  check((m + s * randn_like(m, rng)).shape() == m.shape(), "normal");
  check(x.shape() == y.shape() && all(x == y).item<bool>(), "equal");
  Tensor above = transpose(nonzero(triu(ones({3, 3}), 1)), 0, 1);
  expect(above.to(DType::f32), tensor({0, 0, 1, 1, 2, 2}, {2, 3}));
  Tensor sums = logsumexp(where(tril(ones({3, 3})) > 0, unsqueeze(x, -2), -INFINITY), -1);
  expect(exp(sums), cumsum(exp(x), 1));
}

void pictures_and_sound() {
  Rng rng(0);
  Tensor p = randn({1, 3, 4, 4}, rng);
  Tensor theta = tensor({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  Tensor g = affine_grid(theta, {1, 3, 4, 4});
  expect(grid_sample(p, g), p);
  expect(interpolate(p, {.size = {4, 4}}), p);
  expect(rearrange(p, "b (g c) h w -> b (c g) h w", {{"g", 3}}), p);
  p = cat({p, p, p, p});
  Tensor x = sigmoid(rearrange(p, "(r c) k h w -> k (r h) (c w)", {{"c", 2}}));
  check(x.shape() == Shape{3, 8, 8}, "make_grid");
  datasets::save_png("x.png", datasets::to_picture(clamp(x * 255 + 0.5, 0, 255).to(DType::u8)));
  Tensor read = datasets::to_tensor(datasets::load_picture("x.png"));
  expect(read.to(DType::f32), round(x * 255));
  Tensor s = randn({2, 1600}, rng), w = fft::hann_window(400);
  Tensor f = fft::stft(s, 400, {.hop = 160, .window = w});
  expect(fft::istft(f, 400, {.hop = 160, .window = w}), s);
  expect(fft::irfft2(fft::rfft2(p)), p);
  expect(select(fft::ifft(fft::fft(stack({s, zeros_like(s)}, -1))), -1, 0), s);
}

void gradients() {
  Tensor x = tensor({1, 2}, {2}).set_requires_grad();
  Tensor loss = sum(square(x));
  backward(loss, {.retain_graph = true});
  loss.backward();
  expect(x.grad(), tensor({4, 8}, {2}));
  x.zero_grad();
  Tensor slope = grad({sum(x * x * x)}, {x}, {.create_graph = true})[0];
  expect(grad({sum(slope)}, {x})[0], tensor({6, 12}, {2}));
  check(!grad({sum(x)}, {x}, {.create_graph = true})[0].requires_grad(), "a constant slope");
  Tensor h = x * x;
  loss = sum(h * h);
  expect(grad({loss}, {h})[0], 2 * x * x);
  loss = sum(square(x));
  backward(x * x, {.gradient = ones({2})});
  {
    NoGradGuard no_grad;
    check(!(x * 2).requires_grad(), "nothing is recorded");
    EnableGradGuard recorded_again;
    check((x * 2).requires_grad(), "recorded again");
    check(!x.detach().requires_grad() && x.is_leaf(), "detach");
  }
  auto fn = [](std::span<const Tensor> in) { return exp(in[0]); };
  expect(checkpoint(fn, {x}), exp(x));
  Tensor y = on_gradient(x, [](const Tensor& dy) { return -dy; });
  expect(grad({sum(y)}, {x})[0], -ones({2}));
  Tensor t = tensor({1, 2}, {2}, DType::f64).set_requires_grad();
  gradcheck([](const std::vector<Tensor>& in) { return exp(in[0]); }, {t});
  AnomalyDetector detector;
  check(leaves(loss).size() == 1, "leaves");
  y = x * x;
  for (int64_t i = 0; i < 2; ++i)
    check(grad({y[i]}, {x}, {.retain_graph = true})[0][i].item() == 2 * x[i].item(), "jacobian");
}

struct Net {
  nn::Linear body;
  std::vector<nn::Linear> heads;
  nn::Parameter scale;
  nn::Buffer seen;
  explicit Net(Rng& rng) : body(2, 8, rng), scale(ones({8})), seen(zeros({1})) {
    heads.emplace_back(8, 2, rng);
  }
  Tensor operator()(const Tensor& x) const { return heads[0](relu(body(x) * scale)); }
  static void fields(auto& m, auto&& visit) {
    visit("body", m.body), visit("heads", m.heads), visit("scale", m.scale), visit("seen", m.seen);
  }
};

void modules() {
  Rng rng(0);
  Net net(rng);
  Tensor x = randn({4, 2}, rng);
  nn::Linear no_bias(2, 8, rng, nn::Bias::no);
  nn::Bilinear both(2, 3, 8, rng);
  check(both(x, zeros({4, 3})).shape() == Shape{4, 8}, "bilinear");
  nn::Conv2d conv(3, 8, 3, rng, {.padding = 1});
  check(conv(zeros({1, 3, 5, 5})).shape() == Shape{1, 8, 5, 5}, "conv");
  nn::MaxPool2d pool({.kernel = 3, .stride = 2, .padding = 1});
  check(pool(zeros({1, 8, 5, 5})).shape() == Shape{1, 8, 3, 3}, "pool");
  nn::Pad around({1, 1, 1, 1}, PaddingMode::reflect);
  nn::PixelShuffle spread(3);
  check(around(spread(zeros({1, 9, 2, 2}))).shape() == Shape{1, 1, 8, 8}, "resize");
  nn::Lstm lstm(8, 16, rng, {.layers = 2});
  check(lstm(zeros({4, 5, 8})).output.shape() == Shape{4, 5, 16}, "lstm");
  Tensor rows = zeros({4, 5, 8});
  nn::RnnState last = lstm(rows).state;
  check(lstm(rows, {.state = last.detach()}).output.shape() == Shape{4, 5, 16}, "state");
  nn::Normal noise(zeros({3}), ones({3}));
  check(noise.sample(rng).shape() == Shape{3}, "a distribution");
  Tensor p = tensor({0.25, 0.75});
  expect(nn::Categorical({.probs = p}).probs(), p);
  nn::Relu6 cut;
  nn::Hardtanh bounded_to{-2, 2};
  nn::Softmax shares{-1};
  expect(cut(9 * x), clamp(9 * x, 0, 6));
  expect(bounded_to(9 * x), clamp(9 * x, -2, 2));
  expect(sum(shares(x), 1), ones({4}));
  Rng same = rng;
  nn::Sequential mlp{nn::Linear(2, 8, rng), nn::Relu(), nn::Linear(8, 2, rng)};
  expect(mlp.get<0>().weight, nn::Linear(2, 8, same).weight);  // the first layer draws first
  nn::DynamicSequential layers;
  layers.add(nn::Linear(2, 8, rng)).add(nn::Relu());
  check(mlp(x).shape() == Shape{4, 2} && layers(x).shape() == Shape{4, 8}, "sequential");
  nn::ModuleDict<nn::Linear> named;
  named.add("class", nn::Linear(8, 2, rng));
  nn::Embedding table(100, 8, rng, {.padding_idx = 0});
  Tensor vectors = randn({100, 8}, rng);
  table.weight = vectors;
  nn::set_requires_grad(table, false);
  check(!table(randint(0, 100, {3}, rng)).requires_grad(), "from_pretrained");
  nn::LayerNorm norm(8);
  nn::Dropout dropout(0.1, rng);
  nn::MultiHeadAttention attend(8, rng, {.heads = 2});
  check(attend(zeros({1, 4, 8}), nn::Mask::causal()).shape() == Shape{1, 4, 8}, "attention");
  Tensor q = randn({1, 2, 4, 8}, rng);
  check(attention(q, q, q, {.mask = {.causal = 0}}).shape() == q.shape(), "attention");
  nn::TransformerEncoderLayer layer({.dim = 8, .heads = 2, .ffn = 16}, rng);
  nn::TransformerDecoder decoder(2, {.dim = 8, .heads = 2, .ffn = 16}, rng);
  Tensor m = tensor({{0, 0, 1}}, DType::u8), memory = randn({1, 3, 8}, rng);
  check(decoder(memory, memory, nn::Mask::keys(logical_not(m))).shape() == Shape{1, 3, 8}, "keys");
  nn::TransformerEncoder encoder(2, {.dim = 8, .heads = 2, .ffn = 16}, rng);
  Tensor source = randn({1, 5, 8}, rng);
  auto transformer = [&](const Tensor& x, const Tensor& y) { return decoder(x, encoder(y)); };
  check(transformer(memory, source).shape() == memory.shape(), "transformer");
  nn::WeightNorm normed(nn::Linear(2, 8, rng));
  nn::SpectralNorm bounded(nn::Linear(2, 8, rng), rng);
  nn::init::xavier_uniform(net.body.weight, rng);
  nn::init::normal(net.body.weight, 0, 0.02, rng);
  check(nn::parameters(net).size() == 5 && nn::num_parameters(net) == 50, "parameters");
  check(nn::named_parameters(net)[2].first == "heads.0.weight", "named_parameters");
  check(nn::named_buffers(net).size() == 1, "buffers");
  check(nn::named_parameters(net.body, "body.")[0].first == "body.weight", "prefix");
  nn::load_state_dict(net, nn::state_dict(net), {.strict = false});
  nn::set_training(net, false);
  nn::EvalScope evaluating(net);
  Net copy = net;
  for (Rng* g : nn::generators(copy)) *g = rng.split();
  Net target = net;
  target = net;
  optim::Ema target_of(nn::named_parameters(net), {.decay = 0.99});
  target_of.update();
  Tensor student = sum(net(x));
  {
    nn::WeightsInstead target(net, target_of.averages());
    check(!net(x).requires_grad(), "a target without a gradient");
  }
  student.backward();
  nn::zero_grad(net);
  check(net.scale.tensor()[0].item() == net.scale.tensor().detach()[0].item(), "a parameter");
  fill_(copy.seen, 1);
  check(net.seen.tensor().item() == 0, "a copy has weights of its own");
  nn::set_requires_grad(net.body, false);
  check(!nn::parameters(net)[0].requires_grad(), "frozen");
  nn::unfreeze(net.body);
  check(nn::parameters(net)[0].requires_grad(), "trained again");
  nn::freeze(net.body);
  NamedTensors other = {{"scale", zeros({8})}};
  {
    nn::WeightsInstead scope(net, other);
    expect(net(x), expand(net.heads[0].bias, {4, 2}));
  }
  nn::zero_grad(net);
  nn::to(net, DType::f64);
  fmt::print("{}\n", net);
}

void losses() {
  Rng rng(0);
  Tensor logits = randn({4, 3}, rng), label = tensor(std::vector{0, 1, 2, 0});
  Tensor w = tensor({1, 2, 3}, {3}), y = randn({4, 3}, rng), t = ones({4, 3});
  check(cross_entropy(logits, label).item() > 0, "cross_entropy");
  check(cross_entropy(logits, label, {.weight = w, .ignore_index = 0}).item() > 0, "weight");
  check(cross_entropy(logits, label, {.label_smoothing = 0.1}).item() > 0, "smoothing");
  check(cross_entropy(logits, softmax(y, 1)).item() > 0, "probabilities");
  check(nll_loss(log_softmax(logits, 1), label).item() > 0, "nll");
  check(bce_with_logits(logits, t, {.pos_weight = w}).item() > 0, "bce");
  check(mse_loss(logits, y, Reduction::none).shape() == y.shape(), "mse");
  check(smooth_l1_loss(logits, y).item() > 0 && huber_loss(logits, y).item() > 0, "huber");
  check(kl_div(log_softmax(logits, 1), softmax(y, 1), {.batch_mean = true}).item() > 0, "kl");
}

void optimizers() {
  Rng rng(0);
  Net net(rng);
  optim::AdamW optimizer(nn::named_parameters(net), {.lr = 1e-3, .weight_decay = 0.01});
  optim::Adam adam(nn::named_parameters(net), {.beta1 = 0.5, .beta2 = 0.9});
  optim::AdamW small(nn::named_parameters(net), {.lr = 1e-3, .state_bits = 8});
  Tensor x = zeros({2}).set_requires_grad();
  optim::Adam of_one({x}, {.lr = 0.1});
  nn::Linear a(2, 8, rng), b(8, 2, rng);
  optim::Adam of_two(std::vector<optim::ParameterGroup>{
      {.parameters = nn::named_parameters(a, "a")}, {.parameters = nn::named_parameters(b, "b")}});
  check(of_one.parameters().size() == 1 && of_two.parameters().size() == 4, "parameters");
  optim::Sgd sgd(nn::named_parameters(net), {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  optim::AdamW decayed(optim::decay_groups(nn::named_parameters(net), 0.01), {.lr = 1e-3});
  NamedTensors body = nn::named_parameters(net), head(body.begin() + 2, body.begin() + 4);
  body.erase(body.begin() + 2, body.begin() + 4);
  optim::AdamW groups(std::vector<optim::ParameterGroup>{{.parameters = body, .lr = 1e-4},
                                                         {.parameters = head, .lr = 1e-3}});
  optim::Schedule schedule = optim::cosine({.warmup = 10, .total = 100});
  check(optim::step_decay(30)(30) == 0.1 && optim::step_decay(1, 0.9)(1) == 0.9, "step_decay");
  optim::Schedule cycle = optim::one_cycle({.total = 100});
  optim::Schedule restarts = [=](int64_t step) { return schedule(step % 100); };
  check(restarts(100) == schedule(0), "restarts");
  optim::Schedule both = optim::sequential({schedule, cycle}, {50});
  check(both(50) == cycle(0), "sequential");
  optim::Plateau plateau({.factor = 0.5, .patience = 2});
  optim::Ema ema(nn::state_dict(net), {.decay = 0.999});
  cross_entropy(net(randn({4, 2}, rng)), tensor(std::vector{0, 1, 0, 1})).backward();
  check(optim::clip_grad_norm(nn::parameters(net), 1) > 0, "clip_grad_norm");
  optim::clip_grad_value(nn::parameters(net), 0.5);
  optimizer.set_lr_factor(schedule(9));
  optimizer.set_lr_factor(plateau.update(0.3));
  check(optimizer.lr() == 1e-3 && cycle(0) < 1, "rates");
  optimizer.step();
  optimizer.zero_grad();
  ema.update();
  optimizer.load_state_dict(optimizer.state_dict());
  optimizer.set_settings({{"lr", 1e-4}}, 0);
  check(optimizer.settings(0)[0].second == 1e-4, "the settings of a group");
  optim::Lbfgs lbfgs(nn::named_parameters(net), {.strong_wolfe = true});
  const auto evaluate = [&] {
    const Tensor loss = mean(square(net(ones({4, 2}))));
    loss.backward();
    return loss;
  };
  check(lbfgs.step(evaluate) > lbfgs.step(evaluate), "L-BFGS");
  optim::EmaScope averaged(ema);
}

struct Sample {
  Tensor x, label;
  static void fields(auto& s, auto&& visit) { visit("x", s.x), visit("label", s.label); }
};

void loading() {
  datasets::Dataset samples(100, [](int64_t i) {
    return Sample{full({2}, static_cast<double>(i)), scalar(i % 2, DType::i64)};
  });
  auto loader = datasets::dataset_loader(
      samples, datasets::Stack{},
      {.batch = 8, .shuffle = true, .drop_last = true, .seed = 1, .workers = 2});
  std::vector<Sample> kept = {samples.get(3), samples.get(5)};
  expect(datasets::Stack{}(kept).x, tensor({{3., 3.}, {5., 5.}}));
  int64_t batches = 0;
  for (Sample& batch : loader) batches += batch.x.size(0) == 8;
  check(batches == 12, "batches");
  Tensor x = ones({6, 2}), label = zeros({6}, DType::i64);
  datasets::Dataset rows(x.size(0), [=](int64_t i) { return Sample{x[i], label[i]}; });
  check(rows.get(5).x.shape() == Shape{2}, "tensors");
  auto mixed = samples.shuffle(0);
  auto train_set = mixed.limit(80), some = mixed.subset({80, 81, 82});
  check(train_set.concat(some).size() == 83, "subsets");
  auto doubled = samples.map([](Sample s) { return Sample{s.x * 2, s.label}; });
  check(doubled.get(3).x[0].item() == 6, "map");
  auto transform = [](Sample s, Rng& rng) { return Sample{s.x + randn_like(s.x, rng), s.label}; };
  auto noisy = datasets::dataset_loader(samples, transform, datasets::Stack{}, {.batch = 8});
  std::vector<double> weights(100, 1);
  auto drawn = datasets::dataset_loader(
      samples, datasets::Stack{}, {.batch = 8, .sampler = datasets::weighted_sampler(weights)});
  loader.load_state_dict(loader.state_dict());
  check(loader.next().has_value() && loader.position().batch == 1, "in the middle of an epoch");
  loader.seek({});
  check(loader.position() == datasets::LoaderPosition{}, "seek");
  check(noisy.batches_per_epoch() == 13 && drawn.batches_per_epoch() == 13, "batches");
  auto of_pictures = [](const std::string& folder) {
    datasets::PictureFolder pictures = datasets::open_picture_folder(folder);
    return datasets::picture_loader(pictures.dataset(), {.size = 128, .augment = true});
  };
  (void)of_pictures;
}

void files_and_tools() {
  Rng rng(0);
  Net net(rng);
  {
    MatmulPrecisionScope precision(MatmulPrecision::bf16);
    static_cast<void>(net(randn({4, 2}, rng)));
  }
  nn::save_weights("net.safetensors", net);
  nn::load_weights("net.safetensors", net);
  save_safetensors("tensors.safetensors", {{{"x", ones({2})}}, {}});
  expect(load_safetensors("tensors.safetensors").find("x"), ones({2}));
  optim::AdamW optimizer(nn::named_parameters(net));
  training::Checkpoint state;
  state.add("model", net), state.add("optimizer", optimizer), state.add("rng", rng);
  state.save("checkpoint.safetensors");
  state.load("checkpoint.safetensors");
  const Tensor x = randn({2, 2}, rng), y = randn({5, 2}, rng);
  export_onnx("model.onnx", net, {{x}, {y}});
  Profile profile;
  static_cast<void>(net(randn({4, 2}, rng)));
  check(profile.table().find("linear") != std::string::npos, "profile");
  training::EventWriter events("events");
  events.add_scalar("train/loss", 0.5, 1);
  check(memory_stats().peak > 0 && num_threads() >= 1, "memory, threads");
  set_num_threads(1);
  check(summary(net, Shape{4, 2}).num_parameters() == 50, "summary");
  check(!build_info().empty(), "build_info");
}

}  // namespace

int main() {
  creation();
  views();
  indices();
  arithmetic();
  formulas();
  more_formulas();
  pictures_and_sound();
  gradients();
  modules();
  losses();
  optimizers();
  loading();
  files_and_tools();
}
