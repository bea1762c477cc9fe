// Errors of module containers: invalid names, and a name that is missing.
#include "tern/nn/module_dict.h"

#include <fmt/format.h>

namespace tern::nn::detail {

void check_module_name(const char* container, const std::string& name) {
  check(!name.empty() && name.find('.') == name.npos,
        "{}: '{}' cannot be a name: a name must not be empty or contain a dot, which joins names",
        container, name);
}

void fail_no_module(const char* container, std::string_view name,
                    const std::vector<std::string>& names) {
  fail(fmt::format("{}: there is no '{}'; there are: {}", container, name, fmt::join(names, ", ")));
}

}  // namespace tern::nn::detail
