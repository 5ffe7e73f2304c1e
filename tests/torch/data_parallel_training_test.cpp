// N ranks train to the weights of one process on the whole batch.
#include <sstream>

#include "covers.h"
#include "data_parallel_world.h"

namespace unisono {
namespace {

using parallel::Net;
using parallel::rows;
using parallel::share;
using parallel::values;
namespace F = torch::nn::functional;

torch::Tensor inputs(int step) { return values({rows, 6}, 3 + step); }
torch::Tensor targets(int step) { return values({rows, 3}, 50 + step); }

template <class Model, class Optimizer>
void train(Model& model, Optimizer& optimizer, int steps, const std::function<torch::Tensor(const torch::Tensor&)>& part) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    F::mse_loss(model->forward(part(inputs(step))), part(targets(step))).backward();
    optimizer.step();
  }
}
torch::Tensor whole(const torch::Tensor& batch) { return batch; }

template <class Optimizer, class Options>
void equals_one_process(const Options& options) {
  Net alone;
  Optimizer alone_optimizer(alone->parameters(), options);
  train(alone, alone_optimizer, 5, whole);

  auto model = auto_model(parallel::net_of_rank());  // rank 0's weights are those of `alone`
  Optimizer optimizer(model.parameters(), options);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    F::mse_loss(model(share(inputs(step))), share(targets(step))).backward();
    optimizer.step();
  }
  EXPECT_SAME(*model, *alone);
}

WORLD_TEST(DataParallel, SgdWithMomentumTrainsAsOneProcess) {
  COVERS("A-31");
  equals_one_process<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
}
WORLD_TEST(DataParallel, AdamTrainsAsOneProcess) {
  COVERS("A-31");
  equals_one_process<torch::optim::Adam>(torch::optim::AdamOptions(0.02));
}

// A model that was trained together is saved and loaded as a model of one process.
WORLD_TEST(DataParallel, AParallelModelIsSavedAndLoaded) {
  COVERS("T-47");
  Net alone, loaded(6, 9, 3);
  torch::optim::SGD alone_optimizer(alone->parameters(), 0.1);
  train(alone, alone_optimizer, 2, whole);
  auto model = auto_model(parallel::net_of_rank());
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    F::mse_loss(model(share(inputs(step))), share(targets(step))).backward();
    optimizer.step();
  }
  EXPECT_SAME(*model, *alone);
  std::stringstream file;
  torch::save(model.module(), file);
  parallel::fill(*loaded, 90);
  EXPECT_NE(parallel::difference(*loaded, *alone), "");
  torch::load(loaded, file);
  EXPECT_SAME(*loaded, *model);
  auto again = auto_model(loaded);
  EXPECT_SAME(again(inputs(5)), alone->forward(inputs(5)));
}

WORLD_TEST(DataParallel, GradientsAccumulateWithoutTalking) {
  Net alone;
  torch::optim::SGD alone_optimizer(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  auto model = auto_model(parallel::net_of_rank());
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int round = 0; round < 3; ++round) {
    const bool set_to_none = round != 1;
    alone_optimizer.zero_grad();
    optimizer.zero_grad(set_to_none);
    for (int step = 3 * round; step < 3 * round + 3; ++step) {
      F::mse_loss(alone->forward(inputs(step)), targets(step)).backward();
      std::optional<NoSync> quiet;
      if (step % 3 != 2) quiet.emplace(model.no_sync());
      F::mse_loss(model(share(inputs(step))), share(targets(step))).backward();
    }
    alone_optimizer.step();
    optimizer.step();
  }
  EXPECT_SAME(*model, *alone);
}

MANY_TEST(DataParallel, NoSyncKeepsGradientsApart) {
  auto model = auto_model(Net());
  {
    const NoSync quiet = model.no_sync();
    F::mse_loss(model(share(inputs(0))), share(targets(0))).backward();
  }
  const auto all = all_gather_object(model->first->weight.grad().sum().item<double>());
  EXPECT_NE(all[0], all[1]);
}

// Gradients that later passes add to those already averaged are averaged as well.
WORLD_TEST(DataParallel, SeveralPassesMayComeBeforeAStep) {
  Net alone;
  auto model = auto_model(parallel::net_of_rank());
  const auto loss = [](auto& net, const torch::Tensor& x, const torch::Tensor& y) { return F::mse_loss(net->forward(x), y); };
  for (int round = 0; round < 2; ++round) {
    // Twice through one graph, then a second graph.
    const torch::Tensor a = loss(alone, inputs(0), targets(0));
    a.backward({}, true);
    a.backward();
    loss(alone, inputs(1), targets(1)).backward();
    const torch::Tensor b = F::mse_loss(model(share(inputs(0))), share(targets(0)));
    b.backward({}, true);
    b.backward();
    F::mse_loss(model(share(inputs(1))), share(targets(1))).backward();
    // Two forward passes, one backward pass.
    (loss(alone, inputs(2), targets(2)) + loss(alone, inputs(3), targets(3))).backward();
    const torch::Tensor c = F::mse_loss(model(share(inputs(2))), share(targets(2)));
    (c + F::mse_loss(model(share(inputs(3))), share(targets(3)))).backward();
    for (const auto& item : alone->named_parameters()) EXPECT_SAME(model->named_parameters()[item.key()].grad(), item.value().grad()) << item.key();
    model->zero_grad(round == 0);
    alone->zero_grad();
  }
}

WORLD_TEST(DataParallel, SeveralModelsAreTrainedInTurns) {
  Net alone_a, alone_b(3, 5, 6);
  auto a = auto_model(parallel::net_of_rank());
  auto b = auto_model(Net(3, 5, 6));
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor x = inputs(step);
    (alone_b->forward(alone_a->forward(x)) - x).square().mean().backward();
    (b(a(share(x))) - share(x)).square().mean().backward();
  }
  for (const auto& item : alone_a->named_parameters()) EXPECT_SAME(a->named_parameters()[item.key()].grad(), item.value().grad());
  for (const auto& item : alone_b->named_parameters()) EXPECT_SAME(b->named_parameters()[item.key()].grad(), item.value().grad());
}

/// Three heads, of which a pass uses what it is told.
struct HeadsImpl : torch::nn::Module {
  HeadsImpl() {
    for (int i = 0; i < 3; ++i) heads.push_back(register_module("head" + std::to_string(i), torch::nn::Linear(6, 3)));
    parallel::fill(*this, 7);
  }
  torch::Tensor forward(const torch::Tensor& x, int head) { return head < 0 ? x.slice(1, 0, 3) : heads[static_cast<std::size_t>(head)]->forward(x); }
  std::vector<torch::nn::Linear> heads;
};
TORCH_MODULE(Heads);

// Rank r uses head r % 2; nobody uses head 2.
WORLD_TEST(DataParallel, ParametersThatOnlySomeHaveUsedAreReduced) {
  COVERS("A-35", "Q-22");
  const auto part_of = [](const torch::Tensor& batch, int r) { return batch.narrow(0, r * (rows / world_size()), rows / world_size()); };
  Heads alone;
  auto model = auto_model(Heads(), {.find_unused_parameters = true});
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1);  // a gradient of zero would change head 2
  torch::optim::SGD alone_optimizer(alone->parameters(), options), optimizer(model.parameters(), options);
  for (int step = 0; step < 4; ++step) {
    alone_optimizer.zero_grad(step != 2);
    optimizer.zero_grad(step != 2);
    torch::Tensor loss = torch::zeros({}, torch::kDouble);
    for (int r = 0; r < world_size(); ++r) {
      loss = loss + F::mse_loss(alone->forward(part_of(inputs(step), r), r % 2), part_of(targets(step), r)) / world_size();
    }
    loss.backward();
    F::mse_loss(model(share(inputs(step)), rank() % 2), share(targets(step))).backward();
    EXPECT_FALSE(model->heads[2]->weight.grad().defined());
    alone_optimizer.step();
    optimizer.step();
    EXPECT_SAME(*model, *alone);
  }
}

// A gradient that was there before stays, to the last bit, where no rank adds to it.
WORLD_TEST(DataParallel, UnusedParametersKeepTheirGradients) {
  auto model = auto_model(Heads(), {.find_unused_parameters = true});
  model(share(inputs(0)), 2).sum().backward();
  const torch::Tensor before = model->heads[2]->weight.grad().div_(3).clone();  // thirds: adding and dividing would not give them back
  for (int step = 0; step < 3; ++step) model(share(inputs(step)), 0).sum().backward();
  EXPECT_TRUE(torch::equal(model->heads[2]->weight.grad(), before));
}

// A rank that uses no parameter at all takes part all the same, if only its output is used.
MANY_TEST(DataParallel, ARankThatUsesNothingIsCounted) {
  auto model = auto_model(Heads(), {.find_unused_parameters = true});
  const torch::Tensor x = torch::ones({2, 6}, torch::kDouble).requires_grad_();
  model(x, rank() == 0 ? 1 : -1).sum().backward();
  EXPECT_SAME(model->heads[1]->bias.grad(), torch::full({3}, 2.0 / world_size(), torch::kDouble));
  EXPECT_FALSE(model->heads[0]->bias.grad().defined());
}

// Each backward pass through a part of the outputs reduces that part.
WORLD_TEST(DataParallel, OutputsMayBeUsedOneByOne) {
  auto model = auto_model(Heads(), {.find_unused_parameters = true});
  const torch::Tensor x = share(inputs(0));
  const auto both = model.call([&](HeadsImpl& heads) { return std::pair(heads.forward(x, 0), heads.forward(x, 1)); });
  both.first.sum().backward();
  EXPECT_FALSE(model->heads[1]->weight.grad().defined());
  both.second.sum().backward();
  const auto expected = inputs(0).sum(0).expand({3, 6}) / world_size();
  EXPECT_SAME(model->heads[0]->weight.grad(), expected);
  EXPECT_SAME(model->heads[1]->weight.grad(), expected);
}

// torch::autograd::grad accumulates nothing, and nothing is exchanged: only rank 0 calls it.
MANY_TEST(DataParallel, GradientsThatAreReturnedAreTheRanksOwn) {
  for (const bool find : {false, true}) {
    auto model = auto_model(Net(), {.find_unused_parameters = find});
    const torch::Tensor loss = model(share(inputs(0))).sum();
    if (rank() == 0) {
      EXPECT_TRUE(torch::autograd::grad({loss}, {model->first->weight}, {}, true)[0].defined());
    }
    loss.backward();
    EXPECT_SAME(model->second->bias.grad(), torch::full({3}, 1.0 * rows / world_size(), torch::kDouble));
  }
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() : shared(torch::nn::Linear(6, 6)) {
    register_module("encoder", shared);
    register_module("decoder", shared);
    frozen = register_module("frozen", torch::nn::Linear(6, 6));
    parallel::fill(*this, 3);
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return shared(torch::tanh(frozen(shared(x)))); }
  torch::nn::Linear shared, frozen{nullptr};
};
TORCH_MODULE(Tied);

WORLD_TEST(DataParallel, SharedAndFrozenParametersAreTaken) {
  Tied alone;
  auto model = auto_model(Tied());
  for (int step = 0; step < 2; ++step) {
    alone->forward(inputs(step)).square().mean().backward();
    model(share(inputs(step))).square().mean().backward();
  }
  EXPECT_SAME(model->shared->weight.grad(), alone->shared->weight.grad());
  EXPECT_FALSE(model->frozen->weight.grad().defined());
}

/// A parameter of each dtype, of several dimensions and layouts.
struct MixedImpl : torch::nn::Module {
  MixedImpl() {
    int seed = 0;
    for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat, torch::kComplexDouble}) {
      const std::string name = torch::toString(dtype);
      cube.push_back(register_parameter(name + "3", values({2, 3, 4}, ++seed, dtype)));
      turned.push_back(register_parameter(name + "t", values({5, 4}, ++seed, dtype).t()));
      scalar.push_back(register_parameter(name + "0", values({}, ++seed, dtype)));
      empty.push_back(register_parameter(name + "e", torch::empty({0, 3}, dtype)));
    }
  }
  torch::Tensor forward(double factor) {
    torch::Tensor sum = torch::zeros({}, torch::kDouble);
    for (const auto* list : {&cube, &turned, &scalar, &empty}) {
      for (const auto& parameter : *list) {
        // d sum / d parameter = factor * (1, 2, 3, …), exact in every dtype
        const torch::Tensor weights = torch::arange(1, parameter.numel() + 1, torch::kDouble).reshape(parameter.sizes()) * factor;
        sum = sum + torch::real(parameter * weights.to(parameter.scalar_type())).sum().to(torch::kDouble);
      }
    }
    return sum;
  }
  std::vector<torch::Tensor> cube, turned, scalar, empty;
};
TORCH_MODULE(Mixed);

WORLD_TEST(DataParallel, EveryDTypeAndLayoutIsTrained) {
  auto model = auto_model(Mixed());
  for (int step = 1; step <= 3; ++step) {
    model->zero_grad(step == 2);
    model(2.0 * (1 + rank()) * step).backward();
    const double factor = (world_size() + 1.0) * step;  // the average of 2 (1 + rank)
    for (const auto& item : model->named_parameters()) {
      const torch::Tensor expected = torch::arange(1, item.value().numel() + 1, torch::kDouble).reshape(item.value().sizes()) * factor;
      EXPECT_SAME(item.value().grad(), expected.to(item.value().scalar_type())) << item.key();
    }
  }
}

struct TwoInputsImpl : torch::nn::Module {
  TwoInputsImpl() : layer(register_module("layer", torch::nn::Linear(2, 2))) {}
  std::tuple<torch::Tensor, std::vector<torch::Tensor>> forward(const torch::Tensor& x, double factor, std::string* seen) {
    *seen = "called";
    return {layer(x) * factor, {layer(x)}};
  }
  torch::nn::Linear layer;
};

// Any holder, any signature. All of it is on device() then.
WORLD_TEST(DataParallel, HoldersAndOtherSignaturesAreTrained) {
  const torch::Tensor x = torch::full({2, 2}, 1.0F + static_cast<float>(rank()));
  const torch::Tensor average = torch::full({2, 2}, 1 + static_cast<float>(world_size() - 1) / 2);
  auto linear = auto_model(torch::nn::Linear(2, 2));
  linear(x).sum().backward();
  EXPECT_SAME(linear->weight.grad(), average * 2);
  torch::nn::Sequential layers(torch::nn::Linear(2, 2), torch::nn::Tanh(), torch::nn::Linear(2, 2));
  auto sequential = auto_model(layers);
  sequential.forward(x).sum().backward();
  EXPECT_EQ(sequential.parameters().size(), 4U);
  EXPECT_EQ(sequential.module().ptr(), layers.ptr());
  for (const torch::Tensor& parameter : sequential.parameters()) EXPECT_EQ(parameter.device(), torch_device(device()));
  auto pointer = auto_model(std::make_shared<TwoInputsImpl>(), {.find_unused_parameters = true});
  std::string seen;
  const auto [scaled, list] = pointer(x, 3.0, &seen);
  (scaled.sum() + list[0].sum()).backward();
  EXPECT_EQ(seen, "called");
  EXPECT_SAME(pointer->layer->weight.grad(), average * 8);
}

// The buffers of rank 0 are those of all, before each forward pass in training.
MANY_TEST(DataParallel, BuffersFollowRankZero) {
  COVERS("A-35", "Q-22");
  for (const bool share_them : {true, false}) {
    torch::nn::BatchNorm1d norm(2);
    norm->running_mean.fill_(10 * rank() + 1);
    auto model = auto_model(norm, {.broadcast_buffers = share_them});
    EXPECT_SAME(norm->running_mean, torch::ones({2}));
    const torch::Tensor x = torch::tensor({{1.F, 2.F}, {3.F, 6.F}}) * (1 + rank());
    static_cast<void>(model(x));  // running mean of rank r: 0.9 + 0.1 (1 + r) (2, 4)
    EXPECT_EQ(parallel::difference(norm->running_mean, torch::tensor({0.9F, 0.9F}) + torch::tensor({0.2F, 0.4F}) * (1 + rank()), 1e-6), "");
    static_cast<void>(model(x).sum().backward());
    model->eval();
    static_cast<void>(model(x));
    model->train();
    const torch::Tensor own = norm->running_mean.clone();
    const torch::Tensor root = own.clone();
    broadcast(root);
    static_cast<void>(model(x));
    EXPECT_EQ(parallel::difference(norm->running_mean, (share_them ? root : own) * 0.9 + torch::tensor({0.2F, 0.4F}) * (1 + rank()), 1e-6), "");
  }
}

}  // namespace
}  // namespace unisono
