// Data-parallel training in plain C++: every rank computes the gradient of its share of each batch, and one all_reduce averages the gradients.
// Started alone, the same program is rank 0 of 1 and trains on everything itself.
#include <unisono/unisono.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "../arguments.h"
#include "data.h"
#include "model.h"
#include "progress.h"

namespace {

constexpr std::size_t test_count = 500;
constexpr std::size_t batch_size = 32;
constexpr int epochs = 40;
constexpr float learning_rate = 0.05f;
constexpr std::uint64_t seed = 2024;

struct Split {
  std::vector<Digit> train, test;
};

Split load(const std::filesystem::path& file) {
  std::vector<Digit> all = read_digits(file);
  if (all.size() <= test_count) throw std::runtime_error(file.string() + " holds too few digits");
  Shuffler(seed).shuffle(all);
  const auto middle = all.end() - test_count;
  return {{all.begin(), middle}, {middle, all.end()}};
}

/// Trains `model` on all ranks; it is the same on every rank before and after.
void train(Model& model, const std::vector<Digit>& digits) {
  const int rank = unisono::rank();
  const int ranks = unisono::world_size();
  unisono::broadcast(model.weights());

  std::vector<std::size_t> order(digits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Shuffler shuffler(seed + 1);
  std::vector<float> gradients(model.size());
  Progress progress(epochs);

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    shuffler.shuffle(order);
    const float rate = learning_rate * (1.0f - 0.9f * static_cast<float>(epoch - 1) / epochs);
    double loss = 0.0;
    for (std::size_t start = 0; start < order.size(); start += batch_size) {
      const std::size_t batch = std::min(batch_size, order.size() - start);
      const Share mine = share_of(batch, rank, ranks);

      std::ranges::fill(gradients, 0.0f);
      for (std::size_t i = mine.begin; i < mine.end; ++i) loss += model.add_gradient(digits[order[start + i]], gradients);
      // Shares may differ in size: each rank scales by the whole batch, so that the average over the ranks is the mean over the batch.
      for (float& gradient : gradients) gradient *= static_cast<float>(ranks) / static_cast<float>(batch);
      unisono::all_reduce(gradients, unisono::ReduceOp::avg);
      model.step(gradients, rate);
    }
    const double mean_loss = unisono::all_reduce(loss) / static_cast<double>(digits.size());
    if (rank == 0) progress.epoch_done(epoch, mean_loss);
  }
}

double accuracy(const Model& model, const std::vector<Digit>& digits) {
  const Share mine = share_of(digits.size(), unisono::rank(), unisono::world_size());
  int right = 0;
  for (std::size_t i = mine.begin; i < mine.end; ++i) right += model.classify(digits[i]) == digits[i].label;
  return static_cast<double>(unisono::all_reduce(right)) / static_cast<double>(digits.size());
}

int run(const std::filesystem::path& file) {
  unisono::Context context;  // joins the job; the exception of one rank reaches the others as PeerFailed
  const auto start = std::chrono::steady_clock::now();
  const Split digits = load(file);

  Model model(seed + static_cast<std::uint64_t>(unisono::rank()));  // train() gives all ranks rank 0's
  train(model, digits.train);
  const double result = accuracy(model, digits.test);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  const std::vector<std::uint64_t> checksums = unisono::all_gather(model.checksum());
  const bool same = std::ranges::count(checksums, model.checksum()) == unisono::world_size();
  const int confirmations = unisono::all_reduce(same ? 1 : 0);

  if (unisono::rank() == 0) {
    std::printf("test accuracy: %.3f\n", result);
    std::printf("seconds: %.2f\n", seconds.count());
    std::printf("weights: checksum %016llx, confirmed by %d of %d ranks\n", static_cast<unsigned long long>(model.checksum()), confirmations,
                unisono::world_size());
  }
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, "Trains a classifier of handwritten digits.", "[digits.csv]", 1); code >= 0) return code;
  try {
    const auto beside_program = [] { return std::filesystem::read_symlink("/proc/self/exe").replace_filename("digits.csv"); };
    return run(argc == 2 ? std::filesystem::path(argv[1]) : beside_program());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
