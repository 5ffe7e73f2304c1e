#pragma once

// The component for LibTorch (target unisono::torch), for PyTorch 2.4 and newer. at::Tensor is a
// buffer everywhere, and models are trained by many processes as by one:
//
// - torch/tensor.h, torch/objects.h: tensors in collectives, lists and objects
// - torch/data_parallel.h, torch/compression.h, torch/sync_batch_norm.h: auto_model
// - torch/gradients.h: average_gradients, for models without auto_model
// - torch/optimizer.h, torch/data.h, torch/checkpoint.h: auto_optim, auto_dataloader, checkpoints
// - torch/elastic.h: training that goes on without a lost rank
// - torch/remote.h: tensors on the workers of a controller
// - torch/devices.h, torch/memory.h: the device that a group wants, memory that ranks share

#include "unisono/torch/checkpoint.h"
#include "unisono/torch/compression.h"
#include "unisono/torch/data.h"
#include "unisono/torch/data_parallel.h"
#include "unisono/torch/devices.h"
#include "unisono/torch/elastic.h"
#include "unisono/torch/gradients.h"
#include "unisono/torch/tensor.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/objects.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/remote.h"
#include "unisono/torch/sync_batch_norm.h"
#include "unisono/unisono.h"
