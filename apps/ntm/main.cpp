// ntm: trains Neural Turing Machines on the tasks of their paper and tests them; see --help.
#include "tern/apps/common/app.h"
#include "tern/apps/ntm/commands.h"
#include "tern/core/base/threads.h"

int main(int argc, char** argv) {
  using namespace tern::apps::ntm;
  return tern::apps::run_app("ntm", [&] {
    NtmCommand command;
    if (!parse_options(argc, argv, command)) return 0;
    if (command.threads > 0) tern::set_num_threads(command.threads);
    if (command.name == NtmCommand::Name::eval) return evaluate_model(command);
    return command.resume.empty() ? start_training(command) : resume_training(command);
  });
}
