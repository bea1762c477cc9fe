// Times ops by an observer, sums them by op and by module, and prints tables and traces. To predict
// losses with more threads, it runs parallel loops part by part.
#include "tern/core/tools/profile.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tern/core/base/flops.h"
#include "tern/core/base/loop_listener.h"
#include "tern/core/base/threads.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tools/schedule.h"

namespace tern {
namespace {

int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t bytes_of(const Tensor& t) { return t.defined() ? t.numel() * item_size(t.dtype()) : 0; }

std::string shapes_of(const OpScope& op) {
  std::string text;
  for (int i = 0; i < op.num_inputs(); ++i)
    if (op.input(i).defined())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", op.input(i).dtype(),
                          op.input(i).shape());
  return text;
}

template <class Rows>
std::vector<Profile::Row> sorted(const Rows& rows) {
  std::vector<Profile::Row> out;
  for (const auto& [key, row] : rows) out.push_back(row);
  std::stable_sort(out.begin(), out.end(), [](const Profile::Row& a, const Profile::Row& b) {
    return a.self_seconds > b.self_seconds;
  });
  return out;
}

std::string name_of(const Profile::Row& r) {
  const std::string name = r.op.empty() ? (r.module.empty() ? "(no module)" : r.module) : r.op;
  return r.pass == Pass::backward ? name + " backward" : name;
}

/// A table of rows. `lost`: the number of threads in the title of the column of lost time; 0 leaves
/// the column out.
std::string lines(const std::string& title, const std::vector<Profile::Row>& rows, int most,
                  int lost) {
  double whole = 0;
  for (const Profile::Row& r : rows) whole += r.self_seconds;
  size_t width = 40;
  for (size_t i = 0; i < rows.size() && static_cast<int>(i) < most; ++i)
    width = std::max(width, name_of(rows[i]).size());
  std::string text =
      fmt::format("{:<{}} {:>8} {:>10} {:>6} {:>10} {:>9} {:>8} {:>8}{}\n", title, width, "calls",
                  "self ms", "share", "total ms", "GFLOP", "GFLOP/s", "MB",
                  lost ? fmt::format(" {:>14}", fmt::format("ms lost at {}", lost)) : "");
  for (size_t i = 0; i < rows.size() && static_cast<int>(i) < most; ++i) {
    const Profile::Row& r = rows[i];
    const double gflop = static_cast<double>(r.flops) / 1e9;
    text += fmt::format("{:<{}} {:>8} {:>10.3f} {:>5.1f}% {:>10.3f} {:>9.3f} {:>8.1f} {:>8.1f}",
                        name_of(r), width, r.calls, 1e3 * r.self_seconds,
                        whole > 0 ? 100 * r.self_seconds / whole : 0, 1e3 * r.total_seconds, gflop,
                        r.total_seconds > 0 ? gflop / r.total_seconds : 0,
                        static_cast<double>(r.bytes) / 1e6);
    text += lost ? fmt::format(" {:>14.3f}\n", 1e3 * r.lost_seconds) : "\n";
  }
  if (static_cast<int>(rows.size()) > most)
    text += fmt::format("... and {} more\n", static_cast<int>(rows.size()) - most);
  return text;
}

}  // namespace

/// Runs loops part by part on this thread, and lays the parts out on `threads_` threads.
class Profile::Loops final : private detail::LoopListener {
 public:
  Loops(Profile& profile, int threads) : profile_(profile), threads_(threads), scope_(threads) {
    detail::loop_listener = this;
  }
  ~Loops() override { detail::loop_listener = nullptr; }

 private:
  void run(const detail::Loop& loop) override {
    constexpr double kLoopCost = 3e-6;          // seconds that the pool adds to a loop
    if (loop.parts() == 1) return loop.run(0);  // serial
    std::vector<double> parts;
    for (int64_t p = 0; p < loop.parts(); ++p) {
      const int64_t begin = now();
      loop.run(p);
      parts.push_back(1e-9 * static_cast<double>(now() - begin));
    }
    if (profile_.open_.empty()) return;
    Open& op = profile_.open_.back();
    op.lost_seconds += detail::loss_of_loop(parts, threads_, loop.own_parts, kLoopCost).sum();
    for (double seconds : parts) op.loop_seconds += seconds;
  }

  Profile& profile_;
  const int threads_;
  const detail::ThreadCountScope scope_;
};

Profile::Profile(const ProfileOptions& options) : options_(options), start_(now()) {
  check(options.lost_threads == 0 || !detail::loop_listener,
        "Profile: lost_threads: another profile already makes this prediction; stop() it first");
  if (options.lost_threads > 0) loops_ = std::make_unique<Loops>(*this, options.lost_threads);
  watching_.emplace(static_cast<Observer&>(*this));
}

Profile::~Profile() = default;

void Profile::stop() {
  watching_.reset();
  loops_.reset();
}

void Profile::begin(const OpScope& op) {
  Open open{&op, {}, detail::counted_flops, 0, 0, op.module()};
  for (int i = 0; i < op.num_inputs(); ++i) open.bytes += bytes_of(op.input(i));
  if (options_.trace && std::ssize(events_) < options_.max_events) {
    events_.push_back({op.name(), open.module, op.pass(), 0, -1, shapes_of(op)});
    open.event = events_.size();
  }
  open_.push_back(std::move(open));
  open_.back().start = now();
}

void Profile::made(const OpScope& op, const Tensor& result, int) {
  if (!open_.empty() && open_.back().scope == &op) open_.back().bytes += bytes_of(result);
}

void Profile::end(const OpScope& op) noexcept {
  const int64_t end = now();
  if (open_.empty() || open_.back().scope != &op) return;
  Open open = std::move(open_.back());
  open_.pop_back();
  const double seconds = 1e-9 * static_cast<double>(end - open.start);
  const double self = seconds - open.inner_seconds;
  const double serial = std::max(self - open.loop_seconds, 0.0);
  const int threads = options_.lost_threads;
  auto count = [&](Row& row, bool again) {
    row.pass = op.pass();
    row.self_seconds += self;
    if (threads > 0) row.lost_seconds += open.lost_seconds + serial * (1 - 1.0 / threads);
    if (again) return;
    ++row.calls;
    row.total_seconds += seconds;
    row.flops += detail::counted_flops - open.flops_before;
    row.bytes += open.bytes;
  };
  // An outer op of the same row has counted it already.
  auto inside = [&](auto same) {
    return std::any_of(open_.begin(), open_.end(), [&](const Open& outer) {
      return outer.scope->pass() == op.pass() && same(outer);
    });
  };
  Row& by_name = ops_[{op.name(), op.pass()}];
  by_name.op = op.name();
  count(by_name, inside([&](const Open& o) { return o.scope->name() == by_name.op; }));
  Row& by_place = modules_[{open.module, op.pass()}];
  by_place.module = open.module;
  count(by_place, inside([&](const Open& o) { return o.module == open.module; }));
  if (!open_.empty()) open_.back().inner_seconds += seconds;
  if (open.event == 0) return;
  Event& event = events_[open.event - 1];
  event.start = 1e-3 * static_cast<double>(open.start - start_);
  event.microseconds = 1e6 * seconds;
}

std::vector<Profile::Row> Profile::by_op() const { return sorted(ops_); }

std::vector<Profile::Row> Profile::by_module() const { return sorted(modules_); }

std::string Profile::table(int rows) const {
  const int lost = options_.lost_threads;
  return lines("op", by_op(), rows, lost) + "\n" + lines("module", by_module(), rows, lost);
}

void Profile::write_trace(const std::string& path) const {
  nlohmann::json events = nlohmann::json::array();
  for (const Event& e : events_) {
    if (e.microseconds < 0) continue;  // still running
    events.push_back({{"name", e.op + (e.pass == Pass::backward ? " backward" : "")},
                      {"cat", e.pass == Pass::backward ? "backward" : "forward"},
                      {"ph", "X"},
                      {"ts", e.start},
                      {"dur", e.microseconds},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"module", e.module}, {"inputs", e.shapes}}}});
  }
  write_file_atomically(path, nlohmann::json{{"traceEvents", events}}.dump());
}

}  // namespace tern
