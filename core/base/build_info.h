// The software and hardware in use, in one line.
#pragma once

#include <string>

namespace tern {

/// build_details() (cpu.h) and products_in_use() (products.h), for logs and bug reports.
std::string build_info();

}  // namespace tern
