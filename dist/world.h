// The processes that train together, on one machine or on many.
//
// mpirun starts several copies of a program. Each copy makes a World and becomes one rank of it:
//
//   dist::World world({.timeout = 120});
//   if (world.first()) fmt::print("{} ranks\n", world.size());
//
// Without mpirun the world has one rank, and all calls return at once. A tern built without MPI
// knows only this world. The calls below are the base of all joint work; gradient_sum.h adds
// gradients with them.
//
// Calls: every rank makes the same calls in the same order, from one thread.
//
// Failure: no call waits for ever. An Error on one rank inside together() reaches all others as an
// Error that begins with "rank 3: ". A rank that does not answer within the timeout ends the whole
// job: each rank that waits for it prints which rank it was and what that rank did last, and exits
// with kExitRankLost. The same holds where a World is made or destroyed, since all ranks wait for
// each other there. If a rank is killed, mpirun ends the job. Use take_time() (shared_work.h) for
// work of a rank that may take longer than the timeout.
//
// Time in which a process itself was stopped (SIGSTOP, a machine that slept) does not count.
//
// Threads: one thread of the world makes all calls of MPI. While it waits, it polls and sleeps.
// Ranks of one machine that may use the same cores share them: the default number of threads of
// each rank is its part of the cores (share_cores() in core/base/threads.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"

namespace tern::dist {

/// The exit code of a job that lost a rank.
inline constexpr int kExitRankLost = 3;

/// An error that happened on another rank. Its text begins with "rank 3: ".
class RankError : public Error {
 public:
  explicit RankError(const std::string& text, int code = 0) : Error(text), code_(code) {}
  /// The result of WorldOptions::exit_code on that rank; 0 without one.
  int code() const { return code_; }

 private:
  int code_;
};

struct WorldOptions {
  double timeout = 120;  ///< seconds to wait for another rank before the job ends
  /// The exit code of the program for an exception that ends it. together() sends it to the other
  /// ranks, so that all can exit with the same code. Without this function: 0.
  std::function<int(const std::exception&)> exit_code = {};
};

/// The number of ranks that mpirun or srun started, and the rank of this process, by their
/// environment variables, which needs no World; 0 without them.
int64_t launched_ranks();
int64_t launched_rank();

/// The cost of the exchanges of a rank so far.
struct Traffic {
  int64_t exchanges = 0;
  int64_t bytes = 0;   ///< sent by this rank
  double seconds = 0;  ///< time in exchanges, including the wait for other ranks
  double waited = 0;   ///< seconds in which the program waited for an exchange
  /// The share of `seconds` in which the program continued to compute.
  double hidden() const { return seconds > waited ? 1 - waited / seconds : 0; }
};

class World {
 public:
  /// Error if mpirun started several processes and
  ///   - this tern was built without MPI, or with a different MPI than that of mpirun;
  ///   - the ranks have different versions of tern;
  ///   - this process makes a second World.
  explicit World(WorldOptions options = {});
  /// Waits until all ranks are here. During an exception that together() has not told the other
  /// ranks, it tells them.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int64_t rank() const;  ///< of this process: 0 to size() - 1
  int64_t size() const;  ///< number of ranks
  /// Rank 0, the one that prints and writes files.
  bool first() const { return rank() == 0; }

  /// Runs body and tells all other ranks of an exception that leaves it. Their next call, or the
  /// one in which they wait, throws it as a RankError.
  void together(const std::function<void()>& body);

  /// The texts of all ranks, in their order, on every rank. `what` is for errors: "the seeds".
  std::vector<std::string> gather(const std::string& what, const std::string& text);
  /// Error on every rank if the texts differ: "rank 2 has batch 128, rank 0 has 256".
  void check_same(const std::string& what, const std::string& text);
  /// The same for many texts with names, such as the options of a program. The error gives the
  /// first name whose text differs or that one of the two ranks lacks.
  void check_same(const std::vector<std::pair<std::string, std::string>>& named);
  /// Rank 0 writes one line to standard error if ranks have more threads than cores, or are bound
  /// to few cores while others stay idle. Call it when a training starts; a second call does
  /// nothing.
  void warn_of_cores();
  /// Returns after every rank has called it.
  void barrier(const std::string& what) { gather(what, ""); }

  // ---- The base of the other files of dist: bytes between ranks ----
  /// Bytes to send to another rank and to receive from it. Both ranks must give the same lengths.
  struct Part {
    int64_t rank;
    std::span<const std::byte> send;
    std::span<std::byte> receive;
  };
  /// The world's thread calls it when the parts have arrived. It returns the parts of the next
  /// stage of the exchange, or none at the end. All ranks are told of an exception that it throws.
  using Next = std::function<std::vector<Part>()>;
  /// An exchange in progress.
  class Ticket {
   public:
    /// Returns when all parts have been sent and received. RankError if a rank failed.
    void wait();

   private:
    friend class World;
    struct State;
    std::shared_ptr<State> state_;
    World* world_ = nullptr;
  };
  /// Begins an exchange of bytes. One exchange, with all stages that `next` adds, ends before the
  /// next begins. The spans must live until Ticket::wait() has returned, and as long as the world
  /// if it throws: whatever `next` holds (a shared_ptr) lives that long. With one rank there are no
  /// parts, and next() is called at once.
  Ticket exchange(std::string what, std::vector<Part> parts, Next next = {});
  /// Begins a gather(). The world's thread calls `done` with the texts.
  Ticket begin_gather(const std::string& what, const std::string& text,
                      std::function<void(std::vector<std::string>)> done);

  Traffic traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int exceptions_;  // std::uncaught_exceptions() when it was made
};

}  // namespace tern::dist
