// The report of a classifier: maps of the model with labels, maps over pictures, the confusion
// matrix, scores per class.
#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <set>

#include "tern/apps/common/pages/color.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/errors.h"

namespace tern::apps::train_cifar::test_report {
namespace {

using test::count;

// Trains one epoch of one step and collects the data of the report.
ReportData trained(const decltype(ClassifierEntry::options)& options) {
  Rng rng(1);
  TrainOptions o;
  o.epochs = 1;
  o.batch = 10;
  const datasets::Cifar10 data = draw_cifar10(10, 6, 1);
  CifarTraining t(o, data, ClassifierEntry{"small", options}.make(0, rng));
  t.loop.step();
  REQUIRE(t.loop.close_epoch());
  return report_data(t, {}, data.class_names);
}

models::VitOptions small_vit() {
  return {.image = 32, .patch = 8, .dim = 8, .layers = 2, .heads = 2, .classes = 10};
}

TEST_CASE("train_cifar report: attention of every head and the rollout over test images") {
  const ReportData d = trained(small_vit());
  REQUIRE(d.patches.maps.size() == 3);
  const models::PatchMap &rollout = d.patches.maps[0], &last = d.patches.maps[2];
  CHECK(rollout.title == "Rollout");
  CHECK(rollout.labels.empty());
  CHECK(rollout.values.shape() == Shape{4, 1, 4, 4});
  CHECK(last.title == "Layer 2");
  CHECK(last.labels == std::vector<std::string>{"head 1", "head 2"});
  CHECK(last.values.shape() == Shape{4, 2, 4, 4});
  for (int64_t i = 0; i < 4; ++i) {
    const double of_patches = sum(rollout.values[i]).item();
    CHECK(of_patches > 0);
    CHECK(of_patches < 1);  // the class token has the rest
  }
  CHECK(last.values[0].to_vector<float>() != last.values[1].to_vector<float>());
  const std::string page = make_report(d);
  CHECK(page.find("<h2 id=\"attention\">Attention</h2>") != page.npos);
  CHECK(count(page, "<th>head 2</th>") == 4);
  CHECK(count(page, "title=\"Layer 1, head 2: ") == 4);
  CHECK(count(page, "<figcaption>Rollout: ") == 4);
  CHECK(count(page, ", predicted: ") == 8);  // below each picture, and as its text alternative
  // All heads share one scale from 0. The rollout has its own.
  CHECK(page.find("an even share of 16 patches is 6.25 %.") != page.npos);
  CHECK(page.find("Rollout has its own") != page.npos);
  CHECK(count(page, ">6.25 %</text>") == 1);
  CHECK(count(page, ">25 %</text>") == 1);  // four even shares: no head exceeds them
  CHECK(page.find("<a href=\"#attention\">") < page.find("<h2"));
}

TEST_CASE("train_cifar report: only maps of heads are called heads") {
  models::VitOptions vit = small_vit();
  const std::string positions = make_report(trained(vit));
  CHECK(positions.find("<h2 id=\"positions\">Positions</h2>") != positions.npos);
  CHECK(positions.find("before training, head") == positions.npos);
  CHECK(positions.find("mean of the heads") == positions.npos);
  vit.positions = models::VitPositions::sincos;
  CHECK(make_report(trained(vit)).find("Positions") == std::string::npos);

  models::GmlpOptions gmlp{.patch = 8, .dim = 8, .layers = 1};
  CHECK(make_report(trained(gmlp)).find("training, head") == std::string::npos);
  gmlp.gate.heads = 2;
  const std::string heads = make_report(trained(gmlp));
  for (const char* label : {"before training, head 1", "after training, head 2",
                            "before training, mean of the heads", "after training, mean of"})
    CHECK(count(heads, std::string("<figcaption>") + label) == 1);
  CHECK(heads.find("head 3") == heads.npos);
  CHECK(heads.find("Test images in grey") == heads.npos);

  ReportData d;
  d.before.maps = {{"L", ones({2, 1, 1})}};
  d.after.maps = {{"L", zeros({2, 1, 1})}};
  CHECK(count(make_report(d), "<figcaption>before training</figcaption>") == 2);

  const ReportData nothing;  // a model that has no maps
  const std::string page = make_report(nothing);
  CHECK(page.find("What the model sees") == page.npos);
  CHECK(page.find("training, head") == page.npos);
}

TEST_CASE(
    "train_cifar report: numbers of the confusion matrix have enough contrast on their colours") {
  ReportData d;
  for (int i = 0; i < 20; ++i) d.class_names.push_back(std::to_string(i));
  for (int64_t i = 0; i < 400; ++i) d.confusion.push_back(i % 21 == 0 ? 9 * i : i % 20 * (i / 20));
  d.confusion[0] = 5;  // all others of this row are 0: all right
  std::fill(d.confusion.begin() + 20, d.confusion.begin() + 40, 0);
  d.confusion[22] = 7;  // all wrong
  const std::string page = make_report(d);
  const std::regex cell("class=\"share (hit|miss)\" style=\"--share:([0-9.]+)%\"");
  size_t cells = 0;
  std::set<std::string> colors;
  for (std::sregex_iterator it(page.begin(), page.end(), cell), end; it != end; ++it, ++cells) {
    for (const Theme* t : {&kLightTheme, &kDarkTheme}) {  // the colours that the style sheet mixes
      const Rgb color =
          mix(t->paper, (*it)[1] == "hit" ? t->good : t->bad, std::stod((*it)[2]) / 100);
      CHECK(contrast(color, t->ink) >= 4.5);
    }
    colors.insert(it->str());
  }
  CHECK(cells > 300);
  CHECK(colors.size() > 30);
  CHECK(page.find("<td>0</td>") != page.npos);  // cells of zeros have no colour
}

TEST_CASE("train_cifar report: of hundreds of classes, the most frequent confusions are shown") {
  constexpr size_t kClasses = 300;
  ReportData d;
  d.confusion.resize(kClasses * kClasses);
  for (size_t i = 0; i < kClasses; ++i) {
    d.class_names.push_back(fmt::format("class <{}>", i));
    d.confusion[i * kClasses + i] = i == 7 ? 1 : 9;
    d.confusion[i * kClasses + (i + 1) % kClasses] = i == 7 ? 9 : i == 5 ? 3 : 1;
  }
  const std::string page = make_report(d);
  CHECK(page.size() < 50'000);
  CHECK(page.find("Test images, 300 classes.") != page.npos);
  const size_t worst = page.find(
                   "<tr><td>class &lt;7&gt;</td><td>10.0% of 10</td><td>precision 50.0%</td>"),
               next = page.find("<tr><td>class &lt;5&gt;</td><td>75.0% of 12</td>"),
               mistaken = page.find(
                   "<tr><td>class &lt;7&gt;</td><td>taken for class &lt;8&gt;</td>"
                   "<td>9 of 10</td></tr>");
  CHECK(worst < next);
  CHECK(next < mistaken);
  CHECK(mistaken != page.npos);
}

TEST_CASE("train_cifar report: a map of patches beside the picture, with its own scale") {
  const Bitmap p{4, 4, std::vector<uint8_t>(48, 100)};
  // Nearly equal, like the shares of a rollout.
  const Tensor shares = tensor({0.24, 0.245, 0.25, 0.265}, {2, 2});
  const Bitmap b = picture_and_map(p, shares);
  CHECK(b.height == 4);
  REQUIRE(b.width == 8);
  auto pixel = [&](size_t x, size_t y) {
    return Rgb{b.rgb[3 * (8 * y + x)], b.rgb[3 * (8 * y + x) + 1], b.rgb[3 * (8 * y + x) + 2]};
  };
  for (size_t y = 0; y < 4; ++y)
    for (size_t x = 0; x < 4; ++x) CHECK(hex(pixel(x, y)) == "#646464");  // unchanged
  CHECK(hex(pixel(4, 0)) == hex(weight_color(0)));
  CHECK(hex(pixel(5, 1)) == hex(weight_color(0)));
  CHECK(hex(pixel(6, 0)) == hex(weight_color(0.2)));
  CHECK(hex(pixel(4, 3)) == hex(weight_color(0.4)));
  CHECK(hex(pixel(7, 3)) == hex(weight_color(1)));
  for (const uint8_t v : picture_and_map(p, full({2, 2}, 0.25)).rgb)
    CHECK((v == 100 || v == 255));  // equal shares: no colour
}

TEST_CASE("train_cifar report: recall, precision and F1 of each class") {
  // 3 of 4 pictures of class a are found, and 5 are predicted as a. No picture is predicted as c,
  // and none is of class d.
  const std::vector<int64_t> counts = {3, 1, 0, 0,  //
                                       2, 4, 0, 0,  //
                                       0, 2, 0, 0,  //
                                       0, 0, 0, 0};
  const std::vector<ClassScores> s = class_scores(counts, 4);
  CHECK(s[0].recall == doctest::Approx(3. / 4));
  CHECK(s[0].precision == doctest::Approx(3. / 5));
  CHECK(s[0].f1 == doctest::Approx(2 * .75 * .6 / (.75 + .6)));
  CHECK(s[2].recall == 0);
  CHECK(std::isnan(s[2].precision));
  CHECK(s[2].f1 == 0);
  CHECK(std::isnan(s[3].f1));
  CHECK_THROWS_AS(class_scores(counts, 3), Error);
  ReportData d;
  d.class_names = {"a", "b", "c", "d"};
  d.confusion = counts;
  const std::string page = make_report(d);
  CHECK(page.find("<th>recall</th><th>precision</th><th>F1</th></tr>") != page.npos);
  CHECK(page.find("<td>75.0%</td><td>60.0%</td><td>66.7%</td></tr>") != page.npos);
  CHECK(page.find("<td>0.0%</td><td>-</td><td>0.0%</td></tr>") != page.npos);
  // (2/3 + 8/13 + 0) / 3: the mean over the classes that occur.
  CHECK(page.find("Mean F1 of the classes: 42.7%.") != page.npos);
}

TEST_CASE("train_cifar report: the result gives the number of images and its confidence interval") {
  ReportData d;
  d.images = 96;
  d.ranks = 1;
  d.run.epochs = {{.epoch = 1, .metrics = {{"test_top1", 57. / 96}}}};
  CHECK(make_report(d).find("59.4 % of 96 test images (95 % confidence: 49.4 to 68.7 %)") !=
        std::string::npos);
  d.held_out = true;
  d.run.epochs[0].metrics = {{"valid_top1", 0.5}};
  CHECK(make_report(d).find("50.0 % of 96 images held out") != std::string::npos);
  d.tested = {{"valid_top1", 0.25}};
  CHECK(make_report(d).find("25.0 % of 96 test images") != std::string::npos);
}

TEST_CASE("train_cifar report: with a stem no patches are cut; tokens are places of its output") {
  models::GmlpOptions o{.stem = {{4, 2}, {4, 2}}, .patch = 2, .dim = 8, .layers = 1};
  const ReportData d = trained(o);
  CHECK(d.stem == 2);
  const std::string page = make_report(d);
  CHECK(page.find("a token for each 8 x 8 pixels, 16 in all: the stem&#39;s 2 convolutions") !=
        page.npos);
  CHECK(page.find("cut into") == page.npos);
  CHECK(page.find("the others are the places of the stem&#39;s output in reading") != page.npos);
  Rng rng(1);
  CHECK(models::Gmlp(o, rng).summary() ==
        "1 blocks on 17 tokens of 8 channels, behind a stem of 2 convolutions");
}

TEST_CASE("train_cifar report: lines in the page's colour separate the patches") {
  ReportData d;
  d.class_names = {"one"};
  d.predictions = {{{8, 8, std::vector<uint8_t>(3 * 64, 50)}, 0, {1}}};
  d.patch = 4;
  const std::string page = make_report(d);
  CHECK(page.find("<path class=\"cut\" stroke-width=\"6\" d=\"M24 0v48M0 24h48\"/>") != page.npos);
  CHECK(page.find("cut into 4 patches of 4 x 4") != page.npos);
}

}  // namespace
}  // namespace tern::apps::train_cifar::test_report
