// Says at once that tern needs C++20, before the compiler fails at something that it does not know.
#pragma once

#if __cplusplus < 202002L
#error "tern needs C++20: compile with -std=c++20 (CMake: set(CMAKE_CXX_STANDARD 20))"
#endif
