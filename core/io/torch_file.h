// Reads state dicts that PyTorch wrote with torch.save (.pt, .pth, .bin), without Python. The file
// is a zip archive of a pickle and storages, PyTorch's form since version 1.6.
//
//   SafeTensors state = load_torch("model.pt");                  // torch.save(model.state_dict())
//   SafeTensors ema = load_torch("run.pt", {.member = "ema"});   // torch.save({"ema": ..., ...})
//   nn::load_state_dict(model, ema.tensors);
//
// A pickle is a program. This reader executes nothing: it knows tensors, parameters and plain
// values, and refuses a file that needs any other function or class of Python by its name. So it
// reads what torch.load(weights_only=True) reads, without sets, arrays of NumPy and
// subclasses of tensors.
//
// Not read: files of PyTorch before 1.6 and TorchScript archives (the error gives a command that
// converts them), big-endian files, compressed archives, complex, quantised and sparse tensors, and
// float8.
#pragma once

#include <string>

#include "tern/core/io/safetensors.h"

namespace tern {

struct TorchOptions {
  /// The dict whose tensors are read, by its keys with dots between: "model", "state.encoder"; "."
  /// is the outermost dict. By default the only dict that holds tensors: the outermost one or one
  /// in it, or if neither has any, one further inside. If several hold tensors, the error lists
  /// them.
  std::string member = {};
  /// Each tensor takes about two kilobytes beside its elements while the file is read.
  int64_t tensors = 100'000;
  /// Limit of the elements' bytes as a multiple of the file's size. Tensors that share a storage
  /// (layers with the same weights) become copies, and types become wider. 64 MiB are always
  /// allowed.
  int64_t ratio = 32;
};

/// Reads the tensors of a dict in its order, with the names that they have there ("module.x.weight"
/// of a DistributedDataParallel keeps its "module."). Each is contiguous and has elements of its
/// own. Types are as those of load_safetensors().
///
/// Entries of the dict that are not tensors go to `metadata`, as text: "3", "True", "None", "a list
/// of 2"; a text as it is. Entries of the dicts around it, and attributes of dicts (_metadata of a
/// state dict) are left out.
///
/// Files are not trusted: all is checked before elements are allocated. An IoError names the file
/// and the fault. It is an error if there is no tensor. Memory beside the elements: the pickle has
/// at most 64 MiB and takes up to fifty times that; real ones take a few megabytes.
SafeTensors load_torch(const std::string& path, const TorchOptions& options = {});

}  // namespace tern
