#include <ATen/ATen.h>
#include <unisono/torch/tensor.h>
#include <unisono/unisono.h>

#include <cstdio>

int main() {
  unisono::Context context;
  at::Tensor x = at::full({2, 3}, 1.0f + unisono::rank());
  unisono::all_reduce(x);
  const auto shapes = unisono::all_gather_object(x.sizes().vec());
  std::printf("rank %d of %d: %g, %zu shapes\n", unisono::rank(), unisono::world_size(), x[1][2].item<float>(), shapes.size());
}
