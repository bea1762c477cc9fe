// Runs Jinja templates as transformers does: its subset of Jinja that chat templates use.
// (https://jinja.palletsprojects.com/en/stable/templates). Inside of pretrained only.
//
//   const jinja::Template hello("{% for name in names %}Hello {{ name | trim }}!{% endfor %}");
//   hello.render({{"names", jinja::Value::list({std::string(" you ")})}}, now);
//
// Supported: if, for (with else, a condition, break and continue), set, macro, filter, raw and
// generation blocks; all operators; the filters, tests, methods and functions of
// jinja_builtins.cpp. Blocks for other templates (include, extends, block, call) are refused where
// they are read; unknown filters, tests and methods where they are run.
//
// A template is untrusted. It reaches only the values that it is given. It has at most 128 KiB. A
// run takes at most 2 million steps and makes at most 16 MiB of values, and more for long messages.
// Nesting is limited, too.
//
// Differences to jinja2: integers have 64 bits, keys of dicts are texts, tuples are lists, lower()
// and its kin refuse letters beyond ASCII, macros see only their arguments and the outermost names.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/pretrained/jinja_value.h"

namespace tern::pretrained::jinja {

/// The error of a template that calls raise_exception(); its text is what the template says.
class Raised : public Error {
 public:
  using Error::Error;
};

struct Body;

class Template {
 public:
  /// Error with the line: it is no valid template.
  explicit Template(std::string_view source);
  /// Fills the template. `now` is the time of strftime_now(). Error with the line, or Raised.
  /// Thread-safe.
  std::string render(const Members& names, const std::tm& now) const;

 private:
  std::shared_ptr<const Body> body_;
};

}  // namespace tern::pretrained::jinja
