// Work in rounds of up to 8 items per rank, with a gather of the results after each; and signs of
// life from a second thread while a rank works for a long time.
#include "tern/dist/shared_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

namespace tern::dist {
namespace {

// Items per rank between two exchanges. A rank learns only there that another one was stopped.
constexpr int64_t kAtOnce = 8;

constexpr const char* kStopped = "stopped";

// Appends the length of a result, then the result.
void append(std::string& to, const std::string& result) {
  const uint64_t length = result.size();
  to.append(reinterpret_cast<const char*>(&length), sizeof length);
  to += result;
}

std::string next(const std::string& from, size_t& place) {
  uint64_t length = 0;
  check(from.size() - place >= sizeof length, "share: a rank sent too few results");
  std::memcpy(&length, from.data() + place, sizeof length);
  place += sizeof length;
  check(from.size() - place >= length, "share: a rank sent a result that is cut off");
  place += length;
  return from.substr(place - length, length);
}

}  // namespace

std::optional<std::vector<std::string>> share(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<std::string>(int64_t item)>& work) {
  const int64_t ranks = world ? world->size() : 1, rank = world ? world->rank() : 0;
  std::vector<std::string> all;
  for (int64_t begin = 0; begin < count; begin = std::ssize(all)) {
    const int64_t items = std::min(count - begin, kAtOnce * ranks);
    const auto first = [&](int64_t r) { return begin + items * r / ranks; };
    std::string own;
    const auto compute = [&] {
      for (int64_t i = first(rank); i < first(rank + 1) && own != kStopped; ++i)
        if (const auto result = work(i))
          append(own, *result);
        else
          own = kStopped;
    };
    world ? world->together(compute) : compute();
    const std::vector<std::string> texts =
        ranks == 1 ? std::vector<std::string>{own} : world->gather(what, own);
    if (std::find(texts.begin(), texts.end(), kStopped) != texts.end()) return std::nullopt;
    for (int64_t r = 0; r < ranks; ++r) {
      size_t place = 0;
      for (int64_t i = first(r); i < first(r + 1); ++i)
        all.push_back(next(texts[static_cast<size_t>(r)], place));
    }
  }
  return all;
}

std::optional<std::vector<Numbers>> share_numbers(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<Numbers>(int64_t item)>& work) {
  const auto results = share(world, what, count, [&](int64_t i) -> std::optional<std::string> {
    const std::optional<Numbers> numbers = work(i);
    if (!numbers) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(numbers->data()),
                       numbers->size() * sizeof(double));
  });
  if (!results) return std::nullopt;
  std::vector<Numbers> all;
  for (const std::string& bytes : *results) {
    check(bytes.size() % sizeof(double) == 0, "share: a rank sent {} bytes as numbers",
          bytes.size());
    Numbers& numbers = all.emplace_back(bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  }
  return all;
}

void take_time(World& world, const std::string& what, const std::function<void()>& body) {
  if (world.size() == 1) return body();
  std::atomic<bool> done = false;
  std::exception_ptr error, lost;
  // While this thread works, a second one keeps telling the other ranks so.
  std::thread signs([&] {
    try {
      std::chrono::milliseconds pause{1};
      for (bool all = false; !all; pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
        if (!done) std::this_thread::sleep_for(pause);
        const std::vector<std::string> texts = world.gather(what, done ? "through" : "at work");
        all = std::count(texts.begin(), texts.end(), "through") == world.size();
      }
    } catch (...) {
      lost = std::current_exception();
    }
  });
  try {
    world.together(body);
  } catch (...) {
    error = std::current_exception();
  }
  done = true;
  signs.join();
  if (error || lost) std::rethrow_exception(error ? error : lost);
}

}  // namespace tern::dist
