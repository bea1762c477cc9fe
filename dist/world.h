// The processes that train together, on one machine or on many.
//
// mpirun starts several copies of a program. Each copy makes a World and becomes one rank of it:
//
//   dist::World world({.timeout = 120});
//   if (world.first()) fmt::print("{} ranks\n", world.size());
//
// Without mpirun the world has one rank, and all calls return at once. A tern that was built
// without MPI knows this world alone. What ranks do together is built on the calls below;
// gradient_sum.h adds gradients.
//
// Calls: every rank makes the same calls in the same order, from one thread.
//
// Failure: no call waits for ever. An Error on one rank inside together() reaches all others as an
// Error that begins with "rank 3: ". A rank that does not answer within the timeout ends the whole
// job: each rank that waits for it says which one it was and what that rank did last, and exits
// with kExitRankLost. So do a World that is made and one that is destroyed: all ranks wait for each
// other there, too. A rank that is killed ends the job; mpirun sees to that. Work of one rank that
// may take longer than the timeout belongs into take_time() (shared_work.h).
//
// Time in which a process itself was stopped (SIGSTOP, a machine that slept) does not count.
//
// Threads: one thread of the world makes all calls of MPI. It sleeps between looks while it waits.
// Ranks of one machine that may use the same cores share them: the default number of threads of
// each is a part of the cores (share_cores() in core/base/threads.h).
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

/// What went wrong on another rank. Its text begins with "rank 3: ".
class RankError : public Error {
 public:
  explicit RankError(const std::string& text, int code = 0) : Error(text), code_(code) {}
  /// The exit code that WorldOptions::exit_code of that rank gave; 0 if it gave none.
  int code() const { return code_; }

 private:
  int code_;
};

struct WorldOptions {
  double timeout = 120;  ///< seconds to wait for another rank before the job ends
  /// The exit code of a program that an exception ends, so that all ranks can end with the same:
  /// together() sends it to the other ranks. None: 0.
  std::function<int(const std::exception&)> exit_code = {};
};

/// The rank of this process as mpirun or srun says it in the environment, before there is a World;
/// 0 without them.
int64_t launched_rank();

/// What the exchanges of a rank took so far.
struct Traffic {
  int64_t exchanges = 0;
  int64_t bytes = 0;   ///< sent by this rank
  double seconds = 0;  ///< in which an exchange was under way, waiting for other ranks included
  double waited = 0;   ///< seconds in which the program waited for an exchange
  /// The share of the seconds in which the program went on.
  double hidden() const { return seconds > waited ? 1 - waited / seconds : 0; }
};

class World {
 public:
  /// Error if mpirun started several processes and this tern cannot join them: it was built without
  /// MPI, or with another MPI than that of mpirun; if the ranks have several versions of tern; or
  /// if a process of several makes a second World.
  explicit World(WorldOptions options = {});
  /// Waits for the other ranks to come here. If an exception is under way that together() has not
  /// told, they learn of it.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int64_t rank() const;  ///< of this process: 0 to size() - 1
  int64_t size() const;  ///< number of ranks
  /// Rank 0, the one that prints and writes files.
  bool first() const { return rank() == 0; }

  /// Runs body. An exception that leaves it is told to all other ranks, whose next call (or the one
  /// that they wait in) throws it as a RankError.
  void together(const std::function<void()>& body);

  /// The texts of all ranks, in their order, on every rank. `what` is for errors: "the seeds".
  std::vector<std::string> gather(const std::string& what, const std::string& text);
  /// Error on every rank if the texts differ: "rank 2 has batch 128, rank 0 has 256".
  void check_same(const std::string& what, const std::string& text);
  /// The same for many texts with names, such as the options of a program. The error says the first
  /// name that differs or that one of the two ranks does not have.
  void check_same(const std::vector<std::pair<std::string, std::string>>& named);
  /// Rank 0 writes one line to standard error if ranks have more threads than cores, or are bound
  /// to few cores while others stay idle. For the begin of a training; a second call does nothing.
  void warn_of_cores();
  /// Returns after every rank has called it.
  void barrier(const std::string& what) { gather(what, ""); }

  // ---- For what is built on it: bytes between ranks ----
  /// What this rank sends to another one and receives from it. Both sides give the same lengths.
  struct Part {
    int64_t rank;
    std::span<const std::byte> send;
    std::span<std::byte> receive;
  };
  /// Called by the world's thread when the parts have arrived; gives the parts of the next stage of
  /// the exchange, none at the end. An exception is told to all ranks.
  using Next = std::function<std::vector<Part>()>;
  /// An exchange that is under way.
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
  /// Begins an exchange of bytes. Exchanges take place one after the other, with the stages that
  /// `next` adds. The spans must live until Ticket::wait() has returned, and as long as the world
  /// if it throws: what `next` holds (a shared_ptr) does. With one rank there are no parts, and
  /// next() is called at once.
  Ticket exchange(std::string what, std::vector<Part> parts, Next next = {});
  /// Begins a gather(). `done` gets the texts, from the world's thread.
  Ticket begin_gather(const std::string& what, const std::string& text,
                      std::function<void(std::vector<std::string>)> done);

  Traffic traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int exceptions_;  // under way when it was made
};

}  // namespace tern::dist
