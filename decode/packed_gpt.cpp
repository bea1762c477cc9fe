// Packs the matrices of GPT-2 or Llama block by block, and computes logits of whole texts.
#include "tern/decode/packed_gpt.h"

#include <algorithm>
#include <utility>

#include "tern/core/base/allocator.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/packed_gpt_texts.h"
#include "tern/nn/unfilled.h"

namespace tern::decoding {
namespace {

using models::GptLinear;

/// The matrices of layers with the same input, below each other.
PackedLinear packed(const std::vector<const GptLinear*>& layers, PackedType type) {
  std::vector<Tensor> weights, biases;
  int64_t outputs = 0;
  for (const GptLinear* l : layers) {
    const Tensor w = l->weight.tensor().detach();
    weights.push_back(l->transposed ? transpose(w, 0, 1) : w);
    outputs += weights.back().size(0);
    if (l->bias.defined()) biases.push_back(l->bias.tensor().detach());
  }
  const auto rows = [&](int64_t begin, int64_t end) {
    std::vector<Tensor> parts;
    int64_t first = 0;
    for (const Tensor& w : weights) {
      const int64_t from = std::max(begin, first), to = std::min(end, first + w.size(0));
      if (from < to) parts.push_back(narrow(w, 0, from - first, to - from));
      first += w.size(0);
    }
    return parts.size() == 1 ? parts[0] : cat(parts, 0);
  };
  return {outputs, weights[0].size(1), rows, biases.empty() ? Tensor() : cat(biases, 0), type};
}

PackedNorm packed(const models::GptNormLayer& norm) {
  return std::visit([](const auto& n) { return PackedNorm(n); }, norm);
}

Activation activation_of(models::GptFfn ffn) {
  if (ffn == models::GptFfn::gelu_erf) return Activation::gelu;
  return ffn == models::GptFfn::swiglu ? Activation::silu : Activation::gelu_tanh;
}

PackedGptLayer packed(const models::GptBlock& b, PackedType type) {
  const models::GptAttention& a = b.attention;
  std::vector<const GptLinear*> in, hidden;
  for (const auto* part : {&a.c_attn, &a.q_proj, &a.k_proj, &a.v_proj})
    if (*part) in.push_back(&**part);
  if (b.mlp.gate) hidden.push_back(&*b.mlp.gate);
  hidden.push_back(&b.mlp.up);
  PackedGptLayer layer{packed(b.norm1),
                       packed(b.norm2),
                       {a.counts, packed(in, type), packed({&a.out}, type)},
                       {packed(hidden, type), packed({&b.mlp.down}, type),
                        activation_of(b.mlp.kind), b.mlp.gate.has_value()},
                       {},
                       {},
                       {},
                       {},
                       !a.turn        ? -1
                       : a.window > 0 ? 1
                                      : 0,
                       a.window};
  if (a.q_norm) layer.q_norm = PackedNorm(*a.q_norm), layer.k_norm = PackedNorm(*a.k_norm);
  if (b.post_norm1) layer.post_norm1 = packed(*b.post_norm1);
  if (b.post_norm2) layer.post_norm2 = packed(*b.post_norm2);
  return layer;
}

const models::Gpt& checked(const models::Gpt& model) {
  check(model.body.embed.dtype() == DType::f32,
        "PackedGpt: the model is {}, but only f32 models can be packed; decode it without packing",
        model.body.embed.dtype());
  check_unhooked("PackedGpt", nn::parameters(model));
  return model;
}

}  // namespace

PackedGpt::Weights::Weights(const models::Gpt& m, PackedType t)
    : type(t),
      options(checked(m).options),
      positions(m.body.positions.defined() ? m.body.positions.tensor().detach().contiguous()
                                           : zeros({1, options.dim})),
      norm(packed(m.body.norm)) {
  for (const models::GptBlock& block : m.body.blocks)
    if (block.attention.turn) turns[block.attention.window > 0 ? 1 : 0] = *block.attention.turn;
}

void PackedGpt::Weights::take_layers(models::Gpt& m, const std::function<void(int64_t)>& fill) {
  // Packs from the last block to the first, so that packed blocks can be popped.
  for (size_t i = m.body.blocks.size(); i-- > 0;) {
    fill(static_cast<int64_t>(i));
    layers.push_back(packed(m.body.blocks[i], type));
    m.body.blocks.pop_back();
  }
  std::reverse(layers.begin(), layers.end());
}

void PackedGpt::Weights::read_ends(const RowReader& embeddings, const RowReader& head_rows) {
  const int64_t vocab = options.vocab, dim = options.dim;
  const auto keep_first = [&](int64_t count) {
    table = EmbeddingTable(vocab, dim);
    read_in_blocks(count, dim, embeddings,
                   [this](int64_t, const Tensor& rows) { table.append(rows); });
  };
  const auto tied_rows = [&](int64_t begin, int64_t end) {
    const Tensor rows = embeddings(begin, end);
    if (table.defined() || (type == PackedType::bf16 && !fits_bf16(rows))) {
      if (!table.defined()) keep_first(begin);
      table.append(rows);
    }
    return rows;
  };
  if (!options.tie_head) keep_first(vocab);
  head = PackedLinear(vocab, dim, options.tie_head ? tied_rows : head_rows, Tensor(), head_type());
}

PackedGpt::PackedGpt(const models::Gpt& model, PackedType type) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type);
  Weights& w = *weights_;
  for (const models::GptBlock& block : model.body.blocks) w.layers.push_back(packed(block, type));
  const Tensor table = model.body.embed.tensor().detach();
  if (!w.options.tie_head || (type == PackedType::bf16 && !fits_bf16(table.contiguous())))
    w.table = EmbeddingTable(table);
  w.head = {w.options.tie_head ? table : model.head.tensor().detach(), Tensor(), w.head_type()};
}

PackedGpt::PackedGpt(models::Gpt&& model, PackedType type) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type);
  weights_->take_layers(model, [](int64_t) {});
  const nn::Parameter table = std::move(model.body.embed), head = std::move(model.head);
  trim_memory();
  const auto rows_of = [](const nn::Parameter& matrix) {
    return [&matrix](int64_t begin, int64_t end) {
      return narrow(matrix.tensor().detach(), 0, begin, end - begin);
    };
  };
  weights_->read_ends(rows_of(table), rows_of(head));
}

namespace {

using Named = std::pair<std::string, Shape>;

/// The tensors of one layer, or with -1 all others. So layers that the model does not have are an
/// error there.
std::vector<Named> of_layer(const TensorSource& source, int64_t layers, int64_t layer) {
  std::vector<Named> out;
  for (const Named& t : source.tensors)
    if (const int64_t of = models::gpt_layer_of(t.first); (of < layers ? of : -1) == layer)
      out.push_back(t);
  return out;
}

/// The first matrix with a name of this kind; an empty name if there is none.
Named find_matrix(const std::vector<Named>& tensors, bool (*is)(std::string_view)) {
  for (const Named& t : tensors)
    if (t.second.size() == 2 && is(t.first)) return t;
  return {};
}

}  // namespace

PackedGpt::PackedGpt(const models::GptOptions& options, PackedType type,
                     const TensorSource& source) {
  NoGradGuard no_grad;
  Rng rng(0);
  const std::vector<Named> outer = of_layer(source, options.layers, -1);
  Named table = find_matrix(outer, models::is_gpt_table);
  Named head = find_matrix(outer, models::is_gpt_head);
  if (options.tie_head && table.first.empty()) table = std::exchange(head, {});
  // A second copy of the table is compared by rows.
  const bool twice = options.tie_head && table.second == head.second;
  {
    models::Gpt model = nn::unfilled([&] { return models::Gpt(options, rng); });
    NamedTensors state;
    for (const auto& [name, shape] : outer) {
      if (twice && name == head.first) continue;
      if (name == table.first || name == head.first) {
        // In place of the rows, to which the others are compared.
        const DType dtype = source.load_rows(name, 0, 0).dtype();
        state.emplace_back(name, nn::unfilled([&, &shape = shape] {
                             return empty(shape, is_float(dtype) ? DType::f32 : dtype);
                           }));
      } else {
        state.emplace_back(name, source.load(name));
      }
    }
    std::vector<models::GptBlock> blocks = std::exchange(model.body.blocks, {});
    models::load_gpt_state(std::move(state), model);
    model.body.blocks = std::move(blocks);
    weights_ = std::make_unique<Weights>(model, type);
    weights_->take_layers(model, [&](int64_t layer) {
      NamedTensors tensors;
      for (const auto& [name, shape] : of_layer(source, options.layers, layer))
        tensors.emplace_back(name, source.load(name));
      models::load_gpt_layer(std::move(tensors), model, layer);
    });
  }
  trim_memory();
  const auto rows_of = [&](const std::string& name) {
    return [&source, name](int64_t begin, int64_t end) {
      return source.load_rows(name, begin, end).to(DType::f32);
    };
  };
  const RowReader embeddings = rows_of(table.first), others = rows_of(head.first);
  const auto compared = [&](int64_t begin, int64_t end) {
    const Tensor rows = embeddings(begin, end);
    if (twice) models::check_tied(rows, others(begin, end));
    return rows;
  };
  weights_->read_ends(compared, others);
  trim_memory();
}
PackedGpt::~PackedGpt() = default;
PackedGpt::PackedGpt(PackedGpt&&) noexcept = default;
PackedGpt& PackedGpt::operator=(PackedGpt&&) noexcept = default;

int64_t PackedGpt::bytes() const {
  int64_t sum = weights_->table.bytes() + weights_->head.bytes();
  for (const PackedGptLayer& l : weights_->layers) sum += l.attention.bytes() + l.ffn.bytes();
  return sum;
}

Tensor PackedGpt::operator()(const Tensor& tokens) const {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64,
        "PackedGpt: tokens are i64 (B, T), got {} {}", tokens.dtype(), tokens.shape());
  NoGradGuard no_grad;
  const Tensor given = tokens.contiguous();
  const int64_t batch = given.size(0), length = given.size(1), vocab = weights_->options.vocab;
  Tensor logits = empty({batch, length, vocab});
  for (int64_t b = 0; b < batch; ++b)
    PackedGptTexts(*weights_).score(
        {given.data<int64_t>() + b * length, static_cast<size_t>(length)},
        logits.mutable_data<float>() + b * length * vocab);
  return logits;
}

std::unique_ptr<TextStepper> PackedGpt::texts() const {
  return std::make_unique<PackedGptTexts>(*weights_);
}

}  // namespace tern::decoding
