// translate: trains translation models, translates, scores and shows attention; see --help.
#include <iostream>

#include "tern/apps/common/app.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/apps/translate/commands.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"

int main(int argc, char** argv) {
  using namespace tern::apps::translate;
  return tern::apps::run_app("translate", [&] {
    TranslateOptions options;
    if (!parse_options(argc, argv, options)) return 0;
    if (options.threads > 0) tern::set_num_threads(options.threads);
    const tern::MatmulPrecisionScope precision(tern::matmul_precision(options.precision));
    switch (options.command) {
      case TranslateOptions::Command::run: {
        const int code = run_translations(options, tern::apps::standard_input(), std::cout);
        tern::apps::check_standard_input();
        return code;
      }
      case TranslateOptions::Command::eval:
        return evaluate_model(options);
      case TranslateOptions::Command::score:
        return score_files(options);
      case TranslateOptions::Command::plot:
        return plot_attention(options);
      case TranslateOptions::Command::shortlist:
        return learn_shortlist(options);
      case TranslateOptions::Command::train:
        break;
    }
    return options.resume.empty() ? start_training(options) : resume_training(options);
  });
}
