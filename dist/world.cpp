#include "tern/dist/world.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "tern/dist/detail/link.h"

namespace tern::dist {

using Clock = std::chrono::steady_clock;

int64_t detail::launched_ranks() {
  // Open MPI, MPICH and its relatives, Slurm's srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* value = std::getenv(name)) return std::atoll(value);
  return 0;
}

struct World::Ticket::State {
  std::string what;
  std::vector<Part> parts;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string failure;
};

void World::Ticket::wait() {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (!state_->failure.empty()) throw RankError(state_->failure);
}

namespace {

// A rank that is through with a failure says so, and the failure again: who gets this first need
// not have heard of it.
constexpr std::string_view kThrough = "through: ";

constexpr std::chrono::seconds kGoodbye{10};

}  // namespace

// The thread of the world opens the link, takes exchanges out of a queue, and closes the link.
struct World::Impl {
  explicit Impl(WorldOptions o) : options(o) {
    if (detail::launched_ranks() <= 1) return;
    static std::atomic<bool> made = false;
    check(!made.exchange(true), "World: this process has made one already, and MPI begins once");
    thread = std::thread([this] { run(); });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return opened; });
    if (!open_error) return;
    lock.unlock();
    thread.join();
    std::rethrow_exception(open_error);
  }
  ~Impl() {
    if (!thread.joinable()) return;
    {
      const std::scoped_lock lock(mutex);
      closing = true;
    }
    changed.notify_all();
    thread.join();
  }

  // Tells all other ranks why this one fails, unless a failure is known.
  void tell(const std::string& text) {
    if (size == 1 || failed.exchange(true)) return;
    {
      const std::scoped_lock lock(mutex);
      to_tell = text;
    }
    changed.notify_all();
  }

  void run() {
    try {
      link = detail::open_link();
      rank = link->rank(), size = link->size();
    } catch (...) {
      open_error = std::current_exception();
    }
    {
      const std::scoped_lock lock(mutex);
      opened = true;
      last_seen.assign(static_cast<size_t>(size), "its start");
    }
    changed.notify_all();
    if (open_error) return;
    for (;;) {
      std::shared_ptr<Ticket::State> next;
      std::string text;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return closing || !queue.empty() || !to_tell.empty(); });
        if (!to_tell.empty()) text = std::exchange(to_tell, "");
        if (!queue.empty()) next = std::move(queue.front()), queue.pop_front();
        if (!next && text.empty()) break;
      }
      if (!text.empty()) tell_all(text);
      if (next) finish(*next, carry(*next));
    }
    close();
  }

  // Moves the bytes of an exchange; gives what went wrong, or nothing.
  std::string carry(Ticket::State& exchange) {
    if (!failure.empty()) return failure;
    try {
      for (const Part& p : exchange.parts) link->receive(p.rank, p.receive);
      for (const Part& p : exchange.parts) link->send(p.rank, p.send);
      std::vector<int64_t> open(static_cast<size_t>(size));
      for (const Part& p : exchange.parts)
        open[static_cast<size_t>(p.rank)] += !p.send.empty() + !p.receive.empty();
      auto since = Clock::now();
      while (link->pending() > 0) {
        const std::vector<int64_t> ended = link->ended();
        for (const int64_t r : ended)
          if (--open[static_cast<size_t>(r)] == 0)
            last_seen[static_cast<size_t>(r)] = exchange.what;
        if (!ended.empty()) since = Clock::now();
        if (const auto told = link->told()) return fail_with(heard(*told));
        if (std::chrono::duration<double>(Clock::now() - since).count() > options.timeout)
          give_up(exchange, open);
        if (ended.empty()) std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    } catch (const Error& e) {
      return fail_with(e.what());
    }
    return "";
  }

  // The failure that another rank told.
  std::string heard(const detail::Link::Told& told) {
    if (!told.text.starts_with(kThrough)) return told.text;
    ++through;
    return told.text.substr(kThrough.size());
  }

  std::string fail_with(const std::string& text) {
    failed = true;
    return failure = text;
  }

  // Which ranks did not answer, and what they did last; then the job ends.
  void give_up(const Ticket::State& exchange, const std::vector<int64_t>& open) {
    std::string text;
    for (size_t r = 0; r < open.size(); ++r)
      if (open[r] > 0)
        text +=
            fmt::format("{}rank {} (last seen in {})", text.empty() ? "" : ", ", r, last_seen[r]);
    std::fprintf(stderr, "rank %lld: waited %g s in %s for %s; the job ends\n",
                 static_cast<long long>(rank), options.timeout, exchange.what.c_str(),
                 text.c_str());
    std::fflush(stderr);
    link->abort(kExitRankLost);
  }

  static void finish(Ticket::State& exchange, std::string failed) {
    {
      const std::scoped_lock lock(exchange.mutex);
      exchange.done = true;
      exchange.failure = std::move(failed);
    }
    exchange.changed.notify_all();
  }

  void tell_all(const std::string& text) {
    if (!failure.empty()) return;  // it is known
    fail_with(fmt::format("rank {}: {}", rank, text));
    try {
      for (int64_t r = 0; r < size; ++r)
        if (r != rank) link->tell(r, failure);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  }

  // After a failure each rank tells the others that it is through, and waits for the same from
  // them, but no longer than kGoodbye.
  void close() {
    if (!failure.empty()) {
      const auto start = Clock::now();
      for (int64_t r = 0; r < size; ++r)
        if (r != rank) link->tell(r, std::string(kThrough) + failure);
      while (through < size && Clock::now() - start < kGoodbye) {
        if (const auto told = link->told())
          heard(*told);
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    link.reset();
  }

  WorldOptions options;
  int64_t rank = 0, size = 1;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool opened = false, closing = false;
  std::atomic<bool> failed = false;
  std::exception_ptr open_error;
  std::deque<std::shared_ptr<Ticket::State>> queue;
  std::string to_tell;
  // Of the thread:
  std::unique_ptr<detail::Link> link;
  std::string failure;
  int64_t through = 1;  // ranks, this one among them
  std::vector<std::string> last_seen;
};

World::World(WorldOptions options) : exceptions_(std::uncaught_exceptions()) {
  check(options.timeout > 0, "World: the timeout must be above 0 seconds, it is {}",
        options.timeout);
  impl_ = std::make_unique<Impl>(options);
}

// mpirun ends all ranks as soon as one exits after a failure, maybe before the others have said
// why. So a world that failed ends with the process, after everything was printed.
World::~World() {
  static std::unique_ptr<Impl> failed;
  if (std::uncaught_exceptions() > exceptions_) impl_->tell("an exception ended this rank");
  if (impl_->failed) failed = std::move(impl_);
}

int64_t World::rank() const { return impl_->rank; }
int64_t World::size() const { return impl_->size; }

void World::together(const std::function<void()>& body) {
  try {
    body();
  } catch (const RankError&) {
    throw;  // all know of it
  } catch (const std::exception& e) {
    impl_->tell(e.what());
    throw;
  } catch (...) {
    impl_->tell("an exception that is no std::exception");
    throw;
  }
}

World::Ticket World::exchange(std::string what, std::vector<Part> parts) {
  Ticket ticket;
  if (size() == 1) {
    check(parts.empty(), "World: there is one rank, and nobody to exchange {} with", what);
    return ticket;
  }
  ticket.state_ = std::make_shared<Ticket::State>();
  ticket.state_->what = std::move(what);
  ticket.state_->parts = std::move(parts);
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->queue.push_back(ticket.state_);
  }
  impl_->changed.notify_all();
  return ticket;
}

std::vector<std::string> World::gather(const std::string& what, const std::string& text) {
  std::vector<std::string> texts(static_cast<size_t>(size()));
  texts[static_cast<size_t>(rank())] = text;
  // First the lengths, then the texts.
  std::vector<uint64_t> lengths(texts.size(), text.size());
  std::vector<Part> parts;
  const uint64_t own = text.size();
  for (int64_t r = 0; r < size(); ++r)
    if (r != rank())
      parts.push_back({r, std::as_bytes(std::span(&own, 1)),
                       std::as_writable_bytes(std::span(&lengths[static_cast<size_t>(r)], 1))});
  exchange(what, parts).wait();
  for (Part& p : parts) {
    std::string& other = texts[static_cast<size_t>(p.rank)];
    other.resize(lengths[static_cast<size_t>(p.rank)]);
    p.send = std::as_bytes(std::span(text.data(), text.size()));
    p.receive = std::as_writable_bytes(std::span(other.data(), other.size()));
  }
  exchange(what, std::move(parts)).wait();
  return texts;
}

void World::check_same(const std::string& what, const std::string& text) {
  const std::vector<std::string> texts = gather(what, text);
  for (size_t r = 1; r < texts.size(); ++r)
    check(texts[r] == texts[0], "rank {} has {} {}, rank 0 has {}", r, what, texts[r], texts[0]);
}

}  // namespace tern::dist
