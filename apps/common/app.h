// What every program of tern does the same way: flags, errors and exit codes.
#pragma once

#include <functional>

namespace tern::apps {

/// Runs `body` and turns what it throws into one line "NAME: message" on standard error:
/// tern::Error (bad input or flags) gives exit code 2, anything else 1.
int run_app(const char* name, const std::function<int()>& body);

}  // namespace tern::apps
