// What a long run says; it goes on where nobody can hear it. Inside of train only.
#pragma once

#include <cstdio>
#include <string>

namespace tern::training {

/// Writes it at once; nothing is thrown. Where standard output fails for the first time, a line on
/// standard error says so, and programs find it in ferror(stdout) at their end.
void put(const std::string& text, std::FILE* output);

}  // namespace tern::training
