// Ctrl-C as a question that a training loop asks, so that it can save before it stops.
#pragma once

namespace tern::apps {

/// From now on SIGINT and SIGTERM only set a flag; a second one ends the program at once.
void catch_interrupts();

/// Whether a signal has come.
bool interrupted();

/// What a program that stopped on a signal returns: 128 + SIGINT.
constexpr int kExitInterrupted = 130;

}  // namespace tern::apps
