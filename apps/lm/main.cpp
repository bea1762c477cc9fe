// lm: trains language models, writes with them, and says how well they know a text; see --help.
#include <iostream>

#include "tern/apps/common/app.h"
#include "tern/apps/lm/bert_commands.h"
#include "tern/apps/lm/commands.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"

int main(int argc, char** argv) {
  using namespace tern::apps::lm;
  return tern::apps::run_app("lm", [&] {
    LmOptions options;
    if (!parse_options(argc, argv, options)) return 0;
    if (options.threads > 0) tern::set_num_threads(options.threads);
    const tern::MatmulPrecisionScope precision(tern::matmul_precision(options.precision));
    switch (options.command) {
      case LmOptions::Command::generate:
        return generate_text(options, std::cout);
      case LmOptions::Command::fill:
        return fill_gaps(options, std::cout);
      case LmOptions::Command::eval:
        return evaluate_model(options);
      case LmOptions::Command::train:
        break;
    }
    return options.resume.empty() ? start_training(options) : resume_training(options);
  });
}
