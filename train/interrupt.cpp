// Signal handlers that only set a flag, and their removal at the end of the outermost scope.
#include "tern/train/interrupt.h"

#include <array>
#include <csignal>

namespace tern::training {
namespace {

// A signal handler can use only global variables.
volatile std::sig_atomic_t flag = 0;
volatile std::sig_atomic_t asked = 0;  // 1 after a SIGINT or SIGTERM
int scopes = 0;
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> before;

// A closed terminal sends several SIGHUPs, and the end of a session also sends a SIGTERM; two
// threads may take these in either order. So a SIGHUP never counts as a first or second signal, of
// which the second ends the program.
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
