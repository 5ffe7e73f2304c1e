#pragma once

#include <exception>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include "unisono/detail/bytes.h"
#include "unisono/process_group.h"
#include "unisono/rank_control.h"

// What an optimizer is, as bytes and in words.

namespace unisono::libtorch {

/// An archive as Optimizer::save writes it: a tensor of bytes. Empty for a type of somebody's own that does not write itself.
at::Tensor bytes_of(const torch::optim::Optimizer& optimizer);
/// State that is not among the bytes is gone then; empty ones change nothing. State on a device goes to that of the first parameter.
void load_bytes(torch::optim::Optimizer& optimizer, const at::Tensor& bytes);
/// "torch::optim::Adam"
std::string type_of(const torch::optim::Optimizer& optimizer);

std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer);
/// One for each parameter: "parameter 3 of group 0: Float [4, 3]"
std::vector<std::string> descriptions_of(const torch::optim::Optimizer& optimizer);
/// Collective. Mismatch, on all ranks, naming the first parameter that is not alike.
void check_alike(const torch::optim::Optimizer& optimizer, const ProcessGroup& group, const char* operation);

/// What `tensor` (of bytes) is on rank `src`, on all; the others' does not count.
at::Tensor broadcast_bytes(at::Tensor tensor, int src, const ProcessGroup& group);

/// Runs f; where it throws on any rank, all throw.
template <class F>
void on_all(const ProcessGroup& group, std::string_view operation, F&& f) {
  std::exception_ptr error;
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  detail::agree(group, operation, error);
}

}  // namespace unisono::libtorch
