// Fuzzes checkpoints: the input as a file, and as damage to a large valid one. A state that loads
// must survive saving and loading.
#include "tern/train/checkpoint.h"

#include "tern/core/ops/ops.h"
#include "tern/tests/fuzz/fuzz.h"
#include "tern/tests/support/data_files.h"

namespace {

using namespace tern;

/// A program's state with a part of every kind.
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
  training::Checkpoint checkpoint;

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

constexpr int64_t kMany = 4000;

/// The bytes of a checkpoint of 100 KB.
std::string large_file() {
  State state;
  state.text = fuzz::repeated("text ");
  state.counts.assign(kMany, 7);
  const test::TempDir dir;
  state.checkpoint.save(dir / "large");
  return test::read_file(dir / "large");
}

/// Applies the input as damage to a large file; the checksum must notice it.
void read_large(const uint8_t* bytes, size_t size) {
  static const std::string kLarge = large_file();
  const std::string content = fuzz::damaged(kLarge, bytes, size);
  const fuzz::File file(content);
  State state;
  fuzz::may_refuse_file([&] {
    state.checkpoint.load(file.path());
    fuzz::require(content == kLarge);
  });
  const bool read = state.text == fuzz::repeated("text ") && std::ssize(state.counts) == kMany;
  fuzz::require(content != kLarge || read);
}

}  // namespace

// Reads the input as a checkpoint, with and without a check of its checksum. A state that loads is
// saved and loaded into another, which must be equal.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  read_large(bytes, size);
  const fuzz::File file(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] { training::load_checkpoint(file.path()); });
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
