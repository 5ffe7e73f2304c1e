// The main program of ignite's CIFAR-10 example, on small data; ignite_cifar10.py has the same lines in Python.
// Started alone it starts two processes; under `unisono run`, with the argument "launched", it trains in that job.
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>
#include <string_view>

#include "pictures.h"

struct Config {
  std::uint64_t seed = 543;
  std::size_t batch_size = 32;  // of all processes together
  double learning_rate = 0.02, momentum = 0.9;
  int epochs = 3;
};

double evaluate(unisono::DataParallel<torch::nn::Sequential>& model) {
  const torch::NoGradGuard no_grad;
  model->eval();
  auto loader = unisono::auto_dataloader(Pictures(100, 3).map(torch::data::transforms::Stack<>()), 20, {.shuffle = false, .exact = true});
  double right = 0;
  for (auto& batch : *loader) right += model(batch.data).argmax(1).eq(batch.target).sum().item<double>();
  model->train();
  return unisono::all_reduce(right) / 100;
}

void training(int local_rank, const Config& config) {
  torch::set_num_threads(1);  // the processes share the processors
  torch::manual_seed(config.seed + static_cast<std::uint64_t>(unisono::rank()));
  auto loader = unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()),
                                         torch::data::DataLoaderOptions(config.batch_size).drop_last(true), {.shuffle = true});
  auto model = unisono::auto_model(make_net());  // the parameters of rank 0 for all
  auto optimizer =
      unisono::auto_optim(torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(config.learning_rate).momentum(config.momentum)));

  double accuracy = 0;
  for (int epoch = 0; epoch < config.epochs; ++epoch) {
    for (auto& batch : *loader) {
      optimizer->zero_grad();
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();  // averages the gradients
      optimizer->step();
    }
    accuracy = evaluate(model);
  }
  std::printf("rank %d, local %d, of %d: accuracy above 0.9: %s\n", unisono::rank(), local_rank, unisono::world_size(),
              accuracy > 0.9 ? "yes" : "no");
}

int main(int argc, char** argv) {
  const bool is_launched = argc > 1 && std::string_view(argv[1]) == "launched";
  unisono::ParallelOptions options{.backend = "native"};
  if (!is_launched) {
    // ignite's processes are new interpreters, those of exec are new runs of the program: this one may have used LibTorch's threads before.
    options.nproc_per_node = 2;
    options.start_method = unisono::StartMethod::exec;
  }
  unisono::Parallel parallel(options);
  parallel.run(training, Config());
}
