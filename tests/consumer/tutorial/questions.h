// What the reader reads: entries "class = value" in a row, then a question: which value has this
// class by now?
#pragma once

#include <tern/tern.h>

using namespace tern;

struct Question {
  Tensor tokens, answer;  // i64 (B, T + 1), (B)
};
inline constexpr int64_t kClasses = 4, kValues = 8, kTokens = kClasses * kValues + kClasses;

// A generator for this call alone (&&): copies of one would ask the same questions each time.
inline Question ask(int64_t batch, int64_t entries, Rng&& rng) {
  Tensor entry = randint(0, kClasses * kValues, {batch, entries}, rng);
  std::vector<int64_t> question, answer;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t* e = entry.data<int64_t>() + b * entries;
    const int64_t asked = e[rng.below(entries)] / kValues;
    int64_t last = entries - 1;
    while (e[last] / kValues != asked) --last;
    question.push_back(kClasses * kValues + asked);
    answer.push_back(e[last] % kValues);
  }
  return {cat({entry, tensor(question, {batch, 1})}, 1), tensor(answer, {batch})};
}
