// Training that goes on without a lost rank, and takes the process in that replaces it: `unisono run -n 2:4 --max-restarts 4 -- digits_elastic`.
//
// The ranks share out each batch, however many of them there are. Gradients are added up as whole numbers, whose sum does not depend on who has
// computed which part, so the weights have the same bits at the end as those of a run without a loss.
//
// With a number as its argument, that rank of the start ends itself by SIGKILL after a third of the training, and the others do not begin with the
// last third before they are complete again.
#include <unisono/unisono.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "../arguments.h"
#include "data.h"
#include "model.h"

namespace {

constexpr std::size_t test_count = 500;
constexpr std::size_t batch_size = 32;
constexpr int epochs = 30;
constexpr float learning_rate = 0.05f;
constexpr std::uint64_t seed = 2024;
constexpr double unit = 1.0 / (1LL << 36);  // of the whole numbers that stand for gradients

/// The digits in the order of an epoch, which is the same on all ranks, whenever they have come.
class Batches {
 public:
  explicit Batches(std::size_t digits) : order_(digits) { std::iota(order_.begin(), order_.end(), std::size_t{0}); }

  std::size_t per_epoch() const { return (order_.size() + batch_size - 1) / batch_size; }
  std::span<const std::size_t> of_step(std::int64_t step) {
    const auto number = static_cast<std::size_t>(step);
    for (; shuffled_ <= number / per_epoch(); ++shuffled_) shuffler_.shuffle(order_);
    const std::size_t start = number % per_epoch() * batch_size;
    return std::span(order_).subspan(start, std::min(batch_size, order_.size() - start));
  }

 private:
  std::vector<std::size_t> order_;
  Shuffler shuffler_{seed + 1};
  std::size_t shuffled_ = 0;
};

class Training {
 public:
  Training(Model& model, const std::vector<Digit>& digits) : model_(model), digits_(digits), batches_(digits.size()) {
    state.buffer("weights", model.weights()).buffer("velocity", model.velocity());
  }

  std::int64_t steps() const { return epochs * static_cast<std::int64_t>(batches_.per_epoch()); }

  /// Takes one step with all ranks of the group. What an exception interrupts has changed nothing.
  void step(const unisono::ProcessGroup& group) {
    const auto batch = batches_.of_step(state.step);
    const Share mine = share_of(batch.size(), group.rank(), group.size());
    std::vector<std::int64_t> sums(model_.size());
    std::vector<float> gradients(model_.size());
    for (std::size_t i = mine.begin; i < mine.end; ++i) {
      std::ranges::fill(gradients, 0.0f);
      model_.add_gradient(digits_[batch[i]], gradients);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += std::llround(static_cast<double>(gradients[k]) / unit);
    }
    unisono::all_reduce(sums, unisono::ReduceOp::sum, group);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      gradients[k] = static_cast<float>(static_cast<double>(sums[k]) * unit / static_cast<double>(batch.size()));
    }
    const std::int64_t epoch = state.step / static_cast<std::int64_t>(batches_.per_epoch());
    model_.step(gradients, learning_rate * (1.0f - 0.9f * static_cast<float>(epoch) / epochs));
    ++state.step;
  }

  unisono::ElasticState state;

 private:
  Model& model_;
  const std::vector<Digit>& digits_;
  Batches batches_;
};

double accuracy(const Model& model, std::span<const Digit> digits, const unisono::ProcessGroup& group) {
  const Share mine = share_of(digits.size(), group.rank(), group.size());
  int right = 0;
  for (std::size_t i = mine.begin; i < mine.end; ++i) right += model.classify(digits[i]) == digits[i].label;
  return static_cast<double>(unisono::all_reduce(right, unisono::ReduceOp::sum, group)) / static_cast<double>(digits.size());
}

int run(const std::filesystem::path& file, int rank_to_lose) {
  unisono::Context context;  // a process that replaces a lost one waits here until the others take it in
  const int first_rank = unisono::rank();
  std::vector<Digit> digits = read_digits(file);
  if (digits.size() <= test_count) throw std::runtime_error(file.string() + " holds too few digits");
  Shuffler(seed).shuffle(digits);
  const std::vector<Digit> test(digits.end() - test_count, digits.end());
  digits.resize(digits.size() - test_count);

  Model model(seed + static_cast<std::uint64_t>(first_rank));  // all ranks get the lowest one's
  Training training(model, digits);
  int size = unisono::world_size();
  const int complete = size;
  const auto group = unisono::run_elastic(training.state, [&](const unisono::ProcessGroup& members) {
    if (training.state.step == training.steps()) return false;
    if (members.size() != size && members.rank() == 0) {
      std::printf("step %lld: %d ranks instead of %d\n", static_cast<long long>(training.state.step), members.size(), size);
      std::fflush(stdout);
    }
    size = members.size();
    if (rank_to_lose >= 0) {
      if (first_rank == rank_to_lose && training.state.step == training.steps() / 3) std::raise(SIGKILL);
      if (training.state.step == training.steps() / 3 * 2 && size < complete) return true;  // nothing but a look for newcomers
    }
    training.step(members);
    return true;
  });
  const double result = accuracy(model, test, group);
  if (group.rank() == 0)
    std::printf("test accuracy: %.3f\nranks: %d\nweights: checksum %016llx\n", result, group.size(),
                static_cast<unsigned long long>(model.checksum()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, "Trains a classifier of digits, also when ranks are lost.", "[rank to lose]", 1); code >= 0)
    return code;
  try {
    return run(std::filesystem::read_symlink("/proc/self/exe").replace_filename("digits.csv"), argc == 2 ? std::atoi(argv[1]) : -1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits_elastic: %s\n", error.what());
    return 1;
  }
}
