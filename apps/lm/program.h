// The program lm: its flags and commands.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tern/apps/common/training/train_program.h"
#include "tern/apps/lm/config.h"
#include "tern/apps/lm/generate.h"

namespace tern::apps::lm {

/// The prompt that stands for standard input.
inline constexpr const char* kStandardInput = "-";
/// The choice that leaves it to the model's own files.
inline constexpr const char* kAsModel = "as-model";

/// The values of all flags, with the commands that have them.
struct LmFlags {
  TrainConfig config;                    ///< train; --precision and --matmul of all commands
  GivenKeys given;                       ///< train: settings that flags gave
  TrainFlags train;                      ///< train; --threads of all commands
  std::string model;                     ///< folder or GGUF file: all but train
  bool int8 = false, int4 = false;       ///< generate, eval: packed weights
  std::vector<std::string> prompt;       ///< generate; "-": standard input
  std::string prompts;                   ///< generate: a file with one prompt per line
  std::string prompt_file;               ///< generate, complete: a file that is one prompt
  GenerateOptions generate;              ///< generate, complete
  std::string system;                    ///< chat: text before the conversation
  std::string chat_template = kAsModel;  ///< chat: name of a format
  std::string gaps;                      ///< fill: a text with [MASK]
  int64_t guesses = 5;                   ///< fill
  std::string attention;                 ///< generate, fill: page to write
  std::vector<std::string> text;         ///< eval, embed
  int64_t stride = 0;                    ///< eval; 0: half of the context
  std::string pooling = kAsModel;        ///< embed
  std::string normalise = kAsModel;      ///< embed: yes, no
  std::string out;                       ///< embed: a file, .npy or .jsonl; export: .onnx
  bool caches = false;                   ///< export
  int opset = 17;                        ///< export
};

/// The commands, with the defaults that --model chooses.
Program lm_program(LmFlags& flags, int argc, char** argv);

// Each function returns the program's exit code.

/// Trains, or resumes a run.
int train_lm(const LmFlags& flags);
/// Writes each prompt and its continuation, token by token, with an empty line between texts.
/// Ctrl-C ends it. The prompt "-" is read from `in`.
int generate_text(const LmFlags& flags, std::istream& in, std::ostream& out);
/// Completes each line as soon as it is read, up to a line end unless --stop says otherwise. Ctrl-C
/// ends a completion; if input is not interactive, it ends the program.
int complete_lines(const LmFlags& flags, std::istream& in, std::ostream& out);
/// Answers each line as a turn of a conversation. Ctrl-C ends an answer; if input is not
/// interactive, it ends the program.
int chat_in_turns(const LmFlags& flags, std::istream& in, std::ostream& out);
/// Writes guesses for each [MASK].
int fill_gaps(const LmFlags& flags, std::ostream& out);
/// Scores texts. For a bert, masks words as in training, the same ones every time, and counts how
/// many it predicts.
int evaluate_model(const LmFlags& flags);
/// Writes the model as an ONNX file.
int export_model(const LmFlags& flags);
/// Writes a vector for each line of the texts, or of `in` if there are none.
int embed_lines(const LmFlags& flags, std::istream& in, std::ostream& out);

}  // namespace tern::apps::lm
