// Fuzzes the readers of pickles and of PyTorch files.
#include "tern/core/io/torch_file.h"

#include "tern/core/io/pickle.h"
#include "tern/tests/fuzz/fuzz.h"
#include "tern/tests/support/torch_archive.h"

namespace {

using namespace tern;
using std::string_view_literals::operator""sv;

/// An archive with this pickle, a storage "0" of 64 bytes and an empty storage "1".
std::string archive_of(std::string_view pickle) {
  return test::torch::zip_of(
      {{"a/data.pkl", std::string(pickle)}, {"a/data/0", std::string(64, '\1')}, {"a/data/1", ""}});
}

void load(const std::string& bytes) {
  const fuzz::File file(bytes);
  fuzz::may_refuse_file([&] {
    const SafeTensors content = load_torch(file.path());
    int64_t elements = 0;
    for (const auto& [name, t] : content.tensors) elements += t.numel();
    fuzz::require(!content.tensors.empty());
    fuzz::require(elements <= 1 << 26);
  });
}

/// A dict with the tensor "w" of two times two floats.
constexpr std::string_view kPickle =
    "\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0000X\3\0\0\0cpuK\x10tQK\0K\2K\2\x86K\2K\1\x86\x89NtRs."sv;

}  // namespace

// Reads the input as a pickle, as a file, as the pickle in an archive, and as damage to an archive.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  static const std::vector<std::string_view> kNames = {"torch.Size"};
  fuzz::may_refuse([&] {
    const detail::Pickle pickle(text, kNames, 1000);
    return pickle.root();
  });
  load(text);
  load(archive_of(text));
  static const std::string kArchive = archive_of(kPickle);
  load(fuzz::damaged(kArchive, bytes, size));
  return 0;
}
