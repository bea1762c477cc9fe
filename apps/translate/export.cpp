// The command export of translate: the encoder and a step of the decoder as ONNX files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/apps/translate/program.h"
#include "tern/apps/translate/translator.h"
#include "tern/core/base/error.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/state_tensors.h"
#include "tern/onnx/onnx_step.h"
#include "tern/train/progress.h"

namespace tern::apps::translate {
namespace {

using models::Bahdanau, models::LstmSeq2Seq, models::Transformer;

/// Sizes in the decoder's inputs that may differ, in their order: sentences, tokens of the source,
/// earlier tokens of the target.
std::vector<std::string> sizes_of(const Transformer&) { return {"N", "S", "P"}; }
std::vector<std::string> sizes_of(const Bahdanau&) { return {"N", "S"}; }
std::vector<std::string> sizes_of(const LstmSeq2Seq&) { return {"N"}; }

/// Sources and their lengths, (N, S) and (N).
OnnxTensors sources(int64_t vocab, const std::vector<int64_t>& lengths, Rng& rng) {
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  return {randint(0, vocab, {std::ssize(lengths), longest}, rng), tensor(lengths)};
}

template <class M>
std::string export_encoder(const TranslateFlags& f, const M& m,
                           const std::vector<OnnxTensors>& examples, AtomicFiles& files) {
  OnnxOptions options{.inputs = {"source", "lengths"}, .sizes = {"N", "S"}, .opset = f.opset};
  options.files = &files;
  auto outputs = [&](const OnnxTensors& x, auto take) {
    map_tensors(m.encode(x[0], x[1]), [&](const std::string& name, const Tensor& t) {
      if (name != "lengths") take(name, t);
      return t;
    });
  };
  outputs(examples[0],
          [&](const std::string& name, const Tensor&) { options.outputs.push_back(name); });
  auto fn = [&](const OnnxTensors& x) {
    OnnxTensors out;
    outputs(x, [&](const std::string&, const Tensor& t) { out.push_back(t); });
    return out;
  };
  return export_onnx(f.out + "/encoder.onnx", m, fn, examples, options);
}

template <class M>
std::string export_decoder(const TranslateFlags& f, const M& m, int64_t vocab,
                           const std::vector<OnnxTensors>& examples, AtomicFiles& files) {
  using State = decltype(m.encode(Tensor(), Tensor()));
  Rng rng(1);
  auto example = [&](const OnnxTensors& source, int64_t past) {
    State state = m.encode(source[0], source[1]);
    auto tokens = [&] { return randint(0, vocab, {source[0].size(0)}, rng); };
    for (int64_t i = 0; i < past; ++i) state = m.step(state, tokens()).state;
    return OnnxStepExample<State>{{tokens()}, state};
  };
  auto step = [&](const OnnxTensors& x, const State& state) {
    const auto y = m.step(state, x[0]);
    return std::pair(OnnxTensors{y.logits}, y.state);
  };
  const std::string begin = fmt::format("{}", datasets::kBeginId),
                    end = fmt::format("{}", datasets::kEndId);
  return export_onnx_step(
      f.out + "/decoder.onnx", m, step,
      std::vector{example(examples[0], 5), example(examples[1], 2), example(examples[2], 9)},
      {.inputs = {"tokens"},
       .outputs = {"logits"},
       .sizes = sizes_of(m),
       .opset = f.opset,
       .metadata = {{"begin", begin}, {"end", end}},
       .files = &files});
}

}  // namespace

int export_model(const TranslateFlags& f) {
  const Translator translator = load_translator(f.model);
  const ModelConfig& c = translator.model.config();
  std::error_code error;
  std::filesystem::create_directories(f.out, error);
  check(!error, "--out {}: {}", f.out, error.message());
  NoGradGuard no_grad;
  Rng rng(0);
  const std::vector<OnnxTensors> examples = {sources(c.source_vocab, {3, 7}, rng),
                                             sources(c.source_vocab, {9, 2, 11, 4, 1}, rng),
                                             sources(c.source_vocab, {20, 1, 9}, rng)};
  std::visit(
      [&](const auto& m) {
        auto say = [&](const char* part, const std::string& what) {
          training::say(fmt::format("{}: {}/{}.onnx: {}", f.model, f.out, part, what), stderr);
        };
        AtomicFiles files;
        const std::string encoder = export_encoder(f, m, examples, files),
                          decoder = export_decoder(f, m, c.target_vocab, examples, files);
        files.commit();
        say("encoder", encoder);
        say("decoder", decoder);
      },
      translator.model.network());
  return 0;
}

}  // namespace tern::apps::translate
