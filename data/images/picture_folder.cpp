#include "tern/data/images/picture_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tern/core/tape/record.h"

namespace fs = std::filesystem;

namespace tern::datasets {
namespace {

constexpr int kTries = 10;  // RandomResizedCrop's
constexpr int64_t kMaxSize = 1 << 14;

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::vector<std::string> pictures_below(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error))
    if (std::error_code no; is_picture(it->path()) && it->is_regular_file(no))
      paths.push_back(it->path().string());
  check_io(!error, "{}: cannot be read: {}", folder.string(), error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// torchvision's RandomResizedCrop.get_params.
Picture random_part(const Picture& x, const PictureLoaderOptions& o, Rng& rng) {
  const auto height = static_cast<double>(x.height), width = static_cast<double>(x.width);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double area = height * width * rng.uniform(o.scale[0], o.scale[1]);
    const double ratio = std::exp(rng.uniform(std::log(o.ratio[0]), std::log(o.ratio[1])));
    const int64_t w = std::lrint(std::sqrt(area * ratio)), h = std::lrint(std::sqrt(area / ratio));
    if (w > 0 && h > 0 && w <= x.width && h <= x.height)
      return crop(x, rng.below(x.height - h + 1), rng.below(x.width - w + 1), h, w);
  }
  int64_t w = x.width, h = x.height;  // the middle, with the closest allowed ratio
  if (width / height < o.ratio[0])
    h = std::lrint(width / o.ratio[0]);
  else if (width / height > o.ratio[1])
    w = std::lrint(height * o.ratio[1]);
  return center_crop(x, std::clamp<int64_t>(h, 1, x.height), std::clamp<int64_t>(w, 1, x.width));
}

void write_normalized(const Picture& x, const Normalization& n, float* to) {
  const int64_t pixels = x.height * x.width;
  for (int64_t c = 0; c < 3; ++c) {
    const auto i = static_cast<size_t>(c);
    const auto scale = static_cast<float>(1 / (255 * n.std[i]));
    const auto shift = static_cast<float>(-n.mean[i] / n.std[i]);
    for (int64_t p = 0; p < pixels; ++p)
      to[c * pixels + p] =
          static_cast<float>(x.rgb[static_cast<size_t>(3 * p + c)]) * scale + shift;
  }
}

Batch make_batch(const Dataset<PictureSample>& data, const PictureLoaderOptions& o,
                 const BatchPlan& plan) {
  const int64_t n = std::ssize(plan.indices), numbers = 3 * o.size * o.size;
  Fresh images({n, 3, o.size, o.size}, DType::f32), labels({n}, DType::i64);
  Fresh indices({n}, DType::i64);
  plan.for_each_sample([&](int64_t i, int64_t index) {
    const PictureSample sample = data.get(index);
    Rng rng = plan.sample_rng(index);
    write_normalized(fit_picture(sample.picture, o, rng), o.normalization,
                     images.data<float>() + i * numbers);
    labels.data<int64_t>()[i] = sample.label;
    indices.data<int64_t>()[i] = index;
  });
  return {not_differentiable(images), not_differentiable(labels), {}, not_differentiable(indices)};
}

}  // namespace

Dataset<PictureSample> PictureFolder::dataset(const DecodeOptions& options) const {
  return {std::ssize(files), [files = files, options](int64_t i) {
            const PictureFile& file = files[static_cast<size_t>(i)];
            return PictureSample{load_picture(file.path, options), file.label};
          }};
}

PictureFolder open_picture_folder(const std::string& folder) {
  std::error_code error;
  check_io(fs::is_directory(folder, error), "{}: no such folder", folder);
  PictureFolder found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::error_code no; it->is_directory(no))
      found.class_names.push_back(it->path().filename().string());
  check_io(!error, "{}: cannot be read: {}", folder, error.message());
  check_io(!found.class_names.empty(), "{}: holds no folders, which would be the classes", folder);
  std::sort(found.class_names.begin(), found.class_names.end());
  for (int64_t label = 0; label < std::ssize(found.class_names); ++label) {
    const fs::path of_class = fs::path(folder) / found.class_names[static_cast<size_t>(label)];
    const std::vector<std::string> paths = pictures_below(of_class);
    check_io(!paths.empty(), "{}: holds no .png, .jpg or .jpeg file for its class",
             of_class.string());
    for (const std::string& path : paths) found.files.push_back({path, label});
  }
  return found;
}

Picture fit_picture(const Picture& x, const PictureLoaderOptions& o, Rng& rng) {
  if (!o.augment) {
    const int64_t shorter = o.shorter > 0 ? o.shorter : (o.size * 8 + 3) / 7;
    return center_crop(resize_shorter(x, shorter, o.filter), o.size, o.size);
  }
  Picture y = resize(random_part(x, o, rng), o.size, o.size, o.filter);
  return rng.uniform() < o.mirrored ? mirror(y) : y;
}

Loader<Batch> picture_loader(Dataset<PictureSample> data, const PictureLoaderOptions& o) {
  check(o.size > 0 && o.size <= kMaxSize && (o.shorter == 0 || o.shorter >= o.size),
        "picture_loader: size goes from 1 to {}, `shorter` is no smaller; they are {} and {}",
        kMaxSize, o.size, o.shorter);
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.ratio[0] > 0 && o.ratio[0] <= o.ratio[1],
        "picture_loader: scale and ratio must be rising positive numbers, they are {} to {} and {} "
        "to {}",
        o.scale[0], o.scale[1], o.ratio[0], o.ratio[1]);
  const int64_t size = data.size();
  return Loader<Batch>(
      size,
      [data = std::move(data), o](const BatchPlan& plan) { return make_batch(data, o, plan); },
      o.order);
}

}  // namespace tern::datasets
