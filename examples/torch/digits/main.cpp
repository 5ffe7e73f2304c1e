// Data-parallel training with LibTorch, which takes no more than the auto_* functions. Started alone, the same program is rank 0 of 1 and trains on
// every whole batch.
#include <unisono/torch.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "../../arguments.h"
#include "../../digits/progress.h"
#include "digits.h"

namespace {

constexpr int all_epochs = 20;
constexpr std::size_t batch_size = 32, test_count = 500;  // a batch is shared by all ranks
constexpr double learning_rate = 0.07;
constexpr std::uint64_t seed = 2024;

/// Returns the share of the test images that are recognised; every rank classifies its part of them.
double accuracy(unisono::DataParallel<Net>& model, const Digits& test) {
  const torch::NoGradGuard no_grad;
  model->eval();
  const auto mine = torch::arange(unisono::rank(), test.images.size(0), unisono::world_size());
  const torch::Tensor right = model(test.images.index({mine})).argmax(1).eq(test.labels.index({mine})).sum();
  unisono::all_reduce(right);
  return static_cast<double>(right.item<std::int64_t>()) / static_cast<double>(test.images.size(0));
}

double train(const Digits& train_set, const Digits& test_set, const std::filesystem::path& checkpoint, int epochs) {
  unisono::manual_seed_all(seed);
  auto model = unisono::auto_model(Net());
  const auto optimizer = unisono::auto_optim(
      torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(learning_rate).momentum(0.9).weight_decay(2e-3)), {.shard_state = true});
  const auto batches = unisono::auto_dataloader(Digits(train_set).map(torch::data::transforms::Stack<>()),
                                                torch::data::DataLoaderOptions(batch_size).drop_last(true), {.seed = seed});
  unisono::TrainingState state;
  if (unisono::checkpoint_exists(checkpoint)) state = unisono::load_checkpoint(checkpoint, model, *optimizer);
  batches->set_epoch(static_cast<std::uint64_t>(state.epoch));  // later epochs are counted by the loader
  Progress progress(epochs);
  while (state.epoch < epochs) {
    double loss_of_epoch = 0;
    optimizer->param_groups()[0].options().set_lr(learning_rate * (1 - static_cast<double>(state.epoch) / all_epochs));
    for (const auto& batch : *batches) {
      optimizer->zero_grad();
      const torch::Tensor loss = torch::nll_loss(model(batch.data), batch.target);
      loss.backward();
      optimizer->step();
      loss_of_epoch += loss.item<double>();
      ++state.step;
    }
    ++state.epoch;
    unisono::save_checkpoint(checkpoint, model, *optimizer, state);
    const double mean = unisono::all_reduce(loss_of_epoch, unisono::ReduceOp::avg) * batch_size / static_cast<double>(train_set.images.size(0));
    if (unisono::rank() == 0) progress.epoch_done(static_cast<int>(state.epoch), mean);
  }
  return accuracy(model, test_set);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* about =
      "Trains a convolutional network on handwritten digits, and goes on from the checkpoint where there is one.\n"
      "  checkpoint   the file that is written after every epoch (digits.checkpoint)\n"
      "  epochs       after which epoch to stop (20)";
  if (const int code = ended_by_arguments(argc, argv, about, "[checkpoint [epochs]]", 2); code >= 0) return code;
  int epochs = all_epochs;
  if (argc == 3) {
    const std::string_view text = argv[2];
    const auto [end, error] = std::from_chars(text.begin(), text.end(), epochs);
    if (error != std::errc() || end != text.end() || epochs < 1 || epochs > all_epochs) {
      std::fprintf(stderr, "digits-torch: the number of epochs is %s, and has to be one from 1 to %d\n", argv[2], all_epochs);
      return 2;
    }
  }
  try {
    const unisono::Context context;  // joins the job; the exception of one rank reaches the others as PeerFailed
    torch::set_num_threads(1);       // the ranks share the processors
    std::vector<Digit> digits = read_digits(std::filesystem::read_symlink("/proc/self/exe").replace_filename("digits.csv"));
    if (digits.size() <= test_count) throw std::runtime_error("there are too few digits");
    Shuffler(seed).shuffle(digits);
    const auto middle = digits.end() - test_count;
    const double result = train(Digits({digits.begin(), middle}), Digits({middle, digits.end()}), argc > 1 ? argv[1] : "digits.checkpoint", epochs);
    if (unisono::rank() == 0) std::printf("test accuracy: %.3f\n", result);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits-torch: %s\n", error.what());
    return 1;
  }
}
