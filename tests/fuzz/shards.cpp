// Fuzzes the readers of tar shards (WebDataset), and brace expansion in their names.
#include "tern/data/loading/shards.h"

#include "tern/core/base/error.h"
#include "tern/tests/fuzz/archive.h"

namespace {

using namespace tern;

bool same(const datasets::ShardSample& a, const datasets::ShardSample& b) {
  return a.key == b.key && a.parts == b.parts && a.shard == b.shard;
}

// The samples are the same when they are streamed, read by index, and streamed after a resume.
void read_all(const std::string& path) {
  const datasets::ShardOptions options{.max_part = 1 << 16};
  const std::vector<std::string> shards = {path, path};
  datasets::ShardStream stream(shards, options), again(shards, options);
  std::vector<datasets::ShardSample> samples;
  while (auto sample = stream.next()) {
    samples.push_back(std::move(*sample));
    if (samples.size() == 2) again.load_state_dict(stream.state_dict());
  }
  for (size_t i = samples.size() < 2 ? 0 : 2; i < samples.size(); ++i)
    fuzz::require(same(*again.next(), samples[i]));
  const auto set = datasets::shard_dataset(shards, options);
  fuzz::require(set.size() == std::ssize(samples));
  for (int64_t i = 0; i < set.size(); ++i)
    fuzz::require(same(set.get(i), samples[static_cast<size_t>(i)]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  for (const std::string& archive :
       {std::string(fuzz::text_of(bytes, size)),
        fuzz::archive_of(bytes, size,
                         {"a.jpg", "a.cls", "b.jpg", "b.JPG", "n01/003.seg.png", "no dot",
                          "__info__", ".hidden"},
                         100)}) {
    const fuzz::File file(archive);
    fuzz::may_refuse_file([&] { read_all(file.path()); });
  }
  fuzz::may_refuse([&] { datasets::expand_braces(std::string(fuzz::text_of(bytes, size))); });
  return 0;
}
