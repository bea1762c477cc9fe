// The list of all training steps, from one function per model family.
#include "tern/bench/cases.h"

namespace tern::bench {

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto family :
       {gmlp_cases, bahdanau_cases, transformer_cases, vit_cases, ntm_cases, gpt_cases,
        resnet_cases, mobilenet_cases, unet_cases, convnext_cases, tcn_cases, lstm_lm_cases})
    for (Case& c : family()) all.push_back(std::move(c));
  return all;
}

}  // namespace tern::bench
