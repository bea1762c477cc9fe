// Ctrl-C as a question that a training loop asks between two steps, so that it can save before it
// stops.
#pragma once

namespace tern::train {

/// While one lives, SIGINT, SIGTERM and SIGHUP (a closed terminal) only set a flag that
/// interrupted() tells. A signal that the process ignores stays ignored: SIGHUP under nohup, SIGINT
/// where a shell's script starts it with &. A second SIGINT or SIGTERM ends the program at once; a
/// SIGHUP does not, nor the first of those after it. Scopes nest; the end of the outermost one puts
/// back the handlers that were there, and clears the flag. Make it in one thread only: signals
/// belong to the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Whether a signal has come in the scope that lives.
bool interrupted();

/// What a program returns that stopped on a signal: 128 + SIGINT.
inline constexpr int kExitInterrupted = 130;

}  // namespace tern::train
