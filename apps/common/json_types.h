// Types of a configuration's members, before they are read into numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tern::apps {

/// Error that names the member unless `given` has every member of `expected`, an object, with its
/// type: whole numbers are not cut off, and none wraps. `expected` may be any values of the types.
void check_types(const nlohmann::json& given, const nlohmann::json& expected);

}  // namespace tern::apps
