// Checks of folders that a command line names, and reading of small files in them.
#pragma once

#include <string>

namespace tern::apps {

/// IoError unless `path` is a folder. The message says why: nothing there, a file, or the system's
/// error. `name` begins the message: "--model runs/a".
void check_folder(const std::string& path, const std::string& name);

/// The folder of the file `path`: "." for a name alone.
std::string folder_of(const std::string& path);

/// The bytes of a small file that a run keeps. IoError if it cannot be read or is larger than
/// 16 MiB.
std::string read_small_file(const std::string& path);

/// IoError if `path`, a folder or a file of weights in one, belongs to a run of another program.
/// `flag` named the path; for "--resume" the message has the command that resumes the run.
void check_program(const std::string& program, const std::string& flag, const std::string& path);

/// IoError if the weights at `path` are missing because the run in that folder is still in its
/// first epoch or was stopped in it.
void check_first_epoch_over(const std::string& path);

}  // namespace tern::apps
