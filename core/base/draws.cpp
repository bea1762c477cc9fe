// Recording and replay of random draws. Scopes nest: an inner scope that records passes its draws
// on to the outer scope, which records or replays them.
#include "tern/core/base/draws.h"

#include "tern/core/base/error.h"

namespace tern::detail {
namespace {

constexpr const char* kChanged =
    "checkpoint: fn draws {} random numbers in backward than in the forward pass; it must do the "
    "same both times (was the module switched between training and evaluation?)";

}  // namespace

thread_local constinit DrawScope* draw_scope = nullptr;

DrawScope::DrawScope(DrawLog& log, Mode mode) : log_(log), mode_(mode), outer_(draw_scope) {
  if (mode_ == Mode::replay && !log_.empty()) position_ = log_[0].first;
  draw_scope = this;
}

DrawScope::~DrawScope() { draw_scope = outer_; }

RngState DrawScope::begin(const RngState& own) const {
  if (mode_ == Mode::record) return outer_ ? outer_->begin(own) : own;
  check(next_ < log_.size(), kChanged, "more");
  return {log_[next_].key, position_};
}

void DrawScope::drawn(const RngState& begin, uint64_t position) {
  const auto [key, first] = begin;
  if (mode_ == Mode::replay) {
    check(position <= log_[next_].last, kChanged, "other");
    position_ = position;
    if (position_ == log_[next_].last && ++next_ < log_.size()) position_ = log_[next_].first;
    return;
  }
  // An empty draw gets its own entry, so that the replay meets it in the same place.
  bool goes_on = !log_.empty() && log_.back().key == key && log_.back().last == first;
  if (goes_on && position != first)
    log_.back().last = position;
  else
    log_.push_back({key, first, position});
  if (outer_) outer_->drawn(begin, position);
}

bool DrawScope::replays() const { return mode_ == Mode::replay || (outer_ && outer_->replays()); }

void DrawScope::check_finished() const { check(next_ == log_.size(), kChanged, "fewer"); }

}  // namespace tern::detail
