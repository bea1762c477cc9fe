// Functions as ONNX files, for tests of the export.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/onnx/onnx.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/errors.h"

namespace tern::test {

using Texts = std::vector<std::string>;
using Ints = std::vector<int64_t>;
using OnnxFn = std::function<Tensor(const OnnxTensors&)>;

/// Examples of inputs (N, 3, 4) with N = 2 and 5.
inline std::vector<OnnxTensors> cubes() {
  Rng rng(1);
  return {{randn({2, 3, 4}, rng)}, {randn({5, 3, 4}, rng)}};
}

/// Token ids (N, T).
inline std::vector<OnnxTensors> texts(int64_t vocab) {
  Rng rng(1);
  return {{randint(0, vocab, {2, 7}, rng)},
          {randint(0, vocab, {5, 12}, rng)},
          {randint(0, vocab, {3, 20}, rng)}};
}

inline OnnxFile exported(const OnnxFn& fn, const std::vector<OnnxTensors>& examples = cubes(),
                         const NamedTensors& state = {}, const OnnxOptions& options = {}) {
  const TempDir dir;
  export_onnx(
      dir / "model.onnx", [&](const OnnxTensors& x) { return OnnxTensors{fn(x)}; }, state, examples,
      options);
  return OnnxFile(dir / "model.onnx");
}

/// Checks that the export is refused, with these words in the error.
inline void check_refused(const std::string& words, const OnnxFn& fn,
                          const std::vector<OnnxTensors>& examples = cubes(),
                          const NamedTensors& state = {}, const OnnxOptions& options = {}) {
  const std::string error =
      error_of([&] { return exported(fn, examples, state, options).nodes.size(); });
  CHECK_MESSAGE(contains(error, words), "'", error, "' lacks '", words, "'");
}

/// Checks the ops of ONNX that a function becomes, in opset 17 and 23: names separated by spaces,
/// and " | " between the opsets if they differ.
inline void check_ops(const std::string& name, const std::string& ops,
                      const std::vector<OnnxTensors>& examples, const OnnxFn& fn) {
  CAPTURE(name);
  const size_t bar = ops.find(" | ");
  const std::string other = bar == ops.npos ? ops : ops.substr(bar + 3);
  for (const auto& [opset, expected] : {std::pair(17, ops.substr(0, bar)), {23, other}}) {
    const OnnxFile file = exported(fn, examples, {}, {.opset = opset});
    CHECK(file.opset == static_cast<uint64_t>(opset));
    CHECK(fmt::format("{}", fmt::join(file.ops(), " ")) == expected);
  }
}
inline void check_ops(const std::string& name, const std::string& ops, const OnnxFn& fn) {
  check_ops(name, ops, cubes(), fn);
}

}  // namespace tern::test
