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

#define EXPECT_SAME(remote_tensor, local)                                                                        \
  do {                                                                                                           \
    const torch::Tensor remote_own = (remote_tensor), local_own = (local);                                       \
    EXPECT_EQ(remote_own.device().type(), torch::kPrivateUse1);                                                  \
    EXPECT_EQ(remote_own.scalar_type(), local_own.scalar_type());                                                \
    EXPECT_EQ(remote_own.strides(), local_own.strides());                                                        \
    EXPECT_TRUE(torch::equal(remote_own.cpu(), local_own)) << remote_own.cpu() << "\ninstead of\n" << local_own; \
  } while (false)

// What the controllers of these tests call on their workers.

double sum_there(const at::Tensor& tensor);
/// Adds a number to the worker's own tensor.
void add_there(const at::Tensor& tensor, double number);

}  // namespace unisono::remote_testing
