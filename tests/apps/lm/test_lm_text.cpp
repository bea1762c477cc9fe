// What lm reads, writes and scores, with models whose answers are known in advance.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "tern/apps/lm/generate.h"
#include "tern/apps/lm/grammar.h"
#include "tern/apps/lm/report.h"
#include "tern/apps/lm/score.h"
#include "tern/core/base/error.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/decode/sampling.h"
#include "tern/models/gpt.h"
#include "tern/nn/module.h"
#include "tern/tests/apps/lm/known_models.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/threads.h"

namespace tern::apps::lm::test_lm_text {
namespace {

using test::TempDir;
using Ids = std::vector<int64_t>;

}  // namespace

TEST_CASE("lm: a stream of bytes becomes whole characters, wherever it is cut") {
  const std::string text = "añ日🙂b\xFF\xC3x\xF0\x9F";
  const std::string want = datasets::replace_invalid_utf8(text);
  for (size_t size = 1; size <= text.size(); ++size) {
    TextStream stream;
    std::string shown;
    for (size_t at = 0; at < text.size(); at += size) {
      const std::string piece = stream.add(std::string_view(text).substr(at, size));
      CHECK_FALSE(datasets::find_invalid_utf8(piece));
      shown += piece;
    }
    CHECK(shown + stream.finish() == want);
  }
}

TEST_CASE("lm: a stop text and all after it are not shown, wherever the stream is cut") {
  const std::string text = "one two. three\n\nfour";
  for (size_t size = 1; size <= text.size(); ++size)
    for (const auto& [stops, want] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"\n\n"}, "one two. three"},
             {{"\n\n", ". t"}, "one two"},
             {{"two", "one tw"}, ""},
             {{"fourth", "x"}, text},
             {{"one two. three\n\nfour"}, ""}}) {
      TextStream stream(stops);
      std::string shown;
      for (size_t at = 0; at < text.size(); at += size)
        shown += stream.add(std::string_view(text).substr(at, size));
      const bool stopped = stream.stopped();
      CHECK(shown + stream.finish() == want);
      CHECK(stopped == (want != text));
    }
  for (const auto& [text, want] : std::vector<std::pair<std::string, std::string>>{
           {"\n\none\ntwo", "one"}, {"one\n", "one"}, {"\n\n", ""}, {"\n", ""}})
    for (size_t size = 1; size <= text.size(); ++size) {
      TextStream stream({"\n"}, /*skip=*/true);
      std::string shown;
      for (size_t at = 0; at < text.size(); at += size)
        shown += stream.add(std::string_view(text).substr(at, size));
      CHECK(stream.stopped() == !want.empty());
      CHECK(shown + stream.finish() == want);
    }
  TextStream early({"xy"});
  CHECK(early.add("ab x") == "ab ");  // could become a stop
  CHECK(early.add("z") == "xz");
  CHECK_THROWS_AS(TextStream({""}), Error);
}

TEST_CASE("lm: generation ends at the end token, a stop text or the limit, also past the context") {
  const datasets::ByteBpe bpe = bytes();
  for (int64_t context : {2, 3, 5, 8, 100}) {
    int64_t longest = 0;
    const LanguageModel model = alphabet(bpe, context, &longest);
    const GenerateOptions greedy{.temperature = 0};
    CHECK(generate(model, bpe, "uvw", greedy).text == "xyz");
    CHECK(generate(model, bpe, "", greedy).text == "abcdefghijklmnopqrstuvwxyz");
    CHECK(longest <= context);
    std::string shown;
    const Generated cut =
        generate(model, bpe, "abc", {.max_tokens = 4, .temperature = 0}, [&](std::string_view s) {
          shown += s;
          return true;
        });
    CHECK(cut.text == "defg");
    CHECK(shown == "defg");
    CHECK(cut.tokens == 4);
    CHECK_FALSE(cut.interrupted);
    CHECK(generate(model, bpe, "f", {.temperature = 0, .stop = {"jk"}}).text == "ghi");
    const Generated stopped =
        generate(model, bpe, "f", greedy, [](std::string_view s) { return s != "h"; });
    CHECK(stopped.interrupted);
    CHECK(stopped.text == "gh");
    CHECK(generate(model, bpe, std::string(50, 'k'), greedy).text == "lmnopqrstuvwxyz");
  }
  CHECK_THROWS_WITH_AS(generate(alphabet(bpe, 5), datasets::ByteBpe(), "", {}),
                       doctest::Contains("begin with"), Error);
}

TEST_CASE("lm: several prompts give the texts of each prompt alone, in order") {
  const datasets::ByteBpe bpe = bytes();
  std::vector<std::string> prompts = {"uvw", "", "f", std::string(50, 'k'), "yz"};
  for (int i = 0; i < 20; ++i) prompts.push_back(std::string(1, static_cast<char>('a' + i)));
  for (const int64_t context : {2, 5, 100}) {
    const LanguageModel model = alphabet(bpe, context);
    const GenerateOptions o{.max_tokens = 11, .temperature = 0, .stop = {"pq", "jkl"}};
    std::vector<std::string> shown(prompts.size());
    int64_t last = 0;
    const auto texts =
        generate_all(model, bpe, prompts, o, [&](int64_t text, std::string_view piece) {
          CHECK(text >= last);
          last = text;
          shown[static_cast<size_t>(text)] += piece;
          return true;
        });
    REQUIRE(texts.size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Generated alone = generate(model, bpe, prompts[i], o);
      CHECK(texts[i].text == alone.text);
      CHECK(texts[i].tokens == alone.tokens);
      CHECK(shown[i] == alone.text);
    }
    const auto stopped = generate_all(model, bpe, prompts, o,
                                      [](int64_t text, std::string_view) { return text < 2; });
    CHECK(std::count_if(stopped.begin(), stopped.end(),
                        [](const Generated& g) { return g.interrupted; }) == 1);
    CHECK(stopped[2].interrupted);
  }
}

TEST_CASE("lm: packed models write past their context as the model itself does, in any batch") {
  const datasets::ByteBpe bpe = bytes();
  std::vector<std::string> prompts;
  for (int i = 0; i < 37; ++i)
    prompts.push_back(std::string(static_cast<size_t>(i % 19), static_cast<char>('b' + i / 19)) +
                      "ca");
  const GenerateOptions greedy{.max_tokens = 40, .temperature = 0};
  const GenerateOptions drawn{.max_tokens = 40, .temperature = 2, .seed = 5};
  NoGradGuard guard;
  const Tensor tokens = tensor(Ids{1, 2, 3, 4, 5}, {1, 5});
  for (const bool keep : {true, false})
    for (const PackedType type : {PackedType::f32, PackedType::bf16, PackedType::int8}) {
      const LanguageModel model = small_gpt(300, 16);
      const Tensor logits = model(tokens);
      LanguageModel packed = model;
      REQUIRE(packed.can_pack());
      const std::string alone = generate(model, bpe, prompts[0], drawn).text;
      std::vector<std::string> want;
      for (const std::string& prompt : prompts)
        want.push_back(generate(model, bpe, prompt, greedy).text);
      packed.pack(type, keep);
      const auto texts = generate_all(packed, bpe, prompts, greedy);
      for (size_t i = 0; i < prompts.size(); ++i) {
        CHECK(texts[i].tokens == 40);
        if (type == PackedType::f32) CHECK(texts[i].text == want[i]);
        CHECK(generate(packed, bpe, prompts[i], greedy).text == texts[i].text);
      }
      CHECK(generate_all(packed, bpe, prompts, drawn)[0].text ==
            generate(packed, bpe, prompts[0], drawn).text);
      if (type == PackedType::f32) CHECK(generate(packed, bpe, prompts[0], drawn).text == alone);
      const Tensor rounded = packed(tokens);
      CHECK(rounded.shape() == logits.shape());
      CHECK(max(abs(rounded - logits)).item<float>() < 0.1 * max(abs(logits)).item<float>());
      if (keep) CHECK(packed.attention(tokens).size() == 2);
    }
  LanguageModel without = alphabet(bpe, 5);
  CHECK_FALSE(without.can_pack());
}

TEST_CASE("lm: samples of a prompt are different draws, for any model and number of threads") {
  const datasets::ByteBpe bpe = bytes();
  const std::vector<std::string> prompts = {"abc", "", "a longer one than the context"};
  std::vector<std::string> repeated;
  for (const std::string& prompt : prompts) repeated.insert(repeated.end(), 13, prompt);
  const LanguageModel model = small_gpt(300, 16);
  for (const GenerateOptions& way : std::vector<GenerateOptions>{
           {.temperature = 2},
           {.min_p = 0.05, .repetition_penalty = 1.5, .repetition_window = 9}}) {
    GenerateOptions o = way;
    o.max_tokens = 30;
    o.seed = 4;
    const std::vector<Generated> alone = generate_all(model, bpe, repeated, o);
    CHECK(generate(model, bpe, prompts[0], o).text == alone[0].text);
    o.samples = 13;
    for (const auto& type : std::vector<std::optional<PackedType>>{
             {}, PackedType::f32, PackedType::bf16, PackedType::int8}) {
      LanguageModel packed = model;
      if (type) packed.pack(*type, /*keep=*/true);
      std::vector<std::string> first;
      for (const int n : {1, 3}) {
        const test::Threads scope(n);
        std::vector<std::string> texts;
        for (const Generated& g : generate_all(packed, bpe, prompts, o)) {
          texts.push_back(g.text);
          CHECK(g.limited == (g.tokens == 30));
          CHECK(g.unread == (texts.size() > 26 ? 13 : 0));
        }
        REQUIRE(texts.size() == repeated.size());
        CHECK(std::set<std::string>(texts.begin(), texts.end()).size() > texts.size() / 2);
        if (first.empty()) first = texts;
        CHECK(texts == first);
        for (size_t i = 0; i < texts.size(); ++i)
          if (type.value_or(PackedType::f32) == PackedType::f32) CHECK(texts[i] == alone[i].text);
      }
      // A text generated alone is the same: sixteen or more slots fewer change nothing.
      GenerateOptions one = o;
      one.samples = 1;
      CHECK(generate(packed, bpe, prompts[0], one).text == first[0]);
    }
  }
}

/// Generation without a cache: reads everything in its context again for every token.
struct Uncached final : decoding::Stepper {
  const LanguageModel& model;
  Ids all = {}, seen = {};  ///< the whole text, and the part that is not forgotten

  explicit Uncached(const LanguageModel& m) : model(m) {}
  int64_t context() const { return model.config().context; }
  void forget(int64_t left) { seen.assign(all.end() - left, all.end()); }
  void append(const Ids& tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
    seen.insert(seen.end(), tokens.begin(), tokens.end());
    if (std::ssize(seen) >= context())
      forget(std::min(context() - 1, std::max(context() / 2 - 1, std::ssize(tokens))));
  }
  int64_t batch() const override { return 1; }
  Tensor step(const Tensor& tokens) override {
    if (std::ssize(seen) == context()) forget(context() / 2 - 1);
    all.push_back(tokens[0].item<int64_t>());
    seen.push_back(all.back());
    return select(model(tensor(seen, {1, std::ssize(seen)})), 1, std::ssize(seen) - 1);
  }
  void select_rows(const Tensor&) override { REQUIRE(false); }
};

TEST_CASE("lm: a chat writes the same as its whole text without a cache") {
  const datasets::ByteBpe bpe = bytes();
  const std::vector<std::string> lines = {"ab", "",   "a line that is longer than many a context",
                                          "c",  "dd", ""};
  NoGradGuard guard;
  for (const int64_t context : {2, 5, 16, 60})
    for (const auto& type :
         std::vector<std::optional<PackedType>>{{}, PackedType::f32, PackedType::int8})
      for (const GenerateOptions& way : std::vector<GenerateOptions>{
               {.temperature = 0},
               {.temperature = 2, .stop = {"\n"}},
               {.min_p = 0.02, .repetition_penalty = 1.3, .repetition_window = 7, .stop = {"e"}},
               {.temperature = 0, .repetition_penalty = 1.3}}) {
        GenerateOptions o = way;
        o.max_tokens = 9;
        o.seed = 3;
        LanguageModel model = small_gpt(257, context);
        if (type) model.pack(*type, /*keep=*/false);
        Chat chat(model, bpe, o);
        Uncached naive(model);
        Rng rng(o.seed);
        Ids unread = bpe.encode("before");
        chat.begin_with("before");
        bool cut = false;
        for (const std::string& line : lines) {
          const Ids typed = bpe.encode((cut ? "\n" : "") + line);
          unread.insert(unread.end(), typed.begin(), typed.end());
          const int64_t begin = unread.back();
          unread.pop_back();
          naive.append(unread);
          std::string want;
          decoding::SampleOptions s{.temperature = o.temperature,
                                    .min_p = o.min_p,
                                    .repetition_penalty = o.repetition_penalty,
                                    .repetition_window = o.repetition_window,
                                    .prompts = {naive.all},
                                    .begin = begin,
                                    .end = *bpe.id(kEndOfText),
                                    .max_length = o.max_tokens};
          cut = true;
          s.on_token = [&](int64_t, int64_t token) {
            unread = {token};
            cut = token != s.end;
            if (!cut) return false;
            want += bpe.decode(unread);
            for (const std::string& stop : o.stop) {
              while (want.starts_with(stop)) want.erase(0, stop.size());
              cut = want.find(stop) == want.npos;
              want = want.substr(0, want.find(stop));
            }
            return cut;
          };
          decoding::sample(naive, s, rng);
          std::string shown;
          const Generated answer = chat.answer(line, [&](std::string_view piece) {
            shown += piece;
            return true;
          });
          CHECK(answer.text == datasets::replace_invalid_utf8(want));
          CHECK(shown == answer.text);
          CHECK(answer.limited == cut);
          CHECK(chat.forgot() == (naive.all.size() > naive.seen.size()));
        }
      }
}

TEST_CASE("lm: a chat that begins with an empty line, and is interrupted") {
  const datasets::ByteBpe bpe = bytes();
  for (const int64_t context : {2, 3, 8, 100}) {
    const LanguageModel model = alphabet(bpe, context);
    Chat chat(model, bpe, {.max_tokens = 4, .temperature = 0, .stop = {"y"}});
    CHECK(chat.answer("").text == "abcd");  // after <|endoftext|>
    CHECK(chat.answer("m").text == "nopq");
    CHECK(chat.answer("", [](std::string_view) { return false; }).interrupted);
    CHECK(chat.answer("w").text == "x");
    CHECK(chat.answer("").text == "z");  // after the stop text, up to the end
    CHECK(chat.answer("").text == "abcd");
    CHECK(chat.answer(std::string(300, 'f')).text == "ghij");
  }
  CHECK_THROWS_WITH_AS(Chat(alphabet(bpe, 5), datasets::ByteBpe(), {}).answer(""),
                       doctest::Contains("begin with"), Error);
}

TEST_CASE("lm: the first line of a chat follows the token that a tokenizer puts before texts") {
  const TempDir dir;
  datasets::LanguageTokenizer(bytes()).save(dir.path());
  std::filesystem::remove(dir / "tokenizer.json");
  test::write_file(dir / "tokenizer_config.json",
                   R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  const auto tokenizer = datasets::LanguageTokenizer::load(dir.path());
  REQUIRE(tokenizer.encode_prompt("a").size() == 2);
  int64_t longest = 0;  // tokens that the model read
  const LanguageModel model = alphabet(bytes(), 60, &longest);
  const GenerateOptions o{.max_tokens = 1, .temperature = 0};
  for (const std::string before : {"", "before"}) {
    CHECK(generate(model, tokenizer, before + "ab", o).text == "c");
    const int64_t want = std::exchange(longest, 0);
    Chat chat(model, tokenizer, o);
    if (!before.empty()) chat.begin_with(before);
    CHECK(chat.answer("ab").text == "c");
    CHECK(longest == want);
    CHECK(chat.answer("de").text == "f");
    CHECK(std::exchange(longest, 0) == want + 4);  // c, a line end, d, e
  }
}

TEST_CASE("lm: a cache does not change the text, seeds do; unknown tokens are never written") {
  const datasets::ByteBpe bpe = bytes();
  const LanguageModel whole = small_gpt(300, 16);  // 43 more than the tokenizer has
  LanguageModel model = whole;
  model.pack(PackedType::f32, /*keep=*/true);
  std::set<std::string> texts;
  for (uint64_t seed : {1, 2, 3}) {
    const GenerateOptions o{.max_tokens = 40, .temperature = 2, .seed = seed};
    const std::string text = generate(model, bpe, "abc", o).text;
    CHECK(generate(model, bpe, "abc", o).text == text);
    texts.insert(text);
  }
  CHECK(texts.size() == 3);
  // Up to the context, greedy text is the argmax of the whole model.
  Ids ids = bpe.encode("abc");
  const Generated g = generate(model, bpe, "abc", {.max_tokens = 12, .temperature = 0});
  NoGradGuard guard;
  std::string naive;
  for (int64_t i = 0; i < g.tokens; ++i) {
    const Tensor logits = whole(tensor(ids, {1, std::ssize(ids)}));
    const Tensor known = narrow(select(logits, 1, std::ssize(ids) - 1), 1, 0, bpe.size());
    ids.push_back(argmax(known, 1).item<int64_t>());
    naive += bpe.decode(std::span(ids).last(1));
  }
  CHECK(datasets::replace_invalid_utf8(naive) == g.text);
}

TEST_CASE("lm: a score counts every token once, for any window, stride and batch") {
  const datasets::ByteBpe bpe = bytes();
  const std::vector<std::string> texts = {"abcdefghij", "the mat", "x", ""};
  const EncodedTexts encoded = encode_texts(texts, bpe);
  CHECK(encoded.bytes == 18);
  CHECK(encoded.tokens == 18);
  CHECK(encoded.ends == Ids{11, 19, 21});
  Table even{nn::Parameter(zeros({257, 257}))};
  const LanguageModel uniform({.vocab = 257, .context = 6}, std::move(even));
  const LanguageModel table = alphabet(bpe, 6), gpt = small_gpt(257, 6);
  for (int64_t window : {1, 2, 5, 6})
    for (int64_t stride : {1, 2, 5, 6})
      for (int64_t batch : {1, 3}) {
        if (stride > window) continue;
        const ScoreOptions o{.window = window, .stride = stride, .batch = batch};
        const Score score = *score_texts(uniform, encoded, o);
        CHECK(score.tokens == 18);
        CHECK(score.bits_per_byte() == doctest::Approx(std::log2(257)));
        CHECK(score.perplexity() == doctest::Approx(257));
        // A model that reads only the last token scores the same with any context.
        CHECK(score_texts(table, encoded, o)->nats ==
              doctest::Approx(score_texts(table, encoded)->nats));
      }
  // The naive score with window w and stride 1: the w tokens before each token predict it.
  NoGradGuard guard;
  double nats = 0;
  int64_t begin = 0;
  for (int64_t end : encoded.ends) {
    const Ids ids = encoded.ids.read(begin, end - begin);
    begin = end;
    for (int64_t i = 1; i < std::ssize(ids); ++i) {
      const int64_t first = std::max<int64_t>(0, i - 4);
      const Ids before(ids.begin() + first, ids.begin() + i);
      const Tensor p = log_softmax(gpt(tensor(before, {1, i - first})), -1)[0];
      nats -= p[i - first - 1][ids[static_cast<size_t>(i)]].item();
    }
  }
  const Score slow = *score_texts(gpt, encoded, {.window = 4, .stride = 1, .batch = 3});
  CHECK(slow.nats == doctest::Approx(nats).epsilon(1e-5));
  CHECK(std::isnan(score_texts(gpt, {})->loss()));
  int64_t seen = 0;
  CHECK_FALSE(score_texts(gpt, encoded, {.window = 1, .batch = 1}, [&](int64_t done) {
                return (seen = done) < 2;
              }).has_value());
  CHECK(seen == 2);
  CHECK_THROWS_AS(score_texts(gpt, encoded, {.window = 7}), Error);
  CHECK_THROWS_AS(score_texts(gpt, encoded, {.window = 4, .stride = 5}), Error);
  // Without <|endoftext|> the first token cannot be predicted.
  CHECK(encode_texts(texts, datasets::ByteBpe()).bytes == 15);
}

TEST_CASE("lm: texts are read, divided into training and validation, and encoded") {
  TempDir dir;
  TrainConfig c;
  std::string text;
  for (int i = 0; i < 50; ++i) text += "line número " + std::to_string(i) + "\n";
  c.text = {test::write_file(dir / "a", text), test::write_file(dir / "b", std::string(40, 'x'))};
  c.hold_out = 0.1;
  c.vocab_size = 300;
  const Texts texts = read_texts(c);
  REQUIRE(texts.train.size() == 2);
  REQUIRE(texts.valid.size() == 2);
  for (size_t i = 0; i < 2; ++i)
    CHECK(texts.train[i].whole() + texts.valid[i].whole() == test::read_file(c.text[i]));
  CHECK(texts.valid[0].whole().starts_with("line"));
  CHECK(texts.valid[1].size() == 4);
  const datasets::LanguageTokenizer bpe = make_tokenizer(c, texts);
  CHECK(bpe.size() <= 300);
  const Corpus corpus = encode_corpus(texts, bpe);
  CHECK(bpe.decode(corpus.train.ids.read(0, corpus.train.ids.size())) ==
        kEndOfText + texts.train[0].whole() + kEndOfText + texts.train[1].whole());
  CHECK(corpus.valid.bytes == texts.valid[0].size() + texts.valid[1].size());
  c.hold_out = 0;
  CHECK(read_texts(c).valid.empty());
  CHECK(encode_corpus(read_texts(c), bpe).checksum != corpus.checksum);
  c.valid = {c.text[1]};
  CHECK(read_texts(c).valid.size() == 1);
  c.text = {dir / "none"};
  CHECK_THROWS_AS(read_texts(c), IoError);
}

TEST_CASE("lm: generated stories are consistent, and a seed reproduces them") {
  const std::string text = generate_stories(60'000, 1);
  CHECK(text == generate_stories(60'000, 1));
  CHECK(text != generate_stories(60'000, 2));
  CHECK(text.size() >= 60'000);
  CHECK(text.find(" a old") == std::string::npos);
  // By sentence: the same stories.
  const std::string sentences = generate_stories(60'000, 1, /*by_sentence=*/true);
  std::string joined = std::regex_replace(sentences, std::regex("\n\n"), "|");
  std::replace(joined.begin(), joined.end(), '\n', ' ');
  std::replace(joined.begin(), joined.end(), '|', '\n');
  CHECK(joined == text);
  const std::regex sentence("[A-Z\"][^.!?]*([.!?]\"?( asked \\w+\\.|,\" said \\w+\\.)?)");
  std::istringstream lines(sentences);
  for (std::string line; std::getline(lines, line);)
    CHECK_MESSAGE((line.empty() || std::regex_match(line, sentence)), line);
  const std::vector<std::string> numbers = {"no",  "one",   "two",   "three", "four", "five",
                                            "six", "seven", "eight", "nine",  "ten"};
  auto number = [&](const std::string& word) {
    return std::find(numbers.begin(), numbers.end(), word) - numbers.begin();
  };
  const std::regex giving(
      "(\\w+) has (\\w+) (\\w+ \\w+?)s?\\. \\w+ meets (\\w+) in .* gives h\\w+ (\\w+) .* Now \\1 "
      "has "
      "(\\w+) \\3s? and \\4 has (\\w+) \\3s?\\.");
  int64_t found = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), giving), end; it != end; ++it, ++found) {
    CHECK(number((*it)[2]) == number((*it)[6]) + number((*it)[7]));
    CHECK((*it)[5] == (*it)[7]);
    CHECK((*it)[1] != (*it)[4]);
  }
  CHECK(found > 50);
}

TEST_CASE("lm: every family has the number of weights it reports; the report describes the model") {
  for (const Family& family : families()) {
    ModelConfig c{
        .model = family.name, .vocab = 30, .context = 8, .layers = 2, .dim = 16, .heads = 4};
    family.defaults(c);
    c.ffn = family.ffn(c.dim);
    CHECK(nn::num_parameters(make_model(c, 0)) == family.weights(c));
  }
  const datasets::ByteBpe bpe = bytes();
  const LanguageModel table = alphabet(bpe, 8), gpt = small_gpt(257, 8);
  CHECK(explain(table, bpe, "abc").groups.empty());
  const AttentionSentence picture = explain(gpt, bpe, "ab cd and so on");
  REQUIRE(picture.groups.size() == 1);
  CHECK(picture.groups[0].matrices.size() == 4);
  CHECK(picture.groups[0].matrices[0].rows.size() == 8);
  LmReport report;
  report.run.title = "A <title>";
  report.run.epochs = {{.epoch = 1, .metrics = {{"valid_ppl", 2}}}};
  report.valid_tokens = 5120;
  report.samples = {{"one", "<two>"}};
  report.attention = picture;
  report.before = report.after = table.heatmaps(zeros({1, 4}, DType::i64));
  report.after.maps[0].labels = {"head <1>", "head 2"};
  const std::string page = make_report(report);
  for (const char* part : {"A &lt;title&gt;", "&lt;two&gt;", "Rows &amp; columns.", "Layer 1",
                           "before training", "after training, head &lt;1&gt;", "Self-attention",
                           "perplexity 2.000 on 5,120 validation tokens"})
    CHECK(page.find(part) != std::string::npos);
}

}  // namespace tern::apps::lm::test_lm_text
