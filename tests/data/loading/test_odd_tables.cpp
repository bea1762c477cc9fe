// Tables as spreadsheets and other programs write them. A comment above a table is the call of
// pandas that gives the same values.
#include <doctest/doctest.h>

#include "tern/data/loading/csv.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/odd_texts.h"

namespace tern::test::test_odd_tables {
namespace {

using Doubles = std::vector<double>;
using Names = std::vector<std::string>;

struct OddTable {
  const char* name;
  std::string bytes;
  datasets::CsvOptions options;
  Names names;
  Doubles values;
};

std::vector<OddTable> odd_tables() {
  const Names ab = {"a", "b"};
  return {
      // pd.read_csv(f, sep="|")
      {"CR", "a|b\r1|2\r3|4", {.separator = '|'}, ab, {1, 2, 3, 4}},
      // pd.read_csv(f)
      {"CR, CRLF and LF", "a,b\r1,2\r\n3,4\n5,6\r\r7,8", {}, ab, {1, 2, 3, 4, 5, 6, 7, 8}},
      // pd.read_csv(f, sep="\t", encoding="utf-16")
      {"Excel's Unicode text", utf16(u"a\tb\r\n1\t2\r\n", false), {.separator = '\t'}, ab, {1, 2}},
      {"the same, big", utf16(u"a\tb\r\n1\t2\r\n", true), {.separator = '\t'}, ab, {1, 2}},
      // pd.read_csv(f, sep=";", skiprows=1): it does not know the line.
      {"Excel's sep=", "sep=;\r\na;b\r\n1;2\r\n", {}, ab, {1, 2}},
      {"sep= behind a mark", "\xEF\xBB\xBFsep=\t\na\tb\n1\t2\n", {}, ab, {1, 2}},
      {"sep= given too", "sep=;\na;b\n1;2\n", {.separator = ';'}, ab, {1, 2}},
      {"sep= with CR", "sep=;\ra;b\r1;2\r", {}, ab, {1, 2}},
      // pd.read_csv(f, sep=";", decimal=",")
      {"decimal commas", "a;b\n1,5;-2,25e1\n3;,5\n", {.decimal = ','}, ab, {1.5, -22.5, 3, .5}},
      {"sep= and decimal commas", "sep=;\na;b\n1,5;2\n", {.decimal = ','}, ab, {1.5, 2}},
      // pd.read_csv(f, sep="\t", decimal=",")
      {"decimal commas, tabs", "a\tb\n1,5\t2\n", {.separator = '\t', .decimal = ','}, ab, {1.5, 2}},
      // pd.read_csv(f, decimal=",")
      {"decimal commas, quoted",
       "a,b\n\"1,5\",\"2\"\n",
       {.separator = ',', .decimal = ','},
       ab,
       {1.5, 2}},
      // pd.read_csv(f, sep=r"\s+")
      {"spaces", "  a   b\n 1  2.5  \n\n10 \t -3e1\t\n", {.separator = ' '}, ab, {1, 2.5, 10, -30}},
      {"spaces, quoted", "\"a\" b\n\"1\"  \"2\"\n", {.separator = ' '}, ab, {1, 2}},
      {"spaces, CRLF", "a b \r\n1 2 \r\n", {.separator = ' '}, ab, {1, 2}},
  };
}

std::string refused(const std::string& text, const datasets::CsvOptions& o = {}) {
  TempDir dir;
  const std::string path = write_file(dir / "x.csv", text);
  const std::string error = io_error([&] { datasets::load_csv(path, o); });
  CHECK(error.starts_with(path + ": "));
  return error;
}

datasets::Table load(const std::string& text, const datasets::CsvOptions& o) {
  TempDir dir;
  return datasets::load_csv(write_file(dir / "x.csv", text), o);
}

}  // namespace

TEST_CASE("odd tables: read as pandas reads them") {
  for (OddTable t : odd_tables()) {
    CAPTURE(t.name);
    t.options.dtype = DType::f64;
    const datasets::Table table = load(t.bytes, t.options);
    CHECK(table.names == t.names);
    CHECK(table.values.to_vector<double>() == t.values);
  }
}

TEST_CASE("odd tables: errors name the option that would read the table") {
  const char* semicolon = "; CsvOptions::separator = ';' would read 3 columns here";
  CHECK(contains(refused("a;b;c\n1;2;3\n"), semicolon));
  CHECK(contains(refused("1;2;3\n", {.header = false}), semicolon));
  CHECK(contains(
      refused("AGE SEX BMI BP\n59 2 32.1 101.0\n"),
      "'59 2 32.1 101.0' is not a number; CsvOptions::separator = ' ' would read 4 columns"));
  CHECK(contains(refused("a\tb c\n1\t2\n"), "; CsvOptions::separator = '\\t' would read 2"));
  CHECK(contains(refused("a|b\n1|2\n"), "; CsvOptions::separator = '|' would read 2"));
  CHECK(contains(refused("a,b\n1,2\n", {.separator = ';'}),
                 "; CsvOptions::separator = ',' would read 2"));
  // The number of fields is wrong, because commas are the decimal points.
  CHECK(contains(refused("a;b\n1,5;2,5\n"),
                 "3 fields, but the first line has 1; CsvOptions::separator = ';' and "
                 "CsvOptions::decimal = ',' would read 2"));
  CHECK(contains(refused("a;b\n1,5;2\n", {.separator = ';'}),
                 "'1,5' is not a number; CsvOptions::decimal = ',' would read 2"));
  CHECK(
      contains(refused("a,b\n\"1,5\",2\n"),
               "'1,5' is not a number; CsvOptions::separator = ',' and CsvOptions::decimal = ','"));
  CHECK(contains(refused("a;b\n1.5;2\n", {.decimal = ','}),
                 "'1.5' is not a number; CsvOptions::decimal = '.' would read 2"));
  CHECK(contains(refused("area;price\n1;2\n", {.columns = {"price"}}),
                 "there is no column 'price'; CsvOptions::separator = ';' would find it"));
  CHECK(contains(
      refused("a,b\n1,setosa\n"),
      "'setosa' is not a number; CsvOptions::categories = {\"b\"} reads a column of text"));
  // Where no option helps, none is named.
  for (const std::string& error :
       {refused("a,b\n1,2..5\n"), refused("a,b\n1,2,3\n"), refused("a,b\n1.234.567,2\n"),
        refused("a,b\n1,\"1,000\"\n"), refused("a,b,label\n3,4\n")})
    CHECK(!contains(error, "CsvOptions"));
  CHECK(contains(refused("sep=;\na;b\n1;2\n", {.separator = ','}),
                 "line 1: the line 'sep=;' contradicts CsvOptions::separator = ','"));
  CHECK(
      contains(refused("sep=,\na,b\n1,2\n", {.decimal = ','}), "contradicts CsvOptions::decimal"));
  CHECK(contains(refused("a\r1\r\rx\r"), "line 4: column 'a'"));
  CHECK_THROWS_AS(load("a\n1\n", {.decimal = ';'}), Error);
}

TEST_CASE("odd tables: names that are not UTF-8 are refused, as pandas refuses the file") {
  CHECK(contains(refused("a,Stra\xDF"
                         "e\n1,2\n"),
                 "line 1: the column 'Stra\xDF"
                 "e' is not valid UTF-8 (byte 5 of it); convert the file"));
  CHECK(contains(refused("x,town\n1,Ulm\n2,K\xF6ln\n", {.categories = {"town"}}),
                 "line 3: column 'town': 'K\xF6ln' is not valid UTF-8 (byte 2 of it)"));
  // The bytes of a column that is not read are not checked.
  CHECK(load("x,town\n1,K\xF6ln\n", {.columns = {"x"}}).values.item() == 1);
}

TEST_CASE("odd tables: columns of text become codes in the order of their names") {
  // pd.Categorical(pd.read_csv(f, skipinitialspace=True)["species"]).codes and .categories
  const std::string text =
      "width,species,town\n1,virginica,\"Le Mans, Sarthe\"\n2,setosa, NA \n3,virginica,\u00c9vry\n";
  const datasets::Table t = load(text, {.categories = {"species", "town"}});
  CHECK(t.names == Names{"width"});
  CHECK(t.values.shape() == Shape{3, 1});
  CHECK(t.values.to_vector<double>() == Doubles{1, 2, 3});
  REQUIRE(t.categories.size() == 2);
  CHECK(t.categories[0].column == "species");
  CHECK(t.column("species").to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
  CHECK(t.column("width").to_vector<double>() == Doubles{1, 2, 3});
  CHECK_THROWS_WITH_AS((void)t.column("specie"),
                       "Table: there is no column 'specie'; the nearest is 'species'", Error);
  CHECK(load("a,b,c\n1,2,3\n4,5,6\n", {}).columns({"c", "a"}).to_vector<double>() ==
        Doubles{3, 1, 6, 4});
  CHECK(t.categories[0].names == Names{"setosa", "virginica"});
  CHECK(t.categories[0].codes.dtype() == DType::i64);
  CHECK(t.categories[0].codes.to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
  CHECK(t.categories[1].names == Names{"Le Mans, Sarthe", "NA", "\u00c9vry"});
  CHECK(t.categories[1].codes.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  // The names of the first table give another one its codes.
  const std::string test = "species,width\nvirginica,7\nvirginica,8\n";
  const datasets::Table again = load(test, {.categories = {t.categories[0]}});
  CHECK(again.categories[0].codes.to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(again.categories[0].names == t.categories[0].names);
  CHECK(contains(refused("species\nsetosa\nvirginca\n", {.categories = {t.categories[0]}}),
                 "line 3: column 'species': 'virginca' is not one of the 2 names; the nearest is "
                 "'virginica'"));
  // Names that are given keep their order.
  const datasets::Table given = load("x\nb\na\n", {.categories = {{"x", {"b", "a", "c"}}}});
  CHECK(given.categories[0].codes.to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(given.values.shape() == Shape{2, 0});
}

TEST_CASE("odd tables: spaces in quotes belong to the names of a text column") {
  // csv.reader(f, skipinitialspace=True) of Python gives these fields.
  const std::string text = "x,y\n\" a\",1\n\"a\",2\n a,3\n";
  const datasets::Table t = load(text, {.categories = {"x"}});
  CHECK(t.categories[0].names == Names{" a", "a"});
  CHECK(t.categories[0].codes.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1});
  CHECK(load("x\n\" \"\n", {.categories = {"x"}}).categories[0].names == Names{" "});
  CHECK(contains(refused("x\n\" a\"\n", {.categories = {{"x", {"a"}}}}),
                 "line 2: column 'x': ' a' is not one of the 1 names; the nearest is 'a'"));
}

TEST_CASE("odd tables: empty and unknown names") {
  const std::string first = "a,b\n1,x\n2,\n3,y\n", second = "a,b\n1,\n2,z\n3,y\n";
  const datasets::Table train = load(first, {.categories = {"b"}, .empty_names = true});
  CHECK(train.categories[0].names == Names{"", "x", "y"});
  CHECK(train.column("b").to_vector<int64_t>() == std::vector<int64_t>{1, 0, 2});
  CHECK(contains(refused(second, {.categories = train.categories}),
                 "line 3: column 'b': 'z' is not one of the 3 names"));
  const datasets::Table test = load(second, {.categories = train.categories, .unknown = -1});
  CHECK(test.column("b").to_vector<int64_t>() == std::vector<int64_t>{0, -1, 2});
  CHECK(test.categories[0].names == train.categories[0].names);
  CHECK_THROWS_WITH_AS(load(second, {.categories = {"b"}, .unknown = -1}),
                       doctest::Contains(".unknown is for .categories with names"), Error);
  CHECK_THROWS_WITH_AS(load("a\n1\n", {.empty_names = true}),
                       doctest::Contains(".empty_names is for .categories"), Error);
  // Names that exclude "": it is an unknown one, if it is allowed at all.
  const datasets::CsvOptions fixed{.categories = {{"b", {"x", "y"}}}, .unknown = 7};
  CHECK(contains(refused(first, fixed), "the name is missing; CsvOptions::empty_names allows"));
  datasets::CsvOptions both = fixed;
  both.empty_names = true;
  CHECK(load(first, both).column("b").to_vector<int64_t>() == std::vector<int64_t>{0, 7, 1});
}

TEST_CASE("odd tables: text columns beside chosen columns of numbers") {
  const datasets::Table t = load("a,b,c,d\n1,x,3,y\n", {.columns = {"c"}, .categories = {"d"}});
  CHECK(t.names == Names{"c"});
  CHECK(t.values.to_vector<double>() == Doubles{3});
  CHECK(t.categories[0].names == Names{"y"});
  CHECK_THROWS_WITH_AS((void)t.column("price"), "Table: there is no column 'price'; it has c, d",
                       Error);
  CHECK(contains(refused("a,b\n1,\n", {.categories = {"b"}}), "column 'b': the name is missing"));
  const datasets::Table empty = load("a,b\n1,\n", {.categories = {{"b", {"", "x"}}}});
  CHECK(empty.categories[0].codes.to_vector<int64_t>() == std::vector<int64_t>{0});
  CHECK(load("1,x\n", {.header = false, .categories = {"1"}}).categories[0].names == Names{"x"});
  CHECK(contains(refused("a,b\n1,x\n", {.categories = {"c"}}), "there is no column 'c'"));
  CHECK_THROWS_WITH_AS(load("a,b\n1,x\n", {.categories = {"b", "b"}}), doctest::Contains("twice"),
                       Error);
  CHECK_THROWS_WITH_AS(load("a,b\n1,x\n", {.columns = {"b"}, .categories = {"b"}}),
                       doctest::Contains(".columns and .categories"), Error);
  CHECK_THROWS_WITH_AS(load("a\nx\n", {.categories = {{"a", {"x", "x"}}}}),
                       doctest::Contains("twice"), Error);
}

}  // namespace tern::test::test_odd_tables
