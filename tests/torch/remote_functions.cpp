#include <stdexcept>

#include "remote_world.h"

namespace unisono::remote_testing {

double sum_there(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) throw std::runtime_error("the tensor is on " + tensor.device().str());
  return tensor.sum().item<double>();
}
void add_there(const at::Tensor& tensor, double number) { at::Tensor(tensor).add_(number); }

UNISONO_REMOTE(sum_there);
UNISONO_REMOTE(add_there);

}  // namespace unisono::remote_testing
