#include "tern/train/checkpoint.h"

#include "tern/core/ops/ops.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;

/// A program's state, a part of every kind.
struct State {
  int64_t count = 0;
  double rate = 0;
  bool on = false;
  std::string word;
  std::vector<int64_t> counts;
  std::vector<double> rates;
  Rng rng{1};
  Tensor weights = zeros({2, 3});
  std::string text;
  train::Checkpoint checkpoint;

  State() {
    checkpoint.add("count", count);
    checkpoint.add("rate", rate);
    checkpoint.add("on", on);
    checkpoint.add("word", word);
    checkpoint.add("counts", counts);
    checkpoint.add("rates", rates);
    checkpoint.add("rng", rng);
    checkpoint.add("weights", weights);
    checkpoint.add_text(
        "text", [this] { return text; }, [this](const std::string& t) { text = t; });
    checkpoint.expect("data", "images");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

}  // namespace

// As a checkpoint, and as one whose checksum was right: what fits makes a state that fits another.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fuzz::File file(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] { train::load_checkpoint(file.path()); });
  fuzz::may_refuse_file([&] {
    const SafeTensors content = load_safetensors(file.path());
    State state, other;
    state.checkpoint.load_state(content, "x");
    other.checkpoint.load_state(state.checkpoint.state(), "y");
    fuzz::require(other.count == state.count && other.counts == state.counts &&
                  other.word == state.word && other.text == state.text && other.on == state.on &&
                  other.rng == state.rng);
  });
  return 0;
}
