// Looking into a model, as in docs/models.md: tree of modules, profile, peak memory.
#include <fmt/core.h>
#include <tern/tern.h>

using namespace tern;

int main() {
  Rng rng(0);
  models::Gmlp model(models::gmlp_options("gmlp-small"), rng);
  fmt::print("{}\n", model);  // the tree of its modules, with shapes and counts

  Tensor images = randn({8, 3, 32, 32}, rng), labels = randint(0, 10, {8}, rng);
  MemoryTimeline timeline;
  Profile profile;  // the ops of this thread, from here on
  cross_entropy(model(images), labels).backward();
  profile.stop();
  fmt::print("{}\n", profile.table(12));  // time, operations and bytes by op and by module
  profile.write_trace("step.json");       // for chrome://tracing and ui.perfetto.dev
  fmt::print("{}", timeline.report());    // the largest tensors at the peak, and who made them
}
