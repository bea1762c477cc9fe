// Everything of tern for users.
#pragma once

#include "tern/core/autograd.h"
#include "tern/core/conv.h"
#include "tern/core/einsum.h"
#include "tern/core/error.h"
#include "tern/core/ops.h"
#include "tern/core/record.h"
#include "tern/core/rng.h"
#include "tern/core/safetensors.h"
#include "tern/core/state.h"
#include "tern/core/tensor.h"
#include "tern/models/gmlp.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
