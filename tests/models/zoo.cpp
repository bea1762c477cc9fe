// The rows of the zoo, family by family.
#include "tern/tests/models/zoo.h"

#include "tern/models/airbench.h"
#include "tern/models/bahdanau.h"
#include "tern/models/gmlp_text.h"
#include "tern/models/gpt.h"
#include "tern/models/seq2seq.h"
#include "tern/tests/gpt_forms.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/tensors.h"

namespace tern::test {
namespace {

using namespace models;
using Rows = std::vector<Model>;

template <class O>
constexpr bool kRecomputes = requires(O o) {
  o.recompute;
};
// The Transformer's is an option of its layers, that of a classifier of texts is its text's.
template <class O>
nn::Recompute* recompute_of(O& o) {
  if constexpr (kRecomputes<O>) return &o.recompute;
  if constexpr (requires { o.layer.recompute; }) return &o.layer.recompute;
  return nullptr;
}

/// make(options, rng) returns the model; call and start as in AnyModel.
template <class O, class Make, class Call, class Start = std::nullptr_t>
Model row_of(std::string name, O options, Make make, Call call, Start start = nullptr) {
  Model row;
  row.name = std::move(name);
  row.recomputes = recompute_of(options) != nullptr;
  row.steps = !std::is_null_pointer_v<Start>;
  row.make = [=](Rng& rng, nn::Recompute recompute) {
    O o = options;
    if (nn::Recompute* own = recompute_of(o)) *own = recompute;
    auto model = make(o, rng);
    return AnyModel(std::make_shared<decltype(model)>(std::move(model)), call, start);
  };
  return row;
}

constexpr auto kFirst = [](const auto& m, const Tensors& x) { return m(x[0]); };
constexpr auto kFirstTwo = [](const auto& m, const Tensors& x) { return m(x[0], x[1]); };

// ---- Images ------------------------------------------------------------------------------------

/// Images of height x width pixels.
template <class O, class Make>
Model images(std::string name, const O& o, int64_t height, int64_t width, Make make) {
  Model row = row_of(std::move(name), o, make, kFirst);
  row.inputs = {{{kRows, o.channels, height, width}}};
  row.outputs = {{kRows, o.classes}};
  return row;
}

Model gmlp(const std::string& name, const GmlpOptions& o) {
  Model row = images("gMLP: " + name, o, o.image, o.image,
                     [](const auto& options, Rng& rng) { return Gmlp(options, rng); });
  row.weights = gmlp_weights(o);
  row.random = o.dropout > 0 || o.drop_path > 0;
  row.batch_norm = !o.stem.empty();
  return row;
}

void add_images(Rows& rows) {
  for_singles(tiny_gmlp(), gmlp_choices(),
              [&](const auto& name, const auto& o) { rows.push_back(gmlp(name, o)); });
  GmlpOptions paper = tiny_gmlp();
  paper.class_token = paper.positions = paper.output_gelu = false;
  paper.fc_dim = 0;
  paper.drop_path = 0.2;
  paper.gate.weight_bound = 1e-6;
  rows.push_back(gmlp("the paper's form", paper));
  for (auto [name, o] : vit_forms()) {
    o.dropout = 0.2;
    o.attention_dropout = 0.1;
    o.drop_path = 0.3;
    Model row = images("ViT: " + name, o, o.image, o.image,
                       [](const auto& options, Rng& rng) { return Vit(options, rng); });
    row.outputs = {{kRows, o.classes ? o.classes : o.dim}};
    row.weights = vit_weights(o);
    row.random = true;
    rows.push_back(row);
  }
  for (auto [name, o] : resnet_forms()) {
    if (o.layers == tiny_resnet().layers) o.layers = {1, 1};  // takes less time
    o.dropout = name == "small pictures" ? 0.1 : 0;
    Model row = images("ResNet: " + name, o, 9, 7,
                       [](const auto& options, Rng& rng) { return ResNet(options, rng); });
    const int64_t block = o.block == ResNetBlockKind::basic ? 1 : 4;
    row.outputs = {{kRows, o.classes ? o.classes : o.width * block << (o.layers.size() - 1)}};
    row.random = o.dropout > 0;
    row.batch_norm = true;
    rows.push_back(row);
  }
  Model row = images("airbench",
                     AirbenchOptions{.image = 11, .widths = {5, 6}, .classes = 3, .dropout = 0.2},
                     11, 11, [](const auto& o, Rng& rng) { return Airbench(o, rng); });
  row.random = row.batch_norm = true;
  row.frozen = {"whitening.weight"};
  rows.push_back(row);
}

// ---- Texts -------------------------------------------------------------------------------------

constexpr auto kStepOf = [](const auto& m) {
  return [&m](const auto& state, const Tensor& next) { return m.step(state, next); };
};

/// A causal language model of `context` tokens.
template <class O, class Make>
Model language(std::string name, const O& o, Make make) {
  Model row = row_of(std::move(name), o, make, kFirst, [](const auto& m, const Tensors& x) {
    return any_state(m.encode(x[0]), kStepOf(m));
  });
  row.inputs = {{{kRows, o.context}, o.vocab}};
  row.outputs = {{kRows, o.context, o.vocab}};
  row.causal = 0;
  return row;
}

/// A model of tokens (rows, length) with lengths.
template <class O, class Make>
Model padded_texts(std::string name, const O& o, int64_t words, int64_t length, Make make) {
  Model row = row_of(std::move(name), o, make, kFirstTwo);
  row.inputs = {{{kRows, length}, words}, {{kRows}}};
  row.lengths = 1;
  row.padded = {0};
  return row;
}

struct Classifier {
  GmlpTextOptions text;
  GmlpClassifierOptions head;
  nn::Recompute recompute = nn::Recompute::none;
};

bool draws(const GmlpTextOptions& o) { return o.dropout > 0 || o.drop_path > 0; }

void add_gmlp_language(Rows& rows, const std::string& name, const GmlpTextOptions& o) {
  Model row = language("gMLP, language: " + name, o, [](const auto& options, Rng& rng) {
    return GmlpLanguageModel(options, rng);
  });
  row.weights = gmlp_text_weights(o);
  row.random = draws(o);
  rows.push_back(row);
}

/// Masked words, and classes with every pooling. The texts leave room for one more token.
void add_gmlp_padded(Rows& rows, const std::string& name, const GmlpTextOptions& o) {
  Model row = padded_texts(
      "gMLP, masked words: " + name, o, o.vocab, o.context - 1,
      [](const auto& options, Rng& rng) { return GmlpMaskedLanguageModel(options, rng); });
  row.outputs = {{kRows, o.context - 1, o.vocab}};
  row.random = draws(o);
  row.along = {0};
  row.sees_padding = !o.gate.causal;
  rows.push_back(row);
  for (const auto pooling : {TextPooling::first, TextPooling::last, TextPooling::mean}) {
    if (pooling == TextPooling::first && o.gate.causal) continue;
    row =
        padded_texts(fmt::format("gMLP, classes, pooling {}: {}", static_cast<int>(pooling), name),
                     Classifier{o, {.classes = 4, .pooling = pooling}}, o.vocab, o.context - 1,
                     [](Classifier c, Rng& rng) {
                       c.text.recompute = c.recompute;
                       return GmlpTextClassifier(c.text, c.head, rng);
                     });
    row.outputs = {{kRows, 4}};
    row.random = true;
    rows.push_back(row);
  }
}

GmlpTextOptions tiny_text() {
  return {
      .vocab = 7, .context = 6, .dim = 8, .layers = 2, .d_ffn = 16, .gate = {.weight_bound = 0.3}};
}

Choices<GmlpTextOptions> text_choices() {
  using nn::Gate, nn::SpatialMatrix;
  return {
      {{"additive", [](auto& o) { o.gate.gate = Gate::additive; }},
       {"linear", [](auto& o) { o.gate.gate = Gate::linear, o.gate.split = false; }}},
      {{"unsplit", [](auto& o) { o.gate.split = false; }}},
      {{"heads", [](auto& o) { o.gate.heads = 4; }}},
      {{"toeplitz", [](auto& o) { o.gate.matrix = SpatialMatrix::toeplitz; }},
       {"circulant", [](auto& o) { o.gate.matrix = SpatialMatrix::circulant; }}},
      {{"causal", [](auto& o) { o.gate.causal = true; }}},
      {{"attention", [](auto& o) { o.attention_dim = 4; }}},
      {{"positions", [](auto& o) { o.positions = true; }}},
      {{"own head", [](auto& o) { o.tie_head = false; }}},
      {{"dropout", [](auto& o) { o.dropout = 0.1, o.drop_path = 0.2; }}},
      {{"default d_ffn", [](auto& o) { o.d_ffn = 0; }}},
      {{"one layer", [](auto& o) { o.layers = 1; }}},
  };
}

void add_gpts(Rows& rows) {
  auto add = [&](const std::string& name, const GptOptions& o) {
    Model row = language("GPT: " + name, o,
                         [](const auto& options, Rng& rng) { return Gpt(options, rng); });
    row.weights = gpt_weights(o);
    row.random = true;
    rows.push_back(row);
  };
  for (auto [name, o] : forms()) {
    o.dropout = 0.1;
    add(name, o);
  }
  for (auto only : {&GptOptions::embed_dropout, &GptOptions::attention_dropout}) {
    GptOptions o = small();
    o.*only = 0.5;
    add(only == &GptOptions::embed_dropout ? "dropout of embeddings" : "dropout of attention", o);
  }
}

void add_berts(Rows& rows) {
  auto add = [&](const std::string& name, const BertOptions& o) {
    Model row = row_of(
        "BERT: " + name, o, [](const auto& options, Rng& rng) { return Bert(options, rng); },
        [](const Bert& m, const Tensors& x) {
          BertInput in{x[0], x[1]};
          if (m.options.segments == 0) in.segments = {};
          if (x[2].defined()) in.mask = nn::Mask::lengths(x[2]);
          const Tensor hidden = m.bert(in);
          const Bert::Output y = m.heads(hidden);
          // Without a head of tokens the hidden states show what tokens see.
          const bool tokens = m.options.masked_lm || m.options.classes_of_tokens;
          return Tensors{tokens ? Tensor() : hidden, y.words, y.next, y.classes};
        });
    row.inputs = {{{kRows, 7}, o.vocab}, {{kRows, 7}, std::max<int64_t>(o.segments, 1)}, {{kRows}}};
    if (!o.classes_of_tokens)
      row.along = {0}, row.outputs = {{kRows, 7, o.masked_lm ? o.vocab : o.dim}};
    if (o.next_sentence) row.outputs.push_back({kRows, 2});
    if (o.classes_of_tokens) row.along.push_back(static_cast<int>(row.outputs.size()));
    if (o.classes > 0)
      row.outputs.push_back(o.classes_of_tokens ? Shape{kRows, 7, o.classes}
                                                : Shape{kRows, o.classes});
    row.weights = bert_weights(o);
    row.random = o.dropout > 0 || o.attention_dropout > 0 || o.classifier_dropout.value_or(0) > 0;
    row.lengths = 2;
    row.padded = {0, 1};
    rows.push_back(row);
  };
  int count = 0;
  for (BertOptions o : bert_forms()) {
    o.dropout = o.attention_dropout = 0.2;
    add(fmt::format("form {}", count++), o);
  }
  BertOptions one = tiny_bert();
  one.classes = 3;
  one.classifier_dropout = 0.5;
  add("dropout of the classifier", one);
  one.classifier_dropout = 0;
  one.dropout = 0.5;
  add("dropout of layers", one);
  one.dropout = 0;
  one.attention_dropout = 0.5;
  add("dropout of attention", one);
}

// ---- Pairs of sentences ------------------------------------------------------------------------

template <class M, class O>
void add_sentences(Rows& rows, std::string name, O o, bool random) {
  o.source_vocab = o.source_vocab ? o.source_vocab : 9;
  o.target_vocab = o.target_vocab ? o.target_vocab : 7;
  Model row = row_of(
      std::move(name), o, [](const O& options, Rng& rng) { return M(options, rng); },
      [](const M& m, const Tensors& x) { return m(x[0], x[1], x[2]); },
      [](const M& m, const Tensors& x) {
        AnyState state = any_state(m.encode(x[0], x[1]), kStepOf(m));
        for (int64_t t = 0; t < x[2].size(1); ++t) state = state.step(select(x[2], 1, t)).state;
        return state;
      });
  row.inputs = {{{kRows, 6}, o.source_vocab}, {{kRows}}, {{kRows, 5}, o.target_vocab}};
  row.outputs = {{kRows, 5, o.target_vocab}};
  row.random = random;
  row.causal = 2;
  row.lengths = 1;
  row.padded = {0};
  rows.push_back(row);
}

void add_sentences(Rows& rows) {
  auto transformer = [&](const std::string& name, const TransformerOptions& o,
                         bool random = false) {
    add_sentences<Transformer>(rows, "Transformer: " + name, o, random);
  };
  for (TransformerOptions o : transformer_forms()) {
    o.encoder_layers = 1;  // takes less time
    transformer(
        fmt::format("norm first {}, grouped heads {}", o.layer.norm_first, o.layer.kv_heads > 0),
        o);
  }
  TransformerOptions o = transformer_forms()[0];
  o.encoder_layers = o.decoder_layers = 1;
  TransformerOptions tied = o;
  o.layer.dropout = 0.1;
  o.embed_dropout = 0;
  transformer("dropout of layers", o, true);
  std::swap(*o.embed_dropout, o.layer.dropout);
  transformer("dropout of embeddings", o, true);
  tied.source_vocab = tied.target_vocab = 8;
  tied.tie_source_target = true;
  transformer("tied tables", tied);
  tied.tie_target_generator = true;
  transformer("tied tables and generator", tied);
  tied.tie_source_target = false;
  transformer("tied generator", tied);
  const BahdanauOptions paper = {.embed = 5, .hidden = 6, .dropout = 0.1};
  add_sentences<Bahdanau>(rows, "Bahdanau", paper, true);
  BahdanauOptions d2l = paper;
  d2l.form = BahdanauForm::d2l;
  d2l.layers = 2;
  d2l.dropout = 0;
  d2l.layer_dropout = d2l.attention_dropout = 0.1;
  add_sentences<Bahdanau>(rows, "Bahdanau, d2l's form", d2l, true);
  Seq2SeqOptions lstm = {.embed = 5, .hidden = 6};
  add_sentences<LstmSeq2Seq>(rows, "LSTM seq2seq", lstm, false);
  lstm.reverse_source = true;
  lstm.dropout = 0.1;
  add_sentences<LstmSeq2Seq>(rows, "LSTM seq2seq, reversed source", lstm, true);
}

// ---- Sequences of numbers ----------------------------------------------------------------------

struct NtmStep {
  Tensor logits;
  NtmState state;
};

void add_sequences(Rows& rows) {
  int count = 0;
  auto add = [&](Model row) {
    row.inputs = {{{kRows, 6, 3}}};
    row.outputs = {{kRows, 6, 2}};
    row.causal = 0;
    rows.push_back(row);
  };
  for (const NtmOptions& form : ntm_forms())
    add(row_of(
        fmt::format("NTM: form {}", count++), form,
        [](const NtmOptions& o, Rng& rng) { return Ntm(o, rng); }, kFirst,
        [](const Ntm& m, const Tensors& x) {
          const auto step = [&m](const NtmState& state, const Tensor& next) {
            NtmRun run = m.run(unsqueeze(next, 1), {.state = state});
            return NtmStep{select(run.output, 1, 0), std::move(run.state)};
          };
          return x[0].size(1) ? any_state(m.run(x[0]).state, step)
                              : any_state(m.start(x[0].size(0)), step);
        }));
  add(row_of(
      "LSTM baseline", 0, [](int, Rng& rng) { return LstmBaseline(3, 2, rng, 5, 2); }, kFirst));
}

}  // namespace

const std::vector<Model>& zoo() {
  static const Rows all = [] {
    Rows rows;
    add_images(rows);
    for_singles(tiny_text(), text_choices(), [&](const std::string& name, const auto& o) {
      add_gmlp_language(rows, name, o);
      if (name == "default" || name == "attention") add_gmlp_padded(rows, name, o);
    });
    add_gpts(rows);
    add_berts(rows);
    add_sentences(rows);
    add_sequences(rows);
    return rows;
  }();
  return all;
}

const std::vector<Model>& zoo_pairs() {
  static const Rows all = [] {
    Rows rows;
    for_pairs(tiny_gmlp(), gmlp_choices(),
              [&](const auto& name, const auto& o) { rows.push_back(gmlp(name, o)); });
    const auto add_texts = [&](const auto& name, const auto& o) {
      add_gmlp_language(rows, name, o);
      add_gmlp_padded(rows, name, o);
    };
    for_singles(tiny_text(), text_choices(), add_texts);
    for_pairs(tiny_text(), text_choices(), add_texts);
    for (Model& row : rows) row.pair = true;
    return rows;
  }();
  return all;
}

Tensors inputs_of(const Model& row, int64_t rows, Rng& rng, DType dtype) {
  Tensors out;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    Shape shape = row.inputs[i].shape;
    shape[0] = rows;
    if (static_cast<int>(i) == row.lengths) {
      const int64_t longest = row.inputs[static_cast<size_t>(row.padded[0])].shape[1];
      out.push_back(longest - remainder(arange(0, rows) * 2, longest));
    } else if (row.inputs[i].words > 0) {
      // A token 0 may pad, and padding has no gradient as an input.
      out.push_back(randint(row.inputs[i].words > 2, row.inputs[i].words, shape, rng));
    } else {
      out.push_back(randn(shape, rng).to(dtype));
    }
  }
  return out;
}

AnyModel evaluated(const Model& row, Rng& rng, DType dtype) {
  AnyModel model = row.make(rng, nn::Recompute::none);
  NoGradGuard guard;
  for (const Tensor& p : nn::parameters(model)) add_(p, randn(p.shape(), rng), 0.3);
  nn::to(model, dtype);
  nn::set_training(model, false);
  return model;
}

Tensors begun(const Model& row, Tensors x, int64_t size) {
  Tensor& t = x[static_cast<size_t>(row.causal)];
  t = narrow(t, 1, 0, size);
  return x;
}

Tensors example(const Model& row, const Tensors& x, int64_t i) {
  Tensors out;
  for (const Tensor& t : x) out.push_back(narrow(t, 0, i, 1));
  if (row.lengths < 0) return out;
  Tensor& lengths = out[static_cast<size_t>(row.lengths)];
  for (const int p : row.padded) {
    Tensor& t = out[static_cast<size_t>(p)];
    t = narrow(t, 1, 0, lengths.item<int64_t>());
  }
  lengths = {};
  return out;
}

}  // namespace tern::test
