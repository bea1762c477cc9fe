// The stack machine of pickles, with the opcodes that PyTorch's state dicts need
// (https://github.com/python/cpython/blob/main/Lib/pickletools.py describes them).
#include "tern/core/io/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/printable.h"
#include "tern/core/base/utf8.h"

namespace tern::detail {
namespace {

constexpr size_t kDeepestStack = 1'000'000;  // Python writes at most 1,000 items of a dict at once
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

}  // namespace

class PickleReader {
 public:
  PickleReader(Pickle& out, int64_t most) : out_(out), bytes_(out.bytes_), most_(most) {}

  void run() {
    if (take_byte() != 0x80) fail_here("it does not begin with the opcode PROTO");
    const uint8_t protocol = take_byte();
    if (protocol < 2 || protocol > 5)
      fail_here(fmt::format("protocol {}; 2 to 5 can be read", protocol));
    while (true) {
      begin_ = at_;
      const auto opcode = static_cast<char>(take_byte());
      if (opcode == '.') break;
      if (!scalar(opcode) && !string(opcode) && !container(opcode) && !reference(opcode))
        fail_here(fmt::format("the opcode 0x{:02x} is none that a state dict needs",
                              static_cast<uint8_t>(opcode)));
      if (stack_.size() > kDeepestStack) fail_here("too many values on the stack");
    }
    out_.root_ = pop();
    if (!stack_.empty() || at_ != bytes_.size()) fail_here("values or bytes are left at the end");
  }

 private:
  using Kind = PickleValue::Kind;

  [[noreturn]] void fail_here(const std::string& what) const {
    fail(fmt::format("byte {} of the pickle: {}", begin_, what));
  }

  // Bytes of the pickle.

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      fail_here(fmt::format("needs {} more bytes, but {} are left", count, bytes_.size() - at_));
    at_ += count;
    return std::string_view(bytes_).substr(at_ - count, count);
  }
  template <class T>
  T take_number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint8_t take_byte() { return take_number<uint8_t>(); }
  std::string_view take_line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail_here("a name has no end");
    const std::string_view line = take(end - at_);
    ++at_;
    return line;
  }

  // The stack. Values below the last mark cannot be reached.

  void push(PickleValue value) { stack_.push_back(value); }
  void push(Kind kind, int64_t integer = 0) {
    PickleValue value;
    value.kind = kind;
    value.integer = integer;
    push(value);
  }
  PickleValue& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail_here("the stack is empty");
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> pop_many(size_t count) {
    std::vector<PickleValue> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }
  std::vector<PickleValue> pop_mark() {
    if (marks_.empty()) fail_here("there is no mark");
    std::vector<PickleValue> values(stack_.begin() + static_cast<int64_t>(marks_.back()),
                                    stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  void push_container(Kind kind, std::vector<PickleValue> items = {}) {
    if (std::ssize(out_.containers_) >= most_)
      fail_here(fmt::format("more than {} lists, dicts and tuples", most_));
    PickleValue value;
    value.kind = kind;
    value.index = static_cast<uint32_t>(out_.containers_.size());
    out_.containers_.push_back(std::move(items));
    push(value);
  }
  /// The items of the list or dict on top of the stack.
  std::vector<PickleValue>& items_of(Kind kind) {
    if (top().kind != kind) fail_here("adds items to a value of another kind");
    return out_.containers_[top().index];
  }
  void append(Kind kind, const std::vector<PickleValue>& items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail_here("a key has no value");
    std::vector<PickleValue>& to = items_of(kind);
    to.insert(to.end(), items.begin(), items.end());
  }

  // Opcodes. Each function returns false for those of the others.

  bool scalar(char opcode) {
    switch (opcode) {
      case 'N':
        push(Kind::none);
        return true;
      case '\x88':
      case '\x89':
        push(Kind::boolean, opcode == '\x88');
        return true;
      case 'J':
        push(Kind::integer, take_number<int32_t>());
        return true;
      case 'K':
        push(Kind::integer, take_byte());
        return true;
      case 'M':
        push(Kind::integer, take_number<uint16_t>());
        return true;
      case '\x8a':  // LONG1
        push_long(take(take_byte()));
        return true;
      case 'G': {  // a big-endian double
        auto bits = take_number<std::array<char, 8>>();
        std::reverse(bits.begin(), bits.end());
        PickleValue value;
        value.kind = Kind::real;
        value.real = std::bit_cast<double>(bits);
        push(value);
        return true;
      }
      default:
        return false;
    }
  }

  // Two's complement, little-endian.
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return push(Kind::large_integer);
    uint64_t value = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    push(Kind::integer, static_cast<int64_t>(value));
  }

  bool string(char opcode) {
    switch (opcode) {
      case 'X':
        push_string(Kind::text, take(take_number<uint32_t>()));
        return true;
      case '\x8c':
        push_string(Kind::text, take(take_byte()));
        return true;
      case '\x8d':
        push_string(Kind::text, take(take_number<uint64_t>()));
        return true;
      case 'B':
        push_string(Kind::bytes, take(take_number<uint32_t>()));
        return true;
      case 'C':
        push_string(Kind::bytes, take(take_byte()));
        return true;
      case '\x8e':
        push_string(Kind::bytes, take(take_number<uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  void push_string(Kind kind, std::string_view bytes) {
    if (kind == Kind::text && find_invalid_utf8(bytes)) fail_here("a text is not valid UTF-8");
    PickleValue value;
    value.kind = kind;
    value.span = {static_cast<uint32_t>(bytes.data() - bytes_.data()),
                  static_cast<uint32_t>(bytes.size())};
    push(value);
  }

  bool container(char opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        if (marks_.size() > kDeepestStack) fail_here("too many marks");
        return true;
      case ')':
        push_container(Kind::tuple);
        return true;
      case '\x85':
      case '\x86':
      case '\x87':
        push_container(Kind::tuple, pop_many(static_cast<size_t>(opcode - '\x84')));
        return true;
      case 't':
        push_container(Kind::tuple, pop_mark());
        return true;
      case ']':
        push_container(Kind::list);
        return true;
      case '}':
        push_container(Kind::dict);
        return true;
      case 'a':
        append(Kind::list, pop_many(1));
        return true;
      case 'e':
        append(Kind::list, pop_mark());
        return true;
      case 's':
        append(Kind::dict, pop_many(2));
        return true;
      case 'u':
        append(Kind::dict, pop_mark());
        return true;
      default:
        return false;
    }
  }

  bool reference(char opcode) {
    switch (opcode) {
      case 'q':
        keep(take_byte());
        return true;
      case 'r':
        keep(take_number<uint32_t>());
        return true;
      case '\x94':
        keep(memo_.size());
        return true;
      case 'h':
        push(kept(take_byte()));
        return true;
      case 'j':
        push(kept(take_number<uint32_t>()));
        return true;
      case 'c': {
        const std::string_view module = take_line();
        push_global(module, take_line());
        return true;
      }
      case '\x93': {
        const PickleValue name = pop(), module = pop();
        if (name.kind != Kind::text || module.kind != Kind::text)
          fail_here("the name of a global is not a text");
        push_global(out_.text(module), out_.text(name));
        return true;
      }
      case 'Q':
        push_container(Kind::persistent, pop_many(1));
        return true;
      case 'R':
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case '\x95':  // FRAME says how many bytes to read in advance
        if (take_number<uint64_t>() > bytes_.size() - at_) fail_here("a frame ends early");
        return true;
      default:
        return false;
    }
  }

  // Python numbers what it keeps from 0 on, so that the memo is never larger than the pickle.
  void keep(size_t number) {
    if (number > memo_.size())
      fail_here(fmt::format("keeps value {} after {} others", number, memo_.size()));
    const PickleValue value = top();
    if (number == memo_.size())
      memo_.push_back(value);
    else
      memo_[number] = value;
  }
  PickleValue kept(size_t number) const {
    if (number >= memo_.size())
      fail_here(fmt::format("value {} was not kept; there are {}", number, memo_.size()));
    return memo_[number];
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module.substr(0, 200), name.substr(0, 200));
    size_t index = 0;
    while (index < out_.globals_.size() && out_.globals_[index] != full) ++index;
    if (index == out_.globals_.size() && full != kOrderedDict)
      fail_here(
          fmt::format("it needs Python's {}, which is not part of a state dict of tensors; "
                      "nothing was executed. Save model.state_dict() alone",
                      printable(full)));
    PickleValue value;
    value.kind = Kind::global;
    value.index = static_cast<uint32_t>(index);
    push(value);
  }

  void reduce() {
    const PickleValue arguments = pop(), function = pop();
    if (function.kind != Kind::global || arguments.kind != Kind::tuple)
      fail_here("a call needs the name of a function and a tuple");
    if (function.index < out_.globals_.size())
      return push_container(Kind::object, {function, arguments});
    if (!out_.items(arguments).empty()) fail_here("an OrderedDict with arguments");
    push_container(Kind::dict);
  }

  // Sets attributes. A state dict has one, _metadata with the versions of modules. It is dropped.
  void build() {
    const PickleValue attributes = pop();
    if (attributes.kind != Kind::dict || top().kind != Kind::dict)
      fail_here("sets attributes of something that is not a dict");
  }

  Pickle& out_;
  const std::string& bytes_;
  int64_t most_;
  size_t at_ = 0, begin_ = 0;  // the position, and where the current opcode begins
  std::vector<PickleValue> stack_, memo_;
  std::vector<size_t> marks_;  // sizes of the stack
};

Pickle::Pickle(std::string bytes, const std::vector<std::string_view>& globals, int64_t most)
    : bytes_(std::move(bytes)), globals_(globals) {
  check(bytes_.size() <= UINT32_MAX && most <= UINT32_MAX, "a pickle of {} bytes is too large",
        bytes_.size());
  PickleReader(*this, most).run();
}

std::string_view Pickle::text(const PickleValue& value) const {
  if (value.kind == PickleValue::Kind::global)
    return value.index < globals_.size() ? globals_[value.index] : kOrderedDict;
  return std::string_view(bytes_).substr(value.span.at, value.span.size);
}

}  // namespace tern::detail
