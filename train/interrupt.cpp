#include "tern/train/interrupt.h"

#include <csignal>

namespace tern::train {
namespace {

using Handler = void (*)(int);

// A signal's handler can reach nothing but globals.
volatile std::sig_atomic_t flag = 0;
int scopes = 0;
Handler before_int = SIG_DFL, before_term = SIG_DFL, before_hup = SIG_DFL;

// A terminal that is closed sends more than one SIGHUP: those do not hurry.
void on_signal(int signal) {
  if (flag && signal != SIGHUP) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
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
}

bool interrupted() { return flag != 0; }

}  // namespace tern::train
