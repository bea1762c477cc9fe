// Reads a reference file: inputs, outputs, parameters, gradients, targets, losses.
#include <filesystem>

#include "tern/tests/parity/parity.h"

namespace tern::parity {
namespace {

// The tensors "PREFIX", "PREFIX.1", ... (or "PREFIX.0", ...) in order.
std::vector<Tensor> numbered(const SafeTensors& file, const std::string& prefix) {
  std::vector<Tensor> out;
  if (Tensor t = file.find(prefix); t.defined()) out.push_back(t);
  while (true) {
    Tensor t = file.find(prefix + "." + std::to_string(out.size()));
    if (!t.defined()) return out;
    out.push_back(t);
  }
}

NamedTensors named(const SafeTensors& file, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, t] : file.tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

}  // namespace

const Tensor& Reference::param(const std::string& param_name) const {
  for (const auto& [n, t] : parameters)
    if (n == param_name) return t;
  fail_io(fmt::format("{}: has no param.{}", name, param_name));
}

Reference load_reference(const std::string& path) {
  SafeTensors file = load_safetensors(path);
  Reference r;
  r.name = std::filesystem::path(path).stem().string();
  auto config = file.metadata.find("config");
  r.config = config == file.metadata.end() ? nlohmann::json::object()
                                           : nlohmann::json::parse(config->second);
  r.parameters = named(file, "param.");
  r.gradients = named(file, "grad.");
  r.inputs = numbered(file, "input");
  r.outputs = numbered(file, "output");
  r.targets = numbered(file, "target");
  r.probe = file.find("probe");
  r.loss = file.find("loss");
  r.trace = file.find("trace");
  check_io(!r.inputs.empty() && !r.outputs.empty(), "{}: no input or no output", path);
  return r;
}

}  // namespace tern::parity
