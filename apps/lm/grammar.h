// Little stories, for trying language models without a file. What a story says later follows from
// what it said before: who has what, how many, where it is, and he or she. So a model can be seen
// to learn first words, then sentences, then to remember.
#pragma once

#include <cstdint>
#include <string>

namespace tern::apps::lm {

/// Stories, a line each, until there are that many bytes or a few more. `by_sentence`: a line each
/// sentence, and a blank line behind each story. The same seed gives the same stories.
std::string generate_stories(int64_t bytes, uint64_t seed, bool by_sentence = false);

}  // namespace tern::apps::lm
