#include "tern/apps/common/memory_options.h"

#include <fmt/format.h>

#include "tern/apps/common/flags.h"
#include "tern/core/base/error.h"
#include "tern/nn/recompute.h"

namespace tern::apps {

void add_memory_flags(CLI::App& app, MemoryOptions& o) {
  app.add_flag("--step-in-backward", o.step_in_backward,
               "step each weight as soon as its gradient is there, and free that: less memory, the "
               "same numbers; needs --clip 0");
  app.add_option("--optimizer-bits", o.optimizer_bits,
                 "of Adam's state a weight and moment; 8 takes a quarter of the memory")
      ->type_name("32|8")
      ->check(CLI::IsMember({32, 8}).description(""));
}

void add_recompute_flag(CLI::App& app, MemoryOptions& o) {
  add_choice(app, "--recompute", o.recompute,
             "what is computed again in the backward pass rather than kept, with the same numbers: "
             "selective, norms and GELU (1 to 2 % slower); full, whole blocks (a third)",
             nn::recompute_names());
}

void check_memory(const MemoryOptions& o, double clip, int64_t accumulate) {
  check(!o.step_in_backward || clip == 0,
        "--step-in-backward frees each gradient as soon as its weight is stepped, but --clip {:g} "
        "needs the norm of all of them before the first step; give --clip 0",
        clip);
  check(!o.step_in_backward || accumulate == 1,
        "--step-in-backward frees each gradient as soon as its weight is stepped, but --accumulate "
        "{} adds those of several batches before a step; leave one of the two out",
        accumulate);
}

void check_memory(const MemoryOptions& o) {
  check(o.optimizer_bits == 32 || o.optimizer_bits == 8, "optimizer_bits is {}; 32 or 8",
        o.optimizer_bits);
  nn::recompute_named(o.recompute);
}

void check_optimizer_bits(const std::string& optimizer, const MemoryOptions& o) {
  check(o.optimizer_bits == 32 || optimizer == "adam" || optimizer == "adamw",
        "--optimizer-bits is for adam and adamw; {} keeps 32", optimizer);
}

std::string describe_memory(const MemoryOptions& o) {
  std::string s;
  if (o.optimizer_bits != 32) s += fmt::format(", optimizer state of {} bits", o.optimizer_bits);
  if (o.recompute != "none") s += fmt::format(", {} recomputation", o.recompute);
  if (o.step_in_backward) s += ", steps in backward";
  return s;
}

}  // namespace tern::apps
