// Tar shards: samples, workers, positions and damage. Stack: batches of user-defined structs.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tern/core/base/rng.h"
#include "tern/data/loading/dataset_loader.h"
#include "tern/data/loading/shards.h"
#include "tern/data/loading/stack.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_shards {
namespace {

using Strings = std::vector<std::string>;

std::string sample(const std::string& key, int label) {
  return tar_member(key + ".txt", "text of " + key) +
         tar_member(key + ".CLS", std::to_string(label));
}

/// Shards of 3, 0, 2 and 1 samples. The second sample has a folder, several dots, and files beside
/// it that are skipped.
Strings write_shards(const TempDir& dir, bool packed = false) {
  const std::string odd = tar_member("d/", "", '5') + tar_member("noext", "x") +
                          tar_member("__meta__", "x") + tar_member("d/.hidden", "x") +
                          tar_member("d/._b.cls", "x") + tar_member("__MACOSX/d/b.cls", "x") +
                          tar_member(".git/b.cls", "x") + tar_member("d/b.seg.PNG", "seg") +
                          tar_member("d/b.cls", "1");
  const Strings archives = {sample("a", 0) + odd + sample("c", 2), "",
                            sample("e", 3) + sample("f", 4), sample("g", 5)};
  Strings paths;
  for (size_t i = 0; i < archives.size(); ++i) {
    const std::string bytes = archives[i] + kTarEnd;
    paths.push_back(write_file(dir / fmt::format("s{}.tar", i), packed ? gzip(bytes) : bytes));
  }
  return paths;
}

Strings keys(datasets::ShardStream& stream) {
  Strings out;
  while (auto s = stream.next()) out.push_back(s->key);
  return out;
}

struct Pose {
  Tensor position, rotation;
  static void fields(auto& p, auto&& visit) {
    visit("position", p.position), visit("rotation", p.rotation);
  }
};
struct Frame {
  Tensor image;
  Pose pose;
  Tensor label, mask;
  std::vector<Pose> others;
  std::array<Tensor, 2> ears;
  static void fields(auto& f, auto&& visit) {
    visit("image", f.image), visit("pose", f.pose), visit("label", f.label);
    visit("mask", f.mask), visit("others", f.others), visit("ears", f.ears);
  }
};
Pose pose(double v) { return {full({3}, v), full({2, 2}, -v)}; }
Frame frame(int64_t i) {
  const auto v = static_cast<double>(i);
  return {full({3, 4, 5}, v),
          pose(v),
          scalar(i, DType::i64),
          {},
          {pose(v + .25), pose(v + .5)},
          {full({1}, v), full({2}, v, DType::f64)}};
}

}  // namespace

TEST_CASE("shards: samples are runs of files with one key, in order, plain or gzip") {
  TempDir dir;
  for (bool packed : {false, true}) {
    const Strings paths = write_shards(dir, packed);
    datasets::ShardStream stream(paths);
    CHECK(keys(stream) == Strings{"a", "d/b", "c", "e", "f", "g"});
    CHECK_FALSE(stream.next());
    datasets::ShardStream again(paths);
    const auto a = again.next(), b = again.next();
    CHECK(a->text("txt") == "text of a");
    CHECK(a->text("cls") == "0");
    CHECK(a->bytes("cls").size() == 1);
    CHECK(b->text("seg.png") == "seg");
    CHECK(b->parts.size() == 2);
    CHECK(b->shard == paths[0]);
    CHECK(contains(io_error([&] { b->text("jpg"); }), "has no \"jpg\"; it has cls, seg.png"));
  }
}

TEST_CASE("shards: n workers take every n-th shard, and each resumes exactly where it was") {
  TempDir dir;
  const Strings paths = write_shards(dir);
  datasets::ShardStream even(paths, {.worker = 0, .workers = 2});
  datasets::ShardStream odd(paths, {.worker = 1, .workers = 2});
  CHECK(keys(even) == Strings{"a", "d/b", "c", "e", "f"});
  CHECK(keys(odd) == Strings{"g"});
  for (int64_t workers : {1, 2, 5}) {
    for (int64_t worker = 0; worker < workers; ++worker) {
      datasets::ShardStream whole(paths, {.worker = worker, .workers = workers});
      const Strings all = keys(whole);
      for (size_t stop = 0; stop <= all.size(); ++stop) {
        datasets::ShardStream first(paths, {.worker = worker, .workers = workers});
        for (size_t i = 0; i < stop; ++i) first.next();
        datasets::ShardStream second(paths, {.worker = worker, .workers = workers});
        second.load_state_dict(first.state_dict());
        CHECK(keys(second) == Strings(all.begin() + static_cast<int64_t>(stop), all.end()));
      }
    }
  }
  datasets::ShardStream stream(paths);
  stream.next();
  auto place = [&](int64_t shard, int64_t samples) {
    return NamedTensors{{"shard", scalar(shard, DType::i64)},
                        {"samples", scalar(samples, DType::i64)},
                        {"share", stream.state_dict()[2].second}};
  };
  CHECK_THROWS_AS(stream.load_state_dict(place(0, 4)), Error);
  CHECK_THROWS_AS(stream.load_state_dict(place(9, 0)), Error);
  CHECK_THROWS_AS(stream.load_state_dict(place(-1, 0)), Error);
  CHECK_THROWS_WITH_AS(stream.load_state_dict(even.state_dict()),
                       doctest::Contains("is of worker 0 of 2 on"), Error);
  CHECK(stream.next()->key == "d/b");  // unchanged
  CHECK_THROWS_AS(datasets::ShardStream(paths, {.worker = 2, .workers = 2}), Error);
}

TEST_CASE("shards: any number of workers gives the same batches of a shard_dataset") {
  TempDir dir;
  const Strings paths = write_shards(dir);
  const auto samples = datasets::shard_dataset(paths);
  REQUIRE(samples.size() == 6);
  CHECK(samples.get(4).key == "f");
  CHECK(samples.get(4).text("txt") == "text of f");
  CHECK(samples.get(1).text("seg.png") == "seg");
  auto epoch = [&](int workers, bool shuffle) {
    auto loader =
        datasets::dataset_loader(samples,
                                 [](const std::vector<datasets::ShardSample>& batch) {
                                   std::string all;
                                   for (const auto& s : batch)
                                     all += s.key + "=" + s.text("cls") + " ";
                                   return all;
                                 },
                                 {.batch = 4, .shuffle = shuffle, .seed = 3, .workers = workers});
    std::string all;
    for (std::string& batch : loader) all += batch;
    return all;
  };
  CHECK(epoch(0, false) == "a=0 d/b=1 c=2 e=3 f=4 g=5 ");
  CHECK(epoch(3, true) == epoch(0, true));
  CHECK(epoch(0, true) != epoch(0, false));
  const Strings packed = write_shards(dir, true);
  CHECK(contains(io_error([&] { datasets::shard_dataset(packed); }), "read it with ShardStream"));
}

TEST_CASE("shards: ranks with their blocks, resumed in mid-epoch, read what one process reads") {
  TempDir dir;
  Strings paths;
  for (int shard = 0; shard < 4; ++shard) {
    std::string bytes;
    for (int i = 0; i < 3 + 4 * shard; ++i) bytes += sample(fmt::format("{}-{}", shard, i), i);
    paths.push_back(write_file(dir / fmt::format("{}.tar", shard), bytes + kTarEnd));
  }
  const auto samples = datasets::shard_dataset(paths);
  REQUIRE(samples.size() == 36);
  auto loader_of = [&](const datasets::Dataset<datasets::ShardSample>& set, int workers) {
    return datasets::dataset_loader(set,
                                    [](const std::vector<datasets::ShardSample>& batch) {
                                      Strings keys;
                                      for (const auto& s : batch) keys.push_back(s.key);
                                      return keys;
                                    },
                                    {.batch = 7, .seed = 3, .workers = workers, .prefetch = 1});
  };
  auto whole = loader_of(samples, 1);
  whole.seek({1, 2});
  const NamedTensors position = whole.state_dict();
  std::vector<Strings> want;
  for (Strings& batch : whole) want.push_back(batch);
  REQUIRE(want.size() == 4);
  for (const int workers : {0, 2}) {
    std::vector<Strings> joined(want.size());
    for (const auto& [first, end] : {std::pair(0, 1), std::pair(1, 4), std::pair(4, 10)}) {
      // Each rank has an index of its own, and reads what is in its blocks.
      auto read = std::make_shared<std::atomic<int64_t>>(0);
      const auto own = datasets::shard_dataset(paths);
      auto rank = loader_of({own.size(),
                             [own, read](int64_t i) {
                               ++*read;
                               return own.get(i);
                             }},
                            workers);
      rank.cut(10, first, end);  // of 7 samples: some blocks are empty
      rank.load_state_dict(position);
      int64_t got = 0;
      for (Strings& batch : joined) {
        const auto blocks = rank.next_blocks().value();
        for (const auto& block : blocks)
          if (block) {
            batch.insert(batch.end(), block->begin(), block->end());
            got += std::ssize(*block);
          }
      }
      CHECK_FALSE(rank.next_blocks());
      if (workers == 0) CHECK(*read == got);
    }
    CHECK(joined == want);
  }
}

TEST_CASE("shards: the index reads only headers, a sample only its own bytes") {
  // The bytes that this process has read, as Linux counts them.
  auto bytes_read = [] {
    std::ifstream io("/proc/self/io");
    std::string name;
    int64_t count = -1;
    io >> name >> count;
    return count;
  };
  if (bytes_read() < 0) return;
  TempDir dir;
  std::string bytes;
  constexpr size_t kLarge = 3 << 20;
  for (int i = 0; i < 8; ++i)
    bytes += tar_member(fmt::format("{}.bin", i), std::string(kLarge, static_cast<char>('a' + i))) +
             tar_member(fmt::format("{}.cls", i), std::to_string(i));
  const std::string path = write_file(dir / "x.tar", bytes + kTarEnd);
  int64_t before = bytes_read();
  const auto samples = datasets::shard_dataset({path});
  CHECK(samples.size() == 8);
  CHECK(bytes_read() - before < 512 << 10);
  before = bytes_read();
  CHECK(samples.get(6).text("bin") == std::string(kLarge, 'g'));
  CHECK(samples.get(5).text("cls") == "5");
  CHECK(bytes_read() - before < 2 * int64_t{kLarge} + (1 << 20));
  // An archive that was truncated since is an error, not a wrong sample.
  std::filesystem::resize_file(path, 7 * kLarge);
  CHECK(contains(io_error([&] { samples.get(7); }), "x.tar"));
}

TEST_CASE("shards: damage, duplicate parts and large parts are errors that name the shard") {
  TempDir dir;
  auto refused = [&](const std::string& bytes, const datasets::ShardOptions& o = {}) {
    const std::string path = write_file(dir / "x.tar", bytes);
    const std::string streamed = io_error([&] {
      datasets::ShardStream stream({path}, o);
      keys(stream);
    });
    CHECK(streamed.starts_with(path));
    CHECK(io_error([&] { datasets::shard_dataset({path}, o); }).starts_with(path));
    return streamed;
  };
  CHECK(contains(refused(tar_member("a.x", "1") + tar_member("a.X", "2") + kTarEnd),
                 "the sample \"a\" has two files \"x\""));
  CHECK(contains(refused(sample("a", 1)), "truncated"));
  CHECK(contains(refused(sample("a", 1).substr(0, 700)), "at byte"));
  CHECK(contains(refused(tar_header("a.x", size_t{1} << 32) + kTarEnd), "at most"));
  CHECK(contains(refused(sample("a", 1) + kTarEnd, {.max_part = 3}), "over the limit of 3"));
  // A gzip archive with a header that claims a gigabyte of content, which is missing.
  CHECK(contains(refused(gzip(tar_header("a.x", size_t{1} << 30) + kTarEnd)), "x.tar"));
}

TEST_CASE("shards: a stream tries a sample again after an exception, from its beginning") {
  TempDir dir;
  const std::string good = sample("a", 0), more = sample("c", 1) + kTarEnd;
  const std::string twice =
      tar_member("b.x", "1") + tar_member("b.y", "1") + tar_member("b.X", "1");
  const std::string large = tar_member("b.x", "1") + tar_member("b.y", std::string(50, 'y'));
  for (const std::string& bad : {twice + tar_member("b.z", "1"), large + tar_member("b.z", "1")}) {
    const std::string damaged = write_file(dir / "x.tar", good + bad + more);
    datasets::ShardStream stream({damaged, write_file(dir / "y.tar", more)}, {.max_part = 49});
    CHECK(stream.next()->key == "a");
    const std::string first = io_error([&] { stream.next(); });
    CHECK(first.starts_with(damaged));
    CHECK(io_error([&] { stream.next(); }) == first);
    datasets::ShardStream resumed({damaged, dir / "y.tar"}, {.max_part = 49});
    resumed.load_state_dict(stream.state_dict());
    CHECK(io_error([&] { resumed.next(); }) == first);
    write_file(damaged, good + tar_member("b.x", "1") + tar_member("b.z", "2") + more);
    const auto whole = stream.next();  // the file is sound now
    CHECK(whole->text("x") == "1");
    CHECK(whole->text("z") == "2");
    CHECK(keys(stream) == Strings{"c", "c"});
  }
}

TEST_CASE("shards: expand_braces lists ranges and alternatives, and limits their number") {
  CHECK(datasets::expand_braces("a.tar") == Strings{"a.tar"});
  CHECK(datasets::expand_braces("a-{08..10}.tar") == Strings{"a-08.tar", "a-09.tar", "a-10.tar"});
  CHECK(datasets::expand_braces("{9223372036854775806..9223372036854775807}") ==
        Strings{"9223372036854775806", "9223372036854775807"});
  CHECK(datasets::expand_braces("{x,y}-{1..2}") == Strings{"x-1", "x-2", "y-1", "y-2"});
  for (const char* bad : {"a{", "a}", "}{", "{1..}", "{3..1}", "{a..b}", "{{1..2}}", "{0..9999999}",
                          "{0..999}{0..999}{0..999}"})
    CHECK_THROWS_AS(datasets::expand_braces(bad), Error);
  const std::string wide(4000, 'x');  // a million such names would be 4 GB
  for (const std::string& names : {wide + "{000000..999998}", "{1..999}{1..999}" + wide})
    CHECK_THROWS_WITH_AS(datasets::expand_braces(names), doctest::Contains("stands for more than "),
                         Error);
}

TEST_CASE("stack: every tensor in nested structs gets a first axis") {
  datasets::Dataset<Frame> frames(5, frame);
  auto loader = datasets::dataset_loader(frames, datasets::Stack{}, {.batch = 3, .shuffle = false});
  const Frame batch = *loader.next();
  CHECK(batch.image.shape() == Shape{3, 3, 4, 5});
  CHECK(batch.image[2][0][0][0].item() == 2);
  CHECK(batch.pose.rotation.shape() == Shape{3, 2, 2});
  CHECK(batch.pose.rotation[1][0][0].item() == -1);
  CHECK(batch.label.dtype() == DType::i64);
  CHECK(batch.label.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  CHECK_FALSE(batch.mask.defined());
  REQUIRE(batch.others.size() == 2);
  CHECK(batch.others[1].position[2][0].item() == 2.5);
  CHECK(batch.ears[1].shape() == Shape{3, 2});
  CHECK(loader.next()->image.shape() == Shape{2, 3, 4, 5});

  auto refused = [](auto change) {
    std::vector<Frame> samples = {frame(0), frame(1), frame(2)};
    change(samples[2]);
    try {
      datasets::Stack{}(samples);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(
      contains(refused([](Frame& f) { f.pose.position = ones({4}); }),
               "'pose.position' is f32 (4,) in sample 2, but f32 (3,) in sample 0; datasets::Pad"));
  CHECK(contains(refused([](Frame& f) { f.label = scalar(1); }), "'label' is f32 ()"));
  CHECK(contains(refused([](Frame& f) { f.others[1].rotation = {}; }),
                 "'others.1.rotation' is undefined in sample 2"));
  CHECK(contains(refused([](Frame& f) { f.others.pop_back(); }),
                 "'others' has 1 elements in sample 2, but 2 in sample 0"));
  CHECK(datasets::Stack{}(std::vector<Tensor>{ones({2}), zeros({2})}).shape() == Shape{2, 2});
  CHECK_THROWS_AS(datasets::Stack{}(std::vector<Frame>{}), Error);
}

}  // namespace tern::test::test_shards
