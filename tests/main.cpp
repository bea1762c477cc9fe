// The main function of the test program: doctest's arguments, and --matmul=blas, which computes f32
// products of the main thread with BLAS.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>

#include "tern/core/base/matmul_backend.h"

int main(int argc, char** argv) {
  // A script that starts the tests with & makes them ignore SIGINT; restore the defaults.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  bool blas = false;
  for (int i = 1; i < argc; ++i) blas = blas || std::strcmp(argv[i], "--matmul=blas") == 0;
  const tern::MatmulBackendScope scope(blas ? tern::MatmulBackend::blas
                                            : tern::MatmulBackend::tiles);
  return doctest::Context(argc, argv).run();
}
