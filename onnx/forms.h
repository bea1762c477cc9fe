// The forms that stand outside of the table's file (forms.cpp). Inside of onnx only.
#pragma once

#include <string>
#include <vector>

#include "tern/onnx/emitter.h"

namespace tern::onnx {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

// forms_shapes.cpp
void reshape(Emitter& e);
void squeeze(Emitter& e);
void permute(Emitter& e);
void transpose(Emitter& e);
void expand(Emitter& e);
void slice(Emitter& e);
void flip(Emitter& e);
void roll(Emitter& e);
void cat(Emitter& e);
void stack(Emitter& e);
void pad(Emitter& e);
void full(Emitter& e);
void triangle(Emitter& e);
void arange(Emitter& e);
void gather(Emitter& e);
void scatter(Emitter& e);
void one_hot(Emitter& e);

// forms_layers.cpp
void softmax(Emitter& e);
void layer_norm(Emitter& e);
void rms_norm(Emitter& e);
void instance_norm(Emitter& e);
void attention(Emitter& e);
void rnn(Emitter& e);

// forms_windows.cpp
/// Behind a stride a size is rounded. Error if that of the result's axis is the same in all
/// examples by chance. `from`: the size that it follows from.
void check_differs(Emitter& e, size_t axis, const Size& from);
void conv(Emitter& e);
void conv_transpose(Emitter& e);
void max_pool(Emitter& e);
void adaptive_max_pool(Emitter& e);
void unfold(Emitter& e);
void fold(Emitter& e);

}  // namespace tern::onnx
