#pragma once

#include <torch/torch.h>

#include "unisono/torch.h"

// The program around those blocks of docs/guide/libtorch.md that are no whole programs: a model, and batches of this rank for it. They need not use
// what they make.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

#define FRAGMENTS_BEGIN(name) void name(torch::nn::Sequential net, const std::vector<torch::Tensor>& batches) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments(torch::nn::Sequential net, const std::vector<torch::Tensor>& batches);
