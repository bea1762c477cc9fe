// Parses the header of a safetensors file with a SAX handler, which accepts only the form that the
// format allows, and formats headers.
#include "tern/core/io/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

namespace tern::detail {
namespace {

using nlohmann::json;

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"a": "b"}}
// Handlers return false to stop the parser, with the reason in error_.
class Handler {
 public:
  Handler(std::string_view text, SafeTensorsHeader& out, std::string& error, int64_t most)
      : text_(text), out_(out), error_(error), most_(most) {}

  bool start_object(std::size_t) {
    if (depth_ == 2) return stop("unexpected object");
    if (++depth_ == 2) fields_.clear();
    return true;
  }

  bool end_object() {
    --depth_;
    if (depth_ == 0 || metadata_) return true;
    if (fields_.size() != 3) return stop("it needs dtype, shape and data_offsets");
    if (out_.entries.back().offsets.size() != 2) return stop("data_offsets needs two numbers");
    return true;
  }

  bool key(std::string& key) {
    if (depth_ == 1) {
      if (!names_.insert(key).second) return stop("the name appears twice: " + key);
      metadata_ = key == "__metadata__";
      if (!metadata_ && std::ssize(out_.entries) == most_) {
        error_ = fmt::format("more than {} tensors; SafeTensorsLimits can allow more", most_);
        return false;
      }
      if (!metadata_) out_.entries.push_back({key, {}, {}, {}});
      return true;
    }
    key_ = key;
    if (metadata_)
      return out_.metadata.emplace(key, "").second || stop("the key appears twice: " + key);
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return stop("unknown key: " + key);
    return fields_.insert(key).second || stop("the key appears twice: " + key);
  }

  bool string(std::string& value) {
    if (depth_ == 2 && metadata_) {
      out_.metadata[key_] = value;
      return true;
    }
    if (depth_ != 2 || list_ || key_ != "dtype") return stop("unexpected string");
    out_.entries.back().dtype = value;
    return true;
  }

  bool start_array(std::size_t) {
    bool belongs = depth_ == 2 && !metadata_ && !list_ && key_ != "dtype";
    if (!belongs) return stop("unexpected list");
    SafeTensorsEntry& entry = out_.entries.back();
    list_ = key_ == "shape" ? &entry.shape : &entry.offsets;
    return true;
  }

  bool end_array() {
    list_ = nullptr;
    return true;
  }

  bool number_unsigned(uint64_t value) {
    if (!list_) return stop("unexpected number");
    if (value > static_cast<uint64_t>(INT64_MAX)) return stop("a number is too large");
    if (list_->size() == static_cast<size_t>(kMaxDims)) return stop("a list is too long");
    list_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t) { return stop("a negative number"); }
  bool number_float(double, const std::string&) { return stop("a number that is not an integer"); }
  bool boolean(bool) { return stop("unexpected boolean"); }
  bool null() { return stop("unexpected null"); }
  bool binary(json::binary_t&) { return stop("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) {
    error_ = "the header is " + json_fault(text_, position, e.what());
    return false;
  }

 private:
  bool stop(const std::string& reason) {
    std::string where;
    if (!out_.entries.empty() && !metadata_)
      where = fmt::format("tensor '{:.80}': ", out_.entries.back().name);
    error_ = fmt::format("the header is wrong: {}{:.160}", where, reason);
    return false;
  }

  std::string_view text_;
  SafeTensorsHeader& out_;
  std::string& error_;
  int64_t most_;                          // the limit on tensors
  int depth_ = 0;                         // number of enclosing objects
  bool metadata_ = false;                 // inside __metadata__
  std::vector<int64_t>* list_ = nullptr;  // the list being read
  std::string key_;
  std::unordered_set<std::string> names_, fields_;
};

}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view text, std::string& error,
                                           int64_t most) {
  SafeTensorsHeader header;
  error.clear();
  // The format wants '{' as the first byte: no byte order mark, no leading blanks.
  if (text.empty() || text.front() != '{') {
    error = "the header does not start with '{'";
    return header;
  }
  if (const size_t zero = text.find('\0'); zero != text.npos) {  // the parser would stop there
    error = fmt::format("the header is {}", json_fault(text, zero + 1, "a zero byte"));
    return header;
  }
  Handler handler(text, header, error, most);
  bool ok = json::sax_parse(text, &handler);
  if (!ok && error.empty()) error = "the header is not valid JSON";
  return header;
}

std::string format_safetensors_header(const SafeTensorsHeader& header) {
  // The library quotes strings and refuses invalid UTF-8.
  auto quote = [](const std::string& s) {
    try {
      return json(s).dump();
    } catch (const json::exception&) {
      fail(fmt::format("save_safetensors: a name or metadata is not UTF-8: {}", s));
    }
  };
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      if (out.back() != '{') out += ',';
      out += quote(key) + ':' + quote(value);
    }
    out += '}';
  }
  for (const SafeTensorsEntry& e : header.entries) {
    if (out.size() > 1) out += ',';
    out += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":{}}})", quote(e.name),
                       e.dtype, json(e.shape).dump(), json(e.offsets).dump());
  }
  out += '}';
  while ((8 + out.size()) % 8 != 0) out += ' ';
  return out;
}

}  // namespace tern::detail
