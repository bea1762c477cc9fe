// The commands generate, chat, complete, fill, embed and eval of lm.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <istream>
#include <ostream>
#include <utility>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/weights_fit.h"
#include "tern/apps/lm/chat.h"
#include "tern/apps/lm/document_marks.h"
#include "tern/apps/lm/embed.h"
#include "tern/apps/lm/fill.h"
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/apps/lm/training.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/atomic_file.h"
#include "tern/data/loading/npy.h"
#include "tern/data/loading/text_decoder.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {
namespace {

constexpr int64_t kLongestPrompt = 1 << 24;  // bytes of a file or of standard input

/// Reads standard input as text. Errors: see datasets::read_text.
std::string read_input(std::istream& in) {
  std::string text(kLongestPrompt + 1, '\0');
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(in.gcount()));
  check_standard_input();
  check_io(std::ssize(text) <= kLongestPrompt, "standard input has more than {} bytes",
           kLongestPrompt);
  check_io(!text.empty(), "--prompt -: standard input is empty");
  datasets::TextDecoder decoder("standard input");
  const std::string bytes = std::exchange(text, "");
  decoder.add(bytes, text);
  decoder.finish(text);
  if (const auto at = datasets::find_invalid_utf8(text))
    fail_io(fmt::format("standard input is not valid UTF-8 (byte {})", *at + 1));
  return text;
}

std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string prompt_of_file(const std::string& path) {
  return without_line_end(datasets::read_text(path, {.max_bytes = kLongestPrompt}));
}

std::vector<std::string> prompts_of(const LmFlags& f, std::istream& in) {
  if (!f.prompt_file.empty()) return {prompt_of_file(f.prompt_file)};
  std::vector<std::string> prompts = f.prompts.empty() ? f.prompt : datasets::read_lines(f.prompts);
  check(f.prompts.empty() || !prompts.empty(), "{}: there is no prompt in it", f.prompts);
  if (prompts.empty()) prompts.emplace_back();
  for (std::string& prompt : prompts)
    if (f.prompts.empty() && prompt == kStandardInput)
      prompt = without_line_end(read_input(in));
    else
      prompt = datasets::replace_invalid_utf8(prompt);
  return prompts;
}

/// The lines of standard input, each as soon as it ends, with the line ends and encodings of
/// data/text/lines/lines.h. Wrong bytes are read as U+FFFD, which it says once.
class StreamLines {
 public:
  explicit StreamLines(std::istream& in) : in_(in) {}
  bool next(std::string& line) {
    while (ready_.empty() && read()) {
    }
    if (ready_.empty()) return false;
    line = std::move(ready_.front());
    ready_.pop_front();
    ++number_;
    if (datasets::find_invalid_utf8(line)) {
      if (!std::exchange(told_, true))
        complain(
            fmt::format("lm: line {} of standard input is not valid UTF-8; wrong bytes are read as "
                        "U+FFFD, also in later lines",
                        number_));
      line = datasets::replace_invalid_utf8(line);
    }
    return true;
  }

 private:
  /// Reads up to a byte that may end a line: no further, because a user may wait for the answer.
  bool read() {
    std::string bytes, text;
    for (char c = 0; in_.get(c);) {
      bytes.push_back(c);
      if (c == '\n' || c == '\r' || decoder_.is_utf16()) break;
      check_length(std::ssize(bytes));
    }
    const auto visit = [this](std::string_view line) { ready_.emplace_back(line); };
    if (bytes.empty())
      decoder_.finish(text);
    else
      decoder_.add(bytes, text);
    cutter_.add(text, visit);
    check_length(cutter_.waiting());
    if (bytes.empty()) cutter_.finish(visit);
    return !bytes.empty();
  }
  static void check_length(int64_t bytes) {
    check_io(bytes <= datasets::kLongestLine, "a line is longer than {} bytes; is this text?",
             datasets::kLongestLine);
  }

  std::istream& in_;
  datasets::TextDecoder decoder_{"standard input"};
  datasets::LineCutter cutter_;
  std::deque<std::string> ready_;
  int64_t number_ = 0;  // lines returned
  bool told_ = false;
};

/// The lines of standard input, and of files.
std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> out;
  StreamLines lines(in);
  for (std::string line; lines.next(line);) out.push_back(line);
  check_standard_input();
  check_io(!out.empty(), "standard input is empty");
  return out;
}

std::vector<std::string> lines_of(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& file : files)
    for (std::string& line : datasets::read_lines(file)) out.push_back(std::move(line));
  return out;
}

/// The texts of --text, where a folder stands for its files, as in training.
std::vector<std::string> texts_of(const LmFlags& f) {
  TrainConfig c;
  c.text = f.text;
  check_named_once(c);
  for (const std::string& note : remarks_on_files(c)) training::say(note, stderr);
  std::vector<std::string> texts;
  for (const std::string& path : text_paths(c)) texts.push_back(datasets::read_text(path));
  return texts;
}

/// The mark between documents in texts like the model's training texts.
std::string mark_of(const std::string& folder) {
  std::error_code error;
  const ModelFiles files{folder};
  return std::filesystem::exists(files.config(), error) ? load_config(files).documents : kEndOfText;
}

/// The model, with packed weights if it can be packed and `keep` is false: then the original
/// weights are not needed.
LoadedModel load(const LmFlags& f, bool keep) {
  const PackedType type = f.int8 ? PackedType::int8 : f.int4 ? PackedType::int4 : packed_type();
  LoadedModel m = keep ? load_folder(f.model) : load_folder_packed(f.model, type);
  check((!f.int8 && !f.int4) || m.model.can_pack() || m.model.is_packed(),
        "{} works only with a gpt or a llama, but the model is a {}", f.int8 ? "--int8" : "--int4",
        m.model.config().model);
  if (keep && m.model.can_pack()) m.model.pack(type, keep);
  return m;
}

/// The same for new texts. Says which settings of its folder are left to flags.
LoadedModel load_writer(const LmFlags& f, bool keep) {
  LoadedModel m = load(f, keep);
  if (!m.generation.empty())
    training::say(fmt::format("{}/generation_config.json asks for {}; lm writes as its flags say",
                              f.model, fmt::join(m.generation, ", ")),
                  stderr);
  return m;
}

/// Writes the file of --attention.
void write_picture(const LmFlags& f, const AttentionSentence& picture) {
  if (!picture.note.empty()) complain("lm: --attention shows only " + picture.note);
  write_attention(f.attention, "Attention of " + f.model, {picture});
}

int evaluate_bert(const LmFlags& f) {
  check(f.stride == 0, "--stride would change nothing: a bert reads lines, not windows");
  const LoadedBert bert = load_bert_folder(f.model);
  const int64_t context = bert.model.options.positions;
  const auto text =
      documents_of(cut_documents(texts_of(f), mark_of(f.model)), bert.pieces, context);
  check(text->sentences() > 0, "--text: there is no word to mask");
  training::say(BertKind::describe(bert.model), stderr);
  training::InterruptScope signals;
  std::optional<BertScore> found;
  {
    const bool pairs = bert.model.options.next_sentence && has_pairs(*text);
    auto batches = datasets::bert_loader(text, bert.pieces,
                                         {.max_tokens = context, .pairs = pairs, .shuffle = false});
    training::Progress bar("reading", "batches", batches.batches_per_epoch(), 0, stderr);
    found = score_batches(bert.model, batches, until_interrupted(bar));
  }
  if (!found) return training::kExitInterrupted;
  const BertScore& score = *found;
  check_finite_result(ModelFiles{f.model}.weights(), "loss", score.loss());
  print(fmt::format(
      "{} of {} masked words are right ({:.1f} %), loss per word {:.4f}, perplexity {:.3f}\n",
      training::grouped(score.masked_right), training::grouped(score.masked),
      100 * static_cast<double>(score.masked_right) / static_cast<double>(score.masked),
      score.masked_loss(), score.perplexity()));
  if (score.pairs > 0)
    print(
        fmt::format("{} of {} pairs of sentences are right ({:.1f} %), loss per pair {:.4f}\n",
                    training::grouped(score.pairs_right), training::grouped(score.pairs),
                    100 * static_cast<double>(score.pairs_right) / static_cast<double>(score.pairs),
                    score.next_loss()));
  return 0;
}

}  // namespace

int generate_text(const LmFlags& f, std::istream& in, std::ostream& out) {
  check_attention_file(f.attention);
  LoadedModel m = load_writer(f, /*keep=*/!f.attention.empty());
  check(f.attention.empty() || m.model.has_attention(),
        "--attention: a {} has no attention to show", m.model.config().model);
  const std::vector<std::string> prompts = prompts_of(f, in);
  const int64_t count = std::ssize(prompts) * f.generate.samples;
  check(f.attention.empty() || count == 1, "--attention shows one text, and there are {}", count);
  training::InterruptScope signals;
  int64_t shown = -1;
  auto begin_up_to = [&](int64_t text) {
    for (; shown < text; ++shown)
      out << (shown < 0 ? "" : "\n\n")
          << for_standard_output(prompts[(shown + 1) / f.generate.samples]) << std::flush;
  };
  begin_up_to(0);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> begun = prompts;
  for (std::string& prompt : begun)
    if (prompt.empty()) prompt = m.beginning;
  const std::vector<Generated> texts = generate_all(
      m.model, m.tokenizer, begun, f.generate, [&](int64_t text, std::string_view piece) {
        begin_up_to(text);
        out << for_standard_output(piece) << std::flush;
        return out.good() && !training::interrupted();
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  int64_t tokens = 0, unread = 0;
  bool interrupted = false;
  for (const Generated& text : texts) {
    tokens += text.tokens;
    unread = std::max(unread, text.unread);
    interrupted = interrupted || text.interrupted;
  }
  if (!interrupted) begin_up_to(count - 1);  // also the prompts of texts that ended at once
  out << '\n' << std::flush;
  check_written(out);
  if (unread > 0)
    complain(fmt::format("lm: the first {} tokens of {} were not read: the model's context has {}",
                         unread, prompts.size() == 1 ? "the prompt" : "the longest prompt",
                         m.model.config().context));
  complain(fmt::format("lm: {} tokens, {:.0f} tokens/s", tokens,
                       static_cast<double>(tokens) / seconds.count()));
  if (!f.attention.empty()) {
    const AttentionSentence picture = explain(m.model, m.tokenizer, prompts[0] + texts[0].text);
    check(!picture.groups.empty(), "--attention: there is nothing to show");
    write_picture(f, picture);
  }
  return interrupted ? training::kExitInterrupted : 0;
}

namespace {

/// Reads lines and shows the answer of `chat` to each. `greeting` is for a user at a terminal;
/// `forgets` is said once, when the chat has forgotten text.
template <class C>
int answer_lines(std::istream& in, std::ostream& out, C& chat, const char* greeting,
                 const std::string& forgets) {
  const bool typed = isatty(STDIN_FILENO) != 0;
  if (typed) training::say(greeting, stderr);
  bool told = false;
  StreamLines lines(in);
  for (std::string line; lines.next(line);) {
    const training::InterruptScope signals;
    const Generated text = chat.answer(line, [&](std::string_view piece) {
      out << for_standard_output(piece) << std::flush;
      return out.good() && !training::interrupted();
    });
    out << '\n';
    check_written(out);
    if (text.interrupted && !typed) return training::kExitInterrupted;
    if (chat.forgot() && !std::exchange(told, true)) complain(forgets);
  }
  check_standard_input();
  return 0;
}

}  // namespace

int complete_lines(const LmFlags& f, std::istream& in, std::ostream& out) {
  LoadedModel m = load_writer(f, /*keep=*/false);
  GenerateOptions options = f.generate;
  if (options.stop.empty()) options.stop = {"\n"};
  Chat chat(m.model, m.tokenizer, options);
  if (!f.prompt_file.empty()) chat.begin_with(prompt_of_file(f.prompt_file));
  return answer_lines(
      in, out, chat,
      "lm: type a line, and the model completes it; Ctrl-C ends a completion, Ctrl-D ends",
      fmt::format(
          "lm: the text has filled the model's context of {} tokens; it forgets the oldest ones",
          m.model.config().context));
}

int chat_in_turns(const LmFlags& f, std::istream& in, std::ostream& out) {
  LoadedModel m = load_writer(f, /*keep=*/false);
  const pretrained::ChatTemplate format = reading(f.model, [&] {
    return chat_template_of(m, f.chat_template == kAsModel ? "" : f.chat_template);
  });
  Conversation conversation(m, format, f.system, f.generate);
  return answer_lines(
      in, out, conversation,
      "lm: type a line, and the model answers; Ctrl-C ends an answer, Ctrl-D ends",
      fmt::format("lm: the conversation does not fit into the model's context of {} tokens; the "
                  "model forgets the oldest turns",
                  m.model.config().context));
}

int fill_gaps(const LmFlags& f, std::ostream& out) {
  check_attention_file(f.attention);
  const auto& [tokenizer, model] = load_gap_model(f.model);
  const FilledText filled = fill_ids(model, tokenizer, tokenizer.encode(f.gaps), f.guesses);
  out << for_standard_output(describe_filled(filled)) << '\n';
  check_written(out);
  if (!f.attention.empty()) write_picture(f, explain(model, tokenizer, f.gaps));
  return 0;
}

int embed_lines(const LmFlags& f, std::istream& in, std::ostream& out) {
  constexpr size_t kAtOnce = 1 << 13;  // lines, which are sorted by length
  std::optional<AtomicFile> file;      // also if save_npy() makes it: an error must come early
  if (!f.out.empty()) file.emplace(f.out);
  const bool own_pooling = f.pooling == kAsModel, own_length = f.normalise == kAsModel;
  Embedder embedder = load_embedder(f.model);
  if (!own_pooling) embedder.recipe.pooling = models::pooling_named(f.pooling);
  if (!own_length) embedder.recipe.normalise = f.normalise == "yes";
  if (const std::string assumed = assumed_text(embedder.recipe, own_pooling, own_length);
      !assumed.empty())
    training::say(f.model + ": " + assumed, stderr);
  const std::vector<std::string> texts = f.text.empty() ? lines_of(in) : lines_of(f.text);
  const training::InterruptScope signals;
  std::vector<Tensor> kept;
  int64_t cut = 0;
  double seconds = 0;
  {
    training::Progress bar("embedding", "texts", std::ssize(texts), 0, stderr);
    for (size_t i = 0; i < texts.size(); i += kAtOnce) {
      const std::span part = std::span(texts).subspan(i, std::min(kAtOnce, texts.size() - i));
      const auto [vectors, shortened] = embed_texts(embedder, part, [&](int64_t done) {
        bar.update(static_cast<int64_t>(i) + done);
        return !training::interrupted();
      });
      if (!vectors.defined()) return training::kExitInterrupted;
      cut += shortened;
      check_finite_result(ModelFiles{f.model}.weights(), "vector", sum(abs(vectors)).item());
      if (f.out.ends_with(".npy"))
        kept.push_back(vectors);
      else if (file)
        file->write(json_lines(vectors));
      else
        out << json_lines(vectors) << std::flush;
    }
    seconds = bar.seconds();
  }
  if (!kept.empty())
    datasets::save_npy(f.out, cat(kept, 0));
  else if (file)
    file->commit();
  check_written(out);
  if (cut > 0) complain("lm: " + cut_text(embedder, cut, texts.size()));
  complain(fmt::format("lm: {} texts, {:.0f} texts/s", training::grouped(std::ssize(texts)),
                       static_cast<double>(texts.size()) / seconds));
  return 0;
}

int evaluate_model(const LmFlags& f) {
  check_first_epoch_over(ModelFiles{f.model}.weights());
  if (is_bert_folder(f.model)) {
    check(!f.int8 && !f.int4, "{} works only with a gpt or a llama, but the model is a {}",
          f.int8 ? "--int8" : "--int4", kBert);
    return evaluate_bert(f);
  }
  // In f32, large products are as fast without packing, and have the same bits as in training.
  const bool packed = f.int8 || f.int4 || matmul_precision() == MatmulPrecision::bf16;
  const LoadedModel m = packed ? load(f, /*keep=*/false) : load_folder(f.model);
  const EncodedTexts encoded = encode_texts(texts_of(f), m.tokenizer, mark_of(f.model));
  check(encoded.tokens > 0, "--text: there is no token to predict");
  const int64_t context = m.model.config().context;
  const int64_t stride = f.stride ? f.stride : std::max<int64_t>(1, context / 2);
  check(stride <= context, "--stride {} is above the model's context of {}", stride, context);
  training::say(GptKind::describe(m.model), stderr);
  training::InterruptScope signals;
  std::optional<Score> found;
  double speed = 0;
  {
    training::Progress bar("reading", "tokens", encoded.tokens, 0, stderr);
    found = score_texts(m.model, encoded, {.stride = stride}, until_interrupted(bar));
    speed = bar.speed();
  }
  if (!found) return training::kExitInterrupted;
  const Score& score = *found;
  check_finite_result(ModelFiles{f.model}.weights(), "loss of a token", score.loss());
  const std::string documents =
      encoded.documents > 1 ? fmt::format(" in {} documents", training::grouped(encoded.documents))
                            : "";
  print(fmt::format("{} tokens of {} bytes{}, windows of {} with a stride of {}, {:.0f} tokens/s\n",
                    training::grouped(score.tokens), training::grouped(score.bytes), documents,
                    context, stride, speed));
  print(fmt::format("loss of a token {:.4f}, perplexity {:.3f}, bits per byte {:.4f}\n",
                    score.loss(), score.perplexity(), score.bits_per_byte()));
  return 0;
}

}  // namespace tern::apps::lm
