#include "tern/train/interrupt.h"

#include <csignal>

namespace tern::train {
namespace {

using Handler = void (*)(int);

// A signal's handler can reach nothing but globals.
volatile std::sig_atomic_t flag = 0;
int scopes = 0;
Handler before_int = SIG_DFL, before_term = SIG_DFL;

void on_signal(int signal) {
  if (flag) {
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
}

InterruptScope::~InterruptScope() {
  if (--scopes > 0) return;
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
  flag = 0;
}

bool interrupted() { return flag != 0; }

}  // namespace tern::train
