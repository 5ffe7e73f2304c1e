#pragma once

// The component for LibTorch (target unisono::torch), for PyTorch 2.4 and newer: at::Tensor is a buffer everywhere, and models are trained by many
// processes as by one.

#include "unisono/torch/checkpoint.h"
#include "unisono/torch/compression.h"
#include "unisono/torch/data.h"
#include "unisono/torch/data_parallel.h"
#include "unisono/torch/devices.h"
#include "unisono/torch/lists.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/objects.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/sync_batch_norm.h"
#include "unisono/torch/tensor.h"
#include "unisono/unisono.h"
