// The parser of equations such as "b n d, m n -> b m d", which assigns a label to every axis and a
// size to every label; and the sizes and costs of sets of labels.
#include "tern/core/ops/einsum/einsum_equation.h"

#include <algorithm>
#include <optional>

namespace tern::detail {
namespace {

Label label_of(char c) { return c >= 'a' ? c - 'a' : 26 + (c - 'A'); }
char letter_of(Label l) { return static_cast<char>(l < 26 ? 'a' + l : 'A' + (l - 26)); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string readable(Label l) {
  return l < kEllipsis ? fmt::format("'{}'", letter_of(l)) : "'...'";
}

/// An operand or the output as written: labels in order, the ellipsis as kEllipsis.
struct Term {
  Labels labels;
  std::vector<size_t> positions;  ///< in the equation
  bool has_ellipsis() const { return std::count(labels.begin(), labels.end(), kEllipsis) > 0; }
};

class Parser {
 public:
  Parser(std::string_view text, const std::vector<Shape>& shapes) : text_(text), shapes_(shapes) {}

  EinsumEquation run() {
    read();
    if (terms_.size() != shapes_.size())
      error("has {} operands, but {} tensors are given", terms_.size(), shapes_.size());
    for (size_t i = 0; i < shapes_.size(); ++i) place(i);
    eq_.broadcast.assign(shapes_.size(), 0);
    for (size_t i = 0; i < shapes_.size(); ++i)
      for (size_t k = 0; k < eq_.inputs[i].size(); ++k)
        if (shapes_[i][static_cast<int>(k)] == 1 && size(eq_.inputs[i][k]) != 1)
          eq_.broadcast[i] |= bit(eq_.inputs[i][k]);
    output_ ? explicit_output() : implicit_output();
    return std::move(eq_);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> message, Args&&... args) const {
    fail(
        fmt::format("einsum: \"{}\" {}", text_, fmt::format(message, std::forward<Args>(args)...)));
  }

  int64_t& size(Label l) { return eq_.sizes[static_cast<size_t>(l)]; }

  void read() {
    Term term;
    auto finish = [&] {
      (output_ ? *output_ : terms_.emplace_back()) = std::move(term);
      term = {};
    };
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == ' ') continue;
      if (c == '.') {
        if (text_.substr(i, 3) != "...") error("has a '.' at position {} that is not a '...'", i);
        if (term.has_ellipsis()) error("has a second '...' in one operand at position {}", i);
        add(term, kEllipsis, i);
        i += 2;
      } else if (c == ',') {
        if (output_) error("has a ',' at position {} after the '->'", i);
        finish();
      } else if (c == '-') {
        if (text_.substr(i, 2) != "->") error("has a '-' at position {} that is not a '->'", i);
        if (output_) error("has a second '->' at position {}", i);
        finish();
        output_.emplace();
        ++i;
      } else if (is_letter(c)) {
        add(term, label_of(c), i);
      } else {
        error("has '{}' at position {}: indices are letters", c, i);
      }
    }
    finish();
  }

  static void add(Term& term, Label label, size_t position) {
    term.labels.push_back(label);
    term.positions.push_back(position);
  }

  // Assigns a label to every axis of operand i and a size to every label.
  void place(size_t i) {
    const Term& term = terms_[i];
    const Shape& shape = shapes_[i];
    const int letters = static_cast<int>(term.labels.size()) - (term.has_ellipsis() ? 1 : 0);
    const int rest = shape.size() - letters;
    if (rest < 0 || (rest > 0 && !term.has_ellipsis()))
      error("gives operand {} {} indices, but its shape is {}{}", i, letters, shape,
            rest > 0 ? "; '...' stands for further axes" : "");
    Labels labels;
    LabelSet own = 0;
    for (size_t k = 0; k < term.labels.size(); ++k) {
      if (term.labels[k] == kEllipsis) {
        for (int d = rest - 1; d >= 0; --d) labels.push_back(kEllipsis + d);
        ellipsis_ = std::max(ellipsis_, rest);
      } else {
        labels.push_back(term.labels[k]);
      }
    }
    for (size_t k = 0; k < labels.size(); ++k) {
      const int64_t n = shape[static_cast<int>(k)];
      const Label l = labels[k];
      int64_t& s = size(l);
      const bool again = (own & bit(l)) != 0;
      const int64_t first = again ? first_size(labels, shape, l) : n;
      if (again && first != n)
        error("repeats {} in operand {} of shape {}, where it has sizes {} and {}", readable(l), i,
              shape, first, n);
      const bool known = (seen_ & bit(l)) != 0;
      if (known && s != 1 && n != 1 && s != n)
        error("has {} with sizes {} and {} (operand {} of shape {})", readable(l), s, n, i, shape);
      if (!known || s == 1) s = n;
      seen_ |= bit(l);
      own |= bit(l);
    }
    eq_.inputs.push_back(std::move(labels));
  }

  static int64_t first_size(const Labels& labels, const Shape& shape, Label l) {
    auto at = std::find(labels.begin(), labels.end(), l) - labels.begin();
    return shape[static_cast<int>(at)];
  }

  void add_ellipsis() {
    for (int d = ellipsis_ - 1; d >= 0; --d) eq_.output.push_back(kEllipsis + d);
  }

  void explicit_output() {
    for (size_t k = 0; k < output_->labels.size(); ++k) {
      const Label l = output_->labels[k];
      if (l == kEllipsis) {
        add_ellipsis();
        continue;
      }
      const size_t position = output_->positions[k];
      if (!(seen_ & bit(l)))
        error("has {} at position {} of the output, but no operand has it", readable(l), position);
      if (std::count(output_->labels.begin(), output_->labels.end(), l) > 1)
        error("has {} twice in the output (position {})", readable(l), position);
      eq_.output.push_back(l);
    }
  }

  void implicit_output() {
    add_ellipsis();
    for (char c = 'A'; c <= 'z'; ++c) {
      if (!is_letter(c)) continue;
      int64_t times = 0;
      for (const Labels& labels : eq_.inputs)
        times += std::count(labels.begin(), labels.end(), label_of(c));
      if (times == 1) eq_.output.push_back(label_of(c));
    }
  }

  std::string_view text_;
  const std::vector<Shape>& shapes_;
  std::vector<Term> terms_;
  std::optional<Term> output_;
  EinsumEquation eq_;
  LabelSet seen_ = 0;
  int ellipsis_ = 0;  ///< the largest number of axes that it stands for
};

}  // namespace

LabelSet set_of(const Labels& labels) {
  LabelSet s = 0;
  for (Label l : labels) s |= bit(l);
  return s;
}

double EinsumEquation::size_of(LabelSet labels) const {
  double n = 1;
  for (Label l = 0; l < 64; ++l)
    if (labels & bit(l)) n *= static_cast<double>(sizes[static_cast<size_t>(l)]);
  return n;
}

LabelSet EinsumEquation::reduced(size_t i) const {
  LabelSet elsewhere = set_of(output);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (k != i) elsewhere |= set_of(inputs[k]) & ~broadcast[k];
  return set_of(inputs[i]) & ~broadcast[i] & elsewhere;
}

double EinsumEquation::flops(LabelSet a, LabelSet b, LabelSet keep) const {
  const LabelSet all = a | b;
  return size_of(all) * ((all & ~keep) != 0 ? 2 : 1);
}

EinsumEquation parse_einsum(std::string_view equation, const std::vector<Shape>& shapes) {
  check(!shapes.empty(), "einsum: \"{}\" needs at least one operand", equation);
  return Parser(equation, shapes).run();
}

std::string to_string(const std::vector<Labels>& inputs, const Labels& output) {
  std::string text;
  auto add = [&](const Labels& labels) {
    bool dots = false;
    for (Label l : labels) {
      if (l < kEllipsis) text += letter_of(l);
      if (l >= kEllipsis && !dots) text += "...";
      dots |= l >= kEllipsis;
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) text += ',';
    add(inputs[i]);
  }
  text += "->";
  add(output);
  return text;
}

}  // namespace tern::detail
