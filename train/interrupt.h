// Lets a training loop ask between two steps whether Ctrl-C was pressed, so that it can save before
// it stops.
#pragma once

namespace tern::training {

/// While one lives, SIGINT, SIGTERM and SIGHUP (a closed terminal) only set a flag, which
/// interrupted() returns. A signal that the process ignores stays ignored: SIGHUP under nohup,
/// SIGINT if a shell script started it with &. A second SIGINT or SIGTERM ends the program at once;
/// a SIGHUP does not, nor the first of those after it. Scopes nest; the outermost one restores the
/// handlers and clears the flag at its end. Make it in one thread only: signals belong to the
/// process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Whether a signal has come in the current scope.
bool interrupted();

/// The exit code of a program that a signal stopped: 128 + SIGINT.
inline constexpr int kExitInterrupted = 130;

}  // namespace tern::training
