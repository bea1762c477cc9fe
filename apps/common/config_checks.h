// What configurations from files may say: flags have the same bounds, but a file says anything.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

/// Error "NAME is VALUE; LOW to HIGH" unless it is in that range; NaN never is.
void check_range(const char* name, double value, double low, double high);
/// The same for counts from 1 or from 0, for shares in [0, 1), and for what is above 0.
void check_count(const char* name, double value);
void check_any_count(const char* name, double value);
void check_share(const char* name, double value);
void check_above_zero(const char* name, double value);
/// Error that lists the words unless `word` is one of them.
void check_choice(const char* name, const std::string& word, const std::vector<std::string>& words);

}  // namespace tern::apps
