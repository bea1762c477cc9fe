// Finds pictures in folders of classes, counts the other files, and loads batches of resized crops.
#include "tern/data/images/picture_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "tern/core/base/threads.h"
#include "tern/core/base/utf8.h"
#include "tern/core/tape/record.h"
#include "tern/data/images/detail/picture_splits.h"
#include "tern/data/loading/hidden.h"

namespace fs = std::filesystem;

namespace tern::datasets {
namespace {

constexpr int kTries = 10;  // as torchvision's RandomResizedCrop
constexpr int64_t kMaxSize = 1 << 14;

// The extension in lower case: ".jpg" for "a.JPG".
std::string extension_of(const fs::path& path) { return lower_ascii(path.extension().string()); }

bool is_one_of_kinds(const std::string& extension, std::initializer_list<const char*> kinds) {
  return std::find(kinds.begin(), kinds.end(), extension) != kinds.end();
}

// Counts an unused file as "hidden", by its extension (".txt"), or by its name if it has none.
void leave_alone(const fs::directory_entry& entry, UnusedFiles& unused) {
  const fs::path& path = entry.path();
  std::error_code no;
  if (is_hidden(path.filename().string()))
    ++unused["hidden"];
  else if (entry.is_directory(no))
    ++unused["links to folders"];
  else if (is_picture_file(path) && !entry.is_regular_file(no))
    ++unused["broken links"];
  else
    ++unused[path.has_extension() ? extension_of(path) : path.filename().string()];
}

// Crops a random part by torchvision's RandomResizedCrop.get_params.
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
    Rng rng = plan.rng_of(i);
    write_normalized(fit_picture(sample.picture, o, rng), o.normalization,
                     images.data<float>() + i * numbers);
    labels.data<int64_t>()[i] = sample.label;
    indices.data<int64_t>()[i] = index;
  });
  return {not_differentiable(images), not_differentiable(labels), {}, not_differentiable(indices)};
}

// The error text for a class without pictures.
std::string no_pictures(const std::string& folder, const UnusedFiles& unused) {
  std::string text = folder + ": holds no .png, .jpg or .jpeg file for its class";
  return unused.empty() ? text : text + "; " + unused_text(unused);
}

}  // namespace

std::vector<std::string> detail::folders_in(const std::string& path, UnusedFiles* unused) {
  UnusedFiles others;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (std::error_code no; it->is_directory(no) && !is_hidden(name))
      names.push_back(name);
    else if (is_picture_file(it->path()) && !is_hidden(name))
      ++others["pictures outside the classes' folders"];
    else
      leave_alone(*it, others);
  }
  check_io(!error, "{}: cannot be read: {}", path, error.message());
  std::sort(names.begin(), names.end());
  if (unused) *unused = std::move(others);
  return names;
}

bool is_picture_file(const std::string& path) {
  return is_one_of_kinds(extension_of(path), {".png", ".jpg", ".jpeg", ".jpe", ".jfif"});
}

std::string unused_text(const UnusedFiles& unused) {
  if (unused.empty()) return "";
  std::vector<std::pair<std::string, int64_t>> kinds(unused.begin(), unused.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 8;
  int64_t all = 0;
  bool others = false;
  std::string text;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [kind, count] = kinds[i];
    all += count;
    others = others || is_one_of_kinds(kind, {".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif",
                                              ".heic", ".ppm", ".pgm"});
    if (i < kShown) text += fmt::format("{} {} {}", i == 0 ? "" : ",", kind, count);
  }
  if (kinds.size() > kShown) text += fmt::format(" and {} other kinds", kinds.size() - kShown);
  if (others)
    text +=
        "; only PNG and JPEG pictures are read; convert the others: "
        "mogrify -format png FILES (of ImageMagick)";
  return fmt::format("{} {} not used:{}", all, all == 1 ? "file was" : "files were", text);
}

FoundPictures find_pictures(const std::string& folder) {
  FoundPictures found;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code no;
    const bool hidden = is_hidden(it->path().filename().string());
    if (hidden) it.disable_recursion_pending();
    if (!hidden && is_picture_file(it->path()) && it->is_regular_file(no))
      found.paths.push_back(it->path().string());
    else if (hidden || !it->is_directory(no) || it->is_symlink(no))
      leave_alone(*it, found.unused);
  }
  check_io(!error, "{}: cannot be read: {}", folder, error.message());
  std::sort(found.paths.begin(), found.paths.end());
  return found;
}

std::vector<std::string> PictureFolder::drop_damaged(const DecodeOptions& options) {
  std::vector<std::string> errors(files.size()), kept_errors;
  parallel_for(std::ssize(files), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) try {
        load_picture(files[i].path, options);
      } catch (const IoError& e) {
        errors[i] = e.what();
      }
  });
  std::vector<PictureFile> whole;
  for (size_t i = 0; i < files.size(); ++i)
    if (errors[i].empty())
      whole.push_back(std::move(files[i]));
    else
      kept_errors.push_back(std::move(errors[i]));
  files = std::move(whole);
  return kept_errors;
}

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
  found.class_names = detail::folders_in(folder, &found.unused);
  if (found.class_names.empty()) {
    const size_t pictures = find_pictures(folder).paths.size();
    check_io(pictures == 0,
             "{0}: holds {1} picture{2} but no folder for each class; move the pictures of a class "
             "into a folder with its name: {0}/cat/, {0}/dog/",
             folder, pictures, pictures == 1 ? "" : "s");
    fail_io(folder + ": holds no folders; it needs a folder of pictures for each class");
  }
  for (int64_t label = 0; label < std::ssize(found.class_names); ++label) {
    const fs::path of_class = fs::path(folder) / found.class_names[static_cast<size_t>(label)];
    FoundPictures pictures = find_pictures(of_class.string());
    if (pictures.paths.empty()) fail_io(no_pictures(of_class.string(), pictures.unused));
    for (std::string& path : pictures.paths) found.files.push_back({std::move(path), label});
    for (const auto& [kind, count] : pictures.unused) found.unused[kind] += count;
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
        "picture_loader: size must be 1 to {}, and `shorter` no smaller; they are {} and {}",
        kMaxSize, o.size, o.shorter);
  check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.ratio[0] > 0 && o.ratio[0] <= o.ratio[1],
        "picture_loader: scale and ratio must be positive ranges, they are {} to {} and {} "
        "to {}",
        o.scale[0], o.scale[1], o.ratio[0], o.ratio[1]);
  check(o.mirrored >= 0 && o.mirrored <= 1, "picture_loader: mirrored is {}; a share is 0 to 1",
        o.mirrored);
  const int64_t size = data.size();
  return Loader<Batch>(
      size,
      [data = std::move(data), o](const BatchPlan& plan) { return make_batch(data, o, plan); },
      o.order);
}

}  // namespace tern::datasets
