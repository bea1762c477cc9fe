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

// The Transformer's is an option of its layers.
template <class O>
nn::Recompute* recompute_of(O& o) {
  if constexpr (requires { o.recompute; }) return &o.recompute;
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

template <class M>
constexpr auto kMake = [](const auto& options, Rng& rng) { return M(options, rng); };
constexpr auto kFirst = [](const auto& m, const Tensors& x) { return m(x[0]); };

// ---- Images ------------------------------------------------------------------------------------

/// Images of height x width pixels.
template <class M, class O>
Model images(std::string name, const O& o, int64_t height, int64_t width) {
  Model row = row_of(std::move(name), o, kMake<M>, kFirst);
  row.inputs = {{{kRows, o.channels, height, width}}};
  row.outputs = {{kRows, o.classes}};
  row.random = o.dropout > 0;
  return row;
}

Model gmlp(const std::string& name, const GmlpOptions& o) {
  Model row = images<Gmlp>("gMLP: " + name, o, o.image, o.image);
  row.random = o.dropout > 0 || o.drop_path > 0;
  row.batch_norm = !o.stem.empty();
  return row;
}

Model vit(const std::string& name, VitOptions o) {
  o.dropout = 0.2;
  o.attention_dropout = 0.1;
  o.drop_path = 0.3;
  Model row = images<Vit>("ViT: " + name, o, o.image, o.image);
  row.outputs = {{kRows, o.classes ? o.classes : o.dim}};
  row.weights = vit_weights(o);
  row.batch_norm = !o.stem.empty();
  return row;
}

Model resnet(const std::string& name, const ResNetOptions& o, int64_t height, int64_t width) {
  Model row = images<ResNet>("ResNet: " + name, o, height, width);
  const int64_t block = o.block == ResNetBlockKind::basic ? 1 : 4;
  row.outputs = {{kRows, o.classes ? o.classes : o.width * block << (o.layers.size() - 1)}};
  row.batch_norm = true;
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
  for (const auto& form : vit_forms()) rows.push_back(vit(form.first, form.second));
  for (auto [name, o] : resnet_forms()) {
    if (o.layers == tiny_resnet().layers) o.layers = {1, 1};  // takes less time
    o.dropout = name == "small pictures" ? 0.1 : 0;
    rows.push_back(resnet(name, o, 9, 7));
  }
  const AirbenchOptions o{.image = 11, .widths = {5, 6}, .classes = 3, .dropout = 0.2};
  Model row = images<Airbench>("airbench", o, 11, 11);
  row.batch_norm = true;
  row.frozen = {"whitening.weight"};
  rows.push_back(row);
}

// ---- Texts -------------------------------------------------------------------------------------

constexpr auto kStepOf = [](const auto& m) {
  return [&m](const auto& state, const Tensor& next) { return m.step(state, next); };
};

/// A causal language model of `context` tokens.
template <class M, class O, class Call>
Model language(std::string name, const O& o, int64_t weights, bool random, Call call) {
  Model row = row_of(std::move(name), o, kMake<M>, call, [](const auto& m, const Tensors& x) {
    return any_state(m.encode(x[0]), kStepOf(m));
  });
  row.inputs = {{{kRows, o.context}, o.vocab}};
  row.outputs = {{kRows, o.context, o.vocab}};
  row.weights = weights;
  row.random = random;
  row.causal = 0;
  return row;
}

template <class Call>
Model gpt(const std::string& name, const GptOptions& o, Call call) {
  return language<Gpt>("GPT: " + name, o, gpt_weights(o), true, call);
}

template <class Call>
Model gmlp_language(const std::string& name, const GmlpTextOptions& o, Call call) {
  return language<GmlpLanguageModel>("gMLP, language: " + name, o, gmlp_text_weights(o),
                                     o.dropout > 0 || o.drop_path > 0, call);
}

/// A model of tokens (rows, length) with lengths.
template <class O, class Make, class Call>
Model padded_texts(std::string name, const O& o, const GmlpTextOptions& text, Make make,
                   Call call) {
  Model row = row_of(std::move(name), o, make, call);
  // They leave room for one more token.
  row.inputs = {{{kRows, text.context - 1}, text.vocab}, {{kRows}}};
  row.lengths = 1;
  row.padded = {0};
  row.random = true;
  return row;
}

template <class Call>
Model gmlp_masked(const std::string& name, const GmlpTextOptions& o, Call call) {
  Model row =
      padded_texts("gMLP, masked words: " + name, o, o, kMake<GmlpMaskedLanguageModel>, call);
  row.outputs = {{kRows, o.context - 1, o.vocab}};
  row.random = o.dropout > 0 || o.drop_path > 0;
  row.along = {0};
  row.sees_padding = !o.gate.causal;
  return row;
}

struct Classifier {
  GmlpTextOptions text;
  GmlpClassifierOptions head;
  nn::Recompute recompute = nn::Recompute::none;
};

/// Masked words, and classes with every pooling.
void add_gmlp_padded(Rows& rows, const std::string& name, const GmlpTextOptions& o) {
  constexpr auto call = [](const auto& m, const Tensors& x) { return m(x[0], x[1]); };
  rows.push_back(gmlp_masked(name, o, call));
  for (const auto pooling : {TextPooling::first, TextPooling::last, TextPooling::mean}) {
    if (pooling == TextPooling::first && o.gate.causal) continue;
    rows.push_back(padded_texts(
        fmt::format("gMLP, classes, pooling {}: {}", static_cast<int>(pooling), name),
        Classifier{o, {.classes = 4, .pooling = pooling}}, o,
        [](Classifier c, Rng& rng) {
          c.text.recompute = c.recompute;
          return GmlpTextClassifier(c.text, c.head, rng);
        },
        call));
    rows.back().outputs = {{kRows, 4}};
  }
}

GmlpTextOptions tiny_text() {
  return {
      .vocab = 7, .context = 6, .dim = 8, .layers = 2, .d_ffn = 16, .gate = {.weight_bound = 0.3}};
}

Choices<GmlpTextOptions> text_choices() {
  auto out = gate_choices<GmlpTextOptions>();
  const Choices<GmlpTextOptions> more = {
      {{"causal", [](auto& o) { o.gate.causal = true; }}},
      {{"attention", [](auto& o) { o.attention_dim = 4; }}},
      {{"positions", [](auto& o) { o.positions = true; }}},
      {{"own head", [](auto& o) { o.tie_head = false; }}},
      {{"dropout", [](auto& o) { o.dropout = 0.1, o.drop_path = 0.2; }}},
      {{"default d_ffn", [](auto& o) { o.d_ffn = 0; }}},
      {{"one layer", [](auto& o) { o.layers = 1; }}},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

void add_gpts(Rows& rows) {
  for (auto [name, o] : forms()) {
    o.dropout = 0.1;
    rows.push_back(gpt(name, o, kFirst));
  }
  GptOptions o = small();
  o.embed_dropout = 0.5;
  rows.push_back(gpt("dropout of embeddings", o, kFirst));
  std::swap(o.embed_dropout, o.attention_dropout);
  rows.push_back(gpt("dropout of attention", o, kFirst));
}

BertInput bert_input(const Bert& m, const Tensors& x) {
  BertInput in{x[0], x[1]};
  if (m.options.segments == 0) in.segments = {};
  if (x[2].defined()) in.mask = nn::Mask::lengths(x[2]);
  return in;
}

template <class Call>
Model bert(const std::string& name, const BertOptions& o, int64_t length, Call call) {
  Model row = row_of("BERT: " + name, o, kMake<Bert>, call);
  row.inputs = {
      {{kRows, length}, o.vocab}, {{kRows, length}, std::max<int64_t>(o.segments, 1)}, {{kRows}}};
  if (!o.classes_of_tokens)
    row.along = {0}, row.outputs = {{kRows, length, o.masked_lm ? o.vocab : o.dim}};
  if (o.next_sentence) row.outputs.push_back({kRows, 2});
  if (o.classes_of_tokens) row.along.push_back(static_cast<int>(row.outputs.size()));
  if (o.classes > 0)
    row.outputs.push_back(o.classes_of_tokens ? Shape{kRows, length, o.classes}
                                              : Shape{kRows, o.classes});
  row.random = o.dropout > 0 || o.attention_dropout > 0 || o.classifier_dropout.value_or(0) > 0;
  row.lengths = 2;
  row.padded = {0, 1};
  return row;
}

void add_berts(Rows& rows) {
  auto add = [&](const std::string& name, const BertOptions& o) {
    rows.push_back(bert(name, o, 7, [](const Bert& m, const Tensors& x) {
      const Tensor hidden = m.bert(bert_input(m, x));
      const Bert::Output y = m.heads(hidden);
      // Without a head of tokens the hidden states show what tokens see.
      const bool tokens = m.options.masked_lm || m.options.classes_of_tokens;
      return Tensors{tokens ? Tensor() : hidden, y.words, y.next, y.classes};
    }));
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

constexpr auto kThree = [](const auto& m, const Tensors& x) { return m(x[0], x[1], x[2]); };

/// Sources of up to `source` tokens, targets of `target`.
template <class M, class O, class Call>
Model sentences(std::string name, const O& o, bool random, int64_t source, int64_t target,
                Call call) {
  Model row = row_of(std::move(name), o, kMake<M>, call, [](const M& m, const Tensors& x) {
    AnyState state = any_state(m.encode(x[0], x[1]), kStepOf(m));
    for (int64_t t = 0; t < x[2].size(1); ++t) state = state.step(select(x[2], 1, t)).state;
    return state;
  });
  row.inputs = {{{kRows, source}, o.source_vocab}, {{kRows}}, {{kRows, target}, o.target_vocab}};
  row.outputs = {{kRows, target, o.target_vocab}};
  row.random = random;
  row.causal = 2;
  row.lengths = 1;
  row.padded = {0};
  return row;
}

void add_sentences(Rows& rows) {
  auto transformer = [&](const std::string& name, const TransformerOptions& o,
                         bool random = false) {
    rows.push_back(sentences<Transformer>("Transformer: " + name, o, random, 6, 5, kThree));
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
  BahdanauOptions b = {
      .source_vocab = 9, .target_vocab = 7, .embed = 5, .hidden = 6, .dropout = 0.1};
  rows.push_back(sentences<Bahdanau>("Bahdanau", b, true, 6, 5, kThree));
  b.form = BahdanauForm::d2l;
  b.layers = 2;
  b.dropout = 0;
  b.layer_dropout = b.attention_dropout = 0.1;
  rows.push_back(sentences<Bahdanau>("Bahdanau, d2l's form", b, true, 6, 5, kThree));
  Seq2SeqOptions lstm = {.source_vocab = 9, .target_vocab = 7, .embed = 5, .hidden = 6};
  rows.push_back(sentences<LstmSeq2Seq>("LSTM seq2seq", lstm, false, 6, 5, kThree));
  lstm.reverse_source = true;
  lstm.dropout = 0.1;
  rows.push_back(sentences<LstmSeq2Seq>("LSTM, reversed source", lstm, true, 6, 5, kThree));
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
    add(row_of(fmt::format("NTM: form {}", count++), form, kMake<Ntm>, kFirst,
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
      rows.push_back(gmlp_language(name, o, kFirst));
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
      rows.push_back(gmlp_language(name, o, kFirst));
      add_gmlp_padded(rows, name, o);
    };
    for_singles(tiny_text(), text_choices(), add_texts);
    for_pairs(tiny_text(), text_choices(), add_texts);
    for (Model& row : rows) row.pair = true;
    return rows;
  }();
  return all;
}

const std::vector<Model>& zoo_large() {
  static const Rows all = [] {
    constexpr auto own_loss = [](const auto& m, const Tensors& x) { return m.loss(x[0], x[0]); };
    constexpr auto translation_loss = [](const auto& m, const Tensors& x) {
      return m.loss(x[0], x[1], x[2], x[2], {.label_smoothing = 0.1});
    };
    Rows rows = {
        gmlp("patches of 8", {.patch = 8, .dim = 64, .layers = 4}),
        gmlp("mean",
             {.dim = 64, .layers = 4, .class_token = false, .drop_path = 0.3, .attention_dim = 16}),
        gmlp("stem", {.stem = {{.channels = 16}}, .dim = 64, .layers = 2, .attention_dim = 16}),
        vit("patches of 8",
            {.image = 32, .patch = 8, .dim = 64, .layers = 4, .heads = 4, .classes = 10}),
        resnet("four blocks", {.layers = {4}, .classes = 3, .width = 8, .small_pictures = true}, 32,
               32),
    };
    rows[2].recomputes = false;  // not of the stem, which takes most of the memory
    rows[4].selective_saves = 0;
    TransformerOptions o{.source_vocab = 50, .target_vocab = 50};
    o.encoder_layers = o.decoder_layers = 3;
    // Sums of 1,400 terms take several blocks, so their bits depend on the starting value.
    o.layer = {.dim = 48, .heads = 4, .ffn = 1400, .dropout = 0.2};
    o.tie_source_target = o.tie_target_generator = true;
    rows.push_back(
        sentences<Transformer>("Transformer: post-norm", o, true, 20, 19, translation_loss));
    rows.back().selective_saves = 0.01;
    o.layer.norm_first = true;
    o.layer.activation = Activation::gelu;
    rows.push_back(
        sentences<Transformer>("Transformer: pre-norm", o, true, 20, 19, translation_loss));
    const BahdanauOptions b{
        .source_vocab = 3000, .target_vocab = 2000, .embed = 128, .hidden = 128};
    rows.push_back(sentences<Bahdanau>("Bahdanau", b, false, 20, 18, kThree));
    const Seq2SeqOptions s{.source_vocab = 3000, .target_vocab = 2000, .embed = 128, .hidden = 128};
    rows.push_back(sentences<LstmSeq2Seq>("LSTM seq2seq", s, false, 20, 18, kThree));
    Model ntm = row_of("NTM", NtmOptions{.inputs = 10, .outputs = 8, .start = NtmStart::learned},
                       kMake<Ntm>, kFirst);
    ntm.inputs = {{{kRows, 41, 10}}};
    rows.push_back(ntm);
    GptOptions g{.vocab = 60, .context = 24, .dim = 64, .layers = 4, .heads = 4};
    rows.push_back(gpt("GPT-2", g, own_loss));
    g.kv_heads = 2;
    rows.push_back(gpt("Llama", llama_form(g), own_loss));
    const GmlpTextOptions text{.vocab = 60, .context = 25, .dim = 64, .layers = 4};
    rows.push_back(gmlp_language("large", text, own_loss));
    rows.push_back(gmlp_masked("large", text, [](const auto& m, const Tensors& x) {
      return m.loss(x[0], x[1], x[0], {.ignore_index = 3});
    }));
    rows.push_back(bert(
        "large", {.vocab = 60, .dim = 64, .layers = 4, .heads = 4, .ffn = 256, .positions = 24}, 24,
        [](const Bert& m, const Tensors& x) {
          const Tensor places = arange(0, 5 * x[0].size(0)) * 4;
          return pretraining_loss(m, bert_input(m, x),
                                  {places, remainder(places, 60), remainder(x[2], 2)})
              .total;
        }));
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

Tensor loss_of(const Tensors& outputs) {
  Tensor loss;
  for (const Tensor& y : outputs) {
    const Tensor part = mean(square(y));
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
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
