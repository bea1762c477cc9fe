#include "tern/apps/common/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tern/core/base/error.h"

namespace tern::apps {

template <class T>
CLI::Option* add_number(CLI::App& app, const char* name, T& value, const char* text,
                        const Bounds& bounds) {
  auto rule = [bounds](std::string& given) -> std::string {
    double v = 0;
    bool inside = CLI::detail::lexical_cast(given, v) && v <= bounds.high &&
                  (bounds.open ? v > bounds.low : v >= bounds.low);
    if (inside) return "";
    return fmt::format("must be {} {:g} and at most {:g}, got '{}'",
                       bounds.open ? "above" : "at least", bounds.low, bounds.high, given);
  };
  return app.add_option(name, value, text)
      ->type_name(std::is_integral_v<T> ? "N" : "X")
      ->check(CLI::Validator(rule, ""));
}

template CLI::Option* add_number(CLI::App&, const char*, double&, const char*, const Bounds&);
template CLI::Option* add_number(CLI::App&, const char*, int&, const char*, const Bounds&);
template CLI::Option* add_number(CLI::App&, const char*, int64_t&, const char*, const Bounds&);
template CLI::Option* add_number(CLI::App&, const char*, uint64_t&, const char*, const Bounds&);

CLI::Option* add_choice(CLI::App& app, const char* name, std::string& value, const char* text,
                        const std::vector<std::string>& choices) {
  return app.add_option(name, value, text)
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->check(CLI::IsMember(choices).description(""));
}

void add_precision(CLI::App& app, std::string& precision) {
  add_choice(
      app, "--precision", precision,
      "of matrix products: bf16 rounds what goes into them, for processors with AMX or AVX512_BF16",
      {"f32", "bf16"});
}

bool parse_flags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    fail(fmt::format("{} (see --help)", e.what()));
  }
  return true;
}

void check_flags_beside(const CLI::App& app, const std::string& flag,
                        const std::vector<std::string>& allowed, const std::string& why) {
  for (const CLI::Option* other : app.get_options()) {
    std::string name = other->get_name();
    bool free = name == flag || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
    check(other->count() == 0 || free, "{} cannot be given with {}: {}", name, flag, why);
  }
}

void check_resume_flags(const CLI::App& app, const std::vector<std::string>& allowed) {
  check_flags_beside(app, "--resume", allowed, "the run goes on as it was started");
}

}  // namespace tern::apps
