// Writes event files for TensorBoard from any loop, as torch.utils.tensorboard.SummaryWriter does.
//
//   training::EventWriter events("runs/first");
//   for (...) {
//     events.add_scalar("train/loss", loss.item(), step);
//     events.add_histogram("up.weight", model.up.weight, step);
//   }
//
// and then `tensorboard --logdir runs`. A training::Loop in a folder writes its own:
// LoopOptions::tensorboard.
//
// A writer makes one new file in the folder and leaves the others alone. A resumed run makes a new
// writer with `purge_step`, the first step that it takes: TensorBoard then hides what earlier files
// have from that step on. Records reach the file whole and in order: after a kill the file can be
// read up to the last whole one.
//
// Tags with a slash share a heading: "train/loss", "train/lr". Errors: an empty tag, values that
// are none, NaN or infinite in a histogram, an image of another shape than said below. WriteError:
// the file cannot be made or written; what was not written is then lost, and the file stays
// readable.
// A writer belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/picture.h"

namespace tern::training {

struct EventWriterOptions {
  std::optional<int64_t> purge_step = {};  ///< hides earlier files' records from this step on
  double flush_seconds = 120;              ///< age of records that the next record flushes
  std::string suffix = {};                 ///< of the file's name
};

class EventWriter {
 public:
  /// Makes the folder, if it is not there, and in it events.out.tfevents.TIME.HOST.PID.NUMBER,
  /// whose names sort by time.
  explicit EventWriter(const std::string& folder, const EventWriterOptions& options = {});
  /// Flushes; a failure is not reported.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  /// May be NaN or infinite; kept as f32, as TensorBoard does.
  void add_scalar(const std::string& tag, double value, int64_t step);
  /// (H, W), (1, H, W) or (3, H, W); u8, or floats where 0 is black and 1 white (others are taken
  /// as the nearer end, NaN as black).
  void add_image(const std::string& tag, const Tensor& image, int64_t step);
  void add_image(const std::string& tag, const datasets::Picture& image, int64_t step);
  /// Of all elements, in so many bins of one width; 0: in TensorFlow's, whose widths grow by the
  /// tenth from 1e-12 (SummaryWriter's default). REQUIRES: at least one element.
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step, int bins = 0);
  /// Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step);

  /// Hands all records to the operating system.
  void flush();
  /// Flushes, and waits until the records are on the disk, where they survive a loss of power.
  void sync();
  const std::string& path() const { return path_; }

 private:
  void add_event(const std::string& tag, const std::string& value, int64_t step);
  void write(const std::string& event);

  EventWriterOptions options_;
  std::string path_, buffer_;
  int fd_ = -1;
  int64_t written_ = 0;
  double flushed_ = 0;  // seconds of a steady clock
};

/// Whether there are event files in the folder.
bool has_event_files(const std::string& folder);

}  // namespace tern::training
