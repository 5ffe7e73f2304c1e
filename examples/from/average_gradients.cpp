// Data-parallel training by hand, as the tutorial of 2018 did it; average_gradients.py has the same lines in Python.
//   unisono run -n 2 -- from-average_gradients
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>

#include "pictures.h"

constexpr std::int64_t batch_size = 32;  // of all ranks together

int main() {
  const unisono::Context context;  // the tutorial's init_process_group
  torch::manual_seed(1234);        // the same parameters on all ranks
  torch::set_num_threads(1);       // the ranks share the processors
  const Pictures train(320, 2);
  torch::nn::Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));

  double first = 0, last = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    double loss_of_epoch = 0;
    const torch::Tensor order = torch::randperm(320);  // alike on all ranks, by the seed; the tutorial's DataPartitioner
    for (std::int64_t begin = 0; begin < 320; begin += batch_size) {
      const torch::Tensor batch = order.slice(0, begin, begin + batch_size);
      const torch::Tensor mine = batch.chunk(unisono::world_size())[static_cast<std::size_t>(unisono::rank())];
      optimizer.zero_grad();
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(net->forward(train.images.index_select(0, mine)), train.labels.index_select(0, mine));
      loss.backward();
      unisono::average_gradients(*net);  // in one call what the tutorial spells out; auto_model does it beside the backward pass
      optimizer.step();
      loss_of_epoch += loss.item<double>();
    }
    last = unisono::all_reduce(loss_of_epoch, unisono::ReduceOp::avg);
    if (epoch == 0) first = last;
  }

  bool alike = true;
  for (const torch::Tensor& parameter : net->parameters()) {
    torch::Tensor copy = parameter.detach().clone();
    unisono::broadcast(copy, 0);
    alike = alike && torch::equal(copy, parameter);
  }
  std::printf("rank %d of %d: the loss fell: %s, parameters as on rank 0: %s\n", unisono::rank(), unisono::world_size(),
              last < first / 2 ? "yes" : "no", alike ? "yes" : "no");
}
