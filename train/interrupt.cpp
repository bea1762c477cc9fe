#include "tern/train/interrupt.h"

#include <csignal>

namespace tern::train {
namespace {

using Handler = void (*)(int);

// A signal's handler can reach nothing but globals.
volatile std::sig_atomic_t flag = 0;
volatile std::sig_atomic_t asked = 0;  // by a SIGINT or SIGTERM
int scopes = 0;
Handler before_int = SIG_DFL, before_term = SIG_DFL, before_hup = SIG_DFL;

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
  before_int = std::signal(SIGINT, on_signal);
  before_term = std::signal(SIGTERM, on_signal);
  before_hup = std::signal(SIGHUP, on_signal);
  if (before_hup == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
}

InterruptScope::~InterruptScope() {
  if (--scopes > 0) return;
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
  std::signal(SIGHUP, before_hup);
  flag = 0;
  asked = 0;
}

bool interrupted() { return flag != 0; }

}  // namespace tern::train
