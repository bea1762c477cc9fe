// lm embed: folders of sentence-transformers, what their files say, texts that are cut, output.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tern/apps/lm/embed.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/data/loading/npy.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_embed {
namespace {

using nlohmann::json;
using test::TempDir;
using test::write_file;

const std::string kEncoders = std::string(TERN_SOURCE_DIR) + "/tests/reference/encoders/";
constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\na\nmat\n##s\n.\n";

/// A folder of an encoder with a vocabulary.
void make_folder(const TempDir& dir, const std::string& name = "minilm") {
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(kEncoders + name + "/" + file, dir / file,
                               std::filesystem::copy_options::overwrite_existing);
  write_file(dir / "vocab.txt", kVocabulary);
}

/// The files of sentence-transformers for a pooling.
void write_modules(const TempDir& dir, const json& pooling, bool normalise = true) {
  json modules = {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "a.models.Transformer"}},
                  {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "a.models.Pooling"}}};
  if (normalise)
    modules.push_back(
        {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", "a.models.Normalize"}});
  std::filesystem::create_directories(dir / "1_Pooling");
  write_file(dir / "modules.json", modules.dump());
  write_file(dir / "1_Pooling/config.json", pooling.dump());
}

/// The vectors that the command writes for standard input.
std::vector<std::vector<float>> run(const TempDir& dir, const std::string& input,
                                    std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"embed", "--model", dir.path()});
  std::istringstream in(input);
  std::ostringstream out;
  const int code = embed_lines(test::parsed(lm_program, "lm", flags), in, out);
  CHECK(code == 0);
  std::vector<std::vector<float>> rows;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);)
    rows.push_back(json::parse(line).get<std::vector<float>>());
  return rows;
}

double length(const std::vector<float>& row) {
  double squares = 0;
  for (const float v : row) squares += static_cast<double>(v) * v;
  return std::sqrt(squares);
}

std::vector<float> vector_of(const TempDir& dir, std::vector<int64_t> ids, models::Pooling pooling,
                             bool normalise) {
  Rng rng(1);
  const models::Bert model = models::load_bert_encoder(dir / "model.safetensors", rng);
  return models::embed(model, std::vector<std::vector<int64_t>>{std::move(ids)},
                       {.pooling = pooling, .normalise = normalise})
      .to_vector<float>();
}

void check_close(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5);
}

}  // namespace

TEST_CASE("lm embed: a vector a line in the input's order, empty lines too; cut to the length") {
  const TempDir dir;
  make_folder(dir);
  // [CLS] the cat [SEP]; [CLS] [SEP]; [CLS] a mat ##s . [SEP]
  const auto rows = run(dir, "The cat\n\n  a mats.\r\nthe cat");
  REQUIRE(rows.size() == 4);
  check_close(rows[0], vector_of(dir, {2, 5, 6, 3}, models::Pooling::mean, true));
  check_close(rows[1], vector_of(dir, {2, 3}, models::Pooling::mean, true));
  check_close(rows[2], vector_of(dir, {2, 9, 10, 11, 12, 3}, models::Pooling::mean, true));
  check_close(rows[3], rows[0]);
  for (const auto& row : rows) CHECK(std::abs(length(row) - 1) < 1e-6);
  // The model takes 11 tokens.
  std::string words;
  for (int i = 0; i < 30; ++i) words += "cat ";
  check_close(run(dir, words)[0],
              vector_of(dir, {2, 6, 6, 6, 6, 6, 6, 6, 6, 6, 3}, models::Pooling::mean, true));
  const Embedder embedder = load_embedder(dir.path());
  const std::vector<std::string> texts = {words, "cat cat cat cat cat cat cat cat cat", words};
  const int64_t cut = embed_texts(embedder, texts).cut;
  CHECK(cut_text(embedder, cut, texts.size()) ==
        "2 of 3 texts have more than 11 tokens; their ends were left out");
  write_file(dir / "sentence_bert_config.json", R"({"max_seq_length": 4, "do_lower_case": false})");
  check_close(run(dir, words)[0], vector_of(dir, {2, 6, 6, 3}, models::Pooling::mean, true));
  std::filesystem::remove(dir / "sentence_bert_config.json");
  write_file(dir / "tokenizer_config.json", R"({"model_max_length": 3})");
  check_close(run(dir, words)[0], vector_of(dir, {2, 6, 3}, models::Pooling::mean, true));
}

TEST_CASE("lm embed: standard input may have a byte order mark; what is not text is refused") {
  const TempDir dir;
  make_folder(dir);
  const std::string text = "the cat\r\n\na mat";
  const auto want = run(dir, text);
  REQUIRE(want.size() == 3);
  std::string wide = "\xFF\xFE";
  for (const char c : text) wide += {c, '\0'};
  CHECK(run(dir, wide) == want);
  CHECK(run(dir, "\xEF\xBB\xBF" + text) == want);
  CHECK(run(dir, "the cat \xFF\n\na mat") == run(dir, "the cat \uFFFD\n\na mat"));
  for (const auto& [input, said] :
       {std::pair(wide.substr(2), "UTF-16 without a byte order mark; convert it"),
        {wide + "\n", "is not valid UTF-16"},
        {"%PDF-1.7\nthe cat", "pdftotext"},
        {std::string(1 << 21, 'a'), "a line is longer than 1048576 bytes"}})
    CHECK_THROWS_WITH_AS(run(dir, input), doctest::Contains(said), IoError);
}

TEST_CASE("lm embed: the length of texts stands in a file with the name of a model, too") {
  const TempDir dir;
  make_folder(dir);
  // The list of sentence-transformers, in its order: earlier names win.
  const std::vector<std::string> names = {"bert",   "roberta",     "distilbert", "camembert",
                                          "albert", "xlm-roberta", "xlnet"};
  for (size_t i = names.size(); i-- > 0;) {
    write_file(dir / ("sentence_" + names[i] + "_config.json"),
               json{{"max_seq_length", 3 + i}, {"do_lower_case", false}}.dump());
    CHECK(read_recipe(dir.path()).max_tokens == static_cast<int64_t>(3 + i));
  }
  // [CLS] cat [SEP]
  check_close(run(dir, "cat cat cat")[0], vector_of(dir, {2, 6, 3}, models::Pooling::mean, true));
  std::filesystem::remove(dir / "sentence_bert_config.json");
  // Even if it gives no length, the first file is the one.
  write_file(dir / "sentence_roberta_config.json", "{}");
  CHECK_FALSE(read_recipe(dir.path()).max_tokens.has_value());
  write_file(dir / "sentence_roberta_config.json", R"({"max_seq_length": 0})");
  CHECK_THROWS_WITH_AS(read_recipe(dir.path()),
                       doctest::Contains("sentence_roberta_config.json: max_seq_length"), IoError);
}

TEST_CASE("lm embed: the folder's files say pooling and length; flags say otherwise") {
  const TempDir dir;
  make_folder(dir);
  const std::vector<int64_t> ids = {2, 5, 6, 3};
  write_modules(dir, {{"word_embedding_dimension", 16},
                      {"pooling_mode_cls_token", true},
                      {"pooling_mode_mean_tokens", false}});
  check_close(run(dir, "the cat")[0], vector_of(dir, ids, models::Pooling::first, true));
  check_close(run(dir, "the cat", {"--pooling", "mean"})[0],
              vector_of(dir, ids, models::Pooling::mean, true));
  write_modules(dir, {{"pooling_mode_lasttoken", true}}, /*normalise=*/false);
  check_close(run(dir, "the cat")[0], vector_of(dir, ids, models::Pooling::last, false));
  check_close(run(dir, "the cat", {"--normalise", "yes"})[0],
              vector_of(dir, ids, models::Pooling::last, true));
  write_file(dir / "config_sentence_transformers.json",
             R"({"prompts": {"query": "a mat "}, "default_prompt_name": "query"})");
  check_close(run(dir, "the cat")[0],
              vector_of(dir, {2, 9, 10, 5, 6, 3}, models::Pooling::last, false));
}

TEST_CASE("lm embed: what is assumed without modules.json, as far as no flag says it") {
  EmbedRecipe recipe;
  CHECK(assumed_text(recipe, true, true) ==
        "there is no modules.json; a vector is the mean of the last states (--pooling) and has "
        "length 1 (--normalise)");
  CHECK(assumed_text(recipe, false, true) ==
        "there is no modules.json; a vector has length 1 (--normalise)");
  CHECK(assumed_text(recipe, false, false).empty());
  recipe.found = true;
  CHECK(assumed_text(recipe, true, true).empty());
}

TEST_CASE("lm embed: a file that cannot be written is an error before the model is read") {
  const TempDir dir;
  for (const char* name : {"x.npy", "x.jsonl"})
    CHECK_THROWS_WITH_AS(run(dir, "a", {"--out", dir / "none" + "/" + name}),
                         doctest::Contains("cannot create a file there"), WriteError);
  std::istringstream in("a");
  std::ostringstream out;
  const auto flags = test::parsed(lm_program, "lm",
                                  {"embed", "--model", dir / "no-model", "--out", dir / "x.npy"});
  CHECK_THROWS_WITH_AS(embed_lines(flags, in, out), doctest::Contains("no-model"), IoError);
  CHECK(std::filesystem::is_empty(dir.path()));  // no file is left half written
}

TEST_CASE("lm embed: files in place of standard streams") {
  const TempDir dir;
  make_folder(dir);
  const auto rows = run(dir, "the cat\na mat");
  write_file(dir / "one", "the cat\n");
  write_file(dir / "two", "a mat\n");
  CHECK(run(dir, "", {"--text", dir / "one", dir / "two", "--out", dir / "x.npy"}).empty());
  const Tensor x = datasets::load_npy(dir / "x.npy");
  CHECK(x.shape() == Shape{2, 16});
  CHECK(select(x, 0, 1).to_vector<float>() == rows[1]);
  CHECK(run(dir, "", {"--text", dir / "one", "--out", dir / "x.jsonl"}).empty());
  CHECK(json::parse(test::read_file(dir / "x.jsonl")).get<std::vector<float>>().size() == 16);
}

TEST_CASE("lm: folders of encoders are told from language models") {
  const std::string reference = std::string(TERN_SOURCE_DIR) + "/tests/reference/";
  for (const char* encoder : {"encoders/minilm", "encoders/mpnet", "encoders/xlm_roberta"})
    CHECK(is_encoder_folder(reference + encoder));
  for (const char* other : {"gpt/llama", "gpt/gpt2", "gguf_models/llama.gguf"})
    CHECK_FALSE(is_encoder_folder(reference + other));
  CHECK_THROWS_AS(is_encoder_folder(reference + "none"), IoError);
}

TEST_CASE("lm embed: folders that do not fit are refused by name") {
  const TempDir dir;
  make_folder(dir);
  auto refused = [&](const char* said) {
    CAPTURE(said);
    CHECK_THROWS_WITH_AS(load_embedder(dir.path()), doctest::Contains(said), IoError);
  };
  write_modules(dir, {{"pooling_mode_weightedmean_tokens", true}});
  refused("1_Pooling/config.json: pooling_mode_weightedmean_tokens: tern has no such pooling");
  write_modules(dir, {{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", true}});
  refused("2 kinds of pooling");
  write_modules(dir, {{"pooling_mode_mean_tokens", true}, {"pooling_mode_new", true}});
  refused("pooling_mode_new");
  write_modules(dir, {{"pooling_mode_mean_tokens", true}, {"include_prompt", false}});
  CHECK_NOTHROW(load_embedder(dir.path()));
  write_file(dir / "config_sentence_transformers.json",
             R"({"prompts": {"query": "a mat "}, "default_prompt_name": "query"})");
  refused("the Pooling leaves this text out");
  std::filesystem::remove(dir / "config_sentence_transformers.json");
  write_modules(dir, {{"pooling_mode_mean_tokens", true}});
  json modules = json::parse(test::read_file(dir / "modules.json"));
  modules.push_back({{"idx", 3}, {"name", "3"}, {"path", "3_Dense"}, {"type", "a.models.Dense"}});
  write_file(dir / "modules.json", modules.dump());
  refused("tern has no such layer: a.models.Dense");
  modules[3] = modules[1];
  modules[3]["path"] = "../elsewhere";
  write_file(dir / "modules.json", modules.dump());
  refused("is not in the folder");
  write_file(dir / "modules.json", "[]");
  refused("no Pooling is in it");
  write_file(dir / "modules.json", "{");
  refused("modules.json: not JSON");
  std::filesystem::remove(dir / "modules.json");
  write_file(dir / "sentence_bert_config.json", R"({"max_seq_length": 2})");
  refused("leave no room");
  write_file(dir / "sentence_bert_config.json", R"({"max_seq_length": 0})");
  refused("max_seq_length");
  write_file(dir / "sentence_bert_config.json", R"({"do_lower_case": true})");
  refused("do_lower_case");
  std::filesystem::remove(dir / "sentence_bert_config.json");
  std::string many = kVocabulary;
  for (int i = 0; i < 20; ++i) many += "w" + std::to_string(i) + "\n";
  write_file(dir / "vocab.txt", many);
  refused("vocab.txt: there are 33 tokens, but the model knows 23");
  write_file(dir / "tokenizer.json", "{}");
  refused("tokenizer.json");
}

TEST_CASE("lm embed, lm fill: a tokenizer_config.json that contradicts tokenizer.json is refused") {
  const TempDir dir;
  make_folder(dir);
  json vocab;
  std::istringstream lines(kVocabulary);
  for (std::string piece; std::getline(lines, piece);) vocab[piece] = vocab.size();
  const json file = {{"normalizer",
                      {{"type", "BertNormalizer"},
                       {"clean_text", true},
                       {"handle_chinese_chars", true},
                       {"strip_accents", nullptr},
                       {"lowercase", true}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"model",
                      {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"vocab", vocab}}}};
  write_file(dir / "tokenizer.json", file.dump());
  CHECK(load_encoder_tokenizer(dir.path(), 23).encode("The cat") == std::vector<int64_t>{5, 6});
  write_file(dir / "tokenizer_config.json", R"({"do_lower_case": false})");
  const char* said = "tokenizer_config.json: do_lower_case is false, but lowercase in";
  CHECK_THROWS_WITH_AS(load_encoder_tokenizer(dir.path(), 23), doctest::Contains(said), IoError);
  std::filesystem::remove(dir / "vocab.txt");
  CHECK_THROWS_WITH_AS(load_pieces({dir.path()}), doctest::Contains(said), IoError);
  write_file(dir / "tokenizer_config.json", R"({"do_lower_case": true})");
  CHECK(load_encoder_tokenizer(dir.path(), 23).encode("The cat") == std::vector<int64_t>{5, 6});
  CHECK(load_pieces({dir.path()}).options().lower);
}

}  // namespace tern::apps::lm::test_embed
