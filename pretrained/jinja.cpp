// Reads the statements of a template by the grammar of jinja2/parser.py, and runs it.
#include "tern/pretrained/jinja.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>

#include "tern/pretrained/jinja_expressions.h"
#include "tern/pretrained/jinja_lexer.h"
#include "tern/pretrained/jinja_run.h"

namespace tern::pretrained::jinja {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kMostSource = 128 << 10;
constexpr int kMostBlocks = 50;  // in each other
constexpr int64_t kMostSteps = 2'000'000, kMostBytes = int64_t{16} << 20;

/// Gives names their values: one, or the elements of a list for several.
void assign(Run& run, const Names& names, const Value& value) {
  if (names.size() == 1) {
    run.scope->names.insert_or_assign(names[0], value);
    return;
  }
  const Items items = items_of(run.budget, value);
  check(items.size() == names.size(), "{} values for {} names", items.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) run.scope->names.insert_or_assign(names[i], items[i]);
}

/// The variable `loop` for element i.
Value loop_state(Run& run, const Items& items, size_t i) {
  const auto at = static_cast<int64_t>(i), size = std::ssize(items);
  Entries state;
  auto add = [&](const char* name, Value value) {
    state.emplace_back(std::string(name), std::move(value));
  };
  add("index", at + 1);
  add("index0", at);
  add("revindex", size - at);
  add("revindex0", size - at - 1);
  add("first", at == 0);
  add("last", at == size - 1);
  add("length", size);
  if (i > 0) add("previtem", items[i - 1]);
  if (i + 1 < items.size()) add("nextitem", items[i + 1]);
  return Value::dict(run.budget, std::move(state));
}

struct Loop {
  Names names;
  Expression over, condition;
  Body body, otherwise;

  Flow operator()(Run& run) const {
    Items items = items_of(run.budget, over(run));
    if (condition)
      std::erase_if(items, [&](const Value& item) {
        return run.inside(*run.scope, [&] {
          assign(run, names, item);
          return !condition(run).truth();
        });
      });
    bool finished = false;  // as in jinja2, `else` runs if every turn ended by break or continue
    for (size_t i = 0; i < items.size(); ++i) {
      const Flow flow = run.inside(*run.scope, [&] {
        run.scope->names.insert_or_assign("loop", loop_state(run, items, i));
        assign(run, names, items[i]);
        return body(run);
      });
      if (flow == Flow::break_loop) break;
      finished = finished || flow == Flow::normal;
    }
    return finished ? Flow::normal : otherwise(run);
  }
};

class Parser : ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(cut_template(source)) {}

  Body whole() {
    Body body = parse_body({});
    if (!is_end()) fail_here();
    return body;
  }

 private:
  /// Statements until a tag with one of these names, which stays.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    if (++blocks_ > kMostBlocks)
      fail_at(token().line, fmt::format("more than {} blocks in each other", kMostBlocks));
    Body body;
    while (!is_end()) {
      operators_ = 0;
      const Token& t = token();
      if (t.kind == Kind::text) {
        body.statements.push_back([text = t.text](Run& run) {
          run.budget.append(run.out, text);
          return Flow::normal;
        });
        ++at_;
        continue;
      }
      if (t.kind == Kind::tag && tokens_[at_ + 1].kind == Kind::name &&
          std::find(ends.begin(), ends.end(), tokens_[at_ + 1].text) != ends.end())
        break;
      ++at_;
      Statement statement = t.kind == Kind::print ? parse_print() : parse_statement(expect_name());
      body.statements.push_back([statement = std::move(statement), line = t.line](Run& run) {
        run.line = line;
        return statement(run);
      });
    }
    --blocks_;
    return body;
  }
  Body parse_body_to(std::string_view end) {
    Body body = parse_body({end});
    end_block(end);
    return body;
  }
  void end_block(std::string_view end) {
    if (is_end()) fail_here(fmt::format("'{}'", end));
    ++at_;
    if (!take_word(end)) fail_here(fmt::format("'{}'", end));
    close();
  }

  Statement parse_print() {
    Expression e = parse_tuple();
    close();
    return [e = std::move(e)](Run& run) {
      const Value value = e(run);
      run.budget.append(run.out, value.text() ? *value.text() : to_text(run.budget, value));
      return Flow::normal;
    };
  }

  Statement parse_statement(const std::string& name) {
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "filter") return parse_filter_block();
    if (name == "generation") {  // marks the answers of a model, for training
      close();
      Body body = parse_body_to("endgeneration");
      return [body = std::move(body)](Run& run) {
        run.budget.append(run.out, body.text(run));
        return Flow::normal;
      };
    }
    if (loops_ > 0 && (name == "break" || name == "continue")) {
      close();
      return [flow = name == "break" ? Flow::break_loop : Flow::next_turn](Run&) { return flow; };
    }
    --at_;
    fail_at(token().line, fmt::format("unexpected or unsupported tag '{}'", name));
  }

  Statement parse_if() {
    std::vector<std::pair<Expression, Body>> branches;
    for (bool more = true; more;) {
      Expression condition = parse_expression();
      close();
      branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
      more = is(Kind::name, "elif", 1);
      if (more) at_ += 2;
    }
    Body otherwise;
    if (is(Kind::name, "else", 1)) {
      at_ += 2;
      close();
      otherwise = parse_body({"endif"});
    }
    end_block("endif");
    return [branches = std::move(branches), otherwise = std::move(otherwise)](Run& run) {
      for (const auto& [condition, body] : branches)
        if (condition(run).truth()) return body(run);
      return otherwise(run);
    };
  }

  Statement parse_for() {
    Loop loop;
    do loop.names.push_back(expect_name());
    while (take_symbol(","));
    if (!take_word("in")) fail_here("'in'");
    loop.over = parse_tuple(false);
    if (take_word("if")) loop.condition = parse_expression();
    close();
    ++loops_;
    loop.body = parse_body({"else", "endfor"});
    --loops_;
    if (is(Kind::name, "else", 1)) {
      at_ += 2;
      close();
      loop.otherwise = parse_body({"endfor"});
    }
    end_block("endfor");
    return loop;
  }

  Statement parse_set() {
    Names names = {expect_name()};
    std::string member;
    if (take_symbol(".")) member = expect_name();
    while (member.empty() && take_symbol(",")) names.push_back(expect_name());
    Expression value;
    if (take_symbol("=")) {
      value = parse_tuple();
      close();
    } else {
      value = parse_captured("endset");
    }
    if (member.empty())
      return [names = std::move(names), value = std::move(value)](Run& run) {
        assign(run, names, value(run));
        return Flow::normal;
      };
    return [name = names[0], member, value = std::move(value)](Run& run) {
      const Value space = run.look_up(name);
      check(space.defined().names() != nullptr, "'{}' is no namespace", name);
      Value stored = value(run);
      check(!stored.names(), "a namespace cannot be stored in another");
      run.budget.take(sizeof(Value));
      space.names()->names.insert_or_assign(member, std::move(stored));
      return Flow::normal;
    };
  }

  Statement parse_filter_block() {
    --at_;  // the chain of filters begins as if '|' stood before it
    tokens_[at_] = {Kind::symbol, "|", token().line};
    Expression text = parse_captured("endfilter");
    return [text = std::move(text)](Run& run) {
      run.budget.append(run.out, *text(run).defined().text());
      return Flow::normal;
    };
  }

  /// The text of a block, after the filters that its tag names.
  Expression parse_captured(std::string_view end) {
    auto body = std::make_shared<Body>();
    Expression text = Expression([body](Run& run) -> Value { return body->text(run); });
    const bool filtered = is_symbol("|");
    while (take_symbol("|")) text = parse_filter(std::move(text));
    if (filtered)
      text = Expression(
          [text = std::move(text)](Run& run) -> Value { return to_text(run.budget, text(run)); });
    close();
    *body = parse_body_to(end);
    return text;
  }

  Statement parse_macro() {
    auto macro = std::make_shared<Macro>();
    macro->name = expect_name();
    expect_symbol("(");
    while (!take_symbol(")")) {
      if (!macro->parameters.empty()) expect_symbol(",");
      const std::string name = expect_name();
      macro->parameters.emplace_back(name, take_symbol("=") ? parse_expression() : Expression());
    }
    close();
    const int loops = std::exchange(loops_, 0);
    macro->body = parse_body_to("endmacro");
    loops_ = loops;
    return [macro = std::shared_ptr<const Macro>(macro)](Run& run) {
      run.scope->names.insert_or_assign(macro->name, macro);
      return Flow::normal;
    };
  }

  int blocks_ = 0, loops_ = 0;
};

int64_t size_of(const Value& value) {
  int64_t size = sizeof(Value);
  if (value.text()) size += std::ssize(*value.text());
  if (value.list())
    for (const Value& item : *value.list()) size += size_of(item);
  if (value.dict())
    for (const auto& [name, member] : *value.dict()) size += size_of(member);
  return size;
}

}  // namespace

Template::Template(std::string_view source) {
  check(source.size() <= kMostSource, "a chat template of {} bytes is longer than {}",
        source.size(), kMostSource);
  body_ = std::make_shared<const Body>(Parser(source).whole());
}

std::string Template::render(const Members& names, const std::tm& now) const {
  int64_t given = 0;
  for (const auto& [name, value] : names) given += size_of(value);
  Run run{{kMostSteps + 4 * given, kMostBytes + 16 * given}, now};
  for (const auto& [name, value] : names) run.root.names.insert_or_assign(name, value);
  try {
    (*body_)(run);
  } catch (const Raised&) {
    throw;
  } catch (const Error& e) {
    fail_at(run.line, e.what());
  }
  return std::move(run.out);
}

}  // namespace tern::pretrained::jinja
