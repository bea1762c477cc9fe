// Samples in tar archives, as in WebDataset (https://github.com/webdataset/webdataset). A sample is
// a run of files with the same name up to the first dot, such as "n01/003.jpg" and "n01/003.cls".
// Shards are archives of many samples.
//
//   auto shards = datasets::expand_braces("train-{000000..000146}.tar");
//   datasets::ShardStream stream(shards, {.worker = 0, .workers = 2});  // every second shard
//   while (auto sample = stream.next()) decode_picture(sample->bytes("jpg"), sample->key);
//
//   auto samples = datasets::shard_dataset(shards);  // any order, any number of workers
//
// Archives are not trusted: damage, sizes beyond the archive, duplicate parts and parts over the
// limit are IoErrors with shard and byte. Memory: a sample takes at most about three times its
// bytes in the archive. A gzip archive can unpack to 100 times its size, or 16 MiB.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/data/loading/dataset.h"

namespace tern::datasets {

struct ShardSample {
  std::string key;                           ///< name up to the first dot, with folders
  std::map<std::string, std::string> parts;  ///< bytes by the name after the dot, lower case
  std::string shard;                         ///< the archive's path

  /// A part's bytes. If there is no such part, an IoError lists the parts.
  std::span<const uint8_t> bytes(const std::string& part) const;
  const std::string& text(const std::string& part) const;
};

/// "a-{00..02}.tar" -> a-00.tar, a-01.tar, a-02.tar; "{train,val}.tar" -> both; several braces give
/// all combinations. Error: an unclosed brace, or more than a million names or 64 MiB.
std::vector<std::string> expand_braces(const std::string& pattern);

struct ShardOptions {
  int64_t worker = 0, workers = 1;      ///< takes shards worker, worker + workers, ...
  int64_t max_part = int64_t{1} << 30;  ///< limit of a part, in bytes
};

/// Reads the shards in order, plain or gzip. As WebDataset, it skips files whose name has no dot,
/// or begins and ends with two underscores. It also skips files whose name or folder begins with a
/// dot or is __MACOSX, which archives made on a Mac have.
class ShardStream {
 public:
  explicit ShardStream(std::vector<std::string> shards, const ShardOptions& options = {});
  ~ShardStream();
  ShardStream(ShardStream&&) noexcept;
  ShardStream& operator=(ShardStream&&) noexcept;

  /// The next sample; nothing after the last one of the last shard. After an exception another call
  /// tries the same sample again.
  std::optional<ShardSample> next();
  /// The position: the number of this worker's shard, of samples read from it, and `share`: worker,
  /// workers and the number of all shards.
  NamedTensors state_dict() const;
  /// Continues from a saved position: skips the samples before it. Give the same shards in the same
  /// order. Error, without a change, for another share, or if the shards have no such position.
  void load_state_dict(const NamedTensors& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All samples of the shards, readable in any order. Reads the archives' headers once and keeps the
/// position of each sample (16 bytes). Reads a sample when it is requested: behind a loader that is
/// cut (Loader::cut), a process reads only the samples of its blocks. IoError for a gzip shard,
/// which has no random access.
Dataset<ShardSample> shard_dataset(const std::vector<std::string>& shards,
                                   const ShardOptions& options = {});

}  // namespace tern::datasets
