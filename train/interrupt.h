// Lets a training loop ask between two steps whether Ctrl-C was pressed, so that it can save before
// it stops.
#pragma once

namespace tern::training {

/// While a scope lives, SIGINT, SIGTERM and SIGHUP (a closed terminal) only set a flag, which
/// interrupted() returns. A signal that the process ignores stays ignored: SIGHUP under nohup,
/// SIGINT if a shell script started it with &. A second SIGINT or SIGTERM ends the program at once;
/// SIGHUPs do not count for this. Scopes nest; the outermost one restores the handlers and clears
/// the flag at its end. Make scopes in one thread only: signals belong to the process.
class InterruptScope {
 public:
  [[nodiscard]] InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Whether the process has received a signal in the current scope.
bool interrupted();

/// The exit code of a program that a signal stopped: 128 + SIGINT.
inline constexpr int kExitInterrupted = 130;

}  // namespace tern::training
