// Pictures of the report, and what a model makes of their patches.
#pragma once

#include <string>

#include "tern/apps/common/html.h"
#include "tern/apps/train_cifar/report.h"

namespace tern::apps::train_cifar {

Bitmap to_bitmap(const Picture& picture);

/// How red a patch is in overlays: not at all up to `even`, fully at `most`, and between them by
/// the square root, so that small differences are visible.
struct PatchScale {
  double even = 0;  ///< 1 / N, what each of N patches has if none counts more than another
  double most = 0;
  double red(double value) const;  ///< in [0, 1]
};

/// The picture in grey, each patch the redder the more its value (row-major) is above 1 / N.
/// `most`: the value that is the reddest; 0: the largest of them.
Bitmap overlay(const Picture& picture, const std::vector<float>& values, int64_t rows,
               int64_t columns, double most = 0);

/// The report's section on `data.patches`, without a heading; nothing if there are none. All maps
/// have one scale.
std::string picture_maps(const ReportData& data);

}  // namespace tern::apps::train_cifar
