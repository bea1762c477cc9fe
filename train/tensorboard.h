// Writes event files for TensorBoard from any loop, as torch.utils.tensorboard.SummaryWriter does.
//
//   training::EventWriter events("runs/first");
//   for (...) {
//     events.add_scalar("train/loss", loss.item(), step);
//     events.add_histogram("up.weight", model.up.weight, step);
//   }
//
// Show them with `tensorboard --logdir runs`. A training::Loop in a folder can write its own:
// LoopOptions::tensorboard.
//
// A writer makes one new file in the folder and does not touch the others. A resumed run makes a
// new writer with `purge_step`, the first step that it takes: TensorBoard then hides the records of
// earlier files from that step on. Records reach the file whole and in order: after a kill the file
// is readable up to the last whole record.
//
// Tags with the same text before a slash share a heading: "train/loss", "train/lr". Errors: an
// empty tag; a histogram of no values or of infinite or NaN ones; an image of a shape other than
// those below. WriteError: the file cannot be made or written; unwritten records are then lost, and
// the file stays readable. Only one thread may use a writer at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tern/core/tensor/tensor.h"
#include "tern/data/images/picture.h"

namespace tern::training {

struct EventWriterOptions {
  std::optional<int64_t> purge_step = {};  ///< hides earlier files' records from this step on
  double flush_seconds = 120;              ///< a new record flushes after this time
  std::string suffix = {};                 ///< end of the file's name
};

class EventWriter {
 public:
  /// Makes the folder, if it does not exist, and in it a file called
  /// events.out.tfevents.TIME.HOST.PID.NUMBER; such names sort by time.
  explicit EventWriter(const std::string& folder, const EventWriterOptions& options = {});
  /// Flushes; a failure is not reported.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  /// The value may be NaN or infinite; it is stored as f32, as TensorBoard does.
  void add_scalar(const std::string& tag, double value, int64_t step);
  /// The image is (H, W), (1, H, W) or (3, H, W), of u8, or of floats where 0 is black and 1 white
  /// (values outside are clamped; NaN is black).
  void add_image(const std::string& tag, const Tensor& image, int64_t step);
  void add_image(const std::string& tag, const datasets::Picture& image, int64_t step);
  /// A histogram of all elements with `bins` bins of equal width. 0: the bins of TensorFlow, whose
  /// limits grow by a tenth each from 1e-12 (SummaryWriter's default).
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step, int bins = 0);
  /// The text is shown as Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step);

  /// Hands all records to the operating system.
  void flush();
  /// Flushes and waits until the records are on the disk, where they survive a loss of power.
  void sync();
  const std::string& path() const { return path_; }

 private:
  void add_event(const std::string& tag, const std::string& value, int64_t step);
  void write(const std::string& event);

  EventWriterOptions options_;
  std::string path_, buffer_;
  int fd_ = -1;
  int64_t written_ = 0;
  double flushed_ = 0;  // time of the last flush, in seconds of a steady clock
};

/// Whether there are event files in the folder.
bool has_event_files(const std::string& folder);

}  // namespace tern::training
