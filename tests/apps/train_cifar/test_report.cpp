// What the report shows of a model: maps with their labels, and pictures under maps.
#include <doctest/doctest.h>

#include <regex>
#include <set>

#include "tern/apps/common/color.h"
#include "tern/apps/train_cifar/describe.h"
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::train_cifar::test_report {
namespace {

// One epoch of one step, closed, and what the report is made of.
ReportData trained(const std::variant<models::GmlpOptions, models::VitOptions>& options) {
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

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
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
    CHECK(of_patches < 1);  // the rest is the class token's own
  }
  CHECK(last.values[0].to_vector<float>() != last.values[1].to_vector<float>());
  const std::string page = make_report(d);
  CHECK(page.find("<h2 id=\"attention\">Attention</h2>") != page.npos);
  CHECK(count(page, "<th>head 2</th>") == 4);
  CHECK(count(page, "title=\"Layer 1, head 2: ") == 4);
  CHECK(count(page, "<figcaption>Rollout: ") == 4);
  // One scale for all of them, which begins at an even share of 16 patches.
  CHECK(page.find("6.25 %, an even share of 16 patches.") != page.npos);
  CHECK(count(page, ">6.25 %</text>") == 1);
  CHECK(count(page, ">25 %</text>") == 1);  // four even shares, as none of these heads has more
  CHECK(page.find("<a href=\"#attention\">") < page.find("<h2"));
}

TEST_CASE("train_cifar report: maps are called heads only where they are") {
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

  const ReportData nothing;  // of a model that tells nothing of itself
  const std::string page = make_report(nothing);
  CHECK(page.find("What the model sees") == page.npos);
  CHECK(page.find("training, head") == page.npos);
}

TEST_CASE("train_cifar report: numbers of the confusion matrix can be read on their colours") {
  ReportData d;
  for (int i = 0; i < 20; ++i) d.class_names.push_back(std::to_string(i));
  for (int64_t i = 0; i < 400; ++i) d.confusion.push_back(i % 21 == 0 ? 9 * i : i % 20 * (i / 20));
  d.confusion[0] = 5;  // the only one of its row: all right
  std::fill(d.confusion.begin() + 20, d.confusion.begin() + 40, 0);
  d.confusion[22] = 7;  // all wrong
  const std::string page = make_report(d);
  const std::regex cell("class=\"share (hit|miss)\" style=\"--share:([0-9.]+)%\"");
  size_t cells = 0;
  std::set<std::string> colors;
  for (std::sregex_iterator it(page.begin(), page.end(), cell), end; it != end; ++it, ++cells) {
    for (const Theme* t : {&kLightTheme, &kDarkTheme}) {  // as the style sheet mixes it
      const Rgb color =
          mix(t->paper, (*it)[1] == "hit" ? t->good : t->bad, std::stod((*it)[2]) / 100);
      CHECK(contrast(color, t->ink) >= 4.5);
    }
    colors.insert(it->str());
  }
  CHECK(cells > 300);
  CHECK(colors.size() > 30);
  CHECK(page.find("<td>0</td>") != page.npos);  // as the page is
}

TEST_CASE("train_cifar report: of hundreds of classes those that are mistaken most") {
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
  const size_t worst = page.find("<tr><td>class &lt;7&gt;</td><td>10.0% of 10</td></tr>"),
               next = page.find("<tr><td>class &lt;5&gt;</td><td>75.0% of 12</td></tr>"),
               mistaken = page.find(
                   "<tr><td>class &lt;7&gt;</td><td>taken for class &lt;8&gt;</td>"
                   "<td>9 of 10</td></tr>");
  CHECK(worst < next);
  CHECK(next < mistaken);
  CHECK(mistaken != page.npos);
}

TEST_CASE("train_cifar report: an overlay is red where a patch has more than an even share") {
  Bitmap p{4, 4, std::vector<uint8_t>(48, 100)};
  for (size_t i = 0; i < 16; ++i) p.rgb[3 * i] = 200;  // reddish
  const Bitmap b = overlay(p, {0.1f, 0.25f, 0.4f, 0.2875f}, 2, 2);
  auto pixel = [](const Bitmap& of, size_t x, size_t y) { return &of.rgb[3 * (4 * y + x)]; };
  CHECK(pixel(b, 0, 0)[0] == 130);  // 0.299 * 200 + 0.701 * 100
  CHECK(pixel(b, 0, 0)[2] == 130);
  CHECK(pixel(b, 3, 1)[1] == 130);  // an even share of four patches
  CHECK(pixel(b, 0, 2)[0] == doctest::Approx(0.25 * 130 + 0.75 * 214).epsilon(0.01));
  // A quarter of the way: half as red, by the square root.
  CHECK(pixel(b, 3, 3)[0] == doctest::Approx(0.625 * 130 + 0.375 * 214).epsilon(0.01));
  // In the scale of a picture with larger shares the same ones are paler.
  const Bitmap paler = overlay(p, {0.1f, 0.25f, 0.4f, 0.2875f}, 2, 2, 0.85);
  CHECK(pixel(paler, 0, 2)[0] == doctest::Approx(0.625 * 130 + 0.375 * 214).epsilon(0.01));
  // A head that looks everywhere alike is grey, whatever the others do.
  for (double most : {0.0, 0.9}) {
    const Bitmap even = overlay(p, {0.25f, 0.25f, 0.25f, 0.25f}, 2, 2, most);
    CHECK(std::all_of(even.rgb.begin(), even.rgb.end(), [](uint8_t v) { return v == 130; }));
  }
  CHECK_THROWS_AS(overlay(p, {1, 2, 3}, 2, 2), Error);
}

TEST_CASE("train_cifar report: patches are told apart by lines of the page's colour") {
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
