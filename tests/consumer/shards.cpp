// Samples from tar archives, as WebDataset stores them: streamed by several workers, and in random
// order through a loader.
#include <tern/tern.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace tern;

struct Pair {
  Tensor image, label;  // (3, 8, 8) u8; () i64
  static void fields(auto& p, auto&& visit) { visit("image", p.image), visit("label", p.label); }
};

Pair decode(const datasets::ShardSample& s) {
  datasets::Picture p = datasets::decode_picture(s.bytes("png"), s.shard + ": " + s.key);
  return {datasets::to_tensor(p), scalar(std::stoll(s.text("cls")), DType::i64)};
}

int main() {
  std::filesystem::remove_all("shards");
  std::filesystem::create_directory("shards");
  for (int shard = 0; shard < 3; ++shard) {
    for (int i = 0; i < 4; ++i) {
      auto shade = static_cast<uint8_t>(40 * shard + 10 * i);
      std::string name = fmt::format("shards/{}{}", shard, i);
      datasets::save_png(name + ".png", {8, 8, std::vector<uint8_t>(192, shade)});
      std::ofstream(name + ".cls") << int{shade};
    }
    std::string command = fmt::format("cd shards && tar cf {0}.tar {0}?.*", shard);
    if (std::system(command.c_str()) != 0) return 1;
  }
  auto paths = datasets::expand_braces("shards/{0..2}.tar");

  // Streaming: each of two processes would read its own shards from front to back.
  int64_t streamed = 0;
  for (int64_t worker : {0, 1}) {
    datasets::ShardStream stream(paths, {.worker = worker, .workers = 2});
    while (auto sample = stream.next()) streamed += decode(*sample).label.item<int64_t>();
  }

  // In one process, a loader's workers share all shards, in a new order in each epoch.
  auto loader = datasets::dataset_loader(datasets::shard_dataset(paths).map(decode),
                                         datasets::Stack{}, {.batch = 4, .seed = 1, .workers = 2});
  int64_t loaded = 0;
  bool fit = true;
  for (Pair& batch : loader) {
    loaded += sum(batch.label).item<int64_t>();
    fit &= batch.image.shape() == Shape{4, 3, 8, 8} &&
           all(eq(amax(batch.image, {1, 2, 3}), batch.label)).item<bool>();
  }
  fmt::print("labels add up to {} and {}\n", streamed, loaded);
  return fit && streamed == 660 && loaded == 660 ? 0 : 1;
}
