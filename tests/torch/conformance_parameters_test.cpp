// at::Tensor in what works on many at once (parameters, dictionaries, averages), a training loop made of these, and tensors in shared memory.
#include "conformance_world.h"
#include "covers.h"

#include <map>
#include <sstream>
#include <unordered_map>

using namespace unisono;
using conformance::sum;
using conformance::value;

WORLD_TEST(TorchAverages, ATensorIsAveraged) {
  COVERS("V-09");
  const int n = world_size();
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    torch::Tensor x = value({2, 3}, rank(), dtype).t();
    const torch::Tensor handle = x;
    average_across_processes(x);
    EXPECT_SAME(handle, sum({2, 3}, 0, n, torch::kDouble).div(n).to(dtype).t());
  }
  torch::Tensor whole = value({3}, rank(), torch::kLong) - 6;
  average_across_processes(whole);  // truncated toward zero
  EXPECT_SAME(whole, torch::div(sum({3}, 0, n, torch::kLong) - 6 * n, n, "trunc"));
}

WORLD_TEST(TorchAverages, ADictionaryInAnyOrderIsAveraged) {
  COVERS("V-10");
  const int n = world_size();
  std::unordered_map<std::string, torch::Tensor> map;
  for (int i = 0; i < 20; ++i) {
    const int k = rank() % 2 == 0 ? i : 19 - i;
    map.emplace("key" + std::to_string(k), value({k % 4, 3}, rank(), k % 3 == 0 ? torch::kDouble : torch::kFloat) + 100 * k);
  }
  const auto handles = map;
  average_across_processes(map);
  for (int k = 0; k < 20; ++k) {
    const torch::Tensor& x = map.at("key" + std::to_string(k));
    EXPECT_TRUE(x.is_same(handles.at("key" + std::to_string(k))));
    EXPECT_SAME(x, (sum({k % 4, 3}, 0, n, torch::kDouble).div(n) + 100 * k).to(k % 3 == 0 ? torch::kDouble : torch::kFloat));
  }
}

WORLD_TEST(TorchDictionaries, DictionariesAreSummedInPlaceAndKeepTheirDTypes) {
  COVERS("M-07");
  const int n = world_size();
  std::map<std::string, torch::Tensor> map;
  for (const auto dtype : conformance::numbers) map[torch::toString(dtype)] = value({3, 2}, rank(), dtype).t();
  map["scalar"] = torch::tensor(1.5 + rank());
  map["empty"] = torch::empty({0, 2});
  const auto handles = map;
  all_reduce_dict(map);
  for (const auto dtype : conformance::numbers) {
    const torch::Tensor& x = map.at(torch::toString(dtype));
    EXPECT_TRUE(x.is_same(handles.at(torch::toString(dtype))));
    EXPECT_SAME(x, sum({3, 2}, 0, n, dtype).t());
  }
  EXPECT_EQ(map["scalar"].item<float>(), 1.5F * n + n * (n - 1) / 2);
  std::map<std::string, torch::Tensor> nothing;
  all_reduce_dict(nothing);
}

MANY_TEST(TorchDictionaries, AKeyThatARankDoesNotHaveIsNamed) {
  COVERS("M-07");
  std::map<std::string, torch::Tensor> map{{"a", torch::ones({2})}, {rank() == 0 ? "b" : "c", torch::ones({2})}};
  try {
    all_reduce_dict(map);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Mismatch& error) {
    EXPECT_NE(std::string(error.what()).find("\"b\""), std::string::npos) << error.what();
  }
  EXPECT_SAME(map.at("a"), torch::ones({2}));
}

WORLD_TEST(TorchParameters, ParametersAreReducedTogetherOrOneByOne) {
  const int n = world_size();
  for (const bool coalesce : {true, false}) {
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 2));
    torch::NoGradGuard no_grad;
    int k = 0;
    for (auto& parameter : model->parameters()) parameter.copy_(value(parameter.sizes(), rank()) + ++k);
    for (auto& buffer : model->buffers()) buffer.copy_(value(buffer.sizes(), rank(), buffer.scalar_type()));
    all_reduce_params(model->parameters(), {.coalesce = coalesce});
    all_reduce_params(model->buffers(), {.coalesce = coalesce, .op = ReduceOp::max});
    k = 0;
    for (const auto& parameter : model->parameters()) EXPECT_SAME(parameter, sum(parameter.sizes(), 0, n) + ++k * n);
    for (const auto& buffer : model->buffers()) EXPECT_SAME(buffer, value(buffer.sizes(), n - 1, buffer.scalar_type()));
  }
}

namespace {

/// Numbers between -1 and 1, the same wherever they are computed.
torch::Tensor numbers(torch::IntArrayRef sizes, double seed) {
  return torch::sin(torch::arange(c10::multiply_integers(sizes), torch::kDouble) * 12.9898 + seed).to(torch::kFloat).reshape(sizes);
}
torch::nn::Sequential network() {
  torch::nn::Sequential model(torch::nn::Linear(5, 8), torch::nn::ReLU(), torch::nn::Linear(8, 3));
  torch::NoGradGuard no_grad;
  double seed = 21;
  for (auto& parameter : model->parameters()) parameter.copy_(numbers(parameter.sizes(), seed++));
  return model;
}
torch::Tensor batch(int first, int last) { return numbers({16, 5}, 115).slice(0, first, last); }

/// The inputs of the ReLU.
torch::Tensor before_relu(torch::nn::Sequential& model, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  return model->ptr<torch::nn::LinearImpl>(0)->forward(x);
}

/// Two iterations on rows [first, last) of a batch; `reduce` between backward and step.
void train(torch::nn::Sequential& model, int first, int last, const std::function<void()>& reduce) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int iteration = 0; iteration < 2; ++iteration) {
    optimizer.zero_grad();
    // The derivative of a ReLU jumps at 0. An input that is 0 but for rounding would get another gradient with another instruction set, or in
    // another part of the batch, and no tolerance would cover that.
    EXPECT_GT(before_relu(model, batch(first, last)).abs().min().item<float>(), 0.1F);
    model->forward(batch(first, last)).pow(2).mean().backward();
    reduce();
    optimizer.step();
  }
}

}  // namespace

// Two iterations on a part of the batch each give the parameters of one process on the whole, and the model can be saved and loaded.
WORLD_TEST(TorchTraining, TrainingEqualsOneProcessOnTheWholeBatch) {
  const int n = world_size(), r = rank();
  torch::nn::Sequential model = network(), baseline = network();
  const torch::Tensor z = before_relu(model, batch(0, 4 * n));
  EXPECT_TRUE((z > 0).any(0).logical_and((z < 0).any(0)).all().item<bool>()) << "a unit is on, or off, for the whole batch";
  train(model, 4 * r, 4 * r + 4, [&] {
    std::vector<torch::Tensor> gradients;
    for (auto& parameter : model->parameters()) gradients.push_back(parameter.grad());
    all_reduce_params(gradients, {.op = ReduceOp::avg});
  });
  train(baseline, 0, 4 * n, [] {});
  const auto trained = model->parameters(), expected = baseline->parameters(), initial = network()->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::allclose(trained[i], expected[i], 1e-5, 1e-6)) << i;
    EXPECT_FALSE(torch::allclose(trained[i], initial[i])) << i;
  }
  std::stringstream file;
  torch::save(model, file);
  torch::nn::Sequential loaded = network();
  torch::load(loaded, file);
  for (std::size_t i = 0; i < trained.size(); ++i) EXPECT_TRUE(torch::equal(loaded->parameters()[i], trained[i]));
}

// All calls are large enough to be made in place once the ranks have found out that they reach each other's memory.
WORLD_TEST(TorchShared, CollectivesOnSharedTensorsAreRight) {
  const int n = world_size(), r = rank();
  const torch::Tensor base = torch::arange(40000, torch::kFloat) / 8;  // exact in every sum
  for (int call = 0; call < 4; ++call) {
    torch::Tensor x = to_shared(base + 1000 * r);
    all_reduce(x);
    EXPECT_TRUE(torch::equal(x, base * n + 1000 * (n * (n - 1) / 2)));
    torch::Tensor all = empty_shared({n, 40000});
    all_gather(to_shared(base * (r + 1)), all);
    for (int s = 0; s < n; ++s) EXPECT_TRUE(torch::equal(all[s], base * (s + 1)));
    torch::Tensor part = empty_shared({40000});
    reduce_scatter(all, part);
    EXPECT_TRUE(torch::equal(part, base * (r + 1) * n));
    torch::Tensor strided = empty_shared({200, 400}).t().slice(0, 0, 400, 2);
    strided.copy_(base.reshape({200, 200}) + r);
    broadcast(strided, n - 1);
    EXPECT_TRUE(torch::equal(strided, base.reshape({200, 200}) + (n - 1)));
  }
}
