// JSON files that disks, editors and other programs have damaged: the error of every reader names
// the file and the fault, in tern's own words.
#include <doctest/doctest.h>

#include "tern/core/io/safetensors.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/tests/support/damaged_json.h"
#include "tern/tests/support/data_files.h"
#include "tern/train/detail/loop_state.h"
#include "tern/train/run_log.h"

namespace tern::test_damaged_json {

using test::check_damaged;
using test::read_file;
using test::TempDir;
using test::write_file;

TEST_CASE("damaged JSON: vocabularies and tokenizers") {
  const TempDir dir;
  const std::vector<std::string> texts(3, "low lower lowest");
  const datasets::ByteBpe bpe = datasets::ByteBpe::learn(texts, {.size = 260});
  bpe.save(dir / "vocab.json", dir / "merges.txt");
  nlohmann::json few = nlohmann::json::parse(read_file(dir / "vocab.json"));
  check_damaged(few.dump(), dir / "vocab.json", 1000, [&](const std::string& text) {
    write_file(dir / "vocab.json", text);
    datasets::ByteBpe::load(dir / "vocab.json", dir / "merges.txt");
  });
  datasets::Tokenizer::learn(texts, {}).save(dir / "source.json");
  check_damaged(read_file(dir / "source.json"), dir / "source.json", 200,
                [&](const std::string& text) {
                  write_file(dir / "source.json", text);
                  datasets::Tokenizer::load(dir / "source.json");
                });
}

TEST_CASE("damaged JSON: tokenizer.json") {
  const TempDir dir;
  const std::string parts = R"("added_tokens": [{"id": 2, "content": "<s>", "single_word": false,
        "lstrip": false, "rstrip": true, "normalized": false, "special": true}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace",
        "pattern": {"String": "q"}, "content": "a"}]},
      "truncation": null, "padding": {"strategy": "BatchLongest"}, "version": "1.0")";
  for (const std::string rest :
       {R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Removed",
             "invert": false},
           "post_processor": {"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                        {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                      {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}},
           "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
           "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
             "continuing_subword_prefix": null, "end_of_word_suffix": null, "byte_fallback": false,
             "ignore_merges": false, "vocab": {"a": 0, "b": 1, "<s>": 2, "ab": 3},
             "merges": [["a", "b"]]})",
        R"("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first",
             "split": true},
           "post_processor": {"type": "RobertaProcessing", "sep": ["<s>", 2], "cls": ["<s>", 2],
             "trim_offsets": true, "add_prefix_space": false},
           "decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first",
             "split": true},
           "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
             "vocab": [["?", 0.0], ["a", -1.0], ["<s>", 0.0]]})"}) {
    check_damaged("{" + parts + ", " + rest + "}", dir / "tokenizer.json", 400,
                  [&](const std::string& text) {
                    write_file(dir / "tokenizer.json", text);
                    datasets::PretrainedTokenizer::load(dir / "tokenizer.json");
                  });
  }
}

TEST_CASE("damaged JSON: added tokens beside vocab.json") {
  const TempDir dir;
  datasets::LanguageTokenizer().save(dir.path());  // 256 bytes
  std::filesystem::remove(dir / "tokenizer.json");
  const auto check = [&](const std::string& name, const std::string& fine, int least) {
    check_damaged(fine, dir / name, least, [&](const std::string& text) {
      write_file(dir / name, text);
      datasets::LanguageTokenizer::load(dir.path());
    });
    std::filesystem::remove(dir / name);
  };
  check("tokenizer_config.json",
        R"({"added_tokens_decoder": {"256": {"content": "<s>", "rstrip": true, "special": true}},
            "bos_token": "<s>", "eos_token": {"content": "<s>", "lstrip": false},
            "add_bos_token": true, "additional_special_tokens": ["<s>"]})",
        120);
  check("added_tokens.json", R"({"<s>": 256, "</s>": 257})", 60);
}

TEST_CASE("damaged JSON: logs and states of runs") {
  const TempDir dir;
  const std::string log = dir / "log.jsonl";
  for (const std::string line :
       {R"({"step": 3, "loss": 0.5, "lr": 0.1, "grad_norm": null})",
        R"({"epoch": 1, "valid_loss": 0.5, "lr": 0.1, "seconds": 2.5, "steps": 3, "ended": "x",
            "images_per_s": 7})"})
    check_damaged(nlohmann::json::parse(line).dump(), log + ":1: not a line of a log: ", 30,
                  [&](const std::string& text) {
                    write_file(log, text + "\n");
                    training::read_log(log);
                  });
  training::LoopState state;
  state.means.add("loss", 1, 2);
  state.history.push_back({.epoch = 1, .metrics = {{"valid_loss", 0.5}}, .steps = 3});
  check_damaged(training::to_json(state), "", 100,
                [](const std::string& text) { training::loop_state_from_json(text); });
}

TEST_CASE("damaged JSON: headers of safetensors") {
  const TempDir dir;
  const std::string path = dir / "w.safetensors";
  check_damaged(R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2],
                    "data_offsets": [0, 8]}})",
                "load_safetensors: " + path, 80, [&](const std::string& text) {
                  std::string bytes(8, '\0');
                  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> 8 * i);
                  write_file(path, bytes + text + std::string(8, '\0'));
                  load_safetensors(path);
                });
}

}  // namespace tern::test_damaged_json
