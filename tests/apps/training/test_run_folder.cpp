// The folder of a run: its files, its log and report, and what is refused: a second run in it,
// files that were damaged or changed, values that no flag could have set.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tern/core/base/error.h"
#include "tern/tests/apps/config_faults.h"
#include "tern/tests/apps/training/in_process.h"
#include "tern/tests/train/run_checks.h"

namespace tern::test::test_run_folder {
namespace {

namespace fs = std::filesystem;
using doctest::Contains;
using nlohmann::json;

using Names = std::set<std::string>;

// A run with everything that report and log show, and where this program's configuration differs.
struct Folder {
  std::string program, line, config;
  std::string picture;  // the tag of a picture in event files begins so
  std::string sizes;    // pointer to the layers or units in the configuration
  Names logged;         // numbers of an epoch in the log
  Names words, later;   // settings of a few words each; settings that older files lack
};

const std::string kMore = " --ema 0.9 --schedule constant --warmup 0 --out run --tensorboard";

const std::vector<Folder> kFolders = {
    {.program = "ntm train",
     .line = " --hidden 6 --slots 9 --width 4 --batch 3 --every 7 --sequences 17",
     .config = "config.json",
     .picture = "weightings/",
     .sizes = "/hidden",
     .logged = {"bits_per_sequence", "wrong_bits", "sequences"},
     .words = {"task", "controller", "memory"},
     .later = {}},
    {.program = "translate train",
     .line = " --first 40 --hold-out 6 --batch 9 --layers 1 --dim 16 --heads 2 --ffn 20 --epochs 3",
     .config = "config.json",
     .picture = "attention 1/Cross attention",
     .sizes = "/model/layers",
     .logged = {"train_loss", "valid_loss", "valid_ppl", "valid_bleu", "tokens_per_s"},
     .words = {"tokens", "best", "form", "tie"},
     .later = {"bpe_dropout", "from", "r_drop"}},
    {.program = "lm train",
     .line = " --text text --hold-out 0.2 --vocab 280 --context 12 --layers 2 --dim 16 --heads 4"
             " --batch 3 --epochs 3",
     .config = "lm.json",
     .picture = "attention/",
     .sizes = "/model/layers",
     .logged = {"train_loss", "train_bits_per_byte", "valid_loss", "valid_ppl",
                "valid_bits_per_byte", "tokens_per_s"},
     .words = {},
     .later = {"documents", "documents_found", "published", "published_tokenizer", "window"}},
    {.program = "lm train",
     .line = " --model bert --text text --hold-out 0.2 --vocab 257 --context 20 --layers 2"
             " --dim 16 --heads 4 --batch 3 --epochs 3",
     .config = "lm.json",
     .picture = "attention/",
     .sizes = "/model/layers",
     .logged = {"train_loss", "train_masked", "train_next", "valid_loss", "valid_masked",
                "valid_ppl", "valid_words", "valid_next", "valid_pairs", "tokens_per_s"},
     .words = {},
     .later = {"documents", "documents_found", "published", "published_tokenizer", "window"}},
    {.program = "train_cifar",
     .line = " --data data --model gmlp-small --batch 12 --hold-out 0.25 --epochs 3",
     .config = "config.json",
     .picture = "Spatial weights/",
     .sizes = "/pictures/classes",
     .logged = {"train_loss", "train_top1", "valid_loss", "valid_top1", "valid_top2", "valid_top3",
                "valid_top4", "valid_top5", "images_per_s"},
     .words = {"augment", "tta"},
     .later = {"hold_out", "pictures", "exif_rotation", "flip", "skip_damaged", "alternate_flips",
               "drop_last", "tta", "split_by_seed"}},
};

std::vector<json> epochs_in(const std::string& log) {
  std::istringstream lines(read_file(log));
  std::vector<json> epochs;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("{\"step\"")) epochs.push_back(json::parse(line));
  return epochs;
}

}  // namespace

TEST_CASE("run folder: its files, a second run, a finished run resumed, and damaged files") {
  for (const Folder& f : kFolders) {
    CAPTURE(f.line);
    const DataFolder dir;
    const std::string start = f.program + f.line + kMore, resume = f.program + " --resume run";
    REQUIRE(run_line(start) == 0);
    check_run_files("run", start, f.picture);
    CHECK_THROWS_WITH_AS(run_line(start), Contains("holds a run already"), Error);

    const training::RunFolder run{"run"};
    const std::string report = read_file(run.file("report.html")), log = read_file(run.log());
    CHECK(contains(report, "<svg"));
    const std::vector<json> epochs = epochs_in(run.log());
    CHECK(epochs.size() == 3);
    for (size_t i = 0; i < epochs.size(); ++i) {
      CHECK(epochs[i].at("epoch") == i + 1);
      for (const std::string name : {"lr", "seconds"}) CHECK(epochs[i].at(name).is_number());
      for (const std::string& name : f.logged) CHECK_MESSAGE(epochs[i].at(name).is_number(), name);
    }

    fs::remove(run.file("report.html"));
    CHECK(run_line(resume) == 0);  // finished: only the report is written again
    CHECK(read_file(run.log()) == log);
    CHECK(read_file(run.file("report.html")).size() > report.size() / 2);

    const std::string path = run.file(f.config), kept = read_file(path);
    const auto refused = [&](const json& config, const char* why) {
      write_file(path, config.dump());
      CHECK_THROWS_WITH_AS(run_line(resume), Contains(why), IoError);
    };
    json other = json::parse(kept);
    other["lr"] = 2 * other["lr"].get<double>();
    refused(other, "the run was started with a different configuration");
    json older = json::parse(kept);  // of a version that did not have these
    for (const char* member : {"memory_use", "epoch_end", "precision"}) older.erase(member);
    write_file(path, older.dump());
    CHECK(run_line(resume) == 0);
    for (const int64_t size : {int64_t{20}, int64_t{1000}}) {  // nothing of this size is allocated
      json large = json::parse(kept);
      large[json::json_pointer(f.sizes)] = size;
      if (large.contains("model") && large["model"].is_object()) large["model"]["dim"] = 1 << 15;
      refused(large, (f.config + ": it describes").c_str());
    }
    refused(json{{"seed", "x"}}, f.config.c_str());
    write_file(path, "{\"lr\": ");
    CHECK_THROWS_WITH_AS(run_line(resume), Contains(f.config.c_str()), IoError);
    write_file(path, kept);

    const std::string checkpoint = read_file(run.checkpoint());
    const std::string half = checkpoint.substr(0, checkpoint.size() / 2);
    write_file(run.checkpoint(), half);
    CHECK_THROWS_WITH_AS(run_line(resume), Contains("the run cannot be resumed without it"),
                         IoError);
    CHECK(read_file(run.checkpoint()) == half);
  }
}

TEST_CASE("run folder: values in a configuration that no flag could set are refused by name") {
  for (const Folder& f : kFolders) {
    CAPTURE(f.line);
    const DataFolder dir;
    const std::string line =
        f.program + f.line + kMore + " --optimizer adam --optimizer-bits 8 --keep 3";
    const auto program = program_of(line);
    program->load(nullptr);
    apps::Settings settings;
    program->settings(settings);
    const std::string text = apps::settings_to_json(settings);
    const auto read = [&](const std::string& json) {
      const auto fresh = program_of(line);
      apps::Settings rows;
      fresh->settings(rows);
      apps::settings_from_json(json, rows);
      fresh->check_config();
      return apps::settings_to_json(rows);
    };
    CHECK(read(text) == text);
    for (const char* damaged : {"{}", "{", "[[[["}) CHECK_THROWS_AS(read(damaged), Error);
    const std::string more = "{\"no_such_setting\": 0," + text.substr(1);
    CHECK_THROWS_WITH_AS(read(more), doctest::Contains("knows no \"no_such_setting\""), Error);
    Names words = f.words, later = f.later;
    words.insert({"model", "optimizer", "schedule", "precision", "recompute"});
    later.insert({"accumulate", "beta2", "weight_decay", "decay_all"});
    check_every_option(text, read, {"seed"}, words, later);
  }
}

}  // namespace tern::test::test_run_folder
