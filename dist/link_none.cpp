// The link of a build without MPI: joining other ranks is an Error.
#include <fmt/core.h>

#include "tern/core/base/error.h"
#include "tern/dist/detail/link.h"
#include "tern/dist/world.h"

namespace tern::dist::detail {

std::unique_ptr<Link> open_link() {
  throw Error(
      fmt::format("World: {} ranks were started, but this tern was built without MPI; install it "
                  "(Debian: libopenmpi-dev) and build tern again with -DTERN_MPI=ON",
                  launched_ranks()));
}

}  // namespace tern::dist::detail
