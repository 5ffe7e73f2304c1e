// The file has one wrong call for each -DCASE=<number>: the compiler must refuse it and say why. Case 0 is right and shows that the rest compiles.
// Leaves that are no tensors, and an `out` of another type.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "unisono/torch/devices.h"

using namespace unisono;

void call() {
  const at::Tensor tensor;
  const std::vector<at::Tensor> list(2);
  const std::vector<std::string> text(2);
  const std::map<std::string, std::vector<float>> numbers;
#if CASE == 0
  static_cast<void>(get_data_device(tensor));
  cast_data_device(list, at::kCPU, list);
#elif CASE == 1
  static_cast<void>(get_data_device(123));
#elif CASE == 2
  static_cast<void>(get_data_device(text));
#elif CASE == 3
  static_cast<void>(cast_data_device(numbers, at::kCPU));
#elif CASE == 4
  cast_data_device(tensor, at::kCPU, list);
#elif CASE == 5
  cast_data_device(list, at::kCPU, std::set<int>{});
#endif
}
