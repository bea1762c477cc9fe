// CSV tables: separators, quotes, numbers at their limits, errors with line and column, writing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/csv.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_csv {
namespace {

using Doubles = std::vector<double>;

struct Files {
  TempDir dir;
  datasets::Table load(const std::string& text, const datasets::CsvOptions& o = {},
                       const std::string& name = "x.csv") {
    return datasets::load_csv(write_file(dir / name, text), o);
  }
  Doubles values(const std::string& text, const datasets::CsvOptions& o = {}) {
    return load(text, o).values.to_vector<double>();
  }
  std::string refused(const std::string& text, const datasets::CsvOptions& o = {}) {
    const std::string error = io_error([&] { load(text, o); });
    CHECK(error.starts_with(dir / "x.csv: "));
    return error;
  }
};

}  // namespace

TEST_CASE("csv: headers, separators, quotes, line ends, spaces, gzip") {
  Files f;
  const datasets::Table t = f.load("area, rooms ,price\n1.5, 2 ,-3e2\n+4,.5,1e-3\n");
  CHECK(t.names == std::vector<std::string>{"area", "rooms", "price"});
  CHECK(t.values.shape() == Shape{2, 3});
  CHECK(t.values.dtype() == DType::f32);
  CHECK(t.values.to_vector<float>() == std::vector<float>{1.5f, 2, -300, 4, .5f, 1e-3f});
  const datasets::CsvOptions plain{.header = false, .dtype = DType::f64};
  CHECK(f.load("1,2\n", plain).names == std::vector<std::string>{"0", "1"});
  CHECK(f.values("1,2\r\n3,4", plain) == Doubles{1, 2, 3, 4});
  CHECK(f.values("\xef\xbb\xbf"
                 "1,2\n\n\r\n3,4\n\n",
                 plain) == Doubles{1, 2, 3, 4});
  CHECK(f.values("\"1\",\"2\"\r\n\" 3\",4\n", plain) == Doubles{1, 2, 3, 4});
  CHECK(f.values("\"a,\"\"b\"\"\nc\",d\n1,2\n", {.columns = {"a,\"b\"\nc"}}) == Doubles{1});
  CHECK(f.values("a,b,c\n1,x,3\n4,y,6\n", {.columns = {"c", "a"}}) == Doubles{3, 1, 6, 4});
  CHECK(f.values("1;2\n", {.separator = ';', .header = false}) == Doubles{1, 2});
  CHECK(f.load("1\t2\n", plain, "x.tsv").values.shape() == Shape{1, 2});
  CHECK(f.load(gzip("1\t2\n3\t4\n"), plain, "x.tsv.gz").values.shape() == Shape{2, 2});
  CHECK(f.load("a,b\n").values.shape() == Shape{0, 2});
  CHECK(std::isinf(f.values("inf\n", plain)[0]));
  CHECK(f.values("0.1\n", plain)[0] == .1);
  // Spaces in quotes belong to a name, others do not.
  const datasets::Table spaced =
      f.load(" a ,\" s\",\"t \"\n1,2,3\n", {.columns = {" s", "t ", "a"}});
  CHECK(spaced.values.to_vector<double>() == Doubles{2, 3, 1});
  CHECK(f.load(" a ,\" s\"\n1,2\n").names == std::vector<std::string>{"a", " s"});
  // A file that is larger than the buffer.
  std::string large;
  for (int i = 0; i < 40000; ++i) large += fmt::format("{},\"{}\"\r\n", i, i + 1);
  const Doubles all = f.values(large, plain);
  for (int i = 0; i < 40000; ++i) REQUIRE((all[2 * i] == i && all[2 * i + 1] == i + 1));
}

TEST_CASE("csv: integers are exact, or refused") {
  Files f;
  const datasets::CsvOptions i64{.header = false, .dtype = DType::i64};
  CHECK(f.load("9007199254740993,-9223372036854775808\n", i64).values.to_vector<int64_t>() ==
        std::vector<int64_t>{9007199254740993, INT64_MIN});
  CHECK(contains(f.refused("9223372036854775808\n", i64), "is not a number of type i64"));
  CHECK(contains(f.refused("1.0\n", i64), "'1.0' is not a number of type i64"));
  CHECK(f.values("0,255\n", {.header = false, .dtype = DType::u8}) == Doubles{0, 255});
  CHECK(contains(f.refused("256\n", {.header = false, .dtype = DType::u8}), "'256'"));
  CHECK_THROWS_AS(f.load("1\n", {.dtype = DType::i64, .missing = .5}), Error);
  CHECK_THROWS_AS(f.load("1\n", {.dtype = DType::u8, .missing = -1}), Error);
  CHECK_THROWS_AS(f.load("1\n", {.separator = '"'}), Error);
}

TEST_CASE("csv: numbers too small for the type become 0, numbers too large infinite") {
  Files f;
  const std::string zeros(400, '0');
  for (DType type : {DType::f32, DType::f64}) {
    const datasets::CsvOptions o{.header = false, .dtype = type};
    for (const std::string& small :
         {std::string("1e-400"), std::string("+12.5E-4000"), "0." + zeros + "1",
          "." + zeros + "25e-3", "0.00" + zeros + "1e2", "1" + zeros + "e-800",
          std::string("1e-99999999999999999999")}) {
      CAPTURE(small);
      CHECK(f.values(small + "\n", o) == Doubles{0});
      const double negative = f.values("-" + small.substr(small[0] == '+') + "\n", o)[0];
      CHECK((negative == 0 && std::signbit(negative)));
    }
    for (const std::string& large :
         {std::string("1e400"), "1" + zeros, "1" + zeros + ".5", std::string("0.001e4000"),
          "0." + zeros + "1e800", std::string("1e9223372036854775807"),
          std::string("1e99999999999999999999")}) {
      CAPTURE(large);
      CHECK(f.values(large + "\n", o) == Doubles{INFINITY});
      CHECK(f.values("-" + large + "\n", o) == Doubles{-INFINITY});
    }
    CHECK(contains(f.refused("1e-400x\n", o), "is not a number"));
  }
  const datasets::CsvOptions f32{.header = false};
  CHECK(f.values("1e-50,-1e-50,1e-45\n", f32) == Doubles{0, 0, 0x1p-149});
  CHECK(f.values("1e39,-1e39\n", f32) == Doubles{INFINITY, -INFINITY});
  CHECK(f.values("1e39\n", {.header = false, .dtype = DType::f64}) == Doubles{1e39});
  CHECK(contains(f.refused("1e40\n", {.header = false, .dtype = DType::i64}), "of type i64"));
}

TEST_CASE("csv: errors of missing and invalid fields give line and column") {
  Files f;
  const std::string text = "age,height\n1,2\n\"3\n\",4\n5, NA \n";
  CHECK(contains(f.refused("age,height\n1,2\n5, NA \n"),
                 "line 3: column 'height': the number is missing; CsvOptions::missing"));
  for (const char* word : {"", "NaN", "-nan", "nan(0x1)", "null", "N/A", "none", "\"\""})
    CHECK(contains(f.refused(fmt::format("a,b\n1,{}\n", word)), "line 2: column 'b'"));
  CHECK(std::isnan(f.values("a,b\n1,\n", {.missing = NAN})[1]));
  CHECK(f.values("a,b\n,1\n", {.dtype = DType::i64, .missing = -1}) == Doubles{-1, 1});
  CHECK(contains(f.refused(text), "line 3: column 'age': '3?' is not a number"));
  CHECK(contains(f.refused("a,b\n1,2\n\n3\n"), "line 4: 1 fields, but the first line has 2"));
  CHECK(contains(f.refused("a,b\n1,2,3\n"), "line 2: 3 fields"));
  CHECK(contains(f.refused("a\n\"1\"2\n"), "line 2: something follows the quoted field '1'"));
  CHECK(contains(f.refused("a\n\"1\n"), "line 2: a quoted field has no end"));
  CHECK(contains(f.refused("a,a\n1,2\n"), "two columns are called 'a'"));
  CHECK(contains(f.refused("area,b\n1,2\n", {.columns = {"aera"}}),
                 "there is no column 'aera'; the nearest is 'area'"));
  CHECK(contains(f.refused(""), "the file is empty"));
  CHECK(contains(f.refused("\n\n"), "the file is empty"));
  CHECK(contains(f.refused("a\n\x1b[31m\n"), "'?[31m' is not a number"));
  CHECK(contains(f.refused(std::string("a\n") + std::string(3 << 20, '1')),
                 "more than 1048576 bytes"));
  CHECK(contains(f.refused(std::string(3 << 20, ',')),
                 "more than 100000 fields; CsvOptions::max_columns can allow more"));
  CHECK(contains(f.refused("a\n1\n", {.max_bytes = 3}), "holds more than the limit of 3 bytes"));
  CHECK(contains(io_error([] { datasets::load_csv("/nowhere.csv"); }), "/nowhere.csv"));
  // Any bytes give a table or an IoError.
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    std::string noise;
    for (int64_t i = rng.below(60); i > 0; --i) noise += "1,\"\n\r.a -\t"[rng.below(11)];
    io_error([&] { f.load(noise, {.missing = 0}); });
  }
}

TEST_CASE("csv: half a million columns, all of them or by name") {
  Files f;
  constexpr int64_t kColumns = 500'000;  // to compare all pairs of names would take 10^11 steps
  std::string header, row;
  std::vector<std::string> names;
  for (int64_t i = 0; i < kColumns; ++i) {
    names.push_back(fmt::format("c{}", i));
    header += names.back() + (i + 1 < kColumns ? "," : "\n");
    row += fmt::format("{}{}", i % 100, i + 1 < kColumns ? "," : "\n");
  }
  const datasets::Table all = f.load(header + row, {.dtype = DType::i64, .max_columns = kColumns});
  CHECK(all.names == names);
  CHECK(all.values.shape() == Shape{1, kColumns});
  CHECK(all.values[0][123'456].item<int64_t>() == 56);
  std::reverse(names.begin(), names.end());
  const datasets::Table backwards =
      f.load(header + row, {.columns = names, .dtype = DType::i64, .max_columns = kColumns});
  CHECK(backwards.names == names);
  CHECK(backwards.values[0][0].item<int64_t>() == (kColumns - 1) % 100);
  CHECK(backwards.values[0][kColumns - 2].item<int64_t>() == 1);
  names[0] = "c1";  // the same as the last but one
  const datasets::CsvOptions options{.columns = names, .max_columns = kColumns + 1};
  CHECK(f.load(header + row, options).values[0][0].item() == 1);
  CHECK(contains(f.refused("c7," + header, options), "two columns are called 'c7'"));
}

TEST_CASE("csv: a written table reads back bit for bit") {
  TempDir dir;
  Rng rng(1);
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8}) {
    const Tensor x = (randn({30, 3}, rng, DType::f64) * 100 + 128).to(dtype);
    datasets::save_csv(dir / "x.tsv", x, {.names = {"a", "b \"c\"", "d\te"}});
    const datasets::Table t = datasets::load_csv(dir / "x.tsv", {.dtype = dtype});
    CHECK(t.names == std::vector<std::string>{"a", "b \"c\"", "d\te"});
    CHECK(t.values.to_vector<double>() == x.to_vector<double>());
  }
  // Names that would lose a tab, make another column, or pass as Excel's line about the separator.
  for (const std::string name : {"\tx", "x\t", "x\ty", "sep=;"})
    for (const char separator : {',', ' '}) {
      CAPTURE(name);
      datasets::save_csv(dir / "n.csv", ones({2, 1}), {.separator = separator, .names = {name}});
      const datasets::Table t = datasets::load_csv(dir / "n.csv", {.separator = separator});
      CHECK(t.names == std::vector<std::string>{name});
      CHECK(t.values.shape() == Shape{2, 1});
    }
  CHECK_THROWS_AS(datasets::save_csv(dir / "y.csv", ones({3})), Error);
  CHECK_THROWS_AS(datasets::save_csv(dir / "y.csv", ones({3, 1}), {.names = {"a", "b"}}), Error);
  for (const char separator : {'.', '5', '-', 'e', '"', '\n'})
    CHECK_THROWS_WITH_AS(datasets::save_csv(dir / "y.csv", ones({3, 2}), {.separator = separator}),
                         doctest::Contains("also stands in numbers"), Error);
  CHECK_FALSE(std::filesystem::exists(dir / "y.csv"));
}

}  // namespace tern::test::test_csv
