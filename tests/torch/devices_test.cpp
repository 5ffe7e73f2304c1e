// The device of data, the device that a group wants, and data moved as a whole. The meta device stands for a second device here.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <list>
#include <map>
#include <unordered_map>

#include <c10/util/Logging.h>

#include "covers.h"
#include "refusal.h"
#include "unisono/engine.h"
#include "unisono/torch.h"
#include "unisono/torch/data_parallel.h"
#include "unisono/torch/devices.h"

namespace unisono {
namespace {

/// For the memory of a device that only has a number.
class NumberedDevice final : public Engine {
 public:
  std::string_view name() const noexcept override { return "numbered"; }
  Device::Type device_type() const noexcept override { return Device::Type::cuda; }
  Device device() const noexcept override { return {Device::Type::cuda, 7}; }
  void abort(const Failure&) noexcept override {}
};

using Batch = std::map<std::string, std::vector<torch::Tensor>>;

#define EXPECT_REFUSED(call, part)                                    \
  do {                                                                \
    const std::string said = refusal<InvalidArgument>([&] { call; }); \
    EXPECT_NE(said.find(part), std::string::npos) << said;            \
  } while (false)

torch::Tensor numbers(int first) { return torch::arange(first, first + 6).reshape({2, 3}); }
torch::Tensor elsewhere() { return torch::empty({2, 3}, torch::TensorOptions(torch::kMeta).dtype(torch::kLong)); }

TEST(TorchDevices, DataOfAnyShapeHasADevice) {
  COVERS("M-29");
  EXPECT_EQ(get_data_device(numbers(0)), torch::kCPU);
  EXPECT_EQ(get_data_device(elsewhere()), torch::kMeta);
  EXPECT_EQ(get_data_device(std::vector{elsewhere(), elsewhere()}), torch::kMeta);
  EXPECT_EQ(get_data_device(Batch{{"a", {elsewhere()}}, {"b", {elsewhere(), elsewhere()}}}), torch::kMeta);
  EXPECT_EQ(get_data_device(std::tuple{numbers(0), std::list{numbers(1)}, std::array{numbers(2), numbers(3)}}), torch::kCPU);
  EXPECT_EQ(get_data_device(std::unordered_map<int, std::pair<torch::Tensor, torch::Tensor>>{{3, {elsewhere(), elsewhere()}}}), torch::kMeta);
}

TEST(TorchDevices, DataOnSeveralIsRefusedSayingWhere) {
  COVERS("M-29");
  const std::vector mixed{numbers(0), numbers(1), elsewhere()};
  EXPECT_REFUSED(static_cast<void>(get_data_device(mixed)), "data[0] on cpu, data[2] on meta");
  const Batch batch{{"image", {numbers(0)}}, {"label", {numbers(1), elsewhere()}}};
  EXPECT_REFUSED(static_cast<void>(get_data_device(batch)), "data[\"image\"][0] on cpu, data[\"label\"][1] on meta");
}

TEST(TorchDevices, WhatIsEmptyOrUndefinedIsRefused) {
  COVERS("M-29", "M-31");
  EXPECT_REFUSED(static_cast<void>(get_data_device(std::vector<torch::Tensor>{})), "the data is empty");
  EXPECT_REFUSED(static_cast<void>(get_data_device(std::map<int, torch::Tensor>{})), "the data is empty");
  EXPECT_REFUSED(static_cast<void>(get_data_device(Batch{{"a", {numbers(0)}}, {"b", {}}})), "data[\"b\"] is empty");
  EXPECT_REFUSED(static_cast<void>(get_data_device(std::tuple<>{})), "the data is empty");
  EXPECT_REFUSED(static_cast<void>(get_data_device(std::vector{numbers(0), torch::Tensor()})), "data[1] is an undefined tensor");
  EXPECT_REFUSED(static_cast<void>(cast_data_device(Batch{}, torch::kCPU)), "the data is empty");
  EXPECT_REFUSED(static_cast<void>(cast_data_device(torch::Tensor(), torch::kCPU)), "undefined");
  const std::list<torch::Tensor> none;
  EXPECT_REFUSED(cast_data_device(none, torch::kCPU, none), "the data is empty");
}

TEST(TorchDevices, AGroupHasADevice) {
  EXPECT_EQ(get_comm_device(), torch::kCPU);
  run_threads(2, [] {
    EXPECT_EQ(get_comm_device(), torch::kCPU);
    EXPECT_EQ(get_comm_device(*split_group(world(), 0)), torch::kCPU);
  });
}

// A model goes to the device of its process. Where LibTorch does not know that device, its refusal says that it was asked for it.
TEST(TorchDevices, TheProcessHasADevice) {
  COVERS("A-30", "M-30");
  register_engine("numbered", [](const EngineOptions&) { return std::make_unique<NumberedDevice>(); }, {.device = Device::Type::cuda});
  EXPECT_EQ(auto_model(torch::nn::Linear(2, 2))->weight.device(), torch::kCPU);
  const Context context(InitOptions{.backend = "cpu:native,cuda:numbered"});
  EXPECT_EQ(device(), (Device{Device::Type::cuda, 7}));
  EXPECT_EQ(get_comm_device(), at::Device(torch::kCUDA, 7));
  try {
    const auto model = auto_model(torch::nn::Linear(2, 2));
    for (const torch::Tensor& parameter : model->parameters()) EXPECT_EQ(parameter.device(), at::Device(torch::kCUDA, 7));
  } catch (const c10::Error& error) {
    const std::string said = error.what();
    EXPECT_TRUE(said.find("cuda") != std::string::npos || said.find("CUDA") != std::string::npos) << said;
  }
}

// Without a device, ranks train together on what they have, and rank 0 tells it where LibTorch is asked to tell such things.
TEST(TorchDevices, AModelIsTrainedWithoutAny) {
  COVERS("A-33");
  const auto level = FLAGS_caffe2_log_level;
  FLAGS_caffe2_log_level = 0;
  testing::internal::CaptureStderr();
  run_threads(3, [] {
    const torch::nn::Linear linear(2, 2);
    auto model = auto_model(linear);
    model(torch::full({1, 2}, static_cast<float>(rank()))).sum().backward();
    EXPECT_EQ(linear->weight.device(), torch::kCPU);
    EXPECT_TRUE(torch::allclose(linear->weight.grad(), torch::ones({2, 2})));
  });
  const std::string text = testing::internal::GetCapturedStderr();
  FLAGS_caffe2_log_level = level;
  const std::string line = "unisono: a model of 2 parameters is trained by 3 ranks together, on cpu";
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

TEST(TorchDevices, AMoveTakesEverythingAndKeepsTheContainers) {
  COVERS("M-31");
  const std::tuple<torch::Tensor, Batch, std::list<torch::Tensor>> data{numbers(0), {{"a", {numbers(1), numbers(2)}}}, {numbers(3)}};
  const std::tuple<torch::Tensor, Batch, std::list<torch::Tensor>> moved = cast_data_device(data, torch::kMeta);
  EXPECT_EQ(get_data_device(moved), torch::kMeta);
  EXPECT_EQ(get_data_device(data), torch::kCPU);
  EXPECT_EQ(std::get<1>(moved).at("a")[1].sizes(), torch::IntArrayRef({2, 3}));
  const auto halves = std::pair{numbers(0), std::array{numbers(1), numbers(2)}};
  EXPECT_EQ(get_data_device(cast_data_device(halves, torch::kMeta)), torch::kMeta);
}

TEST(TorchDevices, WhatIsThereIsTheSameTensor) {
  COVERS("M-31");
  const torch::Tensor x = numbers(0);
  EXPECT_TRUE(cast_data_device(x, torch::kCPU).is_same(x));
  const std::unordered_map<std::string, std::vector<torch::Tensor>> data{
      {"a", {numbers(1), numbers(2)}}, {"b", {numbers(3)}}, {"c", {numbers(4), numbers(5), numbers(6)}}};
  const auto same = cast_data_device(data, torch::kCPU);
  for (const auto& [key, list] : data) {
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_TRUE(same.at(key)[i].is_same(list[i])) << key << i;
  }
}

TEST(TorchDevices, AnOutIsFilledInPlace) {
  COVERS("M-31");
  const Batch data{{"a", {numbers(1), numbers(2)}}, {"b", {numbers(30)}}};
  Batch out{{"a", {torch::zeros_like(numbers(0)), torch::zeros({3, 2}, torch::kLong).t()}}, {"b", {torch::zeros_like(numbers(0))}}};
  const Batch handles = out;
  cast_data_device(data, torch::kCPU, out);
  for (const auto& [key, list] : data) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(torch::equal(out.at(key)[i], list[i])) << key << i;
      EXPECT_TRUE(out.at(key)[i].is_same(handles.at(key)[i]));
      EXPECT_FALSE(out.at(key)[i].is_same(list[i]));
    }
  }
  // Keys of unordered maps find each other in whatever order they are, and a parameter that requires a gradient is written to like any other.
  std::unordered_map<int, torch::Tensor> from, to;
  for (int i = 0; i < 50; ++i) from.emplace(i, torch::full({2}, static_cast<float>(i)));
  for (int i = 49; i >= 0; --i) to.emplace(i, torch::zeros({2}, torch::requires_grad()));
  cast_data_device(from, torch::kCPU, to);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(to.at(i)[1].item<float>(), static_cast<float>(i));
  const auto pair = std::pair{numbers(5), std::tuple{numbers(6)}};
  const auto room = std::pair{torch::zeros_like(numbers(0)), std::tuple{torch::zeros_like(numbers(0))}};
  cast_data_device(pair, torch::kCPU, room);
  EXPECT_TRUE(torch::equal(std::get<0>(room.second), numbers(6)));
}

TEST(TorchDevices, AnOutThatDoesNotFitIsRefusedAndLeftAsItIs) {
  COVERS("M-31");
  const Batch data{{"a", {numbers(1), numbers(2)}}, {"b", {numbers(3)}}};
  const auto room = [] { return torch::zeros({2, 3}, torch::kLong); };
  Batch longer{{"a", {room(), room(), room()}}, {"b", {room()}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, longer), "data[\"a\"] has 2 entries, out[\"a\"] has 3");
  Batch more{{"a", {room(), room()}}, {"b", {room()}}, {"c", {room()}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, more), "the data has 2 entries, out has 3");
  Batch other{{"a", {room(), room()}}, {"c", {room()}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, other), "out[\"b\"] is missing");
  Batch shape{{"a", {room(), room()}}, {"b", {torch::zeros({3, 2}, torch::kLong)}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, shape), "data[\"b\"][0] is of shape [2, 3], out[\"b\"][0] of shape [3, 2]");
  Batch dtype{{"a", {room(), room()}}, {"b", {torch::zeros({2, 3})}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, dtype), "Long, out[\"b\"][0] of Float");
  Batch device{{"a", {room(), room()}}, {"b", {elsewhere()}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, device), "out[\"b\"][0] is on meta");
  Batch undefined{{"a", {room(), room()}}, {"b", {torch::Tensor()}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, undefined), "out[\"b\"][0] is an undefined tensor");
  Batch expanded{{"a", {room(), room()}}, {"b", {torch::zeros({3}, torch::kLong).expand({2, 3})}}};
  EXPECT_REFUSED(cast_data_device(data, torch::kCPU, expanded), "same memory");
  for (const Batch& out : {longer, more, other, shape, dtype, device, undefined, expanded}) EXPECT_TRUE(torch::equal(out.at("a")[0], room()));
}

TEST(TorchDevices, AutogradFollowsAMove) {
  const torch::Tensor x = torch::ones({3}, torch::requires_grad());
  const auto moved = cast_data_device(std::vector{x * 2}, torch::kCPU);
  moved[0].sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({3}, 2.F)));
}

}  // namespace
}  // namespace unisono
