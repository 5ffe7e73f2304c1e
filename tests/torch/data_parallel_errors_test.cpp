// Bad models, bad options, and ranks that fail: each a typed error that says what and where, none of them a hang.
#include <algorithm>
#include <atomic>
#include <latch>

#include "data_parallel_world.h"

namespace unisono {
namespace {

using parallel::Net;
using parallel::values;

/// Runs f, which must throw an E, and returns what it said.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another type: " << other.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
bool has(const std::string& text, std::initializer_list<std::string> parts) {
  return std::ranges::all_of(parts, [&](const std::string& part) { return text.find(part) != std::string::npos; });
}
#define EXPECT_SAYS(text, ...)                       \
  do {                                               \
    const std::string said_ = text;                  \
    EXPECT_TRUE(has(said_, {__VA_ARGS__})) << said_; \
  } while (false)

bool is_last() { return rank() == world_size() - 1; }

MANY_TEST(ModelErrors, DifferencesBetweenRanksAreNamed) {
  const std::string last = "rank " + std::to_string(world_size() - 1);
  const auto refused = [](auto&& module, const AutoModelOptions& options = {}) {
    return message_of<Mismatch>([&] { static_cast<void>(auto_model(module, options)); });
  };
  EXPECT_SAYS(refused(Net(6, is_last() ? 8 : 9)), "parameter \"first.weight\"", "[9, 6]", "[8, 6]", last);
  Net narrow;
  if (is_last()) narrow->second->to(torch::kFloat);
  EXPECT_SAYS(refused(narrow), "\"second.weight\"", "Double", "Float", last);
  Net frozen;
  if (is_last()) frozen->first->bias.requires_grad_(false);
  EXPECT_SAYS(refused(frozen), "\"first.bias\"", "frozen", last);
  torch::nn::Sequential layers(torch::nn::Linear(2, 2));
  if (is_last()) layers->push_back(torch::nn::Linear(2, 2));
  EXPECT_SAYS(refused(layers), last, "\"1.weight\"", "rank 0 has not");
  torch::nn::BatchNorm1d buffers(torch::nn::BatchNorm1dOptions(2));
  if (is_last()) buffers->running_mean.set_data(torch::zeros({2}, torch::kDouble));
  EXPECT_SAYS(refused(buffers), "buffer \"running_mean\"", last);
  EXPECT_SAYS(refused(Net(), {.find_unused_parameters = is_last()}), "find_unused_parameters", last);
  EXPECT_SAYS(refused(Net(), {.bucket_cap_mb = is_last() ? 3.0 : 4.0}), "bucket_cap_mb", "3", "4");
  EXPECT_SAYS(refused(Net(), {.compression = is_last() ? Compression::float16() : Compression::bfloat16()}), "compression", "bfloat16", "float16");
  // Nothing of it has spoiled the group.
  EXPECT_EQ(all_reduce(1), world_size());
}

// A model that is in two places is refused, on all ranks, and so is one without memory.
WORLD_TEST(ModelErrors, AModelOnTwoDevicesIsRefused) {
  Net net;
  if (is_last()) net->second->weight = net->second->register_parameter("weight2", torch::empty({2}, torch::kMeta));
  const std::string said = message_of<InvalidArgument>([&] { static_cast<void>(auto_model(net)); });
  EXPECT_SAYS(said, "\"first.weight\" is on cpu", "\"second.weight2\" on meta");
  if (!is_last()) {
    EXPECT_SAYS(said, "rank " + std::to_string(world_size() - 1));
  }
  struct Meta : torch::nn::Module {
    Meta() { register_parameter("only", torch::empty({2}, torch::kMeta)); }
  };
  const auto all_meta = std::make_shared<Meta>();
  EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(auto_model(all_meta)); }), "\"only\"", "meta");
}

// All ranks break off a pass whose first buckets are on their way already: the next one is none the worse for it.
WORLD_TEST(ModelErrors, APassThatWasBrokenOffIsNamed) {
  Net net = parallel::net_of_rank();
  auto model = auto_model(net, {.bucket_cap_mb = 0.0001});
  const Net alone;
  const auto pass = [](auto& trained, const torch::Tensor& batch) {
    for (auto& parameter : trained->parameters()) parameter.mutable_grad() = torch::Tensor();
    trained->forward(batch).square().mean().backward();
  };
  bool breaks = true;
  model->first->weight.register_hook([&breaks](torch::Tensor) {  // the last gradient to come
    if (breaks) throw std::runtime_error("enough");
  });
  const torch::Tensor batch = values({4 * world_size(), 6}, 3);
  EXPECT_EQ(message_of<std::runtime_error>([&] { model(parallel::share(batch)).square().mean().backward(); }).substr(0, 6), "enough");
  breaks = false;
  for (auto& parameter : model.parameters()) parameter.mutable_grad() = torch::Tensor();
  model(parallel::share(batch)).square().mean().backward();
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < alone->parameters().size(); ++i) alone->parameters()[i].set_data(net->parameters()[i].clone());
  }
  Net whole = alone;
  pass(whole, batch);
  for (std::size_t i = 0; i < whole->parameters().size(); ++i) EXPECT_SAME(net->parameters()[i].grad(), whole->parameters()[i].grad());
}

WORLD_TEST(ModelErrors, ModelsAndOptionsThatMakeNoSenseAreRefused) {
  EXPECT_SAYS(message_of<InvalidArgument>([] { static_cast<void>(auto_model(std::shared_ptr<parallel::NetImpl>())); }), "empty");
  EXPECT_SAYS(message_of<InvalidArgument>([] { static_cast<void>(auto_model(torch::nn::Linear(nullptr))); }), "empty");
  for (const double cap : {0.0, -1.0, std::nan("")}) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(auto_model(Net(), {.bucket_cap_mb = cap})); }), "bucket_cap_mb");
  }
  EXPECT_THROW(static_cast<void>(Compression::power_sgd({.rank = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(Compression::power_sgd({.start_iteration = -1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(Compression::power_sgd({.min_compression_rate = 0})), InvalidArgument);
}

struct HalfUsedImpl : torch::nn::Module {
  HalfUsedImpl() : used(register_module("used", torch::nn::Linear(2, 2))), forgotten(register_module("forgotten", torch::nn::Linear(2, 2))) {}
  torch::Tensor forward(const torch::Tensor& x, bool all) { return all ? forgotten(used(x)) : used(x); }
  torch::nn::Linear used, forgotten;
};
TORCH_MODULE(HalfUsed);

// On all ranks, or on one only: all are told which parameters of which rank, and the model can be trained on.
MANY_TEST(ModelErrors, AParameterWithoutGradientIsNamed) {
  auto model = auto_model(HalfUsed());
  const torch::Tensor x = torch::ones({1, 2});
  for (const bool everywhere : {true, false}) {
    const bool mine = everywhere || is_last();
    const std::string said = message_of<InvalidArgument>([&] { model(x, !mine).sum().backward(); });
    EXPECT_SAYS(said, "\"forgotten.weight\"", "\"forgotten.bias\"", "find_unused_parameters",
                "rank " + std::to_string(everywhere ? 0 : world_size() - 1));
    EXPECT_EQ(said.find("\"used.weight\""), std::string::npos);
  }
  model->zero_grad();
  model(x, true).sum().backward();
  EXPECT_SAME(model->forgotten->bias.grad(), torch::ones({2}));
}

MANY_TEST(ModelErrors, AModuleThatWasChangedAfterwardsIsRefused) {
  const torch::Tensor x = values({2, 6}, 1);
  const auto refused = [&](auto&& change) {
    Net net;
    auto model = auto_model(net);
    model(x).sum().backward();
    change(*net);
    return message_of<InvalidArgument>([&] { static_cast<void>(model(x)); });
  };
  EXPECT_SAYS(refused([](auto& net) { net.second->bias.requires_grad_(false); }), "\"second.bias\"", "frozen", "auto_model");
  EXPECT_SAYS(refused([](auto& net) { net.replace_module("second", torch::nn::Linear(9, 3)); }), "\"second.weight\"", "replaced");
  EXPECT_SAYS(refused([](auto& net) { net.register_module("third", torch::nn::Linear(1, 1)); }), "\"third.weight\"", "added");
  EXPECT_SAYS(refused([](auto& net) { net.unregister_module("second"); }), "\"second.weight\"", "removed");
  EXPECT_SAYS(refused([](auto& net) { net.first->to(torch::kFloat); }), "\"first.weight\"", "Float", "Double");
  EXPECT_SAYS(refused([](auto& net) {
                net.first->to(torch::kFloat);
                net.first->to(torch::kDouble);
              }),
              "\"first.weight\"");
}

MANY_TEST(ModelErrors, SparseGradientsAreRefused) {
  auto model = auto_model(torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)));
  const std::string said = message_of<Unsupported>([&] { model(torch::tensor({0, 1})).sum().backward(); });
  EXPECT_SAYS(said, "\"weight\"", "sparse");
}

MANY_TEST(ModelErrors, BadInputOfBatchNormIsRefused) {
  SyncBatchNorm norm(torch::nn::BatchNormOptions(3));
  EXPECT_THROW(static_cast<void>(norm(torch::ones({3}))), InvalidArgument);
  EXPECT_THROW(static_cast<void>(norm(torch::ones({3, 2}))), InvalidArgument);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(norm(torch::empty({0, 3}))); }), "0 values per channel");
  norm->to(torch::kDouble);
  const torch::Tensor x = values({2, 3}, rank()).requires_grad_();
  EXPECT_THROW(static_cast<void>(torch::autograd::grad({norm(x).square().sum()}, {x}, {}, true, true)), Unsupported);
}

// A rank that gives up in the middle of a backward pass: the others' backward() throws what became of it.
TEST(ModelErrors, ARankThatFailsIsNamed) {
  for (const int ranks : {2, 3, 4}) {
    std::atomic<int> told{0};
    std::latch forward(ranks - 1);
    const auto body = [&] {
      auto model = auto_model(Net());
      const torch::Tensor loss = model(values({2, 6}, 1)).sum();
      if (rank() == 1) {
        forward.wait();  // or the others would be told in their forward passes
        throw std::runtime_error("the data is bad");
      }
      forward.count_down();
      EXPECT_SAYS(message_of<PeerFailed>([&] { loss.backward(); }), "culprit: rank 1");
      ++told;
      EXPECT_THROW(static_cast<void>(model(values({2, 6}, 1)).sum().backward()), PeerFailed);
    };
    EXPECT_THROW(run_threads(ranks, body), std::exception);
    EXPECT_EQ(told, ranks - 1);
  }
}

// A hook of a user's that throws: her error comes out of backward().
MANY_TEST(ModelErrors, AnExceptionOfAHookIsThrownByBackward) {
  auto model = auto_model(Net(), {.compression = [](torch::Tensor, const ProcessGroup&) { throw std::out_of_range("no such bucket"); }});
  EXPECT_THROW(model(values({2, 6}, 1)).sum().backward(), std::out_of_range);
}

// Every example of LibTorch writes model->forward(x), which is the module's own and not the wrapper's.
MANY_TEST(ModelErrors, AForwardPassAroundTheWrapperIsRefused) {
  Net net = parallel::net_of_rank();
  auto model = auto_model(net);
  const torch::Tensor x = values({4, 6}, 1);
  const auto refused = [](const torch::Tensor& loss, const std::string& culprit) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] { loss.backward(); }), "has gone around auto_model", "on rank " + culprit, "write model(x)");
  };
  refused(model->forward(x).sum(), "0");  // the first pass of all
  const torch::Tensor loss = model(x).square().mean();
  loss.backward({}, true);
  loss.backward();  // a graph that was retained is none that went around
  refused(net->forward(x).sum(), "0");
  // A single rank is enough, and the last one is named.
  const std::string last = std::to_string(world_size() - 1);
  refused(is_last() ? net->forward(x).sum() : model(x).sum(), last);
  {
    const auto apart = model.no_sync();
    refused(net->forward(x).sum(), std::to_string(rank()));
  }
  // Refusals disturb nothing, nor do passes of which the wrapper is a part, the module without gradients, and evaluation.
  static_cast<void>(model(x));
  model->zero_grad();
  {
    const torch::NoGradGuard no_grad;
    static_cast<void>(net->forward(x));
  }
  (model.forward(x).sum() + model->first->weight.square().sum()).backward();
  model->eval();
  model.forward(x).sum().backward();
  const auto gradients = all_gather_object(model->first->weight.grad().sum().item<double>());
  for (const double gradient : gradients) EXPECT_EQ(gradient, gradients.front());
}

}  // namespace
}  // namespace unisono
