// All of the decode library, in the namespace tern::decoding.
#pragma once

#include "tern/decode/beam_search.h"
#include "tern/decode/continuous_batching.h"
#include "tern/decode/ctc.h"
#include "tern/decode/packed_gpt.h"
#include "tern/decode/packed_transformer.h"
#include "tern/decode/sampling.h"
#include "tern/decode/step_model.h"
