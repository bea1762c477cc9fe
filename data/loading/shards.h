// Samples out of tar archives, as WebDataset keeps them (https://github.com/webdataset/webdataset):
// a sample is the run of files that have one name up to the first dot, "n01/003.jpg" and
// "n01/003.cls" say; shards are archives of many samples.
//
//   auto shards = data::expand_braces("train-{000000..000146}.tar");
//   data::ShardStream stream(shards, {.worker = 0, .workers = 2});  // every second shard
//   while (auto sample = stream.next()) decode_picture(sample->bytes("jpg"), sample->key);
//
//   auto samples = data::shard_dataset(shards);  // any order, any number of loader's workers
//
// Archives are not trusted: damage, sizes beyond the archive, parts twice and parts over the limit
// are IoErrors with the shard and the byte.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/data/loading/dataset.h"

namespace tern::data {

struct ShardSample {
  std::string key;                           ///< the name up to the first dot, with its folders
  std::map<std::string, std::string> parts;  ///< bytes by what follows the dot, in lower case
  std::string shard;                         ///< the archive's path

  /// A part's bytes; IoError that lists the parts if there is none of that name.
  std::span<const uint8_t> bytes(const std::string& part) const;
  const std::string& text(const std::string& part) const;
};

/// "a-{00..02}.tar" -> a-00.tar, a-01.tar, a-02.tar; "{train,val}.tar" -> both; several braces give
/// all combinations. Error for braces that are not closed, and over a million names or 64 MiB.
std::vector<std::string> expand_braces(const std::string& pattern);

struct ShardOptions {
  int64_t worker = 0, workers = 1;      ///< takes shards worker, worker + workers, ...
  int64_t max_part = int64_t{1} << 30;  ///< bytes of a part
};

/// Reads the shards from front to back, packed by gzip or not. Files whose name has no dot, or
/// begins and ends with two underscores, are passed over, as WebDataset does.
class ShardStream {
 public:
  explicit ShardStream(std::vector<std::string> shards, const ShardOptions& options = {});
  ~ShardStream();
  ShardStream(ShardStream&&) noexcept;
  ShardStream& operator=(ShardStream&&) noexcept;

  /// The next sample; nothing after the last one of the last shard.
  std::optional<ShardSample> next();
  /// The place after the last sample: which shard of this worker's, and how many samples of it.
  NamedTensors state_dict() const;
  /// Goes on from there, by reading past the samples before it. Error, and no change, if the place
  /// is in none of the shards.
  void load_state_dict(const NamedTensors& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All samples of the shards, in order, to be read in any order: the archives are gone through once
/// for the places of their samples. IoError for a shard packed by gzip, in which nothing can be
/// found by its place.
Dataset<ShardSample> shard_dataset(const std::vector<std::string>& shards,
                                   const ShardOptions& options = {});

}  // namespace tern::data
