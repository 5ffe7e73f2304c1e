// ignite's CIFAR-10 program on XLA: batches go to the device as they are loaded, and the step reduces the gradients. ignite_xla.py has the same lines
// in Python. C++ has no XLA: this program takes the device that there is, a GPU or the processor.
//   unisono run -n 2 -- from-ignite_xla
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>

#include "pictures.h"

int main() {
  const unisono::Context context;
  torch::set_num_threads(1);  // the processes share the processors
  const torch::Device device = unisono::torch_device(unisono::device());
  unisono::manual_seed_all(543);  // the same parameters on all ranks, which no wrapper sends
  torch::nn::Sequential model = make_net();
  model->to(device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  auto loader = unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions(32).drop_last(true),
                                         {.shuffle = true});

  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& batch : *loader) {
      const torch::Tensor x = batch.data.to(device), y = batch.target.to(device);  // what MpDeviceLoader does
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model->forward(x), y).backward();
      unisono::average_gradients(*model);  // xm.optimizer_step reduces and steps
      optimizer.step();
    }
  }

  const torch::NoGradGuard no_grad;
  const Pictures test(100, 3);
  const auto right = model->forward(test.images.to(device)).argmax(1).eq(test.labels.to(device)).sum().item<std::int64_t>();
  const double accuracy = static_cast<double>(unisono::all_reduce(right)) / (100.0 * unisono::world_size());
  std::printf("rank %d, local %d, of %d: accuracy above 0.9: %s\n", unisono::rank(), unisono::local_rank(), unisono::world_size(),
              accuracy > 0.9 ? "yes" : "no");
}
