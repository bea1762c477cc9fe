#include "tern/train/interrupt.h"

#include <array>
#include <csignal>

namespace tern::training {
namespace {

// A signal's handler can reach nothing but globals.
volatile std::sig_atomic_t flag = 0;
volatile std::sig_atomic_t asked = 0;  // by a SIGINT or SIGTERM
int scopes = 0;
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> before;

// A terminal that is closed sends more than one SIGHUP, and a session that is ended a SIGTERM with
// it; two threads may take them in either order. So a SIGHUP neither hurries nor is a first signal
// of which the other would be the second.
void on_signal(int signal) {
  if (asked && signal != SIGHUP) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (signal != SIGHUP) asked = 1;
  flag = 1;
}

}  // namespace

InterruptScope::InterruptScope() {
  if (scopes++ > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) std::signal(kSignals[i], on_signal);
  }
}

InterruptScope::~InterruptScope() {
  if (--scopes > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  flag = 0;
  asked = 0;
}

bool interrupted() { return flag != 0; }

}  // namespace tern::training
