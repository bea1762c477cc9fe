// Prints the progress of a run. A closed terminal does not stop the run. Inside of train only.
#pragma once

#include <cstdio>
#include <string>

namespace tern::training {

/// Writes and flushes the text; throws nothing. The first failure of standard output is reported on
/// standard error, and programs find it in ferror(stdout) when they end.
void put(const std::string& text, std::FILE* output);

}  // namespace tern::training
