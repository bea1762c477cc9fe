// Reads files of weights one by one, checks names, shapes and types against the first file, and
// sums in f64.
#include "tern/nn/average_weights.h"

#include <unordered_map>
#include <utility>

#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::nn {
namespace {

/// The tensors of `path` in the order of `like`, after a check against the first file.
std::vector<Tensor> tensors_like(const NamedTensors& like, const std::vector<DType>& types,
                                 const std::string& first, const std::string& path) {
  std::unordered_map<std::string, Tensor> given;
  for (auto& [name, t] : load_tensors(path).tensors) given.emplace(name, std::move(t));
  std::vector<Tensor> out;
  for (size_t i = 0; i < like.size(); ++i) {
    const auto& [name, t] = like[i];
    const auto found = given.find(name);
    check_io(found != given.end(), "average_weights: {}: has no '{}', which {} has", path, name,
             first);
    Tensor& other = found->second;
    check_io(other.shape() == t.shape() && other.dtype() == types[i],
             "average_weights: {}: '{}' is {} {}, but {} {} in {}", path, name, other.dtype(),
             other.shape(), types[i], t.shape(), first);
    out.push_back(std::move(other));
    given.erase(found);
  }
  check_io(given.empty(), "average_weights: {}: has '{}', which {} lacks", path,
           given.empty() ? "" : given.begin()->first, first);
  return out;
}

}  // namespace

NamedTensors average_weights(const std::vector<std::string>& files) {
  check(!files.empty(), "average_weights: there are no files to average");
  NoGradGuard no_grad;
  NamedTensors mean = load_tensors(files[0]).tensors;
  std::vector<DType> types;
  for (auto& [name, t] : mean) {
    types.push_back(t.dtype());
    if (is_float(t.dtype())) t = t.to(DType::f64);
  }
  for (size_t f = 1; f < files.size(); ++f) {
    const std::vector<Tensor> others = tensors_like(mean, types, files[0], files[f]);
    for (size_t i = 0; i < mean.size(); ++i) {
      Tensor& t = mean[i].second;
      if (is_float(types[i]))
        add_(t, others[i].to(DType::f64));
      else
        t = others[i];
    }
  }
  for (size_t i = 0; i < mean.size(); ++i) {
    Tensor& t = mean[i].second;
    if (is_float(types[i])) t = (t / static_cast<double>(files.size())).to(types[i]);
  }
  return mean;
}

}  // namespace tern::nn
