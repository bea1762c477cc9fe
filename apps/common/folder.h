// Folders that a command line names.
#pragma once

#include <string>

namespace tern::apps {

/// IoError unless there is a folder at `path`: that there is none, that it is a file, or why the
/// system cannot say. `name` begins the message: "--model runs/a".
void check_folder(const std::string& path, const std::string& name);

}  // namespace tern::apps
