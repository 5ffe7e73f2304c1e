#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "unisono/torch.h"

// Tests of remote tensors.

namespace unisono::remote_testing {

/// Runs a controller whose workers are processes, which have generators of their own.
template <class F>
void with_processes(int workers, F&& body) {
  const Controller controller({.workers = workers});
  body(controller);
}

/// Runs a controller whose workers are threads.
template <class F>
void with_workers(int workers, F&& body) {
  run_threads(workers + 1, [&] {
    const Controller controller;
    body(controller);
  });
}

inline torch::Device remote(int worker) { return torch::Device("remote:" + std::to_string(worker)); }

#define EXPECT_SAME(remote_tensor, local)                                                        \
  do {                                                                                           \
    const torch::Tensor own = (remote_tensor), expected = (local);                               \
    EXPECT_EQ(own.device().type(), torch::kPrivateUse1);                                         \
    EXPECT_EQ(own.scalar_type(), expected.scalar_type());                                        \
    EXPECT_EQ(own.strides(), expected.strides()) << own.strides() << expected.strides();         \
    EXPECT_TRUE(torch::equal(own.cpu(), expected)) << own.cpu() << "\ninstead of\n" << expected; \
  } while (false)

// What the controllers of these tests call on their workers.

double sum_there(const at::Tensor& tensor);
/// Adds a number to the worker's own tensor.
void add_there(const at::Tensor& tensor, double number);
int worker_there();

}  // namespace unisono::remote_testing
