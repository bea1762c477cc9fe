// Groups the files of tar archives into samples: in order (ShardStream), or at remembered positions
// (shard_dataset). Expands braces in the names of shards.
#include "tern/data/loading/shards.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "tern/core/base/printable.h"
#include "tern/core/base/utf8.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/hidden.h"
#include "tern/data/loading/tar.h"

namespace tern::datasets {
namespace {

constexpr size_t kMaxNames = 1'000'000;
constexpr size_t kMaxNameBytes = 1 << 26;

// Limits the number of names, because each is about as long as the pattern.
void check_names(const std::string& pattern, size_t a, size_t b) {
  const size_t most = std::min(kMaxNames, kMaxNameBytes / std::max<size_t>(pattern.size(), 1));
  check(a <= most / b, "expand_braces: '{}' stands for more than {}", pattern.substr(0, 1000),
        most);
}

// WebDataset's base_plus_ext: folders and name up to the first dot, and the rest.
struct PartName {
  std::string key, part;
};
std::optional<PartName> part_name(const std::string& member) {
  if (member.starts_with("__") && member.ends_with("__")) return std::nullopt;
  if (is_hidden(member)) return std::nullopt;
  const size_t slash = member.rfind('/'), file = slash == member.npos ? 0 : slash + 1;
  const size_t dot = member.find('.', file);
  if (dot == member.npos) return std::nullopt;
  return PartName{member.substr(0, dot), lower_ascii(member.substr(dot + 1))};
}

// Iterates over the files of an archive that are parts of samples.
class Parts {
 public:
  /// Begins at the header of a part, or at the beginning.
  Parts(const std::string& path, int64_t max_part, int64_t header = 0)
      : tar_(path, header), max_part_(max_part) {
    advance();
  }

  bool done() const { return !name_; }
  const PartName& name() const { return *name_; }
  int64_t size() const { return size_; }
  int64_t header() const { return tar_.header(); }
  TarReader& tar() { return tar_; }
  [[noreturn]] void fail(const std::string& what) const { tar_.bytes().fail(what); }

  void advance() {
    name_.reset();
    while (const auto member = tar_.next()) {
      if (member->is_file) name_ = part_name(member->name);
      if (!name_) continue;
      size_ = member->size;
      if (size_ > max_part_)
        fail(fmt::format("a file of {} bytes is over the limit of {} (ShardOptions::max_part)",
                         size_, max_part_));
      return;
    }
  }

 private:
  TarReader tar_;
  int64_t max_part_, size_ = 0;
  std::optional<PartName> name_;
};

// Calls visit(part) for every file of the current sample; false at the end.
template <class Visit>
bool for_each_part(Parts& parts, std::string& key, Visit visit) {
  if (parts.done()) return false;
  key = parts.name().key;
  for (; !parts.done() && parts.name().key == key; parts.advance()) visit(parts.name().part);
  return true;
}

[[noreturn]] void fail_twice(const Parts& parts) {
  parts.fail(fmt::format("the sample \"{}\" has two files \"{}\"", printable(parts.name().key),
                         printable(parts.name().part)));
}

std::optional<ShardSample> read_sample(Parts& parts, const std::string& shard) {
  ShardSample sample;
  sample.shard = shard;
  const bool found = for_each_part(parts, sample.key, [&](const std::string& part) {
    const auto [place, fresh] = sample.parts.emplace(part, "");
    if (!fresh) fail_twice(parts);
    // Reads in pieces, so that a false size in a header takes no memory.
    constexpr int64_t kPiece = 1 << 20;
    for (int64_t left = parts.size(); left > 0; left -= kPiece) {
      const size_t begin = place->second.size();
      const int64_t count = std::min(left, kPiece);
      place->second.resize(begin + static_cast<size_t>(count));
      parts.tar().read_exactly(place->second.data() + begin, count);
    }
  });
  if (!found) return std::nullopt;
  return sample;
}

// The number at one end of {a..b}; nothing for other text.
std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && rest == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

std::vector<std::string> alternatives(const std::string& pattern, std::string_view inside) {
  std::vector<std::string> out;
  if (const size_t dots = inside.find(".."); dots != inside.npos) {
    const std::string_view first = inside.substr(0, dots), last = inside.substr(dots + 2);
    const auto from = number(first), to = number(last);
    check(from && to && *from <= *to && *to - *from < static_cast<int64_t>(kMaxNames),
          "expand_braces: '{}' in '{}' is not an ascending range of numbers, or too long", inside,
          pattern);
    check_names(pattern, static_cast<size_t>(*to - *from + 1), 1);
    for (int64_t i = 0; i <= *to - *from; ++i)  // *to + 1 may overflow
      out.push_back(fmt::format("{:0{}}", *from + i, first.size()));
    return out;
  }
  for (size_t at = 0; at <= inside.size();) {
    const size_t comma = std::min(inside.find(',', at), inside.size());
    out.emplace_back(inside.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

// Where a sample begins. There can be very many samples, so their names are not kept.
struct Place {
  size_t shard;
  int64_t header;  // position of its first part
};

void find_samples(const std::string& path, size_t shard, int64_t max_part,
                  std::vector<Place>& places) {
  Parts parts(path, max_part);
  check_io(!parts.tar().bytes().is_gzip(),
           "{}: is packed by gzip, which allows no access to single samples; unpack it, or read it "
           "with ShardStream",
           path);
  std::string key;
  std::set<std::string> names;
  auto visit = [&](const std::string& name) {
    if (!names.insert(name).second) fail_twice(parts);
  };
  for (int64_t header = parts.header(); for_each_part(parts, key, visit);
       header = parts.header(), names.clear())
    places.push_back({shard, header});
}

}  // namespace

const std::string& ShardSample::text(const std::string& part) const {
  const auto found = parts.find(part);
  if (found != parts.end()) return found->second;
  std::string known;
  for (const auto& entry : parts) known += (known.empty() ? "" : ", ") + printable(entry.first);
  fail_io(fmt::format("{}: the sample \"{}\" has no \"{}\"; it has {}", shard, printable(key), part,
                      known));
}

std::span<const uint8_t> ShardSample::bytes(const std::string& part) const {
  const std::string& s = text(part);
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  const size_t open = pattern.find('{'), close = pattern.find('}');
  check((open == pattern.npos) == (close == pattern.npos) && (open == pattern.npos || open < close),
        "expand_braces: the braces of '{}' are not closed", pattern);
  if (open == pattern.npos) return {pattern};
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  check(inside.find('{') == inside.npos, "expand_braces: '{}' has braces in braces", pattern);
  const std::vector<std::string> choices = alternatives(pattern, inside);
  const std::vector<std::string> rests = expand_braces(pattern.substr(close + 1));
  check_names(pattern, choices.size(), rests.size());
  std::vector<std::string> names;
  for (const std::string& choice : choices)
    for (const std::string& rest : rests) names.push_back(pattern.substr(0, open) + choice + rest);
  return names;
}

struct ShardStream::Impl {
  std::vector<std::string> shards;  // of this worker
  std::vector<int64_t> share;       // worker, workers, number of all shards
  int64_t max_part = 0;
  size_t shard = 0;
  int64_t samples = 0;  // samples returned from this shard
  std::optional<Parts> parts = {};

  // Opens the current shard behind the samples that were returned from it.
  void open() {
    Parts fresh(shards[shard], max_part);
    std::string key;
    for (int64_t i = 0; i < samples; ++i)
      check(for_each_part(fresh, key, [](const std::string&) {}),
            "ShardStream: {} has {} samples, not {}", shards[shard], i, samples);
    parts = std::move(fresh);
  }

  std::optional<ShardSample> next() {
    for (; shard < shards.size(); ++shard, samples = 0) {
      if (!parts) open();
      // After an exception the shard is closed, so no call begins in the middle of a sample.
      std::optional<Parts> reading = std::exchange(parts, std::nullopt);
      if (auto sample = read_sample(*reading, shards[shard])) {
        parts = std::move(reading);
        ++samples;
        return sample;
      }
    }
    return std::nullopt;
  }
};

ShardStream::ShardStream(std::vector<std::string> shards, const ShardOptions& o)
    : impl_(std::make_unique<Impl>()) {
  check(o.workers > 0 && o.worker >= 0 && o.worker < o.workers,
        "ShardStream: worker {} of {}; workers are numbered from 0", o.worker, o.workers);
  impl_->max_part = o.max_part;
  impl_->share = {o.worker, o.workers, std::ssize(shards)};
  for (size_t i = static_cast<size_t>(o.worker); i < shards.size();
       i += static_cast<size_t>(o.workers))
    impl_->shards.push_back(std::move(shards[i]));
}
ShardStream::~ShardStream() = default;
ShardStream::ShardStream(ShardStream&&) noexcept = default;
ShardStream& ShardStream::operator=(ShardStream&&) noexcept = default;

std::optional<ShardSample> ShardStream::next() { return impl_->next(); }

NamedTensors ShardStream::state_dict() const {
  return {{"shard", scalar(static_cast<int64_t>(impl_->shard), DType::i64)},
          {"samples", scalar(impl_->samples, DType::i64)},
          {"share", tensor(impl_->share, {3})}};
}

void ShardStream::load_state_dict(const NamedTensors& state) {
  NamedTensors targets = state_dict();
  load_state("ShardStream: load_state_dict", targets, state);
  const std::vector<int64_t> share = targets[2].second.to_vector<int64_t>();
  check(
      share == impl_->share,
      "ShardStream: load_state_dict: this position is of worker {} of {} on {} shards, the stream "
      "is worker {} of {} on {}",
      share[0], share[1], share[2], impl_->share[0], impl_->share[1], impl_->share[2]);
  const auto shard = targets[0].second.item<int64_t>(), samples = targets[1].second.item<int64_t>();
  check(shard >= 0 && samples >= 0 && shard <= std::ssize(impl_->shards) &&
            (samples == 0 || shard < std::ssize(impl_->shards)),
        "ShardStream: load_state_dict: there is no sample {} of shard {}; there are {} shards",
        samples, shard, impl_->shards.size());
  Impl there{impl_->shards, impl_->share, impl_->max_part, static_cast<size_t>(shard), samples};
  if (samples > 0) there.open();
  *impl_ = std::move(there);
}

Dataset<ShardSample> shard_dataset(const std::vector<std::string>& shards, const ShardOptions& o) {
  check(o.worker == 0 && o.workers == 1,
        "shard_dataset: worker and workers must be left out: the dataset has all samples, and the "
        "loader divides them among its workers");
  std::vector<Place> places;
  for (size_t i = 0; i < shards.size(); ++i) find_samples(shards[i], i, o.max_part, places);
  const int64_t size = std::ssize(places);
  return {size, [shards, places = std::move(places), max_part = o.max_part](int64_t i) {
            const Place& place = places[static_cast<size_t>(i)];
            const std::string& shard = shards[place.shard];
            Parts parts(shard, max_part, place.header);
            std::optional<ShardSample> sample = read_sample(parts, shard);
            check_io(sample.has_value(), "{}: has become shorter: sample {} is gone", shard, i);
            return std::move(*sample);
          }};
}

}  // namespace tern::datasets
