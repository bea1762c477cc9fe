// Everything of tern::nn.
#pragma once

#include "tern/nn/activation.h"
#include "tern/nn/attention.h"
#include "tern/nn/conv.h"
#include "tern/nn/dropout.h"
#include "tern/nn/init.h"
#include "tern/nn/linear.h"
#include "tern/nn/mask.h"
#include "tern/nn/module.h"
#include "tern/nn/multihead_attention.h"
#include "tern/nn/norm.h"
#include "tern/nn/parameter.h"
#include "tern/nn/positions.h"
#include "tern/nn/rnn.h"
#include "tern/nn/sequential.h"
#include "tern/nn/spatial_gating.h"
#include "tern/nn/transformer.h"
