// State dicts of PyTorch: files that PyTorch wrote (tests/reference/torch/make_torch_files.py),
// and hostile ones, made here of opcodes.
#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <map>

#include "tern/core/io/tensor_file.h"
#include "tern/core/io/torch_file.h"
#include "tern/core/ops/ops.h"
#include "tern/data/loading/detail/zip.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::test_torch_file {
namespace {

using namespace std::string_literals;
using namespace test::torch;
using test::contains;
using test::io_error;
using test::read_file;
using test::same_bits;
using test::TempDir;
using test::write_file;

std::string reference(const std::string& name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/torch/" + name + ".pt";
}

std::string refusal(const std::string& path, const TorchOptions& options = {}) {
  const std::string said = io_error([&] { load_torch(path, options); });
  CHECK((said.empty() || said.starts_with(path + ": ")));
  return said;
}

/// The elements that the script gives: -3, -2, ...
Tensor counted(const Shape& shape, DType dtype = DType::f32) {
  return reshape(arange(-3, numel(shape) - 3), shape).to(dtype);
}

const std::string kFour = storage("torch.FloatStorage", "0", 4);  // 16 bytes
/// A dict with the tensor "w" of this form in a storage of four floats.
std::string shaped(const std::string& offset, const std::string& shape,
                   const std::string& strides) {
  return pickle(dict(text("w") + tensor_of(kFour, offset, shape, strides)));
}

const std::string kFloats = "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"s;
/// A pickle and a storage of 1, 2, 3, 4.
std::string archive_of(const std::string& path, const std::string& of_pickle) {
  return archive(path, {{"a/data.pkl", of_pickle}, {"a/data/0", kFloats}});
}

}  // namespace

TEST_CASE("torch: elements of every type") {
  const SafeTensors all = load_torch(reference("dtypes"));
  CHECK(all.tensors.size() == 13);
  struct Row {
    const char* name;
    DType dtype;
  };
  for (const Row& row : {Row{"float32", DType::f32},
                         {"float16", DType::f32},
                         {"bfloat16", DType::f32},
                         {"float64", DType::f64},
                         {"int64", DType::i64},
                         {"int32", DType::i64},
                         {"int16", DType::i64},
                         {"int8", DType::i64}}) {
    CAPTURE(row.name);
    CHECK(same_bits(all.find(row.name), counted({2, 3}, row.dtype)));
  }
  CHECK(all.find("uint8").to_vector<uint8_t>() == std::vector<uint8_t>{0, 1, 255});
  CHECK(all.find("uint16").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 65535});
  CHECK(all.find("uint32").to_vector<int64_t>() == std::vector<int64_t>{0, 1, 4294967295});
  CHECK(all.find("bool").to_vector<uint8_t>() == std::vector<uint8_t>{1, 0, 1});
  CHECK(same_bits(
      all.find("half"),
      tensor<float>({65504, 0x1p-24f, -0.0f, std::numeric_limits<float>::infinity()}, {4})));
}

TEST_CASE("torch: views of one storage become tensors of their own") {
  const SafeTensors all = load_torch(reference("strides"));
  const Tensor base = counted({4, 6});
  CHECK(same_bits(all.find("base"), base));
  CHECK(same_bits(all.find("transposed"), permute(base, {1, 0})));
  CHECK(same_bits(all.find("columns"), slice(base, {{}, {1, 5, 2}})));
  CHECK(same_bits(all.find("row"), tensor<float>({9, 10, 11, 12, 13, 14}, {6})));
  CHECK(same_bits(all.find("expanded"), full({3, 2}, 5.0)));
  CHECK(same_bits(all.find("scalar"), full({}, 16.0)));
  CHECK(all.find("empty").shape() == Shape{0, 6});
  CHECK(same_bits(all.find("one"), full({1, 1}, 8.0)));
  CHECK(same_bits(all.find("channels_last"), counted({2, 3, 2, 2})));
  for (const auto& [name, t] : all.tensors) CHECK(t.is_contiguous());
  const SafeTensors tied = load_torch(reference("tied"));
  CHECK(same_bits(tied.find("wte.weight"), counted({3, 2})));
  CHECK(same_bits(tied.find("head.weight"), counted({3, 2})));
  CHECK(tied.find("wte.weight").data<float>() != tied.find("head.weight").data<float>());
}

TEST_CASE("torch: the state of a module, by every protocol") {
  const std::vector<std::pair<std::string, Shape>> names = {{"0.weight", {2, 1, 3, 3}},
                                                            {"0.bias", {2}},
                                                            {"1.weight", {2}},
                                                            {"1.bias", {2}},
                                                            {"1.running_mean", {2}},
                                                            {"1.running_var", {2}},
                                                            {"1.num_batches_tracked", {}},
                                                            {"2.weight", {3, 2}},
                                                            {"2.bias", {3}}};
  auto check_module = [&](const SafeTensors& got, const std::string& prefix) {
    REQUIRE(got.tensors.size() == names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      CHECK(got.tensors[i].first == prefix + names[i].first);
      const DType dtype = names[i].second.empty() ? DType::i64 : DType::f32;
      CHECK(same_bits(got.tensors[i].second, counted(names[i].second, dtype)));
    }
    CHECK(got.metadata.empty());
  };
  for (const char* protocol : {"2", "3", "4", "5"})
    check_module(load_torch(reference("module_"s + protocol)), "");
  check_module(load_torch(reference("ddp")), "module.");
  check_module(load_torch(reference("checkpoint")), "");
  check_module(load_torch(reference("checkpoint"), {.member = "model_state"}), "");
}

TEST_CASE("torch: the dict that holds the tensors") {
  CHECK(load_torch(reference("inside")).find("w").numel() == 2);
  CHECK(load_torch(reference("inside"), {.member = "a.b"}).find("w").numel() == 2);
  CHECK(load_torch(reference("two"), {.member = "ema"}).find("w").numel() == 3);
  CHECK(same_bits(load_torch(reference("checkpoint"), {.member = "optimizer.state.0"}).find("step"),
                  full({}, 3.0)));
  CHECK(contains(refusal(reference("two")),
                 R"(several dicts hold tensors: "model", "ema"; TorchOptions::member)"));
  CHECK(contains(refusal(reference("two"), {.member = "emma"}),
                 R"(there is no dict "emma"; tensors are in "model", "ema")"));
  CHECK(contains(refusal(reference("inside"), {.member = "a"}), "the dict holds no tensors"));
  CHECK(contains(refusal(reference("nothing")), "no dict in it holds tensors"));
  CHECK(contains(refusal(reference("list")), "it holds a list of 1, not a dict of tensors"));
  const TempDir dir;
  const std::string w = text("w") + tensor_of(kFour, integer(0), integer(4), integer(1));
  const std::string both = archive_of(dir / "both.pt", pickle(dict(w + text("ema") + dict(w))));
  CHECK(contains(refusal(both), R"(several dicts hold tensors: ".", "ema";)"));
  CHECK(load_torch(both, {.member = "."}).metadata.at("ema") == "a dict of 1");
}

TEST_CASE("torch: entries that are not tensors become metadata") {
  const SafeTensors all = load_torch(reference("entries"));
  CHECK(all.tensors.size() == 1);
  const std::map<std::string, std::string> expected = {{"epoch", "3"},
                                                       {"big", "an integer of more than 64 bits"},
                                                       {"lr", "0.25"},
                                                       {"note", "a\nb"},
                                                       {"none", "None"},
                                                       {"yes", "True"},
                                                       {"size", "a torch.Size"},
                                                       {"device", "a torch.device"},
                                                       {"dtype", "torch.float16"},
                                                       {"pair", "a tuple of 2"},
                                                       {"list", "a list of 2"},
                                                       {"dict", "a dict of 1"}};
  CHECK(all.metadata == expected);
}

TEST_CASE("torch: what other files hold, and how to convert them") {
  CHECK(contains(refusal(reference("module_object")), "torch.nn.modules.activation.ReLU"));
  CHECK(contains(refusal(reference("complex")), "torch.ComplexFloatStorage"));
  CHECK(contains(refusal(reference("float8")), "torch.float8_e4m3fn"));
  CHECK(contains(refusal(reference("negative")), "tensor 'n': it has attributes"));
  const std::string old = refusal(reference("old")), script = refusal(reference("script"));
  CHECK(contains(old, "a PyTorch file of before version 1.6"));
  CHECK(contains(old, "\n  python3 -c 'import sys, torch;"));
  CHECK(old.ends_with("/torch/old.safetensors"));
  CHECK(contains(script, "a TorchScript archive. To convert it:\n  python3 -c"));
  CHECK(contains(script, "torch.jit.load"));
  const TempDir dir;
  CHECK(contains(refusal(write_file(dir / "x", "hello")), "this is not a PyTorch file"));
  CHECK(contains(refusal(dir / "none.pt"), "No such file"));
  CHECK(contains(refusal(archive(dir / "zip", {{"a/b", "c"}})), "it has no data.pkl"));
}

TEST_CASE("torch: pickles can execute nothing") {
  const TempDir dir;
  const std::string mark = dir / "executed";
  const std::string touch = text("touch " + mark);
  const std::string w = text("w") + tensor_of(kFour, integer(0), integer(4), integer(1));
  auto refused = [&](const std::string& value, const std::string& fault) {
    const std::string said = refusal(archive_of(dir / "x.pt", pickle(dict(w + text("x") + value))));
    CAPTURE(said);
    CHECK(contains(said, fault));
    CHECK_FALSE(std::filesystem::exists(mark));
  };
  refused(call("os.system", touch), "Python's os.system");
  refused(call("posix.system", touch), "Python's posix.system");
  refused(call("builtins.eval", text("1")), "Python's builtins.eval");
  refused(call("builtins.__import__", text("os")), "Python's builtins.__import__");
  refused(call("numpy.core.multiarray.scalar", ""), "Python's numpy.core.multiarray.scalar");
  refused(call("torch.load", text("x")), "Python's torch.load");
  refused(call("torch.Size.__class__", ""), "Python's torch.Size.__class__");
  refused("\x8c\x02os\x8c\x06system\x93" + tuple(touch) + "R", "Python's os.system");
  // Names are compared as a whole: blanks, line ends and control characters do not match.
  refused("ctorch\r\nSize\n)R", "Python's torch?.Size");
  refused("c torch\nSize\n)R", "Python's  torch.Size");
  refused("ctorch\nSize \n)R", "Python's torch.Size ,");
  refused("c\n\n)R", "Python's .,");
  refused("ctorch\n\x1b[2JSize\n)R", "Python's torch.?[2JSize");
  refused("ctorch\nSize", "a name has no end");
  // Opcodes that call or build in other ways.
  refused("(" + touch + "ios\nsystem\n", "the opcode 0x69");
  refused("(" + global("torch.Size") + touch + "o", "the opcode 0x6f");
  refused(global("torch.Size") + tuple(touch) + "\x81", "the opcode 0x81");
  refused("\x82\x01", "the opcode 0x82");
  refused(global("torch.Size") + dict(text("__reduce__") + touch) + "b", "sets attributes");
  refused(touch + tuple("") + "R", "a call needs the name of a function");
  refused(call("collections.OrderedDict", tuple("")), "an OrderedDict with arguments");
  // Allowed names make data, whatever they get.
  archive_of(dir / "x.pt", pickle(dict(w + text("x") + call("torch.device", touch))));
  CHECK(load_torch(dir / "x.pt").metadata.at("x") == "a torch.device");
  CHECK_FALSE(std::filesystem::exists(mark));
}

TEST_CASE("torch: tensors must lie in their storage") {
  const TempDir dir;
  auto said_of = [&](const std::string& bytes) { return refusal(archive_of(dir / "x.pt", bytes)); };
  const std::string one = integer(1), two = integer(2), huge = integer(INT64_MAX);
  CHECK(said_of(shaped(integer(0), two + two, two + one)) == "");
  const Tensor w = load_torch(dir / "x.pt").find("w");
  CHECK(same_bits(w, tensor<float>({1, 2, 3, 4}, {2, 2})));
  CHECK(contains(said_of(shaped(one, two + two, two + one)), "element 4 is outside its storage"));
  CHECK(contains(said_of(shaped(integer(0), two, integer(4))), "element 4 is outside"));
  CHECK(contains(said_of(shaped(huge, two, one)), "plus 1 does not fit"));
  CHECK(contains(said_of(shaped(integer(0), two + two, huge + huge)), "does not fit"));
  CHECK(contains(said_of(shaped(integer(0), huge, one)), "is outside its storage"));
  CHECK(contains(said_of(shaped(integer(0), huge + huge, "K\0K\0"s)), "too many elements"));
  CHECK(contains(said_of(shaped(integer(0), huge, "K\0"s)), "TorchOptions::ratio"));
  CHECK(contains(said_of(shaped(integer(0), huge + huge + integer(0), one + one + one)),
                 "too many elements"));
  CHECK(said_of(shaped(huge, integer(0), huge)) == "");  // empty: nothing is read
  CHECK(contains(said_of(shaped(integer(-1), two, one)), "its offset is -1"));
  CHECK(contains(said_of(shaped(integer(0), integer(-2), one)), "its shape has -2"));
  CHECK(contains(said_of(shaped(integer(0), two, integer(-1))), "its stride has -1"));
  CHECK(contains(said_of(shaped(integer(0), two, one + one)), "has strides"));
  CHECK(contains(said_of(shaped("N", two, one)), "its offset is None"));
  CHECK(contains(said_of(shaped(integer(0), text("2"), one)), "its shape has 2"));
  const std::string nine = "\x8a\x09" + number(0, 8) + "\x01";  // 2^64
  CHECK(contains(said_of(shaped(integer(0), nine, one)), "more than 64 bits"));
  std::string many;
  for (int i = 0; i < 13; ++i) many += one;
  CHECK(contains(said_of(shaped(integer(0), many, many)), "12"));
}

TEST_CASE("torch: storages and arguments of another form") {
  const TempDir dir;
  auto said_of = [&](const std::string& storage, const std::string& end = kEnd) {
    const std::string w = tensor_of(storage, integer(0), integer(2), integer(1), end);
    return refusal(archive_of(dir / "x.pt", pickle(dict(text("w") + w))));
  };
  const std::string floats = "torch.FloatStorage";
  CHECK(said_of(kFour) == "");
  CHECK(contains(said_of(storage(floats, "1", 4)), "the archive has no data/1"));
  CHECK(contains(said_of(storage(floats, "../data.pkl", 4)), "has no data/../data.pkl"));
  CHECK(contains(said_of(storage(floats, "0", 3)), "3 x 4 bytes has 16"));
  CHECK(contains(said_of(storage(floats, "0", -4)), "-4 x 4 bytes"));
  CHECK(contains(said_of(storage(floats, "0", (int64_t{1} << 62) + 4)), "bytes has 16"));
  CHECK(contains(said_of(storage("torch.DoubleStorage", "0", 4)), "4 x 8 bytes has 16"));
  CHECK(contains(said_of(storage("torch.Size", "0", 4)), "its elements are torch.Size"));
  CHECK(contains(said_of(storage("torch.storage.UntypedStorage", "0", 16)), "its elements are"));
  CHECK(contains(said_of("N"), "its storage is None"));
  CHECK(contains(said_of(text("storage") + "Q"), "its storage is"));
  CHECK(contains(said_of(tuple(text("module")) + "Q"), "an id of another form"));
  CHECK(contains(said_of(kFour, ""), "it has 4 arguments"));
  CHECK(contains(said_of(kFour, kEnd + dict(text("neg") + "\x88")), "it has attributes"));
  auto of_value = [&](const std::string& value) {
    return refusal(archive_of(dir / "x.pt", pickle(dict(text("w") + value))));
  };
  CHECK(contains(of_value(call("torch._utils._rebuild_parameter", "N")), "without a tensor"));
  CHECK(contains(of_value(call("torch._utils._rebuild_parameter", "")), "without a tensor"));
  const std::string tensor = tensor_of(kFour, integer(0), integer(2), integer(1));
  CHECK(of_value(call("torch._utils._rebuild_parameter", tensor + "\x88")) == "");
  CHECK(contains(of_value(tensor + text("w") + tensor), "the key 'w' appears twice"));
  CHECK(contains(of_value(tensor + text("\xff") + "N"), "not valid UTF-8"));
}

TEST_CASE("torch: damaged archives") {
  const TempDir dir;
  const std::string good = shaped(integer(0), integer(4), integer(1));
  const std::pair<std::string, std::string> program = {"a/data.pkl", good},
                                            floats = {"a/data/0", kFloats};
  auto said_of = [&](const Members& members) { return refusal(archive(dir / "x.pt", members)); };
  CHECK(said_of({program, floats}) == "");
  CHECK(said_of({{"a/b/data.pkl", good}, {"a/b/data/0", kFloats}}) == "");
  CHECK(said_of({program, floats, {"a/byteorder", "little"}}) == "");
  CHECK(contains(said_of({program, floats, {"a/byteorder", "big"}}), "byte order"));
  CHECK(contains(said_of({program, floats, floats}), "has \"a/data/0\" twice"));
  CHECK(contains(said_of({program, floats, {"b/data.pkl", good}}), "more than one data.pkl"));
  CHECK(contains(said_of({program, {"b/data/0", kFloats}}), "the archive has no data/0"));
  CHECK(contains(said_of({program, {"a/data/0", kFloats + "1"}}), "has 17 in the archive"));
  CHECK(contains(said_of({{"data.pkl", good}, {"data/0", kFloats}}), "has no data.pkl"));
  // Numbers in Zip64 fields, as in archives over 4 GiB.
  datasets::detail::ZipWriter zip(dir / "zip64.pt");
  for (const auto& [name, bytes] : {program, floats}) {
    zip.begin(name, std::ssize(bytes), 0);
    zip.write(bytes.data(), std::ssize(bytes));
  }
  zip.commit();
  CHECK(load_torch(dir / "zip64.pt").find("w").numel() == 4);
  std::string bytes = read_file(archive(dir / "x.pt", {program, floats}));
  const size_t central = bytes.rfind("PK\1\2");
  bytes[central + 10] = 8;  // the method of the storage
  CHECK(contains(refusal(write_file(dir / "x.pt", bytes)), "\"a/data/0\" is compressed"));
}

TEST_CASE("torch: damaged pickles") {
  const TempDir dir;
  auto said_of = [&](const std::string& bytes) { return refusal(archive_of(dir / "x.pt", bytes)); };
  auto of_value = [&](const std::string& value) { return said_of(pickle(value)); };
  CHECK(contains(said_of(""), "byte 0 of the pickle: needs 1 more bytes"));
  CHECK(contains(said_of("}."), "does not begin with the opcode PROTO"));
  CHECK(contains(said_of("\x80\1}."), "protocol 1"));
  CHECK(contains(said_of("\x80\6}."), "protocol 6"));
  CHECK(contains(said_of("\x80\2}"), "needs 1 more bytes"));
  CHECK(contains(said_of("\x80\2}.x"), "are left at the end"));
  CHECK(contains(of_value("}}"), "are left at the end"));
  CHECK(contains(of_value(""), "the stack is empty"));
  CHECK(contains(of_value("}t"), "there is no mark"));
  CHECK(contains(of_value("}(s"), "the stack is empty"));  // below the mark
  CHECK(contains(of_value("}(Nu"), "a key has no value"));
  CHECK(contains(of_value("](NNu"), "adds items to a value of another kind"));
  CHECK(contains(of_value("}q\1"), "keeps value 1 after 0 others"));
  CHECK(contains(of_value("}r" + number(1u << 31, 4)), "keeps value 2147483648"));
  CHECK(contains(of_value("h\0"s), "value 0 was not kept"));
  CHECK(contains(of_value("j" + number(1u << 31, 4)), "value 2147483648 was not kept"));
  CHECK(contains(of_value("X" + number(UINT32_MAX, 4)), "needs 4294967295 more bytes"));
  CHECK(contains(of_value("\x8d" + number(UINT64_MAX, 8)), "needs 18446744073709551615 more"));
  CHECK(contains(of_value("\x8e" + number(uint64_t{1} << 63, 8)), "needs 9223372036854775808"));
  CHECK(contains(of_value("\x95" + number(UINT64_MAX, 8)), "a frame ends early"));
  CHECK(contains(of_value("I1\n"), "the opcode 0x49"));
  // Nested deeply, and in itself: neither takes a stack or time.
  std::string deep;
  for (int i = 0; i < 50'000; ++i) deep += "}" + text("a");
  deep += "N";
  for (int i = 0; i < 50'000; ++i) deep += "s";
  CHECK(contains(of_value(deep), "no dict in it holds tensors"));
  CHECK(contains(of_value("}q\0"s + text("a") + "h\0s"s + text("b") + "h\0s"s),
                 "no dict in it holds tensors"));
  std::string empties = "]";
  for (int i = 0; i < 1'300'000; ++i) empties += "]a";
  CHECK(contains(of_value(empties), "lists, dicts and tuples"));
  CHECK(contains(of_value(std::string(1'100'000, 'N')), "too many values"));
  CHECK(contains(of_value(std::string(1'100'000, '(')), "too many marks"));
  const std::string large = archive_of(dir / "y.pt", std::string((1 << 26) + 1, 'N'));
  CHECK(contains(refusal(large), "has 67108865 bytes"));
}

TEST_CASE("torch: limits of tensors and of their bytes") {
  CHECK(contains(refusal(reference("dtypes"), {.tensors = 12}), "more than 12 tensors"));
  CHECK(load_torch(reference("dtypes"), {.tensors = 13}).tensors.size() == 13);
  CHECK_THROWS_AS(load_torch(reference("dtypes"), {.ratio = 0}), Error);
  const TempDir dir;
  // A file of 2 kB that claims tensors of 68 MB: an axis of stride 0, and gaps.
  const std::string path =
      archive_of(dir / "x.pt", shaped(integer(0), integer(17'000'000) + integer(1), "K\0K\0"s));
  CHECK(contains(refusal(path), "the tensors take more than 67108864 bytes, but the file has"));
  CHECK(load_torch(path, {.ratio = 1'000'000}).find("w").numel() == 17'000'000);
}

TEST_CASE("torch: every prefix of a file is refused, a damaged byte crashes nothing") {
  const TempDir dir;
  const std::string whole = read_file(reference("tied")), path = dir / "x.pt";
  for (size_t n = 0; n < whole.size(); ++n) {
    write_file(path, whole.substr(0, n));
    CHECK(refusal(path) != "");
  }
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      write_file(path, bytes);
      refused += refusal(path) != "";
    }
  CHECK(refused > 1000);
}

TEST_CASE("load_tensors: the bytes choose the reader, not the name") {
  const TempDir dir;
  const std::string torch = dir / "model.safetensors", safe = dir / "model.pt";
  std::filesystem::copy_file(reference("tied"), torch);
  save_safetensors(safe, {{{"w", ones({2})}}, {{"a", "b"}}});
  CHECK(load_tensors(torch).tensors.size() == 2);
  CHECK(load_tensors(safe).find("w").numel() == 2);
  CHECK(load_tensors(safe).metadata.at("a") == "b");
  CHECK(contains(io_error([&] { load_safetensors(torch); }), "a PyTorch file, which load_tensors"));
  CHECK(contains(io_error([&] { load_tensors(reference("old")); }), "before version 1.6"));
  CHECK(contains(io_error([&] { load_tensors(dir / "none.pt"); }), "none.pt: No such file"));
  CHECK(contains(io_error([&] { load_tensors(dir.path()); }), "not a regular file"));
  CHECK(contains(io_error([&] { load_tensors(torch, {.tensors = 1}); }), "more than 1 tensors"));
}

TEST_CASE("load_tensors: the weights in a folder of transformers") {
  const TempDir dir;
  const std::string safe = dir / "model.safetensors", torch = dir / "pytorch_model.bin";
  CHECK(find_weights(dir.path()) == safe);
  write_file(torch + ".index.json", "{}");
  CHECK(find_weights(dir.path()) == torch);
  write_file(torch, "");
  CHECK(find_weights(dir.path()) == torch);
  write_file(safe + ".index.json", "{}");
  CHECK(find_weights(dir.path()) == safe);
}

TEST_CASE("load_tensors: shards of PyTorch with an index") {
  const TempDir dir;
  const std::string first = "pytorch_model-00001-of-00002.bin",
                    second = "pytorch_model-00002-of-00002.bin";
  std::filesystem::copy_file(reference("tied"), dir / first);
  std::filesystem::copy_file(reference("inside"), dir / second);
  auto write_index = [&](const std::string& more) {
    write_file(dir / "pytorch_model.bin.index.json",
               fmt::format(R"({{"metadata": {{}}, "weight_map": {{"wte.weight": "{0}",
                              "head.weight": "{0}", "w": "{1}"{2}}}}})",
                           first, second, more));
  };
  write_index("");
  const SafeTensors all = load_tensors(dir / "pytorch_model.bin");
  CHECK(all.tensors.size() == 3);
  CHECK(same_bits(all.find("wte.weight"), counted({3, 2})));
  CHECK(same_bits(all.find("w"), counted({2})));
  write_index(R"(, "x": "pytorch_model-00002-of-00002.bin")");
  CHECK(contains(io_error([&] { load_tensors(dir / "pytorch_model.bin"); }), "no tensor 'x'"));
}

}  // namespace tern::test_torch_file
