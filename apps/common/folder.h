// Folders that a command line names, and small files in them.
#pragma once

#include <string>

namespace tern::apps {

/// IoError unless there is a folder at `path`: that there is none, that it is a file, or why the
/// system cannot say. `name` begins the message: "--model runs/a".
void check_folder(const std::string& path, const std::string& name);

/// The bytes of a small file that a run keeps. IoError if it cannot be read, or is so large that it
/// can be no such file.
std::string read_small_file(const std::string& path);

/// IoError if a folder, or the folder of a file of weights, holds the run of another program than
/// this one. `flag` named it; where that is "--resume", the message has the command that continues
/// the run.
void check_program(const std::string& program, const std::string& flag, const std::string& path);

/// IoError where the weights at `path` are missing because the run in that folder is still in its
/// first epoch, or was stopped in it.
void check_first_epoch_over(const std::string& path);

}  // namespace tern::apps
