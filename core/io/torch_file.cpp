// Finds the state dict in the pickle of a PyTorch file, checks its tensors against the archive, and
// reads them. The form: https://github.com/pytorch/pytorch/blob/main/torch/serialization.py
#include "tern/core/io/torch_file.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tern/core/base/printable.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/element_types.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/foreign_file.h"
#include "tern/core/io/pickle.h"
#include "tern/core/io/zip_directory.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::ElementType, detail::find_element_type, detail::read_tensor;
using detail::Pickle;
using detail::PickleValue;

constexpr int64_t kMostPickle = 1 << 26;      // bytes
constexpr int64_t kAlwaysAllowed = 1 << 26;   // bytes of elements
constexpr int64_t kContainersPerTensor = 12;  // PyTorch writes at most 9
constexpr int64_t kDeepestDict = 8;           // of dicts in dicts that are searched for tensors
constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2",
                           kTypedTensor = "torch._utils._rebuild_tensor_v3",
                           kParameter = "torch._utils._rebuild_parameter";

// The types of elements by the name of the storage and of the dtype.
struct TorchType {
  std::string_view storage, dtype, type;
};
constexpr TorchType kTorchTypes[] = {
    {"torch.FloatStorage", "torch.float32", "F32"},
    {"torch.DoubleStorage", "torch.float64", "F64"},
    {"torch.HalfStorage", "torch.float16", "F16"},
    {"torch.BFloat16Storage", "torch.bfloat16", "BF16"},
    {"torch.LongStorage", "torch.int64", "I64"},
    {"torch.IntStorage", "torch.int32", "I32"},
    {"torch.ShortStorage", "torch.int16", "I16"},
    {"torch.CharStorage", "torch.int8", "I8"},
    {"torch.ByteStorage", "torch.uint8", "U8"},
    {"torch.BoolStorage", "torch.bool", "BOOL"},
    {"", "torch.uint16", "U16"},
    {"", "torch.uint32", "U32"},
};
constexpr std::string_view kUntyped = "torch.storage.UntypedStorage";

const std::vector<std::string_view>& allowed_globals() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out = {kTensor,  kTypedTensor, kParameter,
                                         kUntyped, "torch.Size", "torch.device"};
    for (const TorchType& t : kTorchTypes) {
      if (!t.storage.empty()) out.push_back(t.storage);
      out.push_back(t.dtype);
    }
    return out;
  }();
  return names;
}

// The members of the archive. They lie in one folder, whose name is arbitrary.
class TorchArchive {
 public:
  explicit TorchArchive(const RandomFile& file) : file_(file) {
    constexpr std::string_view kPickle = "/data.pkl";
    for (const ZipEntry& e : read_zip_directory(file)) {
      if (e.name.ends_with(kPickle)) {
        check(folder_.empty(), "the archive has more than one data.pkl");
        folder_ = e.name.substr(0, e.name.size() - kPickle.size());
      }
      check(members_.emplace(e.name, e).second, "the archive has \"{}\" twice", e.name);
    }
    check(!folder_.empty(), "this zip archive is not a PyTorch file: it has no data.pkl");
    check(!find("constants.pkl"), "this is a TorchScript archive{}",
          detail::convert_torch_script(file.path()));
    for (const auto& [name, e] : members_)
      check(!e.deflated, "\"{}\" is compressed; PyTorch does not compress its files", name);
    if (const ZipEntry* order = find("byteorder"))
      check(read(*order, 16) == "little", "its byte order is not little-endian");
  }

  const ZipEntry* find(const std::string& name) const {
    const auto found = members_.find(folder_ + "/" + name);
    return found == members_.end() ? nullptr : &found->second;
  }

  /// A whole member of at most `most` bytes.
  std::string read(const ZipEntry& e, int64_t most) const {
    check(e.size <= most, "\"{}\" has {} bytes; at most {} can be read", e.name, e.size, most);
    std::string bytes(static_cast<size_t>(e.size), '\0');
    file_.read(position(e), bytes.data(), e.size);
    return bytes;
  }

  int64_t position(const ZipEntry& e) const { return zip_data_position(file_, e); }

 private:
  const RandomFile& file_;
  std::string folder_;
  std::unordered_map<std::string, ZipEntry> members_;
};

/// Where the elements of a tensor are.
struct TorchTensor {
  std::string name;
  const ElementType* type = nullptr;
  int64_t storage = 0;  // its position in the file
  Layout layout;        // in the storage

  int64_t span() const {  // elements of the storage from its first to its last one
    const detail::Extent e = detail::extent(layout);
    return e.last - e.first + 1;
  }
};

/// The pickle as nested dicts of tensors and other values.
class TorchState {
 public:
  using Kind = PickleValue::Kind;
  TorchState(const TorchArchive& archive, const Pickle& pickle)
      : archive_(archive), pickle_(pickle) {}

  /// The dict that the options choose.
  PickleValue choose(const std::string& member) const;
  bool is_tensor(const PickleValue& value) const {
    return calls(value, kTensor) || calls(value, kTypedTensor) || calls(value, kParameter);
  }
  TorchTensor tensor(std::string name, PickleValue value) const;
  /// A key of a dict as text.
  std::string key(const PickleValue& value) const {
    return value.kind == Kind::text || value.kind == Kind::integer
               ? describe(value)
               : fmt::format("({})", describe(value));
  }
  std::string describe(const PickleValue& value) const;
  std::span<const PickleValue> items(const PickleValue& value) const {
    return pickle_.items(value);
  }

 private:
  struct Place {
    PickleValue dict;
    std::string path;
    int depth;
    bool holds_tensors = false;
  };

  bool calls(const PickleValue& value, std::string_view name) const {
    return value.kind == Kind::object && pickle_.text(items(value)[0]) == name;
  }
  std::vector<Place> dicts() const;
  const ZipEntry* storage(const PickleValue& value, std::string_view& type, int64_t& count) const;
  Dims numbers(const char* what, const PickleValue& value) const;

  const TorchArchive& archive_;
  const Pickle& pickle_;
};

std::string TorchState::describe(const PickleValue& value) const {
  auto count = [&](const char* what, size_t each) {
    return fmt::format("a {} of {}", what, items(value).size() / each);
  };
  switch (value.kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.integer ? "True" : "False";
    case Kind::integer:
      return fmt::format("{}", value.integer);
    case Kind::large_integer:
      return "an integer of more than 64 bits";
    case Kind::real:
      return fmt::format("{}", value.real);
    case Kind::text:
    case Kind::global:
      return std::string(pickle_.text(value));
    case Kind::bytes:
      return fmt::format("{} bytes", value.span.size);
    case Kind::tuple:
      return count("tuple", 1);
    case Kind::list:
      return count("list", 1);
    case Kind::dict:
      return count("dict", 2);
    case Kind::object:
      return is_tensor(value) ? "a tensor" : fmt::format("a {}", describe(items(value)[0]));
    case Kind::persistent:
      return "a storage";
  }
  fail_unhandled("PickleValue::Kind", value.kind);
}

// Breadth first, each dict once: a dict may hold itself, or others many times.
std::vector<TorchState::Place> TorchState::dicts() const {
  std::vector<Place> places = {{pickle_.root(), ".", 0}};
  std::unordered_set<uint32_t> seen = {places[0].dict.index};
  for (size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    const auto all = items(place.dict);
    for (size_t k = 1; k < all.size(); k += 2) {
      places[i].holds_tensors = places[i].holds_tensors || is_tensor(all[k]);
      if (all[k].kind != Kind::dict || place.depth == kDeepestDict ||
          !seen.insert(all[k].index).second)
        continue;
      const std::string name = key(all[k - 1]).substr(0, 100);
      places.push_back(
          {all[k], place.depth == 0 ? name : place.path + "." + name, place.depth + 1});
    }
  }
  return places;
}

PickleValue TorchState::choose(const std::string& member) const {
  const PickleValue root = pickle_.root();
  check(root.kind == Kind::dict, "it holds {}, not a dict of tensors",
        root.kind == Kind::text ? "a text" : describe(root));
  std::vector<Place> places = dicts();
  if (!member.empty())
    for (const Place& p : places)
      if (p.path == member) return p.dict;
  std::erase_if(places, [](const Place& p) { return !p.holds_tensors; });
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(places.size(), 8); ++i)
    names += (i ? ", " : "") + fmt::format("\"{}\"", printable(places[i].path));
  if (places.size() > 8) names += fmt::format(" and {} more", places.size() - 8);
  check(!places.empty(), "no dict in it holds tensors");
  check(member.empty(), "there is no dict \"{}\"; tensors are in {}", member, names);
  const auto outer =
      std::count_if(places.begin(), places.end(), [](const Place& p) { return p.depth <= 1; });
  check(outer == 1 || (outer == 0 && places.size() == 1),
        "several dicts hold tensors: {}; TorchOptions::member chooses one", names);
  return places[0].dict;
}

Dims TorchState::numbers(const char* what, const PickleValue& value) const {
  check(value.kind == Kind::tuple, "its {} is not a tuple", what);
  Dims out;
  for (const PickleValue& item : items(value)) {
    check(item.kind == Kind::integer && item.integer >= 0, "its {} has {}", what, describe(item));
    out.push_back(item.integer);
  }
  return out;
}

// The id of a storage is ("storage", its type, its name, the device, its number of elements).
const ZipEntry* TorchState::storage(const PickleValue& value, std::string_view& type,
                                    int64_t& count) const {
  check(value.kind == Kind::persistent && items(value)[0].kind == Kind::tuple, "its storage is {}",
        describe(value));
  const auto id = items(items(value)[0]);
  check(id.size() == 5 && id[0].kind == Kind::text && pickle_.text(id[0]) == "storage" &&
            id[1].kind == Kind::global && id[2].kind == Kind::text && id[4].kind == Kind::integer,
        "its storage has an id of another form");
  type = pickle_.text(id[1]);
  count = id[4].integer;
  const std::string name = "data/" + std::string(pickle_.text(id[2]));
  const ZipEntry* entry = archive_.find(name);
  check(entry, "the archive has no {}", printable(name));
  return entry;
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata = None)
// _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, metadata = None)
TorchTensor TorchState::tensor(std::string name, PickleValue value) const {
  if (calls(value, kParameter)) {  // _rebuild_parameter(tensor, requires_grad, hooks)
    const auto given = items(items(value)[1]);
    check(!given.empty() && (calls(given[0], kTensor) || calls(given[0], kTypedTensor)),
          "a parameter without a tensor");
    value = given[0];
  }
  const bool typed = calls(value, kTypedTensor);
  const auto given = items(items(value)[1]);
  const size_t least = typed ? 7 : 6;
  check(given.size() == least || given.size() == least + 1, "it has {} arguments", given.size());
  check(given.size() == least || given[least].kind == Kind::none ||
            (given[least].kind == Kind::dict && items(given[least]).empty()),
        "it has attributes (conjugate or negative bits), which are not supported");
  TorchTensor t;
  t.name = std::move(name);
  std::string_view of_storage;
  int64_t count = 0, bytes = 0;
  const ZipEntry* entry = storage(given[0], of_storage, count);
  t.storage = archive_.position(*entry);
  if (typed) check(given[6].kind == Kind::global, "its type is {}", describe(given[6]));
  const std::string_view type = typed ? pickle_.text(given[6]) : of_storage;
  for (const TorchType& known : kTorchTypes)
    if (type == (typed ? known.dtype : known.storage)) t.type = find_element_type(known.type);
  check(t.type, "its elements are {}", type);
  const int64_t item = of_storage == kUntyped ? 1 : t.type->bytes;
  check(count >= 0 && !__builtin_mul_overflow(count, item, &bytes) && bytes == entry->size,
        "its storage of {} x {} bytes has {} in the archive", count, item, entry->size);
  check(given[1].kind == Kind::integer && given[1].integer >= 0, "its offset is {}",
        describe(given[1]));
  t.layout = {numbers("shape", given[2]), numbers("stride", given[3]), given[1].integer};
  check(t.layout.shape.size() == t.layout.strides.size(), "shape {} has strides {}", t.layout.shape,
        t.layout.strides);
  if (numel(t.layout.shape) == 0) t.layout = Layout::contiguous(t.layout.shape);
  if (t.layout.numel() == 0) return t;
  int64_t last = t.layout.offset;  // the number of its last element in the storage
  for (int axis = 0; axis < t.layout.ndim(); ++axis)
    last = checked_sum(
        "its strides", last,
        checked_product("its strides", t.layout.shape[axis] - 1, t.layout.strides[axis]));
  check(last < bytes / t.type->bytes, "element {} is outside its storage of {}", last,
        bytes / t.type->bytes);
  return t;
}

// Elements that are not in row-major order are read with the gaps between them.
Tensor read_torch_tensor(const RandomFile& file, const TorchTensor& t) {
  const int64_t at = t.storage + t.layout.offset * t.type->bytes;
  if (t.layout.is_contiguous()) return read_tensor(file, at, t.layout.shape, *t.type);
  const Tensor all = read_tensor(file, at, {t.span()}, *t.type);
  const Layout layout = {t.layout.shape, t.layout.strides, 0};
  return not_differentiable(Fresh::view(all, layout)).contiguous();
}

/// The tensors and the other entries of a dict.
SafeTensors read_torch_dict(const RandomFile& file, const TorchState& state,
                            const PickleValue& dict, const TorchOptions& options) {
  SafeTensors out;
  std::vector<TorchTensor> tensors;
  std::unordered_set<std::string> names;
  const int64_t most =
      std::max(kAlwaysAllowed, options.ratio * std::min(file.size(), INT64_MAX / options.ratio));
  int64_t bytes = 0;
  const auto entries = state.items(dict);
  for (size_t i = 0; i < entries.size(); i += 2) {
    const std::string name = state.key(entries[i]);
    check(names.insert(name).second, "the key '{:.80}' appears twice", printable(name));
    if (!state.is_tensor(entries[i + 1])) {
      out.metadata[name] = state.describe(entries[i + 1]);
      continue;
    }
    check(std::ssize(tensors) < options.tensors,
          "more than {} tensors; TorchOptions can allow more", options.tensors);
    try {
      tensors.push_back(state.tensor(name, entries[i + 1]));
    } catch (const Error& e) {
      fail(fmt::format("tensor '{:.80}': {}", printable(name), e.what()));
    }
    const TorchTensor& t = tensors.back();
    const int64_t elements = std::max(numel(t.layout.shape), t.span());
    check(elements <= (most - bytes) / item_size(t.type->dtype),
          "the tensors take more than {} bytes, but the file has {}; TorchOptions::ratio can allow "
          "more",
          most, file.size());
    bytes += elements * item_size(t.type->dtype);
  }
  check(!tensors.empty(), "the dict holds no tensors");
  out.tensors.reserve(tensors.size());
  for (TorchTensor& t : tensors)
    out.tensors.emplace_back(std::move(t.name), read_torch_tensor(file, t));
  return out;
}

}  // namespace

SafeTensors load_torch(const std::string& path, const TorchOptions& options) {
  check(options.tensors >= 0 && options.ratio >= 1, "load_torch: {} tensors, ratio {}",
        options.tensors, options.ratio);
  const RandomFile file(path);
  return reading(path, [&] {
    const std::string first = file.first_bytes(kFirstBytes);
    const FileKind kind = file_kind(first);
    if (kind != FileKind::torch_zip && kind != FileKind::zip) {
      const std::string foreign = detail::describe_foreign_file(path, first);
      fail(foreign.empty() ? "this is not a PyTorch file" : foreign);
    }
    const TorchArchive archive(file);
    const Pickle pickle(archive.read(*archive.find("data.pkl"), kMostPickle), allowed_globals(),
                        1000 + kContainersPerTensor * std::min(options.tensors, int64_t{1} << 27));
    const TorchState state(archive, pickle);
    return read_torch_dict(file, state, state.choose(options.member), options);
  });
}

}  // namespace tern
