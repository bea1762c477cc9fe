// Event files of writers and loops, read back by tests/train/event_reader.h, which shares no code
// with the writer.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tern/core/io/atomic_file.h"
#include "tern/data/images/picture.h"
#include "tern/tests/train/event_reader.h"
#include "tern/tests/train/train_fixture.h"
#include "tern/train/detail/event_records.h"

namespace tern::test::test_tensorboard {
namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The events that `add` writes, without the head of the file.
template <class F>
std::vector<Event> written(F add) {
  TempDir dir;
  {
    EventWriter events(dir.path());
    add(events);
  }
  const std::vector<std::string> files = event_files(dir.path());
  REQUIRE(files.size() == 1);
  std::vector<Event> out = read_events(files[0]);
  REQUIRE(out.size() >= 1);
  CHECK(out[0].version == "brain.Event:2");
  out.erase(out.begin());
  return out;
}

Event histogram_of(const Tensor& values, int bins) {
  return written([&](EventWriter& w) { w.add_histogram("h", values, 1, bins); }).at(0);
}

// The steps of the events with this tag.
std::vector<int64_t> steps_of(const std::vector<Event>& events, const std::string& tag) {
  std::vector<int64_t> out;
  for (const Event& e : events)
    if (e.tag == tag) out.push_back(e.step);
  return out;
}

}  // namespace

TEST_CASE("tensorboard: CRC-32C of RFC 3720, and the masked CRC") {
  CHECK(crc32c("123456789") == 0xE3069283);            // the usual check value
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  CHECK(crc32c(ascending) == 0x46DD794E);
  CHECK(crc32c("") == 0);
  CHECK(masked_crc32c("") == 0xA282EAD8);
}

TEST_CASE("tensorboard: scalars are read back with tag, step and time") {
  const auto events = written([](EventWriter& w) {
    w.add_scalar("train/loss", 1.25, 1);
    w.add_scalar("train/loss", kNan, 300);
    w.add_scalar("größe", -INFINITY, int64_t{1} << 40);
    w.add_text("command", "# run", 0);
  });
  REQUIRE(events.size() == 4);
  CHECK(events[0].tag == "train/loss");
  CHECK(events[0].step == 1);
  CHECK(events[0].scalar() == 1.25F);
  CHECK(events[0].wall_time > 1.6e9);
  CHECK(events[0].wall_time <= events[1].wall_time);
  CHECK(events[1].step == 300);
  CHECK(std::isnan(events[1].scalar()));
  CHECK(events[2].tag == "größe");
  CHECK(events[2].step == int64_t{1} << 40);
  CHECK(events[2].scalar() == -INFINITY);
  CHECK(parse_message(events[3].value.find(8)->second.bytes).find(8)->second.bytes == "# run");
}

TEST_CASE("tensorboard: images are PNG files of the values") {
  const Tensor gray = tensor({0.0, 0.5, 1.0, 2.0, -1.0, kNan}, {2, 3});
  const Tensor rgb = tensor({255.0, 0.0, 0.0, 7.0, 0.0, 0.0}, {3, 1, 2}).to(DType::u8);
  const auto events = written([&](EventWriter& w) {
    w.add_image("gray", gray, 3);
    w.add_image("rgb", rgb, 4);
    w.add_image("one", reshape(gray, {1, 2, 3}), 4);
    w.add_image("turned", transpose(gray, 0, 1), 4);
    CHECK_THROWS_WITH_AS(w.add_image("x", zeros({2, 3, 3}), 1),
                         doctest::Contains("'x' must be (H, W), (1, H, W) or (3, H, W)"), Error);
    CHECK_THROWS_AS(w.add_image("x", zeros({0, 3}), 1), Error);
    CHECK_THROWS_AS(w.add_image("x", zeros({2, 3}, DType::i64), 1), Error);
  });
  REQUIRE(events.size() == 4);
  auto decoded = [&](size_t i) {
    const Fields image = events[i].image();
    CHECK(image.find(3)->second.integer == 3);  // RGB
    const auto p = datasets::decode_picture(bytes_of(image.find(4)->second.bytes), "png");
    CHECK(image.find(1)->second.integer == static_cast<uint64_t>(p.height));
    CHECK(image.find(2)->second.integer == static_cast<uint64_t>(p.width));
    return p;
  };
  const std::vector<uint8_t> grays = {0, 128, 255, 255, 0, 0};
  const datasets::Picture first = decoded(0);
  CHECK(first.height == 2);
  REQUIRE(first.rgb.size() == 18);
  for (size_t i = 0; i < 18; ++i) CHECK(first.rgb[i] == grays[i / 3]);
  CHECK(decoded(1).rgb == std::vector<uint8_t>{255, 0, 0, 0, 7, 0});
  CHECK(decoded(2).rgb == first.rgb);
  CHECK(decoded(3).row(0)[3] == 255);
}

TEST_CASE("tensorboard: a histogram counts the values between its limits") {
  Rng rng(1);
  for (const int bins : {0, 1, 7, 64})
    for (const double scale : {1e-14, 1e-3, 1.0, 1e25})
      for (const double shift : {-3.0, 0.0, 0.5}) {
        CAPTURE(bins);
        CAPTURE(scale);
        const Tensor x = ((randn({100}, rng, DType::f64) + shift) * scale).detach();
        const Fields h = histogram_of(x, bins).histogram();
        const std::vector<double> v = x.to_vector<double>();
        const auto limits = h.find(6)->second.packed(), counts = h.find(7)->second.packed();
        REQUIRE(limits.size() == counts.size());
        CHECK(h.find(1)->second.f64() == *std::min_element(v.begin(), v.end()));
        CHECK(h.find(2)->second.f64() == *std::max_element(v.begin(), v.end()));
        CHECK(h.find(3)->second.f64() == 100);
        CHECK(h.find(4)->second.f64() == doctest::Approx(std::accumulate(v.begin(), v.end(), 0.)));
        CHECK(std::is_sorted(limits.begin(), limits.end()));
        CHECK(std::accumulate(counts.begin(), counts.end(), 0.) == 100);
        CHECK(counts.back() > 0);
        CHECK(limits.size() <= (bins > 0 ? static_cast<size_t>(bins) + 1 : 202));
        for (size_t i = 0; i < limits.size(); ++i) {
          const double low = i == 0 ? -INFINITY : limits[i - 1];
          const auto within = std::count_if(v.begin(), v.end(), [&](double y) {
            return y <= limits[i] && (y > low || (bins > 0 && i == 1 && y == low));
          });
          if (bins == 0) CHECK(within == counts[i]);
          // Limits of equal bins are rounded, so a value on a limit may be in either bucket.
          if (bins > 0) CHECK(std::abs(static_cast<double>(within) - counts[i]) <= 1);
        }
      }
}

TEST_CASE("tensorboard: histograms of odd values") {
  for (const int bins : {0, 5}) {
    const Fields same = histogram_of(full({4}, 2.5), bins).histogram();
    CHECK(same.find(1)->second.f64() == 2.5);
    const auto counts = same.find(7)->second.packed();
    CHECK(std::accumulate(counts.begin(), counts.end(), 0.) == 4);
    CHECK(histogram_of(zeros({3}, DType::i64), bins).histogram().find(5)->second.f64() == 0);
    CHECK(histogram_of(scalar(7.0), bins).histogram().find(3)->second.f64() == 1);
  }
  written([](EventWriter& w) {
    CHECK_THROWS_WITH_AS(w.add_histogram("w", tensor({1.0, kNan}, {2}), 1),
                         doctest::Contains("'w' element 1 is nan"), Error);
    CHECK_THROWS_AS(w.add_histogram("w", zeros({0}), 1), Error);
    CHECK_THROWS_AS(w.add_histogram("w", zeros({1}), 1, -1), Error);
    CHECK_THROWS_AS(w.add_scalar("", 1, 1), Error);
  });
}

TEST_CASE("tensorboard: a file cut off anywhere is readable up to the last whole record") {
  TempDir dir;
  std::string path;
  {
    EventWriter events(dir / "a/b");  // makes the folder
    for (int i = 1; i <= 3; ++i) events.add_scalar("x", i, i);
    path = events.path();
  }
  const std::string whole = read_file(path);
  size_t before = 0;
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    const size_t n = read_records(std::string_view(whole).substr(0, cut)).size();
    CHECK((n == before || n == before + 1));
    before = n;
  }
  CHECK(before == 4);
}

TEST_CASE("tensorboard: records are in the file after flush; without it only whole ones") {
  TempDir dir;
  EventWriter events(dir.path());
  events.add_scalar("x", 1, 1);
  CHECK(read_events(events.path()).size() == 1);  // buffered
  events.flush();
  CHECK(read_events(events.path()).size() == 2);
  EventWriter eager(dir.path(), {.flush_seconds = -1});
  eager.add_scalar("x", 1, 1);
  CHECK(read_events(eager.path()).size() == 2);
  CHECK(eager.path() != events.path());
  for (int i = 0; i < 3000; ++i) events.add_scalar("x", 1, i);  // more than the buffer holds
  CHECK(read_events(events.path()).size() > 1000);
  CHECK_THROWS_AS(EventWriter("/proc/no/such"), WriteError);
  CHECK_THROWS_AS(EventWriter("/proc"), WriteError);  // no file can be made there
}

TEST_CASE("tensorboard: a file that cannot grow is a WriteError and stays readable") {
  TempDir dir;
  EventWriter events(dir.path());
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit little = {100, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  for (int i = 0; i < 10; ++i) events.add_scalar("x", 1, i);
  CHECK_THROWS_WITH_AS(events.flush(), doctest::Contains("cannot be written: File too large"),
                       WriteError);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::signal(SIGXFSZ, before);
  CHECK(read_events(events.path()).size() == 1);
}

TEST_CASE("tensorboard: a writer with purge_step hides earlier records from that step on") {
  TempDir dir;
  {
    EventWriter events(dir.path());
    for (int i = 1; i <= 5; ++i) events.add_scalar("x", i, i);
  }
  {
    EventWriter events(dir.path(), {.purge_step = 4});
    for (int i = 4; i <= 6; ++i) events.add_scalar("x", 10 * i, i);
  }
  const std::vector<Event> head = read_events(event_files(dir.path()).back());
  CHECK(head.at(0).version == "brain.Event:2");
  CHECK(head.at(1).session_start);
  CHECK(head.at(1).step == 4);
  CHECK(steps_of(shown_events(dir.path()), "x") == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(shown_events(dir.path()).at(3).scalar() == 40);
}

TEST_CASE("tensorboard: a new file sorts behind those of its folder, even of a clock ahead") {
  TempDir dir;
  // "~" sorts behind every name of a host, as a higher process number does.
  write_file(dir / "events.out.tfevents.9000000000.~.9.0000", "");
  const EventWriter first(dir.path());
  CHECK(event_files(dir.path()).back() == first.path());
  const EventWriter second(dir.path());  // in the second of the first
  CHECK(event_files(dir.path()).back() == second.path());
}

TEST_CASE("tensorboard: a loop writes scalars, weights and gradients; a resumed one continues") {
  TempDir dir;
  const LoopOptions whole_options{.folder = dir / "whole", .tensorboard = true};
  Training whole(whole_options);
  CHECK(whole.loop.events() == nullptr);
  int64_t seen = 0;
  whole.learner.on_gradient([&](const std::string&, const Tensor&) { ++seen; });
  REQUIRE(whole.loop.run() == Outcome::finished);
  CHECK(seen == 6 * std::ssize(nn::named_parameters(whole.model)));  // the loop also calls our hook
  const std::vector<Event> all = shown_events(dir / "whole");
  CHECK(steps_of(all, "step/loss") == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(steps_of(all, "step/grad_norm").size() == 6);
  Training finished(whole_options);  // writes nothing more
  REQUIRE(finished.loop.resume());
  REQUIRE(finished.loop.run() == Outcome::finished);
  CHECK(event_files(dir / "whole").size() == 1);
  CHECK(steps_of(all, "epoch/valid_loss") == std::vector<int64_t>{2, 4, 6});
  CHECK(steps_of(all, "epoch/none").empty());  // NaN
  for (const auto& named : nn::named_parameters(whole.model)) {
    const std::string& name = named.first;  // clang 14 captures no structured binding
    const Tensor& p = named.second;
    CHECK(steps_of(all, "weights/" + name) == std::vector<int64_t>{2, 4, 6});
    CHECK(steps_of(all, "gradients/" + name) == std::vector<int64_t>{2, 4, 6});
    const Fields h = std::find_if(all.rbegin(), all.rend(), [&](const Event& e) {
                       return e.tag == "weights/" + name;
                     })->histogram();
    CHECK(h.find(4)->second.f64() ==
          doctest::Approx(sum(p.detach().to(DType::f64)).item()).epsilon(1e-9));
  }
  for (int64_t batch : {1, 5, 6, 7, 13, 18})
    for (const bool killed : {false, true}) {
      CAPTURE(batch);
      CAPTURE(killed);
      LoopOptions options{.folder = dir / fmt::format("{}-{}", batch, killed),
                          .checkpoint_steps = killed ? 1 : 0,
                          .tensorboard = true};
      run_to_batch(options, batch, killed);
      options.tensorboard = false;  // a folder with event files gets more
      Training again(options);
      REQUIRE(again.loop.resume());
      REQUIRE(again.loop.run() == Outcome::finished);
      const std::vector<Event> shown = shown_events(options.folder);
      for (const Event& e : all) {
        if (e.tag.ends_with("_per_s")) continue;
        CHECK(steps_of(shown, e.tag) == steps_of(all, e.tag));
        for (const Event& s : shown)
          if (s.tag == e.tag && s.step == e.step)
            CHECK(s.value.rbegin()->second.bytes == e.value.rbegin()->second.bytes);
      }
    }
}

TEST_CASE("tensorboard: an epoch that was trained but not closed before a kill is shown once") {
  TempDir dir;
  const LoopOptions options{.folder = dir / "run", .checkpoint_steps = 1, .tensorboard = true};
  {
    Training t(options);
    t.evaluated = [&] {
      if (t.learner.steps() == 4) throw Killed();
    };
    CHECK_THROWS_AS(t.loop.run(), Killed);
  }
  Training again(options);
  REQUIRE(again.loop.resume());
  REQUIRE(again.loop.epoch_trained());
  REQUIRE(again.loop.run() == Outcome::finished);
  const std::vector<Event> shown = shown_events(options.folder);
  CHECK(steps_of(shown, "step/loss") == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(steps_of(shown, "epoch/valid_loss") == std::vector<int64_t>{2, 4, 6});
}

TEST_CASE("tensorboard: there are no files without the option; without a folder it is an error") {
  TempDir dir;
  Training t({.folder = dir / "run"});
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK_FALSE(has_event_files(dir / "run"));
  for (const LoopOptions& nowhere :
       {LoopOptions{.tensorboard = true}, LoopOptions{.checkpoint_steps = 5}})
    CHECK_THROWS_WITH_AS(Training t(nowhere), doctest::Contains("set LoopOptions::folder"), Error);
  for (const LoopOptions& negative : {LoopOptions{.checkpoint_seconds = -1},
                                      LoopOptions{.folder = dir / "x", .checkpoint_steps = -1}})
    CHECK_THROWS_WITH_AS(Training t(negative), doctest::Contains("must not be negative"), Error);
}

}  // namespace tern::test::test_tensorboard
