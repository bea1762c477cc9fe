// Fuzzes the reader of a run's log: a log that it accepts is the same after writing and reading.
#include "tern/train/run_log.h"

#include "tern/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File file(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] {
    const training::RunLog log = training::read_log(file.path());
    std::string text;
    for (const std::string& line : training::log_lines(log.epochs, log.steps, log.unit))
      text += line + "\n";
    const fuzz::File written(text);
    const training::RunLog again = training::read_log(written.path());
    fuzz::require(again.epochs.size() == log.epochs.size());
    fuzz::require(again.steps.size() == log.steps.size());
    for (size_t i = 0; i < log.steps.size(); ++i)
      fuzz::require(training::log_line(again.steps[i]) == training::log_line(log.steps[i]));
  });
  return 0;
}
