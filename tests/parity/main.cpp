// parity DIR: compares our models with PyTorch's numbers in every NAME.safetensors of DIR.
// parity FILE --record OUT: writes the inputs and outputs of every layer on FILE's inputs, for
// bench/first_divergence.cpp.
#include <algorithm>
#include <filesystem>

#include "tern/apps/common/process/app.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tools/activation_recorder.h"
#include "tern/tests/parity/parity.h"

namespace tern::parity {
namespace {

// "-" if the file has nothing to compare with.
std::string shown(bool there, double error) { return there ? fmt::format("{:.1e}", error) : "-"; }

int run(const std::string& folder) {
  std::vector<std::string> paths;
  check_io(std::filesystem::is_directory(folder), "{}: no such folder", folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  int ok = 0, failed = 0, unknown = 0;
  for (const std::string& path : paths) {
    std::string name = std::filesystem::path(path).stem().string();
    try {
      Reference reference = load_reference(path);
      std::optional<Subject> subject = make_subject(reference);
      if (!subject) {
        fmt::print("{} unknown\n", name);
        ++unknown;
        continue;
      }
      Errors e = compare(reference, *subject);
      fmt::print("{} output {:.1e} loss {} grad {:.1e} trace {} {}\n", name, e.output,
                 shown(e.has_loss, e.loss), e.grad, shown(e.has_trace, e.trace),
                 e.ok ? "ok" : "FAIL");
      ++(e.ok ? ok : failed);
    } catch (const std::exception& e) {
      fmt::print("{} FAIL: {}\n", name, e.what());
      ++failed;
    }
  }
  fmt::print("{} ok, {} failed, {} unknown\n", ok, failed, unknown);
  return failed == 0 && ok > 0 ? 0 : 1;
}

int record(const std::string& file, const std::string& out) {
  Reference reference = load_reference(file);
  std::optional<Subject> subject = make_subject(reference);
  check(subject.has_value(), "{}: there is no model of that name", file);
  ActivationRecorder recorder;
  const std::vector<Tensor> outputs = subject->forward(reference.inputs);
  backward(subject->loss ? subject->loss(outputs, reference.targets)
                         : sum(outputs[0] * reference.probe));
  recorder.save(out, subject->parameters);
  return 0;
}

}  // namespace
}  // namespace tern::parity

int main(int argc, char** argv) {
  return tern::apps::run_app("parity", [&] {
    if (argc == 4 && std::string(argv[2]) == "--record")
      return tern::parity::record(argv[1], argv[3]);
    tern::check(argc == 2, "usage: parity DIR, or parity FILE --record OUT");
    return tern::parity::run(argv[1]);
  });
}
