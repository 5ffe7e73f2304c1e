// The loop of mmengine's Runner: training, validation whose results are collected, logs and checkpoints of one rank. mmengine_runner.py has the same
// lines in Python.
//   unisono run -n 2 -- from-mmengine_runner
#include <torch/torch.h>
#include <unisono/torch.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "pictures.h"

class Runner {
 public:
  explicit Runner(std::filesystem::path work_dir) : checkpoint_(std::move(work_dir) / "epoch_3.pth") {}

  void train() {
    for (epoch_ = 1; epoch_ <= 3; ++epoch_) {
      std::map<std::string, torch::Tensor> log{{"loss", torch::zeros({})}, {"batches", torch::zeros({})}};
      for (auto& batch : *loader_) {
        optimizer_->zero_grad();
        const torch::Tensor loss = torch::nn::functional::cross_entropy(model_(batch.data), batch.target);
        loss.backward();
        optimizer_->step();
        log["loss"] += loss.detach();
        log["batches"] += 1;
      }
      unisono::all_reduce_dict(log, unisono::ReduceOp::avg);  // op="mean"
      validate();
    }
    if (unisono::is_main_process()) torch::save(model_.module(), checkpoint_.string());  // master_only
    unisono::barrier();
    std::printf("rank %d sees the checkpoint: %s\n", unisono::rank(), std::filesystem::exists(checkpoint_) ? "yes" : "no");
  }

 private:
  void validate() {
    const torch::NoGradGuard no_grad;
    const Pictures test(99, 3);
    std::vector<bool> mine;  // sample i is of rank i % n, and 99 samples are one too few for two ranks
    for (std::int64_t i = unisono::rank(); i < 99; i += unisono::world_size())
      mine.push_back(model_(test.images.slice(0, i, i + 1)).argmax(1).item<std::int64_t>() == test.labels[i].item<std::int64_t>());
    const auto results = unisono::collect_results(mine, 99);  // on rank 0, in the order of the samples
    if (!results || epoch_ < 3) return;
    const auto right = std::count(results->begin(), results->end(), true);
    std::printf("%zu results, above 0.9: %s\n", results->size(), static_cast<double>(right) > 0.9 * 99 ? "yes" : "no");
  }

  std::filesystem::path checkpoint_;
  std::uint32_t seed_ = unisono::sync_random_seed();  // one seed, drawn by rank 0
  unisono::DataParallel<torch::nn::Sequential> model_ = unisono::auto_model(make_net());
  std::unique_ptr<torch::optim::Optimizer> optimizer_ =
      unisono::auto_optim(torch::optim::SGD(model_.parameters(), torch::optim::SGDOptions(0.02).momentum(0.9)));
  decltype(unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()), 32)) loader_ =
      unisono::auto_dataloader(Pictures(320, 2).map(torch::data::transforms::Stack<>()), 32, {.seed = seed_});
  int epoch_ = 0;
};

int main(int argc, char** argv) {
  const unisono::Context context;  // init_dist(launcher="pytorch")
  torch::set_num_threads(1);       // the ranks share the processors
  Runner(argc > 1 ? argv[1] : ".").train();
}
