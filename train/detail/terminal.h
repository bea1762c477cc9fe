// Standard output of a long run, which goes on without it. Inside of train only.
#pragma once

#include <string>

namespace tern::train {

/// Writes it at once. Where that fails for the first time, a line on standard error says so;
/// nothing is thrown. Programs find it in ferror(stdout) at their end.
void put(const std::string& text);

}  // namespace tern::train
