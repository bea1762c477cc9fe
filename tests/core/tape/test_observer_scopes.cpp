// Observer scopes that end in any order, also within an op and within an observer's own call.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/op.h"
#include "tern/core/tools/profile.h"

namespace tern::test_observer_scopes {
namespace {

/// Counts its calls. If set up so, begin() throws or made() ends a scope.
struct Counter : Observer {
  int begun = 0, made_ = 0, ended = 0;
  bool throws = false;
  std::optional<ObserverScope>* ends = nullptr;
  void begin(const OpScope&) override {
    ++begun;
    if (throws) throw Error("no");
  }
  void made(const OpScope&, const Tensor&, int) override {
    ++made_;
    if (ends) ends->reset();
  }
  void end(const OpScope&) noexcept override { ++ended; }
};

TEST_CASE("observers end in any order; the others still receive calls") {
  Counter first, second;
  auto profile = std::make_unique<Profile>();
  {
    ObserverScope a(first), b(second);
    static_cast<void>(ones({2}));
    profile->stop();  // the outermost observer
    static_cast<void>(ones({2}));
    profile.reset();
    static_cast<void>(ones({2}));
  }
  static_cast<void>(ones({2}));
  for (const Counter& c : {std::cref(first), std::cref(second)}) {
    CHECK(c.begun == 3);
    CHECK(c.ended == 3);
  }
}

TEST_CASE("an observer that ends during an op does not cost the others their end") {
  for (bool inner : {false, true}) {
    Counter stays, goes;
    std::optional<ObserverScope> a, b;
    a.emplace(inner ? stays : goes);
    b.emplace(inner ? goes : stays);
    {
      Region region("at work");
      (inner ? b : a).reset();
      Counter late;  // may take the slot of the one that ended
      (inner ? b : a).emplace(late);
      (inner ? b : a).reset();
      CHECK(late.begun == 0);
    }
    CHECK(stays.begun == 1);
    CHECK(stays.ended == 1);
    CHECK(goes.ended == 0);
  }
}

TEST_CASE("an observer may end itself, and others, from within a call") {
  for (int which : {0, 1, 2}) {
    std::array<Counter, 3> told;
    std::array<std::optional<ObserverScope>, 3> scopes;
    for (size_t i = 0; i < 3; ++i) scopes[i].emplace(told[i]);
    told[1].ends = &scopes[static_cast<size_t>(which)];
    static_cast<void>(ones({2}));
    static_cast<void>(ones({2}));
    for (int i = 0; i < 3; ++i) {
      const Counter& c = told[static_cast<size_t>(i)];
      INFO(which << " ends, told " << i);
      CHECK(c.begun == (i == which ? 1 : 2));
      CHECK(c.ended == (i == which ? 0 : 2));
    }
  }
}

TEST_CASE("when an observer throws in begin, those that had begun get their end") {
  Counter outer, refuses, inner;
  refuses.throws = true;
  ObserverScope a(outer), b(refuses), c(inner);
  CHECK_THROWS_AS(ones({2}), Error);
  CHECK(inner.begun == 1);
  CHECK(inner.ended == 1);
  CHECK(refuses.ended == 0);
  CHECK(outer.begun == 0);
  CHECK(outer.ended == 0);
}

}  // namespace
}  // namespace tern::test_observer_scopes
