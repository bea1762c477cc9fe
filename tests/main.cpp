#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>

#include "tern/core/base/matmul_backend.h"

// doctest's arguments, and --matmul=blas: f32 products of the main thread by BLAS.
int main(int argc, char** argv) {
  // A shell's script that starts the tests with & has SIGINT ignored, and it would stay so.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  bool blas = false;
  for (int i = 1; i < argc; ++i) blas = blas || std::strcmp(argv[i], "--matmul=blas") == 0;
  const tern::MatmulBackendScope scope(blas ? tern::MatmulBackend::blas
                                            : tern::MatmulBackend::tiles);
  return doctest::Context(argc, argv).run();
}
