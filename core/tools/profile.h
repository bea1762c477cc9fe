// Where the time of a program goes: by op and by part of the model.
//
//   Profile profile;                       // watches the ops of this thread from here on
//   for (int i = 0; i < 10; ++i) train_step();
//   fmt::print("{}", profile.table());
//   profile.write_trace("steps.json");     // for chrome://tracing and ui.perfetto.dev
//
// Modules are known by the names that a walk gave their parameters: make the optimizer of
// nn::named_parameters(model), or print the model, before. Parts of one's own appear under the name
// of a Region (op.h). Watching costs some hundred nanoseconds an op.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/tape/op.h"

namespace tern {

struct ProfileOptions {
  bool trace = true;               ///< keep every call, for write_trace()
  int64_t max_events = 1'000'000;  ///< calls that are kept; later ones only count
};

class Profile final : private Observer {
 public:
  explicit Profile(const ProfileOptions& options = {});
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile() override = default;

  /// Watches no longer; what it has seen stays. Comes by itself at the end of its life.
  void stop();

  struct Row {
    std::string op;  ///< empty in rows of modules
    Pass pass = Pass::forward;
    std::string module;  ///< empty in rows of ops, and where it is unknown
    int64_t calls = 0;
    double self_seconds = 0;   ///< without the ops that it is made of
    double total_seconds = 0;  ///< with them
    int64_t flops = 0;         ///< of products, convolutions and attention, those inside included
    int64_t bytes = 0;         ///< of its inputs and results
  };
  /// One row an op and pass, the one with the most time of its own first.
  std::vector<Row> by_op() const;
  /// One row a module and pass, likewise; of the ops of its very own. What these are made of is in
  /// their totals, and not counted again.
  std::vector<Row> by_module() const;
  /// Both as text, at most `rows` of each.
  std::string table(int rows = 30) const;
  /// All calls as JSON that trace viewers open; IoError if the file cannot be written.
  void write_trace(const std::string& path) const;

 private:
  using Key = std::pair<std::string, Pass>;
  struct Open {
    const OpScope* scope;
    int64_t start;  // nanoseconds of the steady clock
    int64_t flops_before, bytes = 0;
    double inner_seconds = 0;
    std::string module;
    size_t event = 0;  // number of its event, from 1
  };
  struct Event {
    std::string op, module;
    Pass pass;
    double start, microseconds;  // from the profile's beginning; below 0: not done yet
    std::string shapes;
  };

  void begin(const OpScope& op) override;
  void made(const OpScope& op, const Tensor& result, int index) override;
  void end(const OpScope& op) noexcept override;

  ProfileOptions options_;
  int64_t start_;
  std::vector<Open> open_;
  std::map<Key, Row> ops_, modules_;
  std::vector<Event> events_;
  std::optional<ObserverScope> watching_;
};

}  // namespace tern
