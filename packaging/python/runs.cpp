// Runs of the programs train_cifar and translate.
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "package.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/apps/translate/input.h"
#include "tern/core/ops/ops.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::python {
namespace {

using apps::train_cifar::TrainedClassifier;
using Guess = std::vector<std::pair<std::string, float>>;  // classes with their probabilities
using Path = std::filesystem::path;

void open(TrainedClassifier* self, const Path& path) {
  new (self) TrainedClassifier(
      computed([&] { return apps::train_cifar::load_trained("Classifier", path.string()); }));
  nn::set_training(self->model, false);
}

/// A PIL.Image as an array uint8, with the pixels that tern reads from its file.
nb::object array_of(const nb::object& image) {
  const nb::object numpy = nb::module_::import_("numpy");
  const auto mode = nb::cast<std::string>(image.attr("mode"));
  // convert() would clip these at 255.
  if (mode.starts_with("I;16"))
    return numpy.attr("right_shift")(numpy.attr("asarray")(image), 8).attr("astype")("uint8");
  check(mode != "I" && mode != "F",
        "a picture is a PIL.Image of 8 or 16 bits, not of mode {}; scale it to uint8 first", mode);
  return numpy.attr("asarray")(image.attr("convert")("RGB"));
}

/// The pixels of a PIL.Image, or of an array uint8 (H, W, 3) or (H, W).
datasets::Picture pixels_of(nb::object picture, bool upright) {
  if (nb::hasattr(picture, "convert")) {
    if (upright) picture = nb::module_::import_("PIL.ImageOps").attr("exif_transpose")(picture);
    picture = array_of(picture);
  }
  // A tensor would not show that it was bool, whose values 0 and 1 are almost the same black.
  const nb::object dtype = nb::getattr(picture, "dtype", nb::none());
  check(!nb::cast<std::string>(nb::str(dtype)).ends_with("bool"),
        "a picture is an array uint8, not bool; multiply it by 255");
  Tensor t = from_object(picture);
  if (t.ndim() == 2) t = expand(unsqueeze(t, 2), {-1, -1, 3});
  check(t.ndim() == 3 && t.size(2) == 3 && t.dtype() == DType::u8 && t.numel() > 0,
        "a picture is a path, a PIL.Image, or an array uint8 (H, W, 3) or (H, W), not {} {}",
        t.dtype(), t.shape());
  return {t.size(0), t.size(1), t.to_vector<uint8_t>()};
}

std::variant<Guess, std::vector<Guess>> classify(const TrainedClassifier& self,
                                                 const nb::object& pictures, int64_t top) {
  check(top > 0, "Classifier: top must be positive, it is {}", top);
  const bool several = nb::isinstance<nb::list>(pictures) || nb::isinstance<nb::tuple>(pictures);
  const nb::list list = several ? nb::list(pictures) : nb::list(nb::make_tuple(pictures));
  const bool upright = self.run.exif_rotation;
  std::vector<std::string> names;
  std::vector<datasets::Picture> pixels;  // none: names[i] is a file
  for (const nb::handle picture : list) {
    Path path;
    const bool file = nb::try_cast(picture, path);
    names.push_back(file ? path.string() : fmt::format("picture {}", names.size() + 1));
    pixels.push_back(file ? datasets::Picture{} : pixels_of(nb::borrow(picture), upright));
  }
  const auto read = [&](size_t i) {
    return pixels[i].rgb.empty() ? datasets::load_picture(names[i], {.upright = upright})
                                 : std::move(pixels[i]);
  };
  const auto found = computed([&] {
    return guess(names, read, self.model, self.run.class_names,
                 {.top = top, .views = apps::train_cifar::views_named(self.run.tta)});
  });
  std::vector<Guess> guesses;
  for (const auto& g : found) {
    check_io(g.error.empty(), "{}", g.error);
    guesses.push_back(g.classes);
  }
  if (several) return guesses;
  return guesses[0];
}

struct Translator {
  apps::translate::Translator parts;
  apps::translate::Search search;

  Translator(const Path& folder, const apps::translate::SearchOptions& options,
             std::optional<double> alpha)
      : parts(apps::translate::load_translator(folder.string())),
        search(std::move(parts.model),
               apps::translate::completed(options, alpha, {folder.string()}, parts.config)) {}
};

void new_translator(Translator* self, const Path& folder, int64_t beam, std::optional<double> alpha,
                    const std::string& weights, int64_t shortlist) {
  const bool int8 = weights == "int8", int4 = weights == "int4";
  check(weights == "f32" || int8 || int4, "weights are f32, int8 or int4, not '{}'", weights);
  const nb::gil_scoped_release no_gil;
  new (self) Translator(
      folder,
      {.beam = beam, .int8 = int8, .int4 = int4, .shortlist = shortlist, .log_probs = false},
      alpha);
}

Texts translate(const Translator& self, const Texts& texts) {
  return each(texts, [&](const std::vector<std::string>& lines) {
    std::vector<std::string> notes, out;
    const auto found = computed({}, [&](const Tick& tick) {
      apps::translate::InputLines input(self.parts,
                                        [&](const std::string& note) { notes.push_back(note); });
      auto best = input.translate(self.search, lines, 1, 1, [&](int64_t) { return tick(""); });
      input.finish();
      return best;
    });
    for (const std::string& note : notes) warn(note);
    for (const auto& best : found) out.push_back(datasets::replace_invalid_utf8(best[0].text));
    return out;
  });
}

}  // namespace

void bind_runs(nb::module_& m) {
  nb::class_<TrainedClassifier>(m, "Classifier",
                                "A trained classifier of pictures. Threads may share it.")
      .def("__init__", &open, "path"_a,
           "path: the folder of a run of train_cifar, or weights in it.")
      .def("__call__", &classify, "pictures"_a, "top"_a = 3,
           "The likeliest classes of a picture, each with its probability, the likeliest first; "
           "for a list of pictures a list of these. A picture is the path of a PNG or JPEG, a "
           "PIL.Image, or an array uint8 (H, W, 3) or (H, W).")
      .def_prop_ro("classes", [](const TrainedClassifier& self) { return self.run.class_names; });
  nb::class_<Translator>(m, "Translator", "A trained translator. Threads may share it.")
      .def("__init__", &new_translator, "folder"_a, nb::kw_only(), "beam"_a = 1,
           "alpha"_a = nb::none(), "weights"_a = "f32", "shortlist"_a = 0,
           "folder: of a run of translate train. beam: hypotheses of a search; 1: greedy. alpha: "
           "strength of its length penalty; None: what translate tune found, else 0.6. weights: "
           "f32, int8 or int4. shortlist: words that the "
           "lexicon of translate shortlist offers for each token; 0: all words.")
      .def("__call__", &translate, "texts"_a,
           "The translation of a text, or of each text of a list. Notes about a text, as translate "
           "run prints them, are warnings.");
}

}  // namespace tern::python
