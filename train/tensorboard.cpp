// Encodes scalars, images, histograms and texts as TensorFlow's Event messages and appends them to
// the file in whole records.
#include "tern/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "tern/core/base/error.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/detail/event_records.h"
#include "tern/train/run_folder.h"

namespace tern::training {
namespace {

using Message = tern::detail::ProtobufMessage;

constexpr size_t kMostBuffered = 1 << 16;
constexpr std::string_view kPrefix = "events.out.tfevents.";

// Field numbers of TensorFlow's messages.
namespace field {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // Event
constexpr int kStatus = 1;  // SessionLog
constexpr int kValue = 1;   // Summary
constexpr int kTag = 1, kSimple = 2, kImage = 4, kHisto = 5, kTensor = 8, kMetadata = 9;  // Value
constexpr int kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;                     // Image
constexpr int kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kLimit = 6,
              kBucket = 7;                                               // HistogramProto
constexpr int kPluginData = 1, kPluginName = 1;                          // SummaryMetadata
constexpr int kDtype = 1, kShape = 2, kString = 8, kDim = 2, kSize = 1;  // TensorProto
}  // namespace field

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
  std::string host = name;
  std::replace(host.begin(), host.end(), '/', '-');
  return host;
}

Message event_at(int64_t step) {
  Message m;
  m.add_double(field::kWallTime, wall_time()).add_int(field::kStep, step);
  return m;
}

// The name of the folder's last event file as readers sort them, as text; empty without one.
std::string last_event_file(const std::string& folder) {
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (std::string name = entry.path().filename().string(); name.starts_with(kPrefix))
      last = std::max(last, std::move(name));
  return last;
}

// The name of a new event file that readers sort behind those of the folder. Two files of one
// second differ in the process number, which as text may sort first: then the name says a later
// second.
std::string next_event_file(const std::string& folder, const std::string& suffix) {
  static std::atomic<int> number{0};  // for writers of this process in the same second
  const std::string process =
      fmt::format("{}.{}.{:04}{}", host_name(), ::getpid(), number++, suffix);
  const std::string last = last_event_file(folder);
  int64_t last_second = -1;
  if (!last.empty())
    std::from_chars(last.data() + kPrefix.size(), last.data() + last.size(), last_second);
  for (auto second = static_cast<int64_t>(wall_time());; second = last_second + 1) {
    std::string name = fmt::format("{}{:010}.{}", kPrefix, second, process);
    if (name > last || second > last_second) return name;
  }
}

datasets::Picture to_picture(const std::string& tag, const Tensor& image) {
  const bool gray = image.ndim() == 2;
  check((gray || (image.ndim() == 3 && (image.size(0) == 1 || image.size(0) == 3))) &&
            image.numel() > 0,
        "EventWriter: the image '{}' must be (H, W), (1, H, W) or (3, H, W), its shape is {}", tag,
        image.shape());
  check(is_float(image.dtype()) || image.dtype() == DType::u8,
        "EventWriter: the image '{}' must be of u8, or of floats from 0 to 1; it is {}", tag,
        image.dtype());
  const bool bytes = image.dtype() == DType::u8;
  const std::vector<float> v = image.detach().to(DType::f32).to_vector<float>();
  datasets::Picture p{image.size(-2), image.size(-1), {}};
  const auto plane = static_cast<size_t>(p.height * p.width);
  p.rgb.resize(3 * plane);
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const float x = v[v.size() > plane ? c * plane + i : i];
      const float scaled = bytes ? x : x * 255;
      p.rgb[3 * i + c] =
          static_cast<uint8_t>(scaled > 0 ? std::lround(std::min(scaled, 255.F)) : 0);
    }
  return p;
}

}  // namespace

EventWriter::EventWriter(const std::string& folder, const EventWriterOptions& options)
    : options_(options), flushed_(steady_seconds()) {
  RunFolder{folder}.make();
  path_ = folder + "/" + next_event_file(folder, options.suffix);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) tern::detail::fail_write(path_, "cannot be made");
  constexpr std::string_view kVersion = "brain.Event:2";
  Message head;
  head.add_double(field::kWallTime, wall_time());
  if (options.purge_step) head.add_int(field::kStep, *options.purge_step);
  write(head.add_bytes(field::kFileVersion, kVersion).bytes());
  if (options.purge_step) {
    constexpr int64_t kStart = 1;
    const Message session = Message().add_int(field::kStatus, kStart);
    write(event_at(*options.purge_step).add_message(field::kSessionLog, session).bytes());
  }
  flush();
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const std::exception&) {  // a destructor must not throw
  }
  ::close(fd_);
}

void EventWriter::write(const std::string& event) {
  buffer_ += event_record(event);
  if (buffer_.size() >= kMostBuffered || steady_seconds() - flushed_ > options_.flush_seconds)
    flush();
}

// After a failed write, truncates the file to whole records, so that later ones can be read.
void EventWriter::flush() {
  flushed_ = steady_seconds();
  const std::string bytes = std::move(buffer_);
  buffer_.clear();
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string why = std::generic_category().message(errno);
      const bool cut = ::ftruncate(fd_, written_) == 0 && ::lseek(fd_, written_, SEEK_SET) >= 0;
      throw WriteError(fmt::format("{}: cannot be written: {}{}", path_, why,
                                   cut ? "" : "; its last record is not whole"));
    }
    done += static_cast<size_t>(n);
  }
  written_ += static_cast<int64_t>(bytes.size());
}

void EventWriter::sync() {
  flush();
  if (::fsync(fd_) == 0) return;
  throw WriteError(
      fmt::format("{}: cannot be synced: {}", path_, std::generic_category().message(errno)));
}

void EventWriter::add_event(const std::string& tag, const std::string& value, int64_t step) {
  check(!tag.empty(), "EventWriter: a tag must not be empty");
  Message m;
  m.add_bytes(field::kTag, tag);
  Message summary;
  summary.add_bytes(field::kValue, m.bytes() + value);
  write(event_at(step).add_message(field::kSummary, summary).bytes());
}

void EventWriter::add_scalar(const std::string& tag, double value, int64_t step) {
  add_event(tag, Message().add_float(field::kSimple, static_cast<float>(value)).bytes(), step);
}

void EventWriter::add_image(const std::string& tag, const Tensor& image, int64_t step) {
  add_image(tag, to_picture(tag, image), step);
}

void EventWriter::add_image(const std::string& tag, const datasets::Picture& p, int64_t step) {
  constexpr int64_t kRgb = 3;
  Message image;
  image.add_int(field::kHeight, p.height)
      .add_int(field::kWidth, p.width)
      .add_int(field::kColorspace, kRgb)
      .add_bytes(field::kEncoded, datasets::encode_png(p));
  add_event(tag, Message().add_message(field::kImage, image).bytes(), step);
}

void EventWriter::add_histogram(const std::string& tag, const Tensor& values, int64_t step,
                                int bins) {
  check(bins >= 0,
        "EventWriter: the histogram '{}' has {} bins; give 1 or more, or 0 for the bins of "
        "TensorFlow",
        tag, bins);
  check(values.numel() > 0, "EventWriter: the histogram '{}' has no values", tag);
  const std::vector<double> v = values.detach().to(DType::f64).to_vector<double>();
  const auto bad = std::find_if_not(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
  check(bad == v.end(), "EventWriter: in the histogram '{}' element {} is {}", tag, bad - v.begin(),
        bad == v.end() ? 0 : *bad);
  const Histogram h = make_histogram(v, bins);
  Message m;
  m.add_double(field::kMin, h.min)
      .add_double(field::kMax, h.max)
      .add_double(field::kNum, static_cast<double>(h.count))
      .add_double(field::kSum, h.sum)
      .add_double(field::kSumSquares, h.sum_squares)
      .add_packed(field::kLimit, h.limits)
      .add_packed(field::kBucket, h.counts);
  add_event(tag, Message().add_message(field::kHisto, m).bytes(), step);
}

void EventWriter::add_text(const std::string& tag, const std::string& text, int64_t step) {
  constexpr int64_t kStringType = 7;
  const Message plugin = Message().add_bytes(field::kPluginName, "text");
  const Message metadata = Message().add_message(field::kPluginData, plugin);
  const Message size = Message().add_int(field::kSize, 1);
  const Message shape = Message().add_message(field::kDim, size);
  const Message tensor = Message()
                             .add_int(field::kDtype, kStringType)
                             .add_message(field::kShape, shape)
                             .add_bytes(field::kString, text);
  add_event(
      tag,
      Message().add_message(field::kTensor, tensor).add_message(field::kMetadata, metadata).bytes(),
      step);
}

bool has_event_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(kPrefix)) return true;
  return false;
}

}  // namespace tern::training
