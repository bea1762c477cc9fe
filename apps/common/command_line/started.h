// How this process was started, so that the commands in its help and messages work as they stand.
#pragma once

#include <string>

namespace tern::apps {

/// Remembers that this process runs `program` and was started as `called`, the first word of its
/// command line. The script ./run passes two words there: "./run lm". run_program() calls it.
void set_started(const std::string& called, const std::string& program);
/// The process was started as `tern`, and runs a program that is one of its commands. A later
/// set_started() changes nothing.
void set_started_inside_tern();

/// The name of a program in its help, its manual page and its errors: "lm", or "tern lm".
std::string title_of(const std::string& program);

/// The words that start a program as this process was started, quoted for a shell: "lm",
/// "build/apps/lm", "./run lm", "tern lm". For commands in messages.
std::string as_started(const std::string& program);

}  // namespace tern::apps
