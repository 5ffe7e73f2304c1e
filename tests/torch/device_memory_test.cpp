// Tensors in device memory, on the stand-in for NCCL and the CUDA runtime: whatever works on the cpu works there. LibTorch itself may know of no
// CUDA: it only holds the tensors.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "covers.h"
#include "nccl/alone_on_device.h"
#include "unisono/cuda.h"
#include "unisono/torch.h"
#include "unisono/torch/devices.h"
#include "unisono/torch/objects.h"

namespace unisono {
namespace {

void* allocate(std::size_t bytes) {
  void* library = ::dlopen(std::getenv("UNISONO_CUDART_LIBRARY"), RTLD_NOW);
  const auto allocate = reinterpret_cast<int (*)(void**, std::size_t)>(::dlsym(library, "cudaMalloc"));
  void* memory = nullptr;
  if (allocate == nullptr || allocate(&memory, bytes) != 0) throw std::runtime_error("the stand-in gives no memory");
  return memory;
}

/// A tensor of the values, which lie `stride` elements apart.
template <class T>
torch::Tensor on_device(const std::vector<T>& values, std::int64_t stride = 1) {
  const std::size_t bytes = values.size() * static_cast<std::size_t>(stride) * sizeof(T);
  auto* const memory = static_cast<T*>(allocate(bytes));
  for (std::size_t i = 0; i < values.size(); ++i) memory[i * static_cast<std::size_t>(stride)] = values[i];
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, at::DataPtr(memory, torch_device(device())), nullptr, false);
  auto tensor = c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                     caffe2::TypeMeta::Make<T>());
  const std::int64_t size[] = {static_cast<std::int64_t>(values.size())}, strides[] = {stride};
  tensor->set_sizes_and_strides(at::IntArrayRef(size), at::IntArrayRef(strides));
  return torch::Tensor(std::move(tensor));
}

/// The stand-in's memory is the host's.
template <class T>
std::vector<T> values(const torch::Tensor& tensor) {
  synchronize_stream();
  std::vector<T> all;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) all.push_back(static_cast<const T*>(tensor.const_data_ptr())[i * tensor.stride(0)]);
  return all;
}

class TorchDeviceMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { initialize(fake::alone_on_second_device()); }
  static void TearDownTestSuite() { finalize(); }
};

TEST_F(TorchDeviceMemory, MemoryIsWhereTheGroupWantsIt) {
  COVERS("M-29", "M-30");
  EXPECT_EQ(get_comm_device(), at::Device(at::kCUDA, 1));
  EXPECT_EQ(get_data_device(on_device<float>({1})), get_comm_device());
}

TEST_F(TorchDeviceMemory, ReductionsThatNcclHasAndHasNotAreRight) {
  const torch::Tensor floats = on_device<float>({1.5F, 2}), numbers = on_device<std::int64_t>({7, -7}), apart = on_device<int>({1, 2, 3}, 2);
  all_reduce(floats);
  all_reduce(numbers, ReduceOp::avg);
  all_reduce(apart, ReduceOp::bxor);
  broadcast(apart);
  scan(numbers);
  average_across_processes(numbers);
  EXPECT_EQ(values<float>(floats), (std::vector<float>{1.5F, 2}));
  EXPECT_EQ(values<std::int64_t>(numbers), (std::vector<std::int64_t>{7, -7}));
  EXPECT_EQ(values<int>(apart), (std::vector<int>{1, 2, 3}));
  Work work = all_reduce_async(apart, ReduceOp::max);
  EXPECT_TRUE(work.wait_for(std::chrono::seconds(20)));
  EXPECT_GE(apart._version(), 3);
}

TEST_F(TorchDeviceMemory, ParametersAndDictionariesLieOnTheDevice) {
  COVERS("M-07", "M-14", "V-10");
  std::vector<torch::Tensor> parameters{on_device<float>({1, 2}), on_device<float>({3}, 4), on_device<std::int64_t>({4})};
  all_reduce_params(parameters);
  std::map<std::string, torch::Tensor> metrics{{"loss", parameters[1]}, {"seen", parameters[2]}, {"cpu", torch::tensor({5, 6})}};
  all_reduce_dict(metrics);
  average_across_processes(metrics);
  EXPECT_EQ(values<float>(parameters[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(values<float>(metrics.at("loss")), (std::vector<float>{3}));
  EXPECT_EQ(values<std::int64_t>(metrics.at("seen")), (std::vector<std::int64_t>{4}));
  EXPECT_TRUE(metrics.at("loss").is_cuda());
}

TEST_F(TorchDeviceMemory, AnyValueIsACopyOnTheCpu) {
  COVERS("I-34");
  const torch::Tensor x = on_device<int>({3, 1, 4}, 2);
  const torch::Tensor got = tensor_of(broadcast_any(AnyValue(x)));
  EXPECT_TRUE(torch::equal(got, torch::tensor({3, 1, 4}, torch::kInt)));
}

}  // namespace
}  // namespace unisono
