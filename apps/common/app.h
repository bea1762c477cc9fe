// What every program of tern does the same way: flags, errors and exit codes.
#pragma once

#include <functional>

namespace tern::apps {

/// Runs `body` and turns what it throws into one line "NAME: message" on standard error. Bad input
/// or flags (tern::Error) give exit code 2; anything else 1: memory that is not there (with how
/// much is free), files that cannot be written, standard output that did not arrive.
int run_app(const char* name, const std::function<int()>& body);

}  // namespace tern::apps
