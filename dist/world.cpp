// One thread per process, which takes exchanges out of a queue and moves their bytes over a Link
// (detail/link.h); how a failure reaches all ranks; and gather() and check_same() built on that.
#include "tern/dist/world.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "tern/core/base/cores.h"
#include "tern/core/base/threads.h"
#include "tern/dist/detail/link.h"
#include "tern/dist/detail/patience.h"
#include "tern/dist/detail/placement.h"
#include "tern/version.h"

namespace tern::dist {

using Clock = std::chrono::steady_clock;

namespace {

// The value of the first environment variable that is set; 0 if none is.
int64_t first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return std::atoll(value);
  return 0;
}

// An error that ended a rank.
struct Failure {
  std::string text = {};
  int code = 0;
  int64_t exchanges = 0;  // number of exchanges that the rank had completed
};

}  // namespace

// The variables of Open MPI, of MPICH and its relatives, and of Slurm's srun.
int64_t launched_ranks() {
  return first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
}

int64_t launched_rank() {
  if (launched_ranks() <= 1) return 0;
  return first_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
}

struct World::Ticket::State {
  std::string what;
  std::vector<Part> parts;
  Next next;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Failure failure;
};

namespace {

// Begins the message with which a rank leaves after a failure. The failure follows, since the
// receiver may not have heard of it.
constexpr std::string_view kThrough = "through: ";

// The most bytes that another rank may announce for a text.
constexpr uint64_t kLongestText = uint64_t{1} << 28;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Announces a text before it is sent.
struct TextHead {
  uint64_t bytes;
  uint64_t call;  // a hash of the text's purpose

  static TextHead of(const std::string& what, const std::string& text) {
    return {text.size(), std::hash<std::string>{}(what)};
  }
};

}  // namespace

// The thread of the world opens the link, takes exchanges out of a queue, and closes the link.
struct World::Impl {
  explicit Impl(WorldOptions o) : options(o) {
    if (launched_ranks() <= 1) return;
    static std::atomic<bool> made = false;
    check(!made.exchange(true),
          "World: this process has already made one, and MPI can start only once");
    thread = std::thread([this] { run(); });
    wait_in_mpi(opened, "start");
    if (!open_error) return;
    thread.join();
    std::rethrow_exception(open_error);
  }
  ~Impl() {
    if (!thread.joinable()) return;
    {
      std::unique_lock lock(mutex);
      closing = true;
      changed.notify_all();
      changed.wait(lock, [&] { return parted; });
    }
    wait_in_mpi(closed, "end");
    thread.join();
  }

  // Waits until the thread is `done` with a call of MPI that waits for all ranks. If that takes too
  // long, this process ends: inside that call the thread itself cannot check the time.
  void wait_in_mpi(const bool& done, const char* where) {
    detail::Patience patience(options.timeout);
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return done; })) {
      if (!patience.is_over()) continue;
      std::fflush(stdout);
      const std::string text =
          fmt::format("rank {}: waited {} s for other ranks at the {}; the job ends\n",
                      launched_rank(), options.timeout, where);
      std::fputs(text.c_str(), stderr);
      _exit(kExitRankLost);
    }
  }

  // Tells all other ranks why this one fails, unless a failure is known.
  void tell(const std::string& text, int code = 0) {
    if (size == 1 || failed.exchange(true)) return;
    {
      const std::scoped_lock lock(mutex);
      to_tell = {text, code};
      telling = true;
    }
    changed.notify_all();
  }

  void run() {
    tern::detail::leave_place();
    const SerialScope serial;  // exchanges compute in one thread and leave the cores to the program
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
      not_through.assign(static_cast<size_t>(size), 1);
    }
    changed.notify_all();
    if (open_error) return;
    for (;;) {
      std::shared_ptr<Ticket::State> next;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return closing || telling || !queue.empty(); });
        if (!queue.empty()) next = std::move(queue.front()), queue.pop_front();
        if (!next && !telling) break;
      }
      if (telling) tell_all();
      if (next) carry(std::move(next));
    }
    close();
  }

  // Carries out an exchange with all its stages.
  void carry(std::shared_ptr<Ticket::State> exchange) {
    const auto start = Clock::now();
    if (failure.text.empty() && !later.text.empty() && later.exchanges <= ended)
      fail_with(std::exchange(later, {}));
    try {
      while (failure.text.empty()) {
        transfer(exchange->what, exchange->parts);
        if (!failure.text.empty() || !exchange->next) break;
        exchange->parts = exchange->next();
        if (exchange->parts.empty()) break;
      }
    } catch (const std::exception& e) {
      {
        const std::scoped_lock lock(mutex);
        to_tell = failure_of(e);
      }
      failed = true;
      tell_all();
    }
    // After a failure, open transfers may still write into the exchange's buffers: keep it.
    if (failure.text.empty()) {
      exchange->next = {};
      ++ended;
    } else {
      abandoned.push_back(exchange);
    }
    {
      const std::scoped_lock lock(mutex);
      ++traffic.exchanges;
      traffic.seconds += seconds_since(start);
    }
    {
      const std::scoped_lock lock(exchange->mutex);
      exchange->done = true;
      exchange->failure = failure;
    }
    exchange->changed.notify_all();
  }

  // Moves the bytes of a stage.
  void transfer(const std::string& what, const std::vector<Part>& parts) {
    int64_t bytes = 0;
    for (const Part& p : parts) link->receive(p.rank, p.receive);
    for (const Part& p : parts) {
      link->send(p.rank, p.send);
      bytes += std::ssize(p.send);
    }
    {
      const std::scoped_lock lock(mutex);
      traffic.bytes += bytes;
    }
    detail::Patience patience(options.timeout);
    while (link->pending() > 0) {
      const std::vector<int64_t> from = link->ended();
      for (const int64_t r : from)
        if (link->open()[static_cast<size_t>(r)] == 0) last_seen[static_cast<size_t>(r)] = what;
      if (!from.empty()) patience = detail::Patience(options.timeout);
      if (link->pending() == 0) return;
      if (telling) tell_all();
      if (const auto told = link->told()) take(heard(*told));
      if (!failure.text.empty()) return;
      if (patience.is_over()) give_up(what, link->open());
      if (from.empty()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  Failure failure_of(const std::exception& e) const {
    return {e.what(), options.exit_code ? options.exit_code(e) : 0};
  }

  // A failure as a text for other ranks: its exit code, its exchanges and what happened.
  static std::string to_text(const Failure& f) {
    return fmt::format("{} {} {}", f.code, f.exchanges, f.text);
  }

  // Reads the failure from a message of another rank.
  Failure heard(const detail::Link::Told& told) {
    std::string_view text = told.text;
    if (text.starts_with(kThrough)) {
      not_through[static_cast<size_t>(told.rank)] = 0;
      text.remove_prefix(kThrough.size());
    }
    const auto number = [&text] {
      const size_t space = std::min(text.find(' '), text.size());
      const int64_t value = std::atoll(std::string(text.substr(0, space)).c_str());
      text.remove_prefix(std::min(space + 1, text.size()));
      return value;
    };
    const int64_t code = number(), exchanges = number();
    return {std::string(text), static_cast<int>(code), exchanges};
  }

  // A rank that failed took part in all exchanges before the failure, so this rank completes them
  // first. If it then finds the same error itself, such as wrong flags, it reports its own.
  void take(Failure f) {
    if (f.exchanges <= ended)
      fail_with(std::move(f));
    else if (later.text.empty())
      later = std::move(f);
  }

  void fail_with(Failure f) {
    failed = true;
    failure = std::move(f);
  }

  // Prints which ranks did not answer and what they did last, then ends the job.
  void give_up(const std::string& what, const std::vector<int64_t>& open) {
    std::string text;
    for (size_t r = 0; r < open.size(); ++r)
      if (open[r] > 0)
        text +=
            fmt::format("{}rank {} (last seen in {})", text.empty() ? "" : ", ", r, last_seen[r]);
    const std::string line = fmt::format("rank {}: waited {} s in {} for {}; the job ends\n", rank,
                                         options.timeout, what, text);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    link->abort(kExitRankLost);
  }

  // Sends the failure that tell() noted to all ranks.
  void tell_all() {
    Failure told;
    {
      const std::scoped_lock lock(mutex);
      told = std::exchange(to_tell, {});
      telling = false;
    }
    if (!failure.text.empty()) return;  // all ranks know one already
    // An error that every rank finds already names its rank.
    if (!told.text.starts_with("rank ")) told.text = fmt::format("rank {}: {}", rank, told.text);
    told.exchanges = ended;
    fail_with(std::move(told));
    try {
      for (int64_t r = 0; r < size; ++r)
        if (r != rank) link->tell(r, to_text(failure));
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  }

  // After a failure each rank tells the others that it leaves and waits until they have said the
  // same, at most for the timeout: a rank that computes learns of the failure in its next call.
  void part() {
    if (failure.text.empty() && !later.text.empty()) fail_with(std::exchange(later, {}));
    if (failure.text.empty()) return;
    for (int64_t r = 0; r < size; ++r)
      if (r != rank) link->tell(r, std::string(kThrough) + to_text(failure));
    not_through[static_cast<size_t>(rank)] = 0;
    detail::Patience patience(options.timeout);
    while (std::count(not_through.begin(), not_through.end(), 0) < size) {
      if (const auto told = link->told())
        heard(*told);
      else if (patience.is_over())
        give_up("the end", not_through);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void close() {
    const auto say = [this](bool& done) {
      const std::scoped_lock lock(mutex);
      done = true;
      changed.notify_all();
    };
    try {
      part();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %lld: %s\n", static_cast<long long>(rank), e.what());
      link->abort(kExitRankLost);
    }
    say(parted);
    link.reset();
    say(closed);
  }

  WorldOptions options;
  int64_t rank = 0, size = 1;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool opened = false, closing = false, parted = false, closed = false;
  std::atomic<bool> failed = false, telling = false;
  bool warned_of_cores = false;
  std::exception_ptr open_error;
  std::deque<std::shared_ptr<Ticket::State>> queue;
  Failure to_tell;
  Traffic traffic;
  // Used by the thread only:
  std::unique_ptr<detail::Link> link;
  Failure failure;
  Failure later;      // failure of a rank that had completed more exchanges than this one
  int64_t ended = 0;  // number of completed exchanges
  std::vector<std::string> last_seen;
  std::vector<int64_t> not_through;  // by rank: 1 until it has said kThrough
  std::vector<std::shared_ptr<Ticket::State>> abandoned;
};

void World::Ticket::wait() {
  if (!state_) return;
  const auto start = Clock::now();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  {
    const std::scoped_lock counting(world_->impl_->mutex);
    world_->impl_->traffic.waited += seconds_since(start);
  }
  if (const Failure& f = state_->failure; !f.text.empty()) throw RankError(f.text, f.code);
}

namespace {

std::vector<detail::Placement> placements_of(World& world) {
  std::vector<detail::Placement> ranks;
  for (const std::string& text :
       world.gather("the cores of all ranks", detail::to_text(detail::own_placement())))
    ranks.push_back(detail::placement_from(text));
  return ranks;
}

}  // namespace

World::World(WorldOptions options) : exceptions_(std::uncaught_exceptions()) {
  check(options.timeout > 0, "World: the timeout must be above 0 seconds, it is {}",
        options.timeout);
  impl_ = std::make_unique<Impl>(options);
  check_same("tern", std::string(kVersion));
  if (size() == 1) return;
  const std::vector<detail::Placement> ranks = placements_of(*this);
  share_cores(static_cast<int>(detail::ranks_on_cores_of(ranks, static_cast<size_t>(rank()))));
}

// As soon as one rank exits after a failure, mpirun ends all, maybe before the others have printed
// why. So a world that failed lives until the process ends, after everything is printed. Without a
// failure all ranks meet in a last gather, so that an error about a missing rank can name it.
World::~World() {
  static std::unique_ptr<Impl> failed;
  if (std::uncaught_exceptions() > exceptions_)
    impl_->tell("an exception ended this rank");
  else if (!impl_->failed)
    begin_gather("the end", "", [](const std::vector<std::string>&) {});
  if (impl_->failed) failed = std::move(impl_);
}

int64_t World::rank() const { return impl_->rank; }
int64_t World::size() const { return impl_->size; }

void World::together(const std::function<void()>& body) {
  try {
    body();
  } catch (const RankError&) {
    throw;  // all ranks know of it
  } catch (const std::exception& e) {
    const Failure f = impl_->failure_of(e);
    impl_->tell(f.text, f.code);
    throw;
  } catch (...) {
    impl_->tell("an exception that is not a std::exception");
    throw;
  }
}

World::Ticket World::exchange(std::string what, std::vector<Part> parts, Next next) {
  Ticket ticket;
  if (size() == 1) {
    if (parts.empty() && next) parts = next();
    check(parts.empty(), "World: there is only one rank, so it cannot exchange {}", what);
    return ticket;
  }
  ticket.world_ = this;
  ticket.state_ = std::make_shared<Ticket::State>();
  ticket.state_->what = std::move(what);
  ticket.state_->parts = std::move(parts);
  ticket.state_->next = std::move(next);
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->queue.push_back(ticket.state_);
  }
  impl_->changed.notify_all();
  return ticket;
}

World::Ticket World::begin_gather(const std::string& what, const std::string& text,
                                  std::function<void(std::vector<std::string>)> done) {
  if (size() == 1) {
    done({text});
    return {};
  }
  struct Gather {
    std::vector<TextHead> heads;
    std::vector<std::string> texts;
    bool headed = false;
  };
  const auto ranks = static_cast<size_t>(size()), own = static_cast<size_t>(rank());
  auto g = std::make_shared<Gather>();
  g->heads.assign(ranks, TextHead::of(what, text));
  g->texts.resize(ranks);
  g->texts[own] = text;
  std::vector<Part> parts;
  for (size_t r = 0; r < ranks; ++r)
    if (r != own)
      parts.push_back({static_cast<int64_t>(r), std::as_bytes(std::span(&g->heads[own], 1)),
                       std::as_writable_bytes(std::span(&g->heads[r], 1))});
  return exchange(what, std::move(parts), [g, own, what, done = std::move(done)] {
    std::vector<Part> next;
    if (std::exchange(g->headed, true)) {
      done(std::move(g->texts));
      return next;
    }
    const std::string& text = g->texts[own];
    for (size_t r = 0; r < g->texts.size(); ++r) {
      if (r == own) continue;
      const TextHead& head = g->heads[r];
      check(head.call == g->heads[own].call && head.bytes <= kLongestText,
            "World: the ranks do not make the same calls: this one is in {}, rank {} is not", what,
            r);
      g->texts[r].resize(head.bytes);
      next.push_back({static_cast<int64_t>(r), std::as_bytes(std::span(text.data(), text.size())),
                      std::as_writable_bytes(std::span(g->texts[r].data(), head.bytes))});
    }
    return next;
  });
}

std::vector<std::string> World::gather(const std::string& what, const std::string& text) {
  auto texts = std::make_shared<std::vector<std::string>>();
  begin_gather(what, text, [texts](std::vector<std::string> t) { *texts = std::move(t); }).wait();
  return std::move(*texts);
}

namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

// Writes names and values, each followed by a zero byte. from_text reads them.
std::string to_text(const Named& named) {
  std::string text;
  for (const auto& [name, value] : named) (text += name) += '\0', (text += value) += '\0';
  return text;
}

Named from_text(const std::string& text) {
  Named named;
  for (size_t at = 0; at < text.size();) {
    const size_t name = std::min(text.find('\0', at), text.size());
    const size_t value = std::min(text.find('\0', std::min(name + 1, text.size())), text.size());
    named.emplace_back(text.substr(at, name - at),
                       value > name ? text.substr(name + 1, value - name - 1) : "");
    at = value + 1;
  }
  return named;
}

const std::string* value_of(const Named& named, const std::string& name) {
  for (const auto& [n, value] : named)
    if (n == name) return &value;
  return nullptr;
}

// The error text for the first name whose values differ on ranks 0 and r.
std::string difference(const Named& zero, const Named& other, size_t r) {
  for (const auto& [name, value] : zero) {
    const std::string* same = value_of(other, name);
    if (!same) return fmt::format("rank {} has no {}, rank 0 has {}", r, name, value);
    if (*same != value)
      return fmt::format("rank {} has {} {}, rank 0 has {}", r, name, *same, value);
  }
  for (const auto& [name, value] : other)
    if (!value_of(zero, name))
      return fmt::format("rank {} has {} {}, rank 0 has none", r, name, value);
  return fmt::format("rank {} has the same as rank 0 in another order", r);
}

}  // namespace

void World::check_same(const std::string& what, const std::string& text) {
  check_same(Named{{what, text}});
}

void World::check_same(const Named& named) {
  const std::vector<std::string> texts = gather("a comparison of all ranks", to_text(named));
  for (size_t r = 1; r < texts.size(); ++r)
    if (texts[r] != texts[0])
      together([&] { fail(difference(from_text(texts[0]), from_text(texts[r]), r)); });
}

void World::warn_of_cores() {
  if (std::exchange(impl_->warned_of_cores, true) || size() == 1) return;
  const std::string warning = detail::placement_warning(placements_of(*this));
  if (first() && !warning.empty()) std::fprintf(stderr, "tern: %s\n", warning.c_str());
}

Traffic World::traffic() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->traffic;
}

}  // namespace tern::dist
