#pragma once

#include <exception>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include "unisono/detail/bytes.h"
#include "unisono/process_group.h"
#include "unisono/rank_control.h"

// Describes an optimizer as bytes and as text.

namespace unisono::libtorch {

/// Returns an archive as Optimizer::save writes it, as a tensor of bytes. Empty for a user's type that does not save itself.
at::Tensor bytes_of(const torch::optim::Optimizer& optimizer);
/// Loads an archive; empty bytes change nothing. State that is not in the archive is lost. State on a device goes to the device of the first
/// parameter.
void load_bytes(torch::optim::Optimizer& optimizer, const at::Tensor& bytes);
/// Returns text such as "torch::optim::Adam".
std::string type_of(const torch::optim::Optimizer& optimizer);

std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer);
/// Returns a text for each parameter, such as "parameter 3 of group 0: Float [4, 3]".
std::vector<std::string> descriptions_of(const torch::optim::Optimizer& optimizer);
/// Compares the optimizers of all ranks. Collective. Throws Mismatch on all ranks, naming the first parameter that differs.
void check_alike(const torch::optim::Optimizer& optimizer, const ProcessGroup& group, const char* operation);

/// Broadcasts a tensor of bytes from rank `src`. Only that rank's `tensor` counts.
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
