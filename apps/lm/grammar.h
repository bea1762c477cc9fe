// Generates short stories, for trying language models without a file. The end of a story follows
// from its beginning: who has what, how many, where it is, and whether it is he or she. So one can
// watch a model learn first words, then sentences, then to remember.
#pragma once

#include <cstdint>
#include <string>

namespace tern::apps::lm {

/// Stories, one per line, with at least that many bytes together. `by_sentence`: one sentence per
/// line, and a blank line after each story. The same seed gives the same stories.
std::string generate_stories(int64_t bytes, uint64_t seed, bool by_sentence = false);

}  // namespace tern::apps::lm
