// Recognises names of hidden files, which are not data. Inside of tern only.
#pragma once

#include <algorithm>
#include <string_view>

namespace tern::datasets {

/// Whether a path has a name that begins with a dot (.git, .ipynb_checkpoints, the ._1.jpg that a
/// Mac writes beside 1.jpg), or __MACOSX, as a Mac's archives have it. "." and ".." do not count.
inline bool is_hidden(std::string_view path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name == "__MACOSX" || (name.starts_with('.') && name != "." && name != "..")) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace tern::datasets
