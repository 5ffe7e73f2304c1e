// Training that goes on without a lost rank: what a state lists of a model and its optimizer, and the loop. The example digits-torch-elastic also
// takes new ranks in, which only processes can (elastic_digits.sh).
#include "unisono/torch/elastic.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include "data_parallel_world.h"
#include "optimizer_testing.h"
#include "thrown_by.h"
#include "unisono/torch/optimizer.h"

namespace unisono {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Trains alone for `steps` steps; what comes out depends on `variant`.
void train_alone(torch::nn::Sequential& model, Optimizer& optimizer, int steps, int variant) {
  optimizer.param_groups()[0].options().set_lr(optimizer.param_groups()[0].options().get_lr() / (variant + 2));
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    backward(model, 10 * variant + step);
    optimizer.step();
  }
}

// Weights, momentum and options of the member with the most steps are those of all: the next steps have the same bits as its own would have had.
WORLD_TEST(AddTraining, WeightsOptimizerAndOptionsAreThoseOfTheMostSteps) {
  const int n = world_size(), last = n - 1;
  for (const auto& [name, make] : optimizers()) {
    for (const int source : {0, last}) {
      const int distance = std::abs(rank() - source);
      auto model = make_model(5 + rank()), reference = make_model(5 + source);
      const auto optimizer = make(model), expected = make(reference);
      train_alone(model, *optimizer, 4 - distance, rank());
      train_alone(reference, *expected, 4, source);
      ElasticState state;
      add_training(state, model, *optimizer);
      state.step = 4 - distance;
      EXPECT_EQ(synchronize(state), source) << name;
      EXPECT_EQ(state.step, 4);
      expect_same(model, reference, name + ", weights");
      EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), expected->param_groups()[0].options().get_lr());
      for (int step = 0; step < 2; ++step) {
        optimizer->zero_grad(), expected->zero_grad();
        backward(model, 50 + step), backward(reference, 50 + step);
        optimizer->step(), expected->step();
      }
      expect_same(model, reference, name + ", two steps later");
    }
  }
}

// Before the first step there is no momentum: a member that has some loses it.
WORLD_TEST(AddTraining, AnOptimizerThatHasNotBegun) {
  auto model = make_model(5 + rank());
  torch::optim::Adam optimizer(model->parameters(), 0.01);
  if (rank() > 0) train_alone(model, optimizer, 2, rank());
  ElasticState state;
  add_training(state, model, optimizer);
  EXPECT_EQ(synchronize(state), 0);
  EXPECT_TRUE(optimizer.state().empty());
}

// Buffers are listed too, in every dtype, with any strides, and a model without an optimizer.
WORLD_TEST(AddTraining, BuffersAndModelsMayBeAddedAlone) {
  torch::nn::Sequential model(torch::nn::Conv2d(2, 3, 3), torch::nn::BatchNorm2d(3));
  const torch::Tensor weight = model->named_parameters()["0.weight"];
  weight.set_data(torch::full({3, 2, 3, 3}, 1.0 + rank()).contiguous(torch::MemoryFormat::ChannelsLast));
  for (int i = 0; i <= rank(); ++i) model->forward(torch::full({2, 2, 4, 4}, 1.0 + rank()));
  ElasticState state;
  add_training(state, model);
  state.step = rank();
  const int last = world_size() - 1;
  EXPECT_EQ(synchronize(state), last);
  EXPECT_TRUE(torch::equal(weight, torch::full({3, 2, 3, 3}, 1.0 + last)));
  EXPECT_EQ(model->named_buffers()["1.num_batches_tracked"].item<std::int64_t>(), last + 1);
  torch::Tensor mean = model->named_buffers()["1.running_mean"].clone();
  broadcast(mean, last);
  EXPECT_TRUE(torch::equal(mean, model->named_buffers()["1.running_mean"]));
}

MANY_TEST(AddTraining, DifferentTrainingsAreNamed) {
  const bool differs = rank() == world_size() - 1;
  auto model = make_model();
  torch::optim::Adam adam(model->parameters());
  torch::optim::SGD sgd(model->parameters(), 0.1);
  ElasticState optimizers;
  if (differs) add_training(optimizers, model, adam);
  else add_training(optimizers, model, sgd);
  const auto error = thrown_by<Mismatch>([&] { synchronize(optimizers); });
  EXPECT_TRUE(has(error.message(), "torch::optim::Adam of 6 parameters")) << error.message();
  EXPECT_TRUE(has(error.message(), "torch::optim::SGD of 6 parameters")) << error.message();

  torch::nn::Linear layer(3, differs ? 2 : 1);
  ElasticState models;
  add_training(models, layer);
  const auto other = thrown_by<Mismatch>([&] { synchronize(models); });
  EXPECT_TRUE(has(other.message(), "\"weight\" of 3 float32")) << other.message();
}

MANY_TEST(AddTraining, AnOptimizerOfOneGroupIsRefused) {
  auto model = make_model();
  for (const AutoOptimOptions& options : {AutoOptimOptions{.shard_state = true}, AutoOptimOptions{.average_gradients = true}}) {
    const auto optimizer = auto_optim(torch::optim::SGD(model->parameters(), 0.1), options);
    ElasticState state;
    const auto error = thrown_by<InvalidArgument>([&] { add_training(state, model, *optimizer); });
    EXPECT_TRUE(has(error.message(), "belongs to one group")) << error.message();
  }
}

/// An optimizer that keeps state and inherits a `save` that writes none of it.
struct Forgetful : Optimizer {
  explicit Forgetful(const std::vector<at::Tensor>& parameters) : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
    state_[parameters[0].unsafeGetTensorImpl()] = std::make_unique<torch::optim::SGDParamState>();
  }
  torch::Tensor step(LossClosure) override { return {}; }
};

WORLD_TEST(AddTraining, AnOptimizerThatDoesNotWriteItself) {
  auto model = make_model(5 + rank());
  Forgetful optimizer(model->parameters());
  ElasticState state;
  add_training(state, model, optimizer);
  const auto error = thrown_by<InvalidArgument>([&] { synchronize(state); });
  if (rank() == 0) {
    EXPECT_TRUE(has(error.message(), "does not write it")) << error.message();
  }
  auto untouched = make_model(5 + rank());
  expect_same(model, untouched, "nothing has changed");
}

/// The part of a batch for a rank of this group.
torch::Tensor share(const torch::Tensor& batch, const ProcessGroup& group) {
  const auto own = batch.size(0) / group.size();
  return batch.narrow(0, group.rank() * own, own);
}

torch::Tensor batch_of(std::int64_t step) { return parallel::values({parallel::rows, 6}, 3 + static_cast<double>(step)); }

std::unique_ptr<Optimizer> sgd_of(const parallel::Net& net) {
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

/// Tells whether a tensor has the same bits on all ranks of the group.
bool is_alike(const torch::Tensor& tensor, const ProcessGroup& group) {
  torch::Tensor of_first = tensor.detach().clone();
  broadcast(of_first, 0, group);
  return all_reduce(torch::equal(of_first, tensor) ? 0 : 1, ReduceOp::sum, group) == 0;
}

// A rank leaves in the middle of a step. The others train on as if it had never been there: each step averages over the whole batch once.
TEST(TrainElastic, TrainingGoesOnWithoutALostRank) {
  for (const int ranks : {2, 3, 4}) {
    std::atomic<int> finished{0};
    run_threads(ranks, [&] {
      const bool leaves = rank() == ranks / 2;
      parallel::Net net = parallel::net_of_rank();  // of which rank 0's counts
      const auto optimizer = sgd_of(net);
      ElasticState state;
      add_training(state, net, *optimizer);
      std::set<int> sizes;
      const auto step = [&](DataParallel<parallel::Net>& model) {
        if (state.step == 6) return false;
        sizes.insert(model.group().size());
        optimizer->zero_grad();
        const torch::Tensor loss = model(share(batch_of(state.step), model.group())).square().mean();
        if (leaves && state.step == 3) return false;
        loss.backward();
        optimizer->step();
        ++state.step;
        return true;
      };
      const ProcessGroup last = train_elastic(state, net, step, {.bucket_cap_mb = 0.0002});
      if (leaves) return;
      ++finished;
      EXPECT_EQ(last.size(), ranks - 1);
      EXPECT_EQ(sizes, (std::set<int>{ranks - 1, ranks}));
      parallel::Net alone;
      parallel::fill(*alone, 1);
      const auto expected = sgd_of(alone);
      for (std::int64_t i = 0; i < 6; ++i) {
        expected->zero_grad();
        alone->forward(batch_of(i)).square().mean().backward();
        expected->step();
      }
      EXPECT_SAME(*net, *alone);
      for (const torch::Tensor& parameter : net->parameters()) EXPECT_TRUE(is_alike(parameter, last));
    });
    EXPECT_EQ(finished, ranks - 1);
  }
}

// Without a loss the model is made once, with the options that were given: its buckets keep what their first pass has found out.
WORLD_TEST(TrainElastic, TheModelStaysWhileTheMembersDo) {
  parallel::Net net = parallel::net_of_rank();
  const auto optimizer = sgd_of(net);
  ElasticState state;
  add_training(state, net, *optimizer);
  std::vector<ProcessGroup> groups;  // one of its own for each model that was made
  const auto average = [&groups](torch::Tensor gradients, const ProcessGroup& group) {
    all_reduce(gradients, ReduceOp::avg, group);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  };
  const auto step = [&](DataParallel<parallel::Net>& model) {
    if (state.step == 4) return false;
    optimizer->zero_grad();
    model(share(batch_of(state.step), model.group())).square().mean().backward();
    optimizer->step();
    ++state.step;
    return true;
  };
  EXPECT_EQ(train_elastic(state, net, step, {.compression = average}), world());
  EXPECT_EQ(groups.size(), world_size() > 1 ? 1U : 0U);
  for (const torch::Tensor& parameter : net->parameters()) EXPECT_TRUE(is_alike(parameter, world()));
}

}  // namespace
}  // namespace unisono
