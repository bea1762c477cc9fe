// Settings that suit the data, so that a first try with one's own pictures works. The recipes for
// CIFAR-10 and for the generated pictures are fixed, and a flag that is given always wins.
#pragma once

#include "tern/apps/train_cifar/classifier.h"
#include "tern/apps/train_cifar/images.h"

namespace tern::apps::train_cifar {

/// The model of a configuration, without memory and weights.
ImageClassifier make_untrained(TrainOptions options);

/// Before the pictures are read: the model with its recipe, and the side of the pictures.
void choose_model(TrainOptions& options, const GivenKeys& given);
/// Afterwards: batch, epochs and warm-up by the number of pictures.
void choose_length(TrainOptions& options, const GivenKeys& given, const LabelledPictures& data);

}  // namespace tern::apps::train_cifar
