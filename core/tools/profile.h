// Measures where a program spends its time, by op and by part of the model.
//
//   Profile profile;                       // watches this thread's ops from now on
//   for (int i = 0; i < 10; ++i) train_step();
//   fmt::print("{}", profile.table());
//   profile.write_trace("steps.json");     // for chrome://tracing and ui.perfetto.dev
//
// Modules have the names that a module walk gave their parameters: first create the optimizer from
// nn::named_parameters(model), or print the model. Name other parts by a Region (op.h). Watching
// costs a few hundred nanoseconds per op.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/tape/op.h"

namespace tern {
struct ProfileOptions {
  bool trace = true;               ///< keep every call, for write_trace()
  int64_t max_events = 1'000'000;  ///< calls to keep; later ones are only counted
  /// Predicts the time that this many threads would lose; 0: no prediction. While the profile
  /// watches, it sets this number of threads, so loops are cut for them, but run only on this
  /// thread. The number holds for the whole process, so other threads must not compute meanwhile.
  int lost_threads = 0;
};

class Profile final : private Observer {
 public:
  [[nodiscard]] explicit Profile(const ProfileOptions& options = {});
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile() override;

  /// Stops watching; the results stay. The destructor stops too.
  void stop();

  struct Row {
    std::string op;  ///< empty in module rows
    Pass pass = Pass::forward;
    std::string module;  ///< empty in op rows, and if unknown
    int64_t calls = 0;
    double self_seconds = 0;   ///< without inner ops
    double total_seconds = 0;  ///< with inner ops
    /// Of products, convolutions and attention (step_cost.h), inner ops included.
    int64_t flops = 0;
    int64_t bytes = 0;  ///< of inputs and results
    /// The seconds by which the op itself, on ProfileOptions::lost_threads threads, would exceed an
    /// equal share per thread: by serial code, loops with few or uneven parts, and starts of loops.
    double lost_seconds = 0;
  };
  /// One row per op and pass, largest self time first. A call within another call of the same op
  /// (embedding in embedding, a Region in itself) is part of its total and is not counted again.
  std::vector<Row> by_op() const;
  /// One row per module and pass, in the same order. Counts only the module's own ops. Ops inside
  /// them are part of their totals and are not counted again.
  std::vector<Row> by_module() const;
  /// Both as text, with at most `rows` rows each.
  std::string table(int rows = 30) const;
  /// Writes all calls as JSON for trace viewers. IoError if that fails.
  void write_trace(const std::string& path) const;

 private:
  using Key = std::pair<std::string, Pass>;
  struct Open {
    const OpScope* scope;
    int64_t start;  // in nanoseconds of the steady clock
    int64_t flops_before, bytes = 0;
    double inner_seconds = 0;
    std::string module;
    size_t event = 0;                           // number of its event, from 1
    double loop_seconds = 0, lost_seconds = 0;  // of its own loops
  };
  struct Event {
    std::string op, module;
    Pass pass;
    double start, microseconds;  // since the profile's beginning; negative: still running
    std::string shapes;
  };

  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void end(const OpScope& op) noexcept override;

  class Loops;

  ProfileOptions options_;
  int64_t start_;
  std::vector<Open> open_;
  std::map<Key, Row> ops_, modules_;
  std::vector<Event> events_;
  std::unique_ptr<Loops> loops_;
  std::optional<ObserverScope> watching_;
};

}  // namespace tern
