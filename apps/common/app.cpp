#include "tern/apps/common/app.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "tern/core/base/error.h"

namespace tern::apps {

int run_app(const char* name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: unexpected: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace tern::apps
