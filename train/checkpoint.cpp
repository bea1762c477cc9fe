// Writes and reads checkpoint files with their version and checksum, and collects and restores the
// parts of a Checkpoint by name.
#include "tern/train/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/train/detail/run_settings.h"

namespace tern::training {
namespace {

constexpr const char* kVersionKey = "tern_checkpoint";
const std::string kVersion = "2";
constexpr const char* kChecksum = "checksum";
constexpr const char* kParts = "parts";

uint32_t add_bytes(uint32_t crc, const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), size));
}

uint32_t add_text(uint32_t crc, const std::string& text) {
  uint64_t size = text.size();
  return add_bytes(add_bytes(crc, &size, sizeof size), text.data(), text.size());
}

// A CRC-32 over the names, types, shapes and bytes of all tensors and over all metadata but the
// checksum itself.
std::string checksum(const SafeTensors& content) {
  uint32_t crc = 0;
  for (const auto& [key, value] : content.metadata)
    if (key != kChecksum) crc = add_text(add_text(crc, key), value);
  for (const auto& [name, t] : content.tensors) {
    crc = add_text(crc, fmt::format("{} {} {}", name, t.dtype(), t.shape()));
    Tensor c = t.contiguous();
    dispatch(c.dtype(), [&]<class T>() {
      if (c.numel() > 0)  // with a null address zlib would restart the CRC
        crc = add_bytes(crc, c.data<T>(), static_cast<size_t>(c.numel()) * sizeof(T));
    });
  }
  return fmt::format("{:08x}", crc);
}

// The tensors called "part" and "part.more", renamed to "" and "more".
NamedTensors tensors_of(const std::string& part, const SafeTensors& content) {
  NamedTensors out;
  for (const auto& [name, t] : content.tensors) {
    if (name == part) out.emplace_back("", t);
    if (name.starts_with(part) && name.size() > part.size() && name[part.size()] == '.')
      out.emplace_back(name.substr(part.size() + 1), t);
  }
  return out;
}

const Tensor& only_tensor(const NamedTensors& state, DType dtype, int axes) {
  check(state.size() == 1, "it has {} tensors instead of one", state.size());
  const Tensor& t = state[0].second;
  check(t.dtype() == dtype && t.ndim() == axes, "it is a {} of shape {} instead of a {} of {} axes",
        t.dtype(), t.shape(), dtype, axes);
  return t;
}

template <class T, class Value>
void add_scalar(Checkpoint& to, const std::string& name, Value& value) {
  to.add(
      name,
      [&value] {
        return NamedTensors{{"", scalar(static_cast<T>(value), dtype_of<T>)}};
      },
      [&value](const NamedTensors& s) {
        value = static_cast<Value>(only_tensor(s, dtype_of<T>, 0).template item<T>());
      });
}

template <class T>
void add_list(Checkpoint& to, const std::string& name, std::vector<T>& list) {
  to.add(
      name,
      [&list] {
        return NamedTensors{{"", tensor(list, {std::ssize(list)})}};
      },
      [&list](const NamedTensors& s) {
        list = only_tensor(s, dtype_of<T>, 1).template to_vector<T>();
      });
}

// An EmaScope lends the model the averages in place of its weights.
NamedTensors own_weights(const std::string& part, const nn::ModuleRef& module) {
  NamedTensors weights = nn::state_dict(module);
  for (const auto& [name, t] : weights)
    check(!t.ref()->storage->lent(),
          "Checkpoint: '{}' of '{}' holds averaged weights at the moment, and a run that resumes "
          "from them would train them; save after the EmaScope has ended (or after Ema::swap)",
          name, part);
  return weights;
}

}  // namespace

void save_checkpoint(const std::string& path, SafeTensors content) {
  content.metadata[kVersionKey] = kVersion;
  content.metadata[kChecksum] = checksum(content);
  save_safetensors(path, content);
}

SafeTensors load_checkpoint(const std::string& path) {
  SafeTensors content = load_safetensors(path);
  const auto version = content.metadata.find(kVersionKey);
  check_io(version != content.metadata.end() || !content.metadata.count(kChecksum),
           "{}: this is a checkpoint of an older tern, which this version cannot resume; its "
           "weights are in the file model.safetensors beside it",
           path);
  check_io(version != content.metadata.end(), "{}: not a checkpoint: it has no '{}'", path,
           kVersionKey);
  check_io(version->second == kVersion,
           "{}: this is a checkpoint of version {}; this tern reads version {}", path,
           version->second, kVersion);
  const std::string stored = checkpoint_text(content, kChecksum, path);
  std::string now = checksum(content);
  check_io(stored == now, "{}: the checkpoint is damaged: its checksum is {}, but {} was written",
           path, now, stored);
  return content;
}

const std::string& checkpoint_text(const SafeTensors& content, const std::string& name,
                                   const std::string& path) {
  auto it = content.metadata.find(name);
  check_io(it != content.metadata.end(), "{}: not a checkpoint of this program: it has no '{}'",
           path, name);
  return it->second;
}

void Checkpoint::add_part(Part part) {
  bool free = part.name != kVersionKey && part.name != kChecksum && part.name != kParts;
  check(free && !part.name.empty() && part.name.find_first_of(".,") == std::string::npos,
        "Checkpoint: a part cannot be called '{}'; take a name without dots and commas", part.name);
  for (const Part& other : parts_)
    check(other.name != part.name, "Checkpoint: there is a part '{}' already", part.name);
  parts_.push_back(std::move(part));
}

void Checkpoint::add(const std::string& name, std::function<NamedTensors()> save,
                     std::function<void(const NamedTensors&)> load) {
  auto take = [save = std::move(save)](const std::string& part, SafeTensors& to) {
    for (auto& [more, t] : save())
      to.tensors.emplace_back(more.empty() ? part : fmt::format("{}.{}", part, more), t);
  };
  auto put = [load = std::move(load)](const std::string& part, const SafeTensors& from,
                                      const std::string& path) {
    try {
      load(tensors_of(part, from));
    } catch (const Error& e) {
      fail_io(fmt::format("{}: its '{}' does not fit: {}", path, part, e.what()));
    }
  };
  add_part({name, take, put});
}

void Checkpoint::add_text(const std::string& name, std::function<std::string()> save,
                          std::function<void(const std::string&)> load) {
  auto take = [save = std::move(save)](const std::string& part, SafeTensors& to) {
    to.metadata[part] = save();
  };
  auto put = [load = std::move(load)](const std::string& part, const SafeTensors& from,
                                      const std::string& path) {
    const std::string& text = checkpoint_text(from, part, path);
    try {
      load(text);
    } catch (const Error& e) {
      fail_io(fmt::format("{}: its '{}' does not fit: {}", path, part, e.what()));
    }
  };
  add_part({name, take, put});
}

void Checkpoint::add_settings(const std::string& name, std::function<std::string()> save,
                              std::function<std::vector<std::string>(const std::string&)> load) {
  add_text(name, std::move(save),
           [load = std::move(load), notes = notes_](const std::string& text) {
             for (std::string& note : load(text)) notes->push_back(std::move(note));
           });
  parts_.back().may_be_missing = true;
}

void Checkpoint::expect(const std::string& name, const std::string& value) {
  auto put = [value](const std::string& part, const SafeTensors& from, const std::string& path) {
    const std::string& stored = checkpoint_text(from, part, path);
    check_io(stored == value, "{}: the run was started with other {}: {}, not {}", path, part,
             stored, value);
  };
  add_part({name, [value](const std::string& part, SafeTensors& to) { to.metadata[part] = value; },
            put});
  // Expected texts come first, so that they are compared before any part is loaded.
  std::rotate(parts_.begin(), parts_.end() - 1, parts_.end());
}

SafeTensors Checkpoint::state() const {
  SafeTensors out;
  std::string names;
  for (const Part& part : parts_) {
    part.save(part.name, out);
    names += fmt::format("{}{}", names.empty() ? "" : ",", part.name);
  }
  out.metadata[kParts] = names;
  return out;
}

void Checkpoint::load_state(const SafeTensors& state, const std::string& path) const {
  const std::string& listed = checkpoint_text(state, kParts, path);
  const std::string names = fmt::format(",{},", listed);
  const auto has = [&](const Part& part) {
    return names.find(fmt::format(",{},", part.name)) != std::string::npos;
  };
  size_t known = 1;
  for (const Part& part : parts_) {
    check_io(has(part) || part.may_be_missing, "{}: the checkpoint has no '{}'; it has {}", path,
             part.name, listed);
    if (has(part)) known += part.name.size() + 1;
  }
  check_io(known == names.size() || parts_.empty(),
           "{}: the checkpoint has parts that this program does not know: it has {}", path, listed);
  notes_->clear();
  for (const Part& part : parts_)
    if (has(part)) part.load(part.name, state, path);
}

std::function<void()> Checkpoint::remember() const {
  std::vector<std::function<void()>> all;
  for (const Part& part : parts_)
    if (part.remember) all.push_back(part.remember());
  return [all = std::move(all)] {
    for (const auto& restore : all) restore();
  };
}

void Checkpoint::save(const std::string& path) const { save_checkpoint(path, state()); }

void Checkpoint::load(const std::string& path) const { load_state(load_checkpoint(path), path); }

void Checkpoint::add_module(const std::string& name, const nn::ModuleRef& module) {
  add(
      name, [name, module] { return own_weights(name, module); },
      [module](const NamedTensors& state) mutable { nn::load_state_dict(module, state); });
  add(
      name + "_generators", [module] { return nn::generator_state(module); },
      [module](const NamedTensors& state) mutable { nn::load_generator_state(module, state); });
  parts_.back().remember = [module] {
    return [module, state = nn::generator_state(module)]() mutable {
      nn::load_generator_state(module, state);
    };
  };
}

void Checkpoint::add_optimizer(const std::string& name, optim::Optimizer& optimizer) {
  add_settings(
      name + "_settings", [&optimizer] { return settings_to_json(optimizer); },
      [&optimizer](const std::string& text) { return load_settings(optimizer, text); });
  add(
      name, [&optimizer] { return optimizer.state_dict(); },
      [&optimizer](const NamedTensors& state) { optimizer.load_state_dict(state); });
}

void Checkpoint::add_value(const std::string& name, int64_t& value) {
  add_scalar<int64_t>(*this, name, value);
}
void Checkpoint::add_value(const std::string& name, double& value) {
  add_scalar<double>(*this, name, value);
}
void Checkpoint::add_value(const std::string& name, bool& value) {
  add_scalar<uint8_t>(*this, name, value);
}
void Checkpoint::add_value(const std::string& name, std::string& value) {
  add_text(
      name, [&value] { return value; }, [&value](const std::string& text) { value = text; });
}
void Checkpoint::add_value(const std::string& name, std::vector<int64_t>& value) {
  add_list(*this, name, value);
}
void Checkpoint::add_value(const std::string& name, std::vector<double>& value) {
  add_list(*this, name, value);
}

void Checkpoint::add_value(const std::string& name, Rng& value) {
  auto save = [&value] {
    auto [key, position] = value.state();
    std::vector<int64_t> words = {static_cast<int64_t>(key), static_cast<int64_t>(position)};
    return NamedTensors{{"", tensor(words, {2})}};
  };
  add(name, save, [&value](const NamedTensors& state) {
    const auto words = only_tensor(state, DType::i64, 1).to_vector<int64_t>();
    check(words.size() == 2, "a generator has 2 words, not {}", words.size());
    value = Rng(Rng::State{static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1])});
  });
}

void Checkpoint::add_value(const std::string& name, Tensor& value) {
  add(
      name,
      [&value] {
        return NamedTensors{{"", value.detach()}};
      },
      [&value](const NamedTensors& state) {
        tern::load_state("load", {{"", value.detach()}}, state);
      });
}

}  // namespace tern::training
