// train_cifar: trains an image classifier on CIFAR-10 and tests it; see --help.
#include "tern/apps/common/app.h"
#include "tern/apps/train_cifar/commands.h"
#include "tern/apps/train_cifar/options.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/threads.h"

int main(int argc, char** argv) {
  using namespace tern::apps::train_cifar;
  return tern::apps::run_app("train_cifar", [&] {
    TrainOptions options;
    if (!parse_options(argc, argv, options)) return 0;
    if (options.threads > 0) tern::set_num_threads(options.threads);
    const tern::MatmulPrecisionScope precision(tern::matmul_precision(options.precision));
    if (options.dry_run) return dry_run(options);
    if (!options.eval.empty()) return evaluate_weights(options);
    if (!options.resume.empty()) return resume_run(options);
    return start_run(options);
  });
}
