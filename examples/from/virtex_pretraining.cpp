// virtex's pretraining loop over two machines with two processes each; virtex_pretraining.py has the same lines in Python.
//   from-virtex_pretraining MACHINE tcp://HOST_OF_MACHINE_0:PORT        on machine 0 and on machine 1, with UNISONO_TOKEN set alike
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "pictures.h"

void pretrain(int iterations) {
  torch::set_num_threads(1);  // the processes share the processors
  torch::manual_seed(0);
  auto model = unisono::auto_model(make_net());
  auto optimizer = unisono::auto_optim(torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(0.02).momentum(0.9)));
  auto loader = unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()), 32);

  double first = 0, last = 0;
  for (int iteration = 0; iteration < iterations;) {
    for (auto& batch : *loader) {
      optimizer->zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
      loss.backward();
      optimizer->step();
      if (++iteration % 10 != 0) continue;
      std::map<std::string, double> losses{{"loss", loss.item<double>()}};
      unisono::average_across_processes(losses);  // of all processes, paired by their names
      if (iteration == 10) first = losses["loss"];
      last = losses["loss"];
      if (iteration == iterations) break;
    }
  }
  unisono::synchronize();
  if (unisono::is_master_process()) std::printf("iterations: %d, the loss fell: %s\n", iterations, last < first ? "yes" : "no");
  std::printf("rank %d of %d, local %d, GPU memory: %zu MiB\n", unisono::rank(), unisono::world_size(), unisono::local_rank(),
              unisono::gpu_mem_usage());
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MACHINE tcp://HOST:PORT\n", argv[0]), 2;
  try {
    unisono::launch(pretrain, {.num_machines = 2, .num_gpus_per_machine = 2, .machine_rank = std::stoi(argv[1]), .dist_url = argv[2]}, 40);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
