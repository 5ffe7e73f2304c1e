// ignite's CIFAR-10 program on Horovod: the model is not wrapped, the optimizer averages. ignite_horovod.py has the same lines in Python.
//   unisono run -n 2 -- from-ignite_horovod
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>

#include "pictures.h"

int main() {
  const unisono::Context context;  // hvd.init()
  torch::set_num_threads(1);       // the processes share the processors
  torch::manual_seed(543 + static_cast<std::uint64_t>(unisono::rank()));
  auto loader = unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions(32).drop_last(true),
                                         {.shuffle = true});
  torch::nn::Sequential model = make_net();
  for (const torch::Tensor& parameter : model->parameters())
    unisono::broadcast(parameter, 0);  // hvd.broadcast_parameters(model.state_dict(), root_rank=0)
  // hvd.DistributedOptimizer; it averages before each step, and starts with the state of rank 0.
  auto optimizer =
      unisono::auto_optim(torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9)), {.average_gradients = true});

  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& batch : *loader) {
      optimizer->zero_grad();
      torch::nn::functional::cross_entropy(model->forward(batch.data), batch.target).backward();
      optimizer->step();
    }
  }

  const torch::NoGradGuard no_grad;
  const Pictures test(100, 3);
  const double mine = model->forward(test.images).argmax(1).eq(test.labels).to(torch::kDouble).mean().item<double>();
  const double accuracy = unisono::all_reduce(mine, unisono::ReduceOp::avg);  // hvd.allreduce averages unless it is told otherwise
  std::printf("rank %d, local %d, of %d: accuracy above 0.9: %s\n", unisono::rank(), unisono::local_rank(), unisono::world_size(),
              accuracy > 0.9 ? "yes" : "no");
}
