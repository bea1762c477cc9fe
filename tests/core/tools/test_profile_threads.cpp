// Profile's prediction of the time that a given number of threads would lose, also on a machine
// with fewer cores.
#include <doctest/doctest.h>

#include <string>

#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tools/profile.h"

namespace tern::test_profile_threads {

TEST_CASE("profile: predicts lost time per op, and does not change results or settings") {
  Rng rng(1);
  const Tensor a = randn({300, 400}, rng), b = randn({400, 350}, rng), c = randn({3}, rng);
  const Tensor want = matmul(a, b);
  const int before = num_threads();
  Profile profile({.trace = false, .lost_threads = 16});
  CHECK(num_threads() == 16);
  CHECK_THROWS_AS(Profile({.lost_threads = 2}), Error);
  CHECK(matmul(a, b).to_vector<float>() == want.to_vector<float>());
  static_cast<void>(exp(c));  // too small for a parallel loop: serial
  profile.stop();
  CHECK(num_threads() == before);
  for (const Profile::Row& row : profile.by_op()) {
    CAPTURE(row.op);
    CHECK(row.lost_seconds > 0);
    // Serial code loses 15/16 of its time. A parallel loop costs at least 3 microseconds.
    if (row.op == "exp") CHECK(row.lost_seconds == doctest::Approx(row.self_seconds * 15 / 16));
    if (row.op == "matmul") CHECK(row.lost_seconds > 3e-6);
  }
  CHECK(profile.by_op().size() == 2);
  CHECK(profile.table().find("ms lost at 16") != std::string::npos);
}

TEST_CASE("profile: without lost_threads there is no column of lost time") {
  const int before = num_threads();
  Profile profile;
  CHECK(num_threads() == before);
  static_cast<void>(exp(ones({3})));
  CHECK(profile.by_op().at(0).lost_seconds == 0);
  CHECK(profile.table().find("lost") == std::string::npos);
}

}  // namespace tern::test_profile_threads
