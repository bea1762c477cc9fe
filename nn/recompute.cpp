// The names none, selective, full: writing and parsing them.
#include "tern/nn/recompute.h"

#include <fmt/format.h>

#include "tern/core/base/error.h"

namespace tern::nn {

const char* name(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  fail_unhandled("Recompute", recompute);
}

Recompute recompute_named(const std::string& wanted) {
  for (Recompute r : {Recompute::none, Recompute::selective, Recompute::full})
    if (wanted == name(r)) return r;
  fail(fmt::format("recompute: there is no '{}'; there are {}", wanted,
                   fmt::join(recompute_names(), ", ")));
}

std::vector<std::string> recompute_names() { return {"none", "selective", "full"}; }

}  // namespace tern::nn
