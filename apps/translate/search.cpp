// Searches with packed weights and slots for transformers, and in batches of sentences of similar
// length for other models.
#include "tern/apps/translate/search.h"

#include <algorithm>

#include "tern/core/base/allocator.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/sampling.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kSentences = 64;  // per batch

std::vector<std::vector<int64_t>> with_ends(std::span<const std::vector<int64_t>> sources) {
  std::vector<std::vector<int64_t>> ended(sources.begin(), sources.end());
  for (std::vector<int64_t>& s : ended) s.push_back(datasets::kEndId);
  return ended;
}

// The sources' indices, longest first, so that the batch that needs the most memory comes first.
// Empty sources are left out.
std::vector<size_t> by_length(std::span<const std::vector<int64_t>> sources) {
  std::vector<size_t> order;
  for (size_t i = 0; i < sources.size(); ++i)
    if (!sources[i].empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

std::vector<int64_t> forbidden(const SearchOptions& options) {
  if (options.unknown) return {datasets::kPadId, datasets::kBeginId};
  return {datasets::kPadId, datasets::kBeginId, datasets::kUnknownId};
}

}  // namespace

void Search::pack(auto&& transformer) {
  const PackedType rounded =
      matmul_precision() == MatmulPrecision::bf16 ? PackedType::bf16 : PackedType::f32;
  packed_.emplace(std::forward<decltype(transformer)>(transformer),
                  options_.int8   ? PackedType::int8
                  : options_.int4 ? PackedType::int4
                                  : rounded,
                  options_.shortlist > 0 ? Shortlists::yes : Shortlists::no);
}

Search::Search(const TranslationModel& model, const SearchOptions& options)
    : model_(model), options_(options) {
  check_options();
  if (const auto* transformer = std::get_if<models::Transformer>(&model.model_)) pack(*transformer);
}

Search::Search(TranslationModel&& model, const SearchOptions& options)
    : own_(std::move(model)), model_(*own_), options_(options) {
  check_options();
  if (auto* transformer = std::get_if<models::Transformer>(&own_->model_))
    pack(std::move(*transformer));
  trim_memory();  // search needs little tensor memory, and much of other kinds
}

void Search::check_options() const {
  const ModelConfig& m = model_.config();
  const bool transformer = std::holds_alternative<models::Transformer>(model_.model_);
  const char* flag = options_.int8 ? "--int8" : "--int4";
  const bool rounded = options_.int8 || options_.int4;
  check(!options_.int8 || !options_.int4,
        "--int8 and --int4 each say what weights are rounded to: choose one");
  check(!rounded || transformer, "{} works only with a transformer, but the model is {}", flag,
        m.model);
  check(!rounded || matmul_precision() == MatmulPrecision::f32,
        "{} and --precision bf16 each say what weights are rounded to: choose one", flag);
  if (options_.shortlist == 0) return;
  check(transformer, "--shortlist works only with a transformer, but the model is {}", m.model);
  check(options_.lexicon != nullptr, "--shortlist: there is no lexicon");
  const datasets::Lexicon& lexicon = *options_.lexicon;
  check(lexicon.source_vocab() == m.source_vocab && lexicon.target_vocab() == m.target_vocab,
        "--shortlist: the lexicon has vocabularies of {} and {}, but the model has {} and {}",
        lexicon.source_vocab(), lexicon.target_vocab(), m.source_vocab, m.target_vocab);
}

Search::Lists Search::operator()(std::span<const std::vector<int64_t>> sources,
                                 const TranslationProgress& progress) const {
  NoGradGuard no_grad;
  return packed_ ? in_slots(sources, progress) : in_batches(sources, progress);
}

// The most tokens of each translation.
std::vector<int64_t> Search::limits(std::span<const std::vector<int64_t>> sources) const {
  std::vector<int64_t> most;
  for (const std::vector<int64_t>& s : sources)
    most.push_back(s.empty() ? 0 : model_.longest_translation(std::ssize(s)));
  return most;
}

Search::Lists Search::in_slots(std::span<const std::vector<int64_t>> sources,
                               const TranslationProgress& progress) const {
  std::vector<std::vector<int64_t>> lists;
  if (options_.shortlist > 0)
    for (const std::vector<int64_t>& s : sources)
      lists.push_back(options_.lexicon->candidates(s, options_.shortlist));
  return decoding::decode_all([&] { return packed_->decoder(); }, with_ends(sources),
                              {.beam = options_.beam,
                               .alpha = options_.alpha,
                               .n_best = options_.n_best,
                               .begin = datasets::kBeginId,
                               .end = datasets::kEndId,
                               .max_length = limits(sources),
                               .forbid = forbidden(options_),
                               .log_probs = options_.log_probs || options_.beam > 1,
                               .shortlists = std::move(lists),
                               .progress = progress});
}

Search::Lists Search::in_batches(std::span<const std::vector<int64_t>> sources,
                                 const TranslationProgress& progress) const {
  Lists out(sources.size(), {decoding::Hypothesis{}});
  const std::vector<size_t> order = by_length(sources);
  for (size_t begin = 0; begin < order.size(); begin += kSentences) {
    if (progress && !progress(static_cast<int64_t>(begin))) return {};
    const size_t end = std::min(order.size(), begin + kSentences);
    std::vector<std::vector<int64_t>> batch;
    for (size_t k = begin; k < end; ++k) batch.push_back(sources[order[k]]);
    Lists found = one_batch(batch);
    for (size_t k = begin; k < end; ++k) out[order[k]] = std::move(found[k - begin]);
  }
  return out;
}

Search::Lists Search::one_batch(std::span<const std::vector<int64_t>> sources) const {
  const datasets::PaddedTokens padded = datasets::pad_tokens(with_ends(sources));
  return std::visit(
      [&](const auto& model) {
        auto state = model.encode(padded.tokens, padded.lengths);
        if (options_.beam > 1)
          return decoding::beam_search(model, std::move(state),
                                       {.beam = options_.beam,
                                        .alpha = options_.alpha,
                                        .n_best = options_.n_best,
                                        .begin = datasets::kBeginId,
                                        .end = datasets::kEndId,
                                        .max_length = limits(sources),
                                        .forbid = forbidden(options_)});
        Lists out;
        for (decoding::Hypothesis& h : decoding::greedy(model, std::move(state),
                                                        {.begin = datasets::kBeginId,
                                                        .end = datasets::kEndId,
                                                        .max_length = limits(sources),
                                                        .forbid = forbidden(options_)}))
          out.push_back({std::move(h)});
        return out;
      },
      model_.model_);
}

}  // namespace tern::apps::translate
