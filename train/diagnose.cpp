// Repeats a failed step under an AnomalyDetector, which finds the first op with an infinity or NaN.
#include "tern/train/diagnose.h"

#include "tern/core/base/error.h"
#include "tern/core/tools/anomaly.h"

namespace tern::training {

std::string diagnose_step(const std::function<void()>& again) {
  AnomalyDetector detector;
  try {
    again();
  } catch (const Error& e) {
    return fmt::format("; {}", e.what());
  } catch (const std::exception& e) {
    return fmt::format("; looking for the cause failed: {}", e.what());
  }
  for (const std::string& found : {detector.first_given(), detector.first_infinity()})
    if (!found.empty()) return "; " + found;
  return "";
}

}  // namespace tern::training
