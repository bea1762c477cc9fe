// The machine that a program runs on, in words.
#pragma once

#include <string>

namespace tern::apps {

/// "AMD EPYC, 2 threads, AVX-512, OpenBLAS 0.3.21, kernels SkylakeX".
std::string describe_machine();

}  // namespace tern::apps
