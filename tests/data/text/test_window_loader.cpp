// Windows over tokens whose ids are their positions: targets, passes, parts and resuming.
#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <set>

#include "tern/core/base/error.h"
#include "tern/data/text/stream/window_loader.h"

namespace tern::test_window_loader {
using namespace tern::datasets;

namespace {

using Ids = std::vector<int64_t>;

/// Tokens whose ids are their positions.
std::shared_ptr<const Ids> counting(int64_t n) {
  Ids ids(n);
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return std::make_shared<const Ids>(ids);
}

std::vector<Ids> epoch(Loader<WindowBatch>& loader) {
  std::vector<Ids> batches;
  for (WindowBatch& b : loader) batches.push_back(b.tokens.to_vector<int64_t>());
  return batches;
}

}  // namespace

TEST_CASE("windows: targets are the next tokens; a pass has each target once") {
  for (int64_t tokens : {6, 11, 100, 103}) {
    INFO(tokens);
    auto loader = window_loader(counting(tokens), {.batch = 3, .window = 5, .seed = 1});
    std::set<int64_t> starts;
    for (int pass = 0; pass < 6; ++pass) {
      std::set<int64_t> seen;
      int64_t count = 0;
      for (WindowBatch& b : loader) {
        CHECK(b.tokens.size(0) <= 3);
        CHECK(b.tokens.size(1) == 5);
        const Ids x = b.tokens.to_vector<int64_t>(), y = b.targets.to_vector<int64_t>();
        for (size_t i = 0; i < x.size(); ++i) {
          CHECK(y[i] == x[i] + 1);
          if (i % 5 > 0) CHECK(x[i] == x[i - 1] + 1);
        }
        seen.insert(y.begin(), y.end());
        count += std::ssize(y);
      }
      CHECK(std::ssize(seen) == count);
      CHECK(count % 5 == 0);
      CHECK(count > tokens - 1 - 10);
      CHECK(*seen.rbegin() < tokens);
      starts.insert(*seen.begin());
    }
    CHECK((starts.size() > 1) == (tokens > 6));
  }
}

TEST_CASE("windows: parts join to a pass; seeds and passes change batches, workers do not") {
  const auto stream = counting(203);
  const WindowLoaderOptions whole{.batch = 4, .window = 7, .seed = 3};
  WindowLoaderOptions cut = whole;
  cut.parts = 3;
  cut.workers = 3;
  auto a = window_loader(stream, whole), b = window_loader(stream, cut);
  std::map<int, Ids> passes;
  for (int pass = 0; pass < 2; ++pass) {
    Ids all, parts;
    for (const Ids& batch : epoch(a)) all.insert(all.end(), batch.begin(), batch.end());
    for (int part = 0; part < 3; ++part)
      for (const Ids& batch : epoch(b)) parts.insert(parts.end(), batch.begin(), batch.end());
    CHECK(all == parts);
    passes[pass] = all;
  }
  CHECK(passes[0] != passes[1]);
  WindowLoaderOptions other = whole;
  other.seed = 4;
  auto c = window_loader(stream, other);
  a.seek({});
  CHECK(epoch(a) != epoch(c));
  a.seek({1, 2});
  const auto rest = epoch(a);
  a.seek({1, 0});
  const auto again = epoch(a);
  CHECK(rest == std::vector<Ids>(again.begin() + 2, again.end()));
}

TEST_CASE("windows: too few tokens for a window or a part are an error") {
  CHECK_THROWS_WITH_AS(window_loader(counting(5), {.window = 5}), doctest::Contains("5 tokens"),
                       Error);
  CHECK_THROWS_WITH_AS(window_loader(counting(16), {.window = 5, .parts = 4}),
                       doctest::Contains("4 parts"), Error);
  CHECK_THROWS_AS(window_loader(counting(16), {.batch = 0, .window = 5}), Error);
}

}  // namespace tern::test_window_loader
