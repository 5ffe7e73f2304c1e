// Training with LibTorch that goes on without a lost rank, and takes the process in that replaces it:
// `unisono run -n 2:4 --max-restarts 4 -- digits-torch-elastic`.
//
// The ranks share out each batch, however many of them there are, and weigh their losses so that the sum of all is the batch's mean. So the training
// is that of one process but for the rounding of sums, whose order depends on the number of ranks.
//
// With a number as its argument, that rank of the start ends itself by SIGKILL after a third of the training, in the middle of a step, and the others
// do not begin with the last third before they are complete again.
#include <unisono/torch.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "../../arguments.h"
#include "digits.h"

namespace {

constexpr std::size_t batch_size = 32, test_count = 500;  // a batch is shared by all ranks
constexpr std::int64_t epochs = 12;
constexpr double learning_rate = 0.07;
constexpr std::uint64_t seed = 2024;

/// The images in the order of an epoch, which is the same on all ranks, whenever they have come.
class Batches {
 public:
  explicit Batches(std::int64_t images) : order_(static_cast<std::size_t>(images)) { std::iota(order_.begin(), order_.end(), std::int64_t{0}); }

  std::int64_t per_epoch() const { return static_cast<std::int64_t>((order_.size() + batch_size - 1) / batch_size); }
  std::span<const std::int64_t> of_step(std::int64_t step) {
    for (; shuffled_ <= step / per_epoch(); ++shuffled_) shuffler_.shuffle(order_);
    const std::size_t start = static_cast<std::size_t>(step % per_epoch()) * batch_size;
    return std::span(order_).subspan(start, std::min(batch_size, order_.size() - start));
  }

 private:
  std::vector<std::int64_t> order_;
  Shuffler shuffler_{seed + 1};
  std::int64_t shuffled_ = 0;
};

/// Returns the part of a batch that belongs to this rank.
torch::Tensor share_of_rank(std::span<const std::int64_t> batch, const unisono::ProcessGroup& group) {
  const Share mine = share_of(batch.size(), group.rank(), group.size());
  return torch::tensor(at::ArrayRef<std::int64_t>(batch.data() + mine.begin, mine.end - mine.begin), torch::kLong);
}

class Training {
 public:
  Training(Net net, const Digits& images) : images_(images), batches_(images.images.size(0)), optimizer_(net->parameters(), options()) {
    unisono::add_training(state, net, optimizer_);
  }

  std::int64_t steps() const { return epochs * batches_.per_epoch(); }

  /// Takes one step with all ranks of the model's group. What an exception interrupts has changed nothing but gradients.
  template <class InTheMiddle>
  void step(unisono::DataParallel<Net>& model, const InTheMiddle& in_the_middle) {
    const auto batch = batches_.of_step(state.step);
    const torch::Tensor mine = share_of_rank(batch, model.group());
    optimizer_.zero_grad();
    const torch::Tensor sum = torch::nll_loss(model(images_.images.index({mine})), images_.labels.index({mine}), {}, at::Reduction::Sum);
    in_the_middle();
    (sum * (static_cast<double>(model.group().size()) / static_cast<double>(batch.size()))).backward();  // averages the gradients over the ranks
    const std::int64_t epoch = state.step / batches_.per_epoch();
    optimizer_.param_groups()[0].options().set_lr(learning_rate * (1 - static_cast<double>(epoch) / epochs));
    optimizer_.step();
    ++state.step;
  }

  unisono::ElasticState state;

 private:
  static torch::optim::SGDOptions options() { return torch::optim::SGDOptions(learning_rate).momentum(0.9).weight_decay(2e-3); }

  const Digits& images_;
  Batches batches_;
  torch::optim::SGD optimizer_;
};

/// Returns the share of the test images that are recognised; every rank classifies its part of them.
double accuracy(Net& net, const Digits& test, const unisono::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const auto mine = torch::arange(group.rank(), test.images.size(0), group.size());
  const torch::Tensor right = net(test.images.index({mine})).argmax(1).eq(test.labels.index({mine})).sum();
  unisono::all_reduce(right, unisono::ReduceOp::sum, group);
  return static_cast<double>(right.item<std::int64_t>()) / static_cast<double>(test.images.size(0));
}

/// Returns a checksum of every bit of the weights (FNV-1a).
std::uint64_t checksum(const Net& net) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const torch::Tensor& parameter : net->parameters()) {
    const torch::Tensor elements = parameter.detach().contiguous();
    const std::span bytes(static_cast<const unsigned char*>(elements.const_data_ptr()), elements.nbytes());
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
  }
  return hash;
}

void run(const std::filesystem::path& file, std::optional<int> rank_to_lose) {
  unisono::Context context;   // a process that replaces a lost one waits here until the others take it in
  torch::set_num_threads(1);  // the ranks share the processors
  const int first_rank = unisono::rank();
  std::vector<Digit> digits = read_digits(file);
  if (digits.size() <= test_count) throw std::runtime_error(file.string() + " holds too few digits");
  Shuffler(seed).shuffle(digits);
  const auto middle = digits.end() - test_count;
  const Digits train_set({digits.begin(), middle}), test_set({middle, digits.end()});

  torch::manual_seed(seed + static_cast<std::uint64_t>(first_rank));  // all ranks get the weights of the lowest one
  Net net;
  Training training(net, train_set);
  int size = unisono::world_size();
  const int complete = size;
  bool is_of_the_start = false;
  const auto group = unisono::train_elastic(training.state, net, [&](unisono::DataParallel<Net>& model) {
    const auto& members = model.group();
    if (training.state.step == training.steps()) return false;
    if (members.size() != size && members.rank() == 0) {
      std::printf("step %lld: %d ranks instead of %d\n", static_cast<long long>(training.state.step), members.size(), size);
      std::fflush(stdout);
    }
    size = members.size();
    is_of_the_start |= training.state.step == 0;
    const bool is_lost_now = rank_to_lose && is_of_the_start && first_rank == *rank_to_lose && training.state.step == training.steps() / 3;
    if (rank_to_lose && training.state.step == training.steps() / 3 * 2 && size < complete) return true;  // nothing but a look for newcomers
    training.step(model, [&] {
      if (is_lost_now) std::raise(SIGKILL);
    });
    return true;
  });
  const double result = accuracy(net, test_set, group);
  std::printf("weights: checksum %016llx\n", static_cast<unsigned long long>(checksum(net)));
  if (group.rank() == 0) std::printf("test accuracy: %.3f\nranks: %d\n", result, group.size());
}

/// Returns the number that the text is; -1 where it is none.
int number_of(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  return error == std::errc() && end == text.end() ? number : -1;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* about =
      "Trains a convolutional network on handwritten digits, also when ranks are lost.\n"
      "  rank to lose   a rank of the start that ends itself by SIGKILL after a third of the training";
  if (const int code = ended_by_arguments(argc, argv, about, "[rank to lose]", 1); code >= 0) return code;
  const int rank_to_lose = argc == 2 ? number_of(argv[1]) : 0;
  if (rank_to_lose < 0) {
    std::fprintf(stderr, "digits-torch-elastic: the rank to lose is %s, and has to be a number\n", argv[1]);
    return 2;
  }
  try {
    run(std::filesystem::read_symlink("/proc/self/exe").replace_filename("digits.csv"), argc == 2 ? std::optional(rank_to_lose) : std::nullopt);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits-torch-elastic: %s\n", error.what());
    return 1;
  }
}
