// Stops with a clear message if the compiler does not use C++20, or leaves out type information.
#pragma once

#if __cplusplus < 202002L
#error "tern needs C++20: compile with -std=c++20 (CMake: set(CMAKE_CXX_STANDARD 20))"
#endif
#ifndef __cpp_rtti
#error "tern needs run-time type information, for the names of modules: compile without -fno-rtti"
#endif
