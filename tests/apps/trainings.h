// The programs that train, a row each: a small run, and what its tests need to know of the program.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tern/tests/support/data_files.h"

namespace tern::test {

/// `line` with flags such as " --dim 64 --int8", which replace those that it has.
inline std::string with(std::string line, const std::string& flags) {
  for (size_t at = flags.find(" --"); at != flags.npos;) {
    const size_t end = std::min(flags.find(" --", at + 1), flags.size());
    const std::string flag = flags.substr(at, end - at);
    const std::string name = flag.substr(0, flag.find(' ', 1));
    if (const size_t old = (line + " ").find(name + " "); old != line.npos)
      line.erase(old, std::min(line.find(" --", old + 1), line.size()) - old);
    line += flag;
    at = end < flags.size() ? end : flags.npos;
  }
  return line;
}

/// A small run, as words of a command line. It reads the files of write_training_data().
struct Training {
  std::string name;      ///< of the row
  std::string program;   ///< "lm"
  std::string flags;     ///< " train --text text": model and data, without a length
  std::string epochs;    ///< " --epochs {}": the flags of a length of one or more epochs
  int64_t per_epoch;     ///< what the length counts up by in an epoch
  std::string held_out;  ///< flag that holds data out; empty: the program always validates
  std::string metric;    ///< judges the epochs of a run with `held_out`
  std::string config = "config.json";
  std::string purpose, use;  ///< what a finished run says its weights are for, and the command

  /// The command of a run of `count` epochs, with `more` flags in place of the row's.
  std::string start(int64_t count = 1, const std::string& more = "") const {
    return with(program + flags + fmt::format(fmt::runtime(epochs), count * per_epoch), more);
  }
  std::string resume(const std::string& folder = "run") const {
    return program + (flags.starts_with(" train") ? " train" : "") + " --resume " + folder;
  }
};

/// One row for each program.
inline const std::vector<Training> kPrograms = {
    {.name = "ntm",
     .program = "ntm",
     .flags = " train --task copy --baseline --layers 1 --hidden 2 --batch 3",
     .epochs = " --every 6 --sequences {}",
     .per_epoch = 6,
     .held_out = "",
     .metric = "bits_per_sequence",
     .purpose = "test it",
     .use = "ntm eval --model "},
    {.name = "translate",
     .program = "translate",
     .flags = " train --first 40 --batch 16 --dim 8 --heads 1 --ffn 8 --layers 1",
     .epochs = " --epochs {}",
     .per_epoch = 1,
     .held_out = " --hold-out 6",
     .metric = "valid_loss",
     .purpose = "translate",
     .use = "echo 'These books will be strange.' | translate run --model "},
    {.name = "lm",
     .program = "lm",
     .flags = " train --text text --vocab 270 --context 16 --dim 8 --heads 1 --layers 1 --batch 8",
     .epochs = " --epochs {}",
     .per_epoch = 1,
     .held_out = " --hold-out 0.2",
     .metric = "valid_loss",
     .config = "lm.json",
     .purpose = "write with it",
     .use = "lm generate --model "},
    {.name = "train_cifar",
     .program = "train_cifar",
     .flags = " --data data --model gmlp-small --batch 8",
     .epochs = " --epochs {}",
     .per_epoch = 1,
     .held_out = " --hold-out 0.25",
     .metric = "valid_top1",
     .purpose = "classify pictures",
     .use = "train_cifar --predict FILE... --weights "},
};

/// A text of documents, and 40 training and 10 test pictures in the files of CIFAR-10.
inline void write_training_data(const std::string& folder) {
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += i % 2 == 0 ? "The cat sat on the mat.\nIt saw the dog.\nThe dog ran to the cat.\n\n"
                       : "A bird sang in a tree.\nIt flew over a roof.\nA fish heard the bird.\n\n";
  write_file(folder + "/text", text);
  std::filesystem::create_directories(folder + "/data");
  uint32_t noise = 1;
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::string bytes;
    for (int i = 0, count = *name == 't' ? 10 : 8; i < count; ++i) {
      bytes += static_cast<char>(noise >> 16 & 7);
      for (int at = 0; at < 3 * 32 * 32; ++at)
        bytes += static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
    }
    write_file(fmt::format("{}/data/{}.bin", folder, name), bytes);
  }
}

}  // namespace tern::test
