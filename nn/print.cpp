// Draws the tree of modules as text: indents nested modules, folds equal layers of a list into one
// line, and counts parameters.
#include "tern/nn/print.h"

#include <cxxabi.h>

#include <cstdlib>
#include <map>

namespace tern::nn::detail {

std::string with_commas(int64_t n) {
  const std::string digits = std::to_string(n);
  std::string s;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) s += ',';
    s += digits[i];
  }
  return s;
}

std::string short_name(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? text.get() : type.name();
  // The name begins after the last "::" outside of brackets: "(anonymous namespace)::A<b::C>" gives
  // A.
  size_t start = 0, end = name.size();
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' && depth == 0) end = i;
    depth += name[i] == '<' || name[i] == '(';
    depth -= name[i] == '>' || name[i] == ')';
    if (depth > 0 || name.compare(i, 2, "::") != 0) continue;
    start = i + 2;
    end = name.size();
  }
  return name.substr(start, end - start);
}

namespace {

std::string indented(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

// "blocks." and 3 for "blocks.3"; -1 if the name does not end in a number.
std::pair<std::string, int64_t> split_number(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || name.size() - digits > 9) return {name, -1};
  return {name.substr(0, digits), std::stoll(name.substr(digits))};
}

struct Text {
  std::string body;  ///< "Linear(weight (64, 2))"
  int64_t parameters = 0;
  std::string counted() const { return parameters ? body + " " + with_commas(parameters) : body; }
};

/// Consecutive modules of a list that look the same.
struct Run {
  std::string list;  ///< "blocks."
  int64_t first, count;
  Text text;

  std::string line() const {
    const std::string name = first < 0 ? list : list + std::to_string(first);
    if (count == 1) return fmt::format("({}): {}", name, text.counted());
    return fmt::format("({}-{}): {} x {}{}", name, first + count - 1, count, text.counted(),
                       text.parameters ? " each" : "");
  }
};

class Printer {
 public:
  explicit Printer(const Slots& fields) {
    for (const Slot& slot : fields)
      std::visit(
          [&](auto* field) {
            if constexpr (std::is_convertible_v<decltype(field), const OwnedTensor*>)
              first_name_.try_emplace(field, slot.name);
          },
          slot.field);
  }

  std::string print(const Outline& model) {
    const Text t = describe(model, "");
    std::string s = fmt::format("{} {} parameter{}", t.body, with_commas(t.parameters),
                                t.parameters == 1 ? "" : "s");
    if (frozen_) s += fmt::format(", {} of them frozen", with_commas(frozen_));
    if (buffers_) s += fmt::format(", {} in buffers", with_commas(buffers_));
    return s;
  }

 private:
  // `path`: the names of the parents with dots, "encoder.layers.0.".
  Text describe(const Outline& module, const std::string& path) {
    Text out{short_name(*module.type) + "("};
    std::string tensors;
    for (const Outline::Field& f : module.tensors)
      tensors += (tensors.empty() ? "" : ", ") + tensor(f, path, out.parameters);
    if (module.held) tensors += tensors.empty() ? "in evaluation" : ", in evaluation";
    std::vector<Run> runs;
    for (const Outline& m : module.modules) {
      const Text text = describe(m, path + m.name + ".");
      out.parameters += text.parameters;
      auto [list, number] = split_number(m.name);
      Run* last = runs.empty() ? nullptr : &runs.back();
      if (last && number > 0 && last->list == list && last->first + last->count == number &&
          last->text.body == text.body)
        ++last->count;
      else
        runs.push_back({list, number, 1, text});
    }
    if (runs.empty()) {
      out.body += tensors + ")";
      return out;
    }
    if (!tensors.empty()) out.body += "\n  " + tensors;
    for (const Run& run : runs) out.body += indented('\n' + run.line());
    out.body += "\n)";
    return out;
  }

  std::string tensor(const Outline::Field& f, const std::string& path, int64_t& parameters) {
    const std::string& first = first_name_.at(f.tensor);
    if (first != path + f.name) return fmt::format("{} = {}", f.name, first);
    const int64_t n = f.tensor->numel();
    std::string s = fmt::format("{} {}", f.name, f.tensor->shape());
    if (f.tensor->dtype() != DType::f32) s += fmt::format(" {}", f.tensor->dtype());
    if (f.is_buffer) {
      buffers_ += n;
      return s + " buffer";
    }
    parameters += n;
    if (f.tensor->tensor().requires_grad()) return s;
    frozen_ += n;
    return s + " frozen";
  }

  // The walk's, as in files: a module prints its own tensors before those of its modules.
  std::map<const OwnedTensor*, std::string> first_name_;
  int64_t frozen_ = 0, buffers_ = 0;
};

}  // namespace

std::string to_string(const Outline& model, const Slots& fields) {
  return Printer(fields).print(model);
}

}  // namespace tern::nn::detail
