// Pictures of the report, and what a model makes of their patches.
#pragma once

#include <string>

#include "tern/apps/common/html.h"
#include "tern/apps/train_cifar/report.h"

namespace tern::apps::train_cifar {

Bitmap to_bitmap(const Picture& picture);

/// The picture in grey, each patch the redder the nearer its value (row-major) is to the largest of
/// them, and grey at the least.
Bitmap overlay(const Picture& picture, const std::vector<float>& values, int64_t rows,
               int64_t columns);

/// The report's section on `data.pictures`; nothing if there are none.
std::string picture_maps(const ReportData& data);

}  // namespace tern::apps::train_cifar
