// Labelled pictures of CIFAR-10, CIFAR-100, MNIST and folders: reading, augmentation, runs.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/apps/train_cifar/images.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"
#include "tern/train/run_log.h"

namespace tern::apps::train_cifar {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string bytes_of(const datasets::Image& image) { return {image.begin(), image.end()}; }

std::string bytes_of(const LabelledSet& set, const PictureForm& form, int64_t i) {
  const uint8_t* at = set.bytes.get() + i * form.numbers();
  return {at, at + form.numbers()};
}

// The content of train.bin and test.bin, with the classes 7, 17, 27, ...
Words cifar100_files(const datasets::Cifar10& drawn) {
  Words files;
  for (const datasets::ImageSet* set : {drawn.train.get(), drawn.test.get()}) {
    std::string bytes;
    for (size_t i = 0; i < set->images.size(); ++i)
      bytes +=
          std::string{'\3', static_cast<char>(10 * set->labels[i] + 7)} + bytes_of(set->images[i]);
    files.push_back(bytes);
  }
  return files;
}

std::string idx(const std::vector<int>& sizes, const std::string& bytes) {
  std::string s{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const int n : sizes)
    for (const int shift : {24, 16, 8, 0}) s += static_cast<char>(n >> shift & 255);
  return s + bytes;
}

// Writes n grey pictures with one level each, of the classes 0 to 3 in turn.
void write_mnist(const std::string& dir, int n) {
  fs::create_directories(dir);
  std::string pixels, labels;
  for (int i = 0; i < n; ++i) {
    pixels += std::string(28 * 28, static_cast<char>(10 + 60 * (i % 4)));
    labels += static_cast<char>(i % 4);
  }
  for (const std::string name : {"train", "t10k"}) {
    test::write_file(dir + "/" + name + "-images-idx3-ubyte", idx({n, 28, 28}, pixels));
    test::write_file(dir + "/" + name + "-labels-idx1-ubyte.gz", test::gzip(idx({n}, labels)));
  }
}

// Writes n pictures of one colour per class, with 40 rows and 50 columns, brighter from file to
// file.
void write_folders(const std::string& dir, int n) {
  const std::vector<std::pair<std::string, std::array<int, 3>>> kColors = {
      {"black", {0, 0, 0}}, {"green", {0, 150, 0}}, {"red", {150, 0, 0}}};
  for (const auto& [name, color] : kColors) {
    fs::create_directories(dir + "/" + name);
    for (int i = 0; i < n; ++i) {
      datasets::Picture p{40, 50, std::vector<uint8_t>(3 * 40 * 50)};
      for (size_t j = 0; j < p.rgb.size(); ++j)
        p.rgb[j] = static_cast<uint8_t>(color[j % 3] + 5 * i);
      datasets::save_png(fmt::format("{}/{}/{:02}.png", dir, name, i), p);
    }
  }
}

std::multiset<std::string> all_bytes(const LabelledSet& set, const PictureForm& form) {
  std::multiset<std::string> all;
  for (int64_t i = 0; i < set.size(); ++i) all.insert(bytes_of(set, form, i));
  return all;
}

}  // namespace

TEST_CASE("train_cifar pictures: CIFAR-10, CIFAR-100 and MNIST are recognised by their files") {
  const test::TempDir dir;
  const datasets::Cifar10 drawn = draw_cifar10(20, 10, 1);
  datasets::write_cifar10(dir / "ten", drawn);
  const LabelledPictures ten = datasets::load_labelled_pictures(dir / "ten", 32, 0);
  CHECK(ten.class_names == drawn.class_names);
  CHECK(ten.form.normalization.mean == datasets::Normalization{}.mean);
  CHECK(bytes_of(ten.train, ten.form, 19) == bytes_of(drawn.train->images[19]));
  CHECK(data_checksum(ten) == data_checksum(drawn));

  const Words files = cifar100_files(drawn);
  fs::create_directories(dir / "hundred");
  test::write_file(dir / "hundred/train.bin", files[0]);
  test::write_file(dir / "hundred/test.bin", files[1]);
  test::write_file(
      dir / "hundred.tar.gz",
      test::gzip(test::tar_member("cifar-100-binary/train.bin", files[0]) +
                 test::tar_member("cifar-100-binary/test.bin", files[1]) + test::kTarEnd));
  for (const char* name : {"hundred", "hundred.tar.gz"}) {
    const LabelledPictures p = datasets::load_labelled_pictures(dir / name, 32, 0);
    CHECK(p.kind == "CIFAR-100");
    CHECK(p.form.classes == 100);
    CHECK(p.test.labels[3] == 37);
    CHECK(bytes_of(p.test, p.form, 3) == bytes_of(drawn.test->images[3]));
  }

  write_mnist(dir / "digits", 8);
  const LabelledPictures digits = datasets::load_labelled_pictures(dir / "digits", 28, 0);
  CHECK(digits.kind == "MNIST");
  CHECK(digits.form.channels == 1);
  CHECK(digits.class_names == Words{"0", "1", "2", "3"});
  CHECK(digits.train.labels == std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(bytes_of(digits.train, digits.form, 5) == std::string(28 * 28, 70));
  const LabelledPictures larger = datasets::load_labelled_pictures(dir / "digits", 40, 0);
  CHECK(bytes_of(larger.train, larger.form, 5) == std::string(40 * 40, 70));

  uint8_t grey = 0;  // .299 * 200 + .587 * 100 + .114 * 50 = 124.2
  datasets::write_planes({1, 1, {200, 100, 50}}, {.side = 1, .channels = 1}, &grey);
  CHECK(grey == 124);

  fs::create_directories(dir / "nothing");
  for (const char* looked_for : {"CIFAR-10 (", "CIFAR-100 (", "MNIST (", "for each class"})
    CHECK_THROWS_WITH_AS(datasets::load_labelled_pictures(dir / "nothing", 32, 0),
                         doctest::Contains(looked_for), IoError);
  CHECK_THROWS_WITH_AS(datasets::load_labelled_pictures(dir / "missing", 32, 0),
                       doctest::Contains("missing: no such"), IoError);
}

TEST_CASE("train_cifar pictures: folders of classes, with and without a test set") {
  const test::TempDir dir;
  write_folders(dir / "all", 7);
  const LabelledPictures p = datasets::load_labelled_pictures(dir / "all", 16, 3);
  CHECK(p.class_names == Words{"black", "green", "red"});
  CHECK(p.train.size() == 16);
  CHECK(p.test.size() == 5);
  CHECK(test::contains(p.note, "one in 5"));
  for (int64_t i = 0; i < 16; ++i) {  // one colour, stored plane by plane
    const std::string x = bytes_of(p.train, p.form, i);
    const auto label = p.train.labels[static_cast<size_t>(i)];
    const int step = static_cast<uint8_t>(x[label == 2 ? 256 : 0]);
    CHECK(step % 5 == 0);
    CHECK(x == std::string(256, static_cast<char>(step + (label == 2 ? 150 : 0))) +
                   std::string(256, static_cast<char>(step + (label == 1 ? 150 : 0))) +
                   std::string(256, static_cast<char>(step)));
  }
  std::multiset<std::string> both = all_bytes(p.train, p.form);
  both.merge(all_bytes(p.test, p.form));
  CHECK(std::set(both.begin(), both.end()).size() == 21);
  CHECK(data_checksum(datasets::load_labelled_pictures(dir / "all", 16, 3)) == data_checksum(p));
  CHECK(data_checksum(datasets::load_labelled_pictures(dir / "all", 16, 4)) != data_checksum(p));

  write_folders(dir / "two/train", 4);
  write_folders(dir / "two/val", 2);
  const LabelledPictures two = datasets::load_labelled_pictures(dir / "two", 16, 0);
  CHECK(two.train.size() == 12);
  CHECK(two.test.size() == 6);
  CHECK(two.note == "");
  for (const LabelledSet* set : {&p.train, &p.test, &two.train, &two.test})  // --limit 5 takes them
    CHECK(std::set(set->labels.begin(), set->labels.begin() + 5).size() > 1);
  fs::remove_all(dir / "two/val/red");
  CHECK_THROWS_WITH_AS(datasets::load_labelled_pictures(dir / "two", 16, 0),
                       doctest::Contains("are not the same"), IoError);
  test::write_file(dir / "all/red/broken.png", "no picture");
  CHECK_THROWS_WITH_AS(datasets::load_labelled_pictures(dir / "all", 16, 0),
                       doctest::Contains("red/broken.png"), IoError);
}

TEST_CASE("train_cifar pictures: other sets are normalised by their own mean and deviation") {
  const test::TempDir dir;
  write_folders(dir / "two/train", 5);
  write_folders(dir / "two/test", 1);
  const LabelledPictures p = datasets::load_labelled_pictures(dir / "two", 16, 0);
  const Tensor x = first_images(limited(p.train, p.form, 0), p.form, p.train.size());
  for (int64_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    const std::vector<double> v = slice(x, 1, c, c + 1).to_vector<double>();
    for (const double value : v) sum += value, squares += value * value;
    const auto n = static_cast<double>(v.size());
    CHECK(std::abs(sum / n) < 1e-6);  // values up to 2, in f32
    CHECK(std::abs(squares / n - 1) < 1e-6);
  }
}

TEST_CASE("train_cifar pictures: grey pictures are augmented like the same pictures in colour") {
  const PictureForm colour{.normalization = {{.4, .4, .4}, {.3, .3, .3}}};
  PictureForm grey = colour;
  grey.channels = 1;
  const datasets::Cifar10 drawn = draw_cifar10(10, 5, 1);
  auto planes = std::make_shared<std::vector<uint8_t>>();
  for (const datasets::Image& x : drawn.train->images)
    for (int c = 0; c < 3; ++c) planes->insert(planes->end(), x.begin(), x.begin() + 1024);
  auto one = std::make_shared<std::vector<uint8_t>>();
  for (const datasets::Image& x : drawn.train->images)
    one->insert(one->end(), x.begin(), x.begin() + 1024);
  const std::vector<int64_t> labels(10, 1);
  const datasets::LabelledLoaderOptions options{
      .order = {.batch = 10, .seed = 3}, .augment = datasets::AugmentOptions::named("strong")};
  auto in_colour = datasets::labelled_loader(limited({{planes, planes->data()}, labels}, colour, 0),
                                             colour, options);
  auto in_grey =
      datasets::labelled_loader(limited({{one, one->data()}, labels}, grey, 0), grey, options);
  const Tensor expected = slice(in_colour.next()->images, 1, 0, 1), found = in_grey.next()->images;
  CHECK(found.shape() == Shape{10, 1, 32, 32});
  CHECK(found.to_vector<float>() == expected.to_vector<float>());
}

TEST_CASE("train_cifar pictures: another side: pictures are shifted and mirrored") {
  constexpr int kSide = 12, kPixels = kSide * kSide;
  const PictureForm form{.side = kSide, .channels = 1, .normalization = {{0, 0, 0}, {1, 1, 1}}};
  auto bytes = std::make_shared<std::vector<uint8_t>>();
  for (int i = 0; i < 20 * kPixels; ++i) bytes->push_back(static_cast<uint8_t>(i * 37 % 251 + 1));
  const datasets::Dataset<LabelledPicture> set =
      limited({{bytes, bytes->data()}, std::vector<int64_t>(20, 0)}, form, 0);
  auto loader = datasets::labelled_loader(
      set, form,
      {.order = {.batch = 20, .seed = 1}, .augment = datasets::AugmentOptions::named("standard")});
  const datasets::Batch batch = *loader.next();
  const std::vector<float> images = batch.images.to_vector<float>();
  const std::vector<int64_t> indices = batch.indices.to_vector<int64_t>();
  std::set<std::array<int, 3>> seen;
  std::set<size_t> found;
  for (size_t i = 0; i < 20; ++i)
    for (int right = -4; right <= 4; ++right)
      for (int down = -4; down <= 4; ++down)
        for (int flip = 0; flip < 2; ++flip) {
          bool same = true;
          for (int p = 0; p < kPixels && same; ++p) {
            const int y = p / kSide - down, x = (flip ? kSide - 1 - p % kSide : p % kSide) - right;
            const bool inside = x >= 0 && x < kSide && y >= 0 && y < kSide;
            const int value = inside ? (*bytes)[indices[i] * kPixels + y * kSide + x] : 0;
            same = std::abs(images[i * kPixels + static_cast<size_t>(p)] * 255 - value) < 0.01;
          }
          if (same) seen.insert({right, down, flip}), found.insert(i);
        }
  CHECK(found.size() == 20);
  CHECK(seen.size() > 12);  // of 162 possible views, by 20 pictures with repetitions
}

TEST_CASE("train_cifar pictures: batches at any side equal the data library's bit for bit") {
  const datasets::Cifar10 drawn = draw_cifar10(20, 10, 1);
  const datasets::LoaderOptions order{.batch = 6, .seed = 3};
  const auto strong = datasets::AugmentOptions::named("strong");
  const datasets::MixOptions mix{.mixup = 0.2, .cutmix = 1};
  for (const int64_t side : {12, 32, 48}) {
    const LabelledPictures p(drawn, side);
    const datasets::Dataset<LabelledPicture> set = limited(p.train, p.form, 0);
    auto found =
        datasets::labelled_loader(set, p.form, {.order = order, .augment = strong, .mix = mix});
    auto options = strong;
    options.cutout = static_cast<int>(side / 4);  // in proportion: 8 for a side of 32
    auto expected = datasets::Loader<datasets::Batch>(
        20,
        [&](const datasets::BatchPlan& plan) {
          const int64_t n = std::ssize(plan.indices);
          datasets::Batch b{empty({n, 3, side, side}), empty({n}, DType::i64), {}, {}};
          plan.for_each_sample([&](int64_t i, int64_t index) {
            const std::string x = bytes_of(p.train, p.form, index);
            if (side == 32) CHECK(x == bytes_of(drawn.train->images[static_cast<size_t>(index)]));
            Rng rng = plan.sample_rng(index);
            datasets::augment(datasets::SquarePicture(x.begin(), x.end()), options, {}, rng,
                              b.images.mutable_data<float>() + i * p.form.numbers());
            b.labels.mutable_data<int64_t>()[i] = drawn.train->labels[static_cast<size_t>(index)];
          });
          b.indices = tensor(std::vector<int64_t>(plan.indices.begin(), plan.indices.end()));
          Rng rng = plan.batch_rng();
          b.targets = datasets::mix_targets(b.labels, 10, datasets::mix_images(b.images, mix, rng));
          return b;
        },
        order);
    int count = 0;
    for (const datasets::Batch& b : expected) {
      const std::optional<datasets::Batch> other = found.next();
      REQUIRE(other.has_value());
      CHECK(other->images.to_vector<float>() == b.images.to_vector<float>());
      CHECK(other->targets.to_vector<float>() == b.targets.to_vector<float>());
      CHECK(other->labels.to_vector<int64_t>() == b.labels.to_vector<int64_t>());
      CHECK(other->indices.to_vector<int64_t>() == b.indices.to_vector<int64_t>());
      ++count;
    }
    CHECK(count == 4);
  }
}

namespace {

CifarFlags run_on(const std::string& data, const std::string& out, int64_t side) {
  CifarFlags f;
  f.options.model = "gmlp-small";
  f.options.data = data;
  f.options.form.side = side;
  f.options.batch = 6;
  f.options.epochs = 1;
  f.options.lr = 1e-3;
  f.train.out = out;
  return f;
}

}  // namespace

TEST_CASE(
    "train_cifar pictures: a run on three folders, its report, its test and its predictions") {
  const test::TempDir dir;
  write_folders(dir / "all", 10);
  CifarFlags f = run_on(dir / "all", dir / "run", 16);
  f.options.epochs = 12;
  f.options.augment = "standard";
  f.options.cutmix = 0.1;
  REQUIRE(train_classifier(f) == 0);
  const training::RunFolder run{f.train.out};
  const TrainOptions o = load_config(run, std::nullopt);
  CHECK(o.form.side == 16);
  CHECK(o.form.classes == 3);
  CHECK(o.split_by_seed);
  CHECK(o.class_names == Words{"black", "green", "red"});

  const training::EpochRecord last = training::read_log(run.log()).epochs.back();
  CHECK(last.has("test_top2"));
  CHECK_FALSE(last.has("test_top3"));  // for three classes it would always be 1
  CHECK(last["test_top1"] == 1);
  const std::string page = test::read_file(run.file("report.html"));
  CHECK(test::contains(page, "<th>top-2</th>"));
  CHECK_FALSE(test::contains(page, "top-3"));
  CHECK(test::contains(page, "<th>black</th><th>green</th><th>red</th><th>recall</th>"));
  CHECK(test::contains(page, "24 training and 6 test images (one in 5, chosen by the seed)"));
  CHECK(test::contains(page, "gmlp-small on pictures"));

  CifarFlags again;
  again.train.resume = run.path;
  CHECK(train_classifier(again) == 0);
  CifarFlags eval;
  eval.options.data = dir / "all";
  eval.eval = run.best_weights();
  CHECK(evaluate_weights(eval) == 0);
  write_folders(dir / "fewer", 4);
  fs::remove_all(dir / "fewer/green");
  again.options.data = dir / "fewer";
  CHECK_THROWS_WITH_AS(train_classifier(again), doctest::Contains("other data"), IoError);

  ImageClassifier model = make_model(o);
  load_weights_of(run.best_weights(), model);
  const nn::EvalScope evaluating(model);
  const auto line_of = [&](const std::string& file, const Words& names) {
    return guess_line(guess({file}, model, names)[0], "text");
  };
  for (const char* name : {"black", "green", "red"}) {
    const std::string file = dir / fmt::format("all/{}/03.png", name);
    const std::string line = line_of(file, o.class_names);
    CHECK(line.starts_with(fmt::format("{}: {} ", file, name)));
    CHECK(std::count(line.begin(), line.end(), '%') == 3);
    CHECK(line.ends_with(" %\n"));
  }
  CHECK(test::contains(line_of(dir / "all/red/03.png", {}), ".png: 2 "));
  const auto read = [&](size_t) { return datasets::load_picture(dir / "all/red/03.png"); };
  CHECK(guess({"in memory"}, read, model, o.class_names)[0].classes[0].first == "red");

  CifarFlags predict;
  predict.weights = run.path;
  predict.predict = {dir / "all/red/01.png", dir / "all/black/01.png"};
  std::ostringstream out;
  CHECK(classify_pictures(predict, out) == 0);
  CifarFlags exporting;
  exporting.weights = run.path;
  exporting.export_onnx = dir / "model.onnx";
  CHECK(export_classifier(exporting) == 0);
  const test::OnnxFile onnx(exporting.export_onnx);
  CHECK(onnx.inputs[0].name == "images");
  CHECK(onnx.inputs[0].shape == Words{"N", "3", "16", "16"});
  CHECK(onnx.outputs[0].shape == Words{"N", "3"});
  CHECK(onnx.metadata.at("classes") == R"(["black","green","red"])");
  CHECK(onnx.nodes[0].op == "Sub");  // the mean of the pictures
  exporting.weights = dir / "all";
  CHECK_THROWS_AS(export_classifier(exporting), IoError);
  predict.weights = run.weights();
  predict.predict.push_back(test::write_file(dir / "text.png", "no picture"));
  predict.predict.push_back(dir / "missing.jpg");
  CHECK(classify_pictures(predict, out) == 2);
  predict.weights = dir / "all";
  CHECK_THROWS_AS(classify_pictures(predict, out), IoError);
}

TEST_CASE("train_cifar pictures: runs on CIFAR-100 and MNIST") {
  const test::TempDir dir;
  const Words files = cifar100_files(draw_cifar10(20, 10, 1));
  fs::create_directories(dir / "hundred");
  test::write_file(dir / "hundred/train.bin", files[0]);
  test::write_file(dir / "hundred/test.bin", files[1]);
  write_mnist(dir / "digits", 16);
  TrainOptions mirrored = default_options("airbench94");
  mirrored.data = dir / "digits";
  choose_model(mirrored, {"model"});
  CHECK_FALSE(mirrored.flip);
  for (const auto& [set, pixels] : {std::pair("hundred", 32), {"digits", 28}, {"digits", 32}}) {
    const std::string name = set;  // clang 14 cannot capture a structured binding
    const int64_t side = pixels;
    CAPTURE(name);
    CifarFlags f = run_on(dir / name, dir / fmt::format("{}-{}", name, side), side);
    f.options.augment = "strong";
    f.options.mixup = 0.2;
    f.options.hold_out = 0.25;
    REQUIRE(train_classifier(f) == 0);
    const TrainOptions o = load_config({f.train.out}, std::nullopt);
    CHECK(o.form.classes == (o.form.channels == 3 ? 100 : 4));
    CHECK(o.form.side == side);
    CifarFlags again;
    again.train.resume = f.train.out;
    CHECK(train_classifier(again) == 0);
    f.eval = training::RunFolder{f.train.out}.best_weights();
    CHECK(evaluate_weights(f) == 0);
    f.train.out += "-dry";
    f.train.dry_run = true;
    CHECK(train_classifier(f) == 0);
  }
  CifarFlags f = run_on(dir / "digits", dir / "patches", 28);
  f.options.model = "gmlp-4m";
  CHECK_THROWS_WITH_AS(train_classifier(f), doctest::Contains("28 pixels; give another --side"),
                       Error);
  CHECK_FALSE(fs::exists(dir / "patches"));
}

TEST_CASE("train_cifar pictures: flags") {
  using test::parse;
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", draw_cifar10(20, 10, 1));
  CHECK(parse({"--data", dir / "ten", "--side", "64"}).options.form.side == 64);
  CHECK(parse({"--weights", "w", "--predict", "a.png", "b.jpg"}).predict ==
        Words{"a.png", "b.jpg"});
  CHECK_THROWS_WITH_AS(parse({"--predict", "a.png"}),
                       doctest::Contains("--predict needs --weights"), Error);
  CHECK_THROWS_WITH_AS(parse({"--weights", "w"}), doctest::Contains("it is for --predict"), Error);
  CHECK(parse({"--data", dir / "ten", "--side", "64", "--augment", "strong"}).options.augment ==
        "strong");
  for (const Words& wrong : std::vector<Words>{{"--side", "7"},
                                               {"--predict", "a", "--weights", "w", "--lr", "1"},
                                               {"--resume", "d", "--side", "64"}})
    CHECK_THROWS_AS(parse(wrong), Error);
}

}  // namespace tern::apps::train_cifar
