// Writes and reads run.json.
#include "tern/apps/common/training/run_record.h"

#include <fmt/chrono.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tern/apps/common/process/app.h"
#include "tern/apps/common/process/machine.h"
#include "tern/apps/common/training/folder.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/json_value.h"
#include "tern/core/io/safetensors.h"
#include "tern/nn/module.h"

namespace tern::apps {
namespace {

using nlohmann::json;

std::string path_of(const training::RunFolder& folder) { return folder.file("run.json"); }

std::string date_now() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
}

void add_settings(const JsonValue& object, const std::string& before, SettingTexts& out) {
  for (const auto& [key, value] : object.members()) {
    if (value.is_object())
      add_settings(value, before + key + ".", out);
    else
      out.emplace_back(before + key, value.is_text() ? value.text() : value.dump());
  }
}

json texts_to_json(const SettingTexts& texts) {
  json object = json::object();
  for (const auto& [name, text] : texts) object[name] = text;
  return object;
}

json to_json(const RunRecord& r) {
  json starts = json::array(), tested = json::object();
  for (const RunStart& s : r.starts)
    starts.push_back({{"command", s.command},
                      {"version", s.version},
                      {"date", s.date},
                      {"machine", s.machine},
                      {"ranks", s.ranks}});
  for (const auto& [name, value] : r.tested)
    if (std::isfinite(value)) tested[name] = value;
  return {{"program", r.program},
          {"starts", starts},
          {"settings", texts_to_json(r.settings)},
          {"best", {{"metric", r.best.metric}, {"largest", r.best.largest}}},
          {"tested", tested},
          {"epochs", r.epochs},
          {"weights", r.weights},
          {"resume", r.resume},
          {"flags", texts_to_json(r.flags)}};
}

RunRecord from_json(const JsonValue& j) {
  RunRecord r{.program = j.at("program").text(), .starts = {}, .settings = {}, .best = {}};
  for (const JsonValue& s : j.at("starts").elements())
    r.starts.push_back({s.at("command").text(), s.at("version").text(), s.at("date").text(),
                        s.get("machine", ""), s.get("ranks", int64_t{1})});
  for (const auto& [name, value] : j.at("settings").members())
    r.settings.emplace_back(name, value.text());
  r.best = {j.at("best").at("metric").text(), j.at("best").at("largest").boolean()};
  if (j.has("tested"))  // earlier versions lack it
    for (const auto& [name, value] : j.at("tested").members())
      r.tested.emplace_back(name, value.number());
  if (j.has("flags"))
    for (const auto& [name, flag] : j.at("flags").members())
      r.flags.emplace_back(name, flag.text());
  r.epochs = j.get("epochs", int64_t{0});
  r.weights = j.get("weights", int64_t{0});
  r.resume = j.get("resume", "");
  return r;
}

void save(const RunRecord& record, const training::Loop& loop) {
  // `replace`: the words of a command line may be invalid UTF-8.
  const std::string text = to_json(record).dump(1, ' ', false, json::error_handler_t::replace);
  loop.write(
      [&](const training::RunFolder& here) { write_file_atomically(path_of(here), text + "\n"); });
}

}  // namespace

std::string RunRecord::flag_of(const std::string& setting) const {
  for (const auto& [name, flag] : flags)
    if (name == setting) return flag;
  return setting;
}

SettingTexts flags_of(const Settings& list) {
  SettingTexts out;
  for (const Setting& s : list.rows())
    if (s.in_files && !s.flags.empty() && !s.is_positional())
      out.emplace_back(s.key, s.names().front());
  return out;
}

SettingTexts settings_of(const std::string& text) {
  SettingTexts out;
  add_settings(JsonDocument(text).root(), "", out);
  return out;
}

std::optional<RunRecord> load_run_record(const training::RunFolder& folder) {
  const std::string path = path_of(folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const std::string text = read_small_file(path);
  return reading(path + ": it cannot be read",
                 [&] { return from_json(JsonDocument(text).root()); });
}

RunRecord record_start(const training::Loop& loop, const std::string& program,
                       const std::string& command, const std::string& settings, int64_t ranks,
                       const SettingTexts& flags, const std::string& resume) {
  RunRecord record = load_run_record(loop.folder()).value_or(RunRecord{});
  if (loop.finished() && !record.program.empty()) return record;
  record.program = program;
  record.starts.push_back({command, tern_version(), date_now(), describe_machine(), ranks});
  record.settings = settings_of(settings);
  record.best = loop.best();
  record.tested.clear();  // from an earlier end of the run
  record.epochs = loop.epochs();
  record.weights = 0;
  for (const auto& [name, parameter] : nn::named_parameters(loop.learner().model()))
    record.weights += parameter.numel();
  record.flags = flags;
  record.resume = resume;
  save(record, loop);
  return record;
}

RunRecord record_end(const training::Loop& loop) {
  RunRecord record = load_run_record(loop.folder()).value_or(RunRecord{});
  record.epochs = loop.epochs();
  save(record, loop);
  return record;
}

void record_tested(const training::Loop& loop, const training::Metrics& tested) {
  RunRecord record = load_run_record(loop.folder()).value_or(RunRecord{});
  record.tested = tested;
  save(record, loop);
}

}  // namespace tern::apps
