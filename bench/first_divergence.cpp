// first_divergence FIRST SECOND [--rtol 1e-4] [--atol 1e-6] [--all]: finds the first layer, in
// order of execution, at which two recordings of a model differ. ActivationRecorder
// (core/tools/activation_recorder.h) and bench/record_torch.py write recordings. Exit code: 0 if
// nothing differs, 1 if something does, 2 if the files cannot be compared.
//
//   python3 my_torch_model.py                                        # writes torch.safetensors
//   parity tests/reference/gmlp.safetensors --record tern.safetensors
//   first_divergence torch.safetensors tern.safetensors
#include <fmt/core.h>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/core/tools/recordings.h"

namespace tern::bench {
namespace {

struct Flags {
  std::string first, second;
  DivergenceOptions options;
  bool all = false;
};

void add_settings(apps::Settings& s, Flags& f) {
  s.text("first", f.first, "FILE", "recording, whose order counts").flag("first").must_be_given();
  s.text("second", f.second, "FILE", "recording").flag("second").must_be_given();
  s.number("rtol", f.options.rtol, {}, "allowed, as a share of the largest element");
  s.number("atol", f.options.atol, {}, "allowed beside that");
  s.toggle("all", f.all, "print every comparison");
}

int run(const Flags& f) {
  const Divergence found =
      first_divergence(load_safetensors(f.first), load_safetensors(f.second), f.options);
  if (f.all)
    for (const Comparison& c : found.compared)
      fmt::print("{} {}\n", c.differs ? "DIFFERS" : "ok     ", c.line());
  fmt::print("{}", found.report());
  return found.first() ? 1 : 0;
}

apps::Program program(Flags& flags, int, char**) {
  const apps::Command command{.settings = [&](apps::Settings& s) { add_settings(s, flags); },
                              .run = [&] { return run(flags); }};
  return {"first_divergence",
          "Finds the first layer at which two recordings of a model part.",
          {command}};
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) {
  return tern::apps::run_program("first_divergence", tern::bench::program, argc, argv);
}
