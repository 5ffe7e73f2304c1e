#pragma once

#include <span>
#include <vector>

#include "unisono/unisono.h"
#include "unisono/cuda.h"

// The program around the blocks of docs/guide/gpu.md: it uses CUDA, whose header need not be here.
extern "C" int cudaSetDevice(int device);
void launch_kernels(void* stream);

#define FRAGMENTS_BEGIN(name) \
  void name(float* on_device, std::size_t n, std::vector<float>& in_host_memory, std::vector<float>& gradients, void* stream) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }
