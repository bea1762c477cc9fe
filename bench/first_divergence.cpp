// first_divergence FIRST SECOND [--rtol 1e-4] [--atol 1e-6] [--all]: the first layer, in the order
// of execution, at which two recordings of a model part. A recording is what ActivationRecorder
// (core/tools/activation_recorder.h) or bench/record_torch.py writes. Exit code: 0 if nothing
// differs, 1 if something does, 2 where the files do not compare.
//
//   python3 my_torch_model.py                                        # writes torch.safetensors
//   parity tests/reference/gmlp.safetensors --record tern.safetensors
//   first_divergence torch.safetensors tern.safetensors
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tern/apps/common/app.h"
#include "tern/apps/common/flags.h"
#include "tern/core/tools/recordings.h"

int main(int argc, char** argv) {
  using namespace tern;
  return apps::run_app("first_divergence", [&] {
    std::string first, second;
    DivergenceOptions options;
    bool all = false;
    CLI::App app("Finds the first layer at which two recordings of a model part.");
    app.option_defaults()->always_capture_default();
    app.add_option("first", first, "recording, whose order counts")->required();
    app.add_option("second", second, "recording")->required();
    app.add_option("--rtol", options.rtol, "allowed, as a share of the largest element")
        ->transform(apps::number_rule({}, false));
    app.add_option("--atol", options.atol, "allowed beside that")
        ->transform(apps::number_rule({}, false));
    app.add_flag("--all", all, "print every comparison");
    if (!apps::parse_flags(app, argc, argv)) return 0;
    const Divergence found =
        first_divergence(load_safetensors(first), load_safetensors(second), options);
    if (all)
      for (const Comparison& c : found.compared)
        fmt::print("{} {}\n", c.differs ? "DIFFERS" : "ok     ", c.line());
    fmt::print("{}", found.report());
    return found.first() ? 1 : 0;
  });
}
