#pragma once

#include <torch/torch.h>

#include "unisono/torch.h"

// What the blocks of docs/libtorch.md that are no whole programs stand in: a model, and batches of this rank for it. They need not use what they
// make.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
