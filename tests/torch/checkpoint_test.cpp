// Checkpoints: a training that is resumed is the one that was never interrupted, by one rank or many, with the optimizer's state sharded or not.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <spawn.h>
#include <tuple>

#include "checkpoint_training.h"

namespace unisono::checkpoint_test {
namespace {

namespace fs = std::filesystem;

/// Ranks, a folder instead of a file, an optimizer with sharded state.
class Resumed : public testing::TestWithParam<std::tuple<int, bool, bool>> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(TorchCheckpoint, Resumed, testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool(), testing::Bool()));

TEST_P(Resumed, ResumedTrainingIsAsIfNeverInterrupted) {
  const auto [ranks, sharded, zero] = GetParam();
  const Folder folder;
  run_threads(ranks, [&, sharded = sharded, zero = zero] {
    Training reference(1, zero);
    reference.train(0, 3);
    TrainingState state{.epoch = 4, .step = 123, .sampler_epoch = 5, .batches_done = 6};
    state.values.insert({{"loss", 0.25 + rank()}, {"name", "net"}, {"best", AnyValue(std::vector<float>{1, 2, 3})}});
    save_checkpoint(folder / "state", reference.model, *reference.optimizer, state, {.sharded = sharded});
    EXPECT_TRUE(checkpoint_exists(folder / "state"));
    const auto saved = reference.tensors();
    reference.train(3, 6);

    Training resumed(70 + rank(), zero, 0.5);
    resumed.train(0, 1);
    const TrainingState loaded = load_checkpoint(folder / "state", resumed.model, *resumed.optimizer);
    EXPECT_TRUE(same(resumed.tensors(), saved));
    resumed.train(3, 6);
    EXPECT_TRUE(same(resumed.tensors(), reference.tensors()));
    EXPECT_EQ(loaded.epoch, 4);
    EXPECT_EQ(loaded.step, 123);
    EXPECT_EQ(loaded.sampler_epoch, 5U);
    EXPECT_EQ(loaded.batches_done, 6U);
    EXPECT_EQ(loaded.values.at("loss").number<double>(), 0.25);
    EXPECT_EQ(loaded.values.at("name").string(), "net");
    EXPECT_EQ(loaded.values.at("best").elements<float>()[2], 3);
  });
}

// A file loads with any number of ranks, whatever wrote it.
TEST(TorchCheckpoint, AFileLoadsAnywhere) {
  const Folder folder;
  std::vector<torch::Tensor> expected;
  run_threads(4, [&] {
    Training training(1, true);
    training.train(0, 3);
    save_checkpoint(folder / "state", training.model, *training.optimizer);
    training.train(3, 5);
    if (rank() == 0) expected = training.tensors();
  });
  for (const int ranks : {1, 2, 3}) {
    for (const bool zero : {false, true}) {
      run_threads(ranks, [&] {
        Training training(50, zero);
        load_checkpoint(folder / "state", training.model, *training.optimizer);
        training.train(3, 5);
        EXPECT_TRUE(same(training.tensors(), expected)) << ranks << (zero ? " with ZeRO" : "");
      });
    }
  }
}

TEST(TorchCheckpoint, AFolderHoldsTheOptimizerThatIsWhole) {
  const Folder folder;
  run_threads(3, [&] {
    Training plain(1), sharing(60, true);
    plain.train(0, 2);
    save_checkpoint(folder / "state", plain.model, *plain.optimizer, {}, {.sharded = true});
    load_checkpoint(folder / "state", sharing.model, *sharing.optimizer);
    plain.train(2, 4), sharing.train(2, 4);
    EXPECT_TRUE(same(plain.tensors(), sharing.tensors()));
  });
}

TEST(TorchCheckpoint, AnyKindOfModelIsSaved) {
  const Folder folder;
  run_threads(2, [&] {
    Training training(1);
    const std::shared_ptr<NetImpl> pointer = training.model.ptr();
    torch::nn::Module& module = *training.model;
    save_checkpoint(folder / "pointer", pointer);
    save_checkpoint(folder / "module", module, {.epoch = 2});
    Training other(9);
    EXPECT_EQ(load_checkpoint(folder / "module", other.model).epoch, 2);
    EXPECT_TRUE(same(other.tensors(), training.tensors()));
    Training another(9);
    load_checkpoint(folder / "pointer", static_cast<torch::nn::Module&>(*another.model));
    EXPECT_TRUE(same(another.tensors(), training.tensors()));
    // dtypes and shapes of every kind
    struct Odd : torch::nn::Module {
      explicit Odd(int seed) {
        register_buffer("scalar", torch::tensor(seed + 0.5, torch::kDouble));
        register_buffer("none", torch::empty({0, 3}));
        register_buffer("flags", torch::tensor({seed % 2 == 0, true, false}));
        register_buffer("half", (torch::arange(7) + seed).to(torch::kBFloat16));
        register_buffer("complex", torch::complex(torch::arange(3.F) + seed, torch::ones({3})));
        register_buffer("strided", (torch::arange(24, torch::kFloat) + seed).reshape({2, 3, 4}).permute({2, 0, 1}));
        register_parameter("frozen", torch::full({2}, 1.F * static_cast<float>(seed)), false);
      }
    };
    Odd odd(4), read(7);
    save_checkpoint(folder / "odd", odd, {}, {.sharded = true});
    load_checkpoint(folder / "odd", read);
    for (const auto& entry : odd.named_buffers()) EXPECT_TRUE(torch::equal(read.named_buffers()[entry.key()], entry.value())) << entry.key();
    EXPECT_TRUE(torch::equal(read.parameters()[0], odd.parameters()[0]));
  });
}

TEST(TorchCheckpoint, GeneratorsGoOnWhereTheyWere) {
  const Folder folder;
  Training training(1);
  torch::manual_seed(11);
  (void)torch::rand(5);
  save_checkpoint(folder / "state", training.model, *training.optimizer);
  const torch::Tensor next = torch::rand(5);
  torch::manual_seed(12);
  load_checkpoint(folder / "state", training.model, *training.optimizer, {.generators = false});
  EXPECT_FALSE(torch::equal(torch::rand(5), next));
  load_checkpoint(folder / "state", training.model, *training.optimizer);
  EXPECT_TRUE(torch::equal(torch::rand(5), next));
  run_threads(2, [&] {
    Training other(5);
    const torch::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
    load_checkpoint(folder / "state", other.model, *other.optimizer);  // one rank's: it is left alone
    EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
  });
}

TEST(TorchCheckpoint, SchedulersAreSteppedBeforehand) {
  const Folder folder;
  run_threads(2, [&] {
    Training reference(1, true), resumed(30, true);
    torch::optim::StepLR schedule(*reference.optimizer, 2, 0.5);
    for (int step = 0; step < 3; ++step) reference.train(step, step + 1), schedule.step();
    save_checkpoint(folder / "state", reference.model, *reference.optimizer, {.epoch = 3});
    for (int step = 3; step < 7; ++step) reference.train(step, step + 1), schedule.step();

    torch::optim::StepLR again(*resumed.optimizer, 2, 0.5);
    for (int step = 0; step < 3; ++step) again.step();
    load_checkpoint(folder / "state", resumed.model, *resumed.optimizer);
    for (int step = 3; step < 7; ++step) resumed.train(step, step + 1), again.step();
    EXPECT_TRUE(same(resumed.tensors(), reference.tensors()));
    EXPECT_EQ(resumed.optimizer->param_groups()[0].options().get_lr(), reference.optimizer->param_groups()[0].options().get_lr());
  });
}

TEST(TorchCheckpoint, AFolderKeepsOneGeneration) {
  const Folder folder;
  run_threads(2, [&] {
    Training training(1, true);
    for (int step = 0; step < 3; ++step) {
      training.train(step, step + 1);
      save_checkpoint(folder / "state", training.model, *training.optimizer, {.step = step}, {.sharded = true});
    }
    barrier();
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / "state")) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{"3.rank-0-of-2", "3.rank-1-of-2", "index"}));
  });
}

/// In a process of its own: writes more than the system lets it, and dies of that in the middle of a file.
TEST(TorchCheckpoint, DISABLED_TheProgramIsKilledWhileItWrites) {
  const char* const path = std::getenv("UNISONO_TEST_CHECKPOINT");
  ASSERT_NE(path, nullptr);
  const rlimit limit{1500, 1500};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  run_threads(2, [&] {
    Training training(5, true);
    training.train(0, 4);
    save_checkpoint(path, training.model, *training.optimizer, {.step = 4}, {.sharded = fs::is_directory(path)});
  });
}

TEST(TorchCheckpoint, KilledWhileItWritesTheOldOneIsThere) {
  const Folder folder;
  for (const bool sharded : {false, true}) {
    const fs::path path = folder / (sharded ? "folder" : "file");
    std::vector<torch::Tensor> saved;
    run_threads(2, [&] {
      Training training(1, true);
      training.train(0, 2);
      save_checkpoint(path, training.model, *training.optimizer, {.step = 2}, {.sharded = sharded});
      if (rank() == 0) saved = training.tensors();
    });
    std::string variable = "UNISONO_TEST_CHECKPOINT=" + path.string(), threads = "OMP_NUM_THREADS=1";
    char program[] = "/proc/self/exe", also[] = "--gtest_also_run_disabled_tests", filter[] = "--gtest_filter=*IsKilledWhileItWrites";
    char* arguments[] = {program, also, filter, nullptr};
    char* environment[] = {variable.data(), threads.data(), nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program, nullptr, nullptr, arguments, environment), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
    run_threads(2, [&] {
      Training training(40, true);
      EXPECT_EQ(load_checkpoint(path, training.model, *training.optimizer).step, 2);
      EXPECT_TRUE(same(training.tensors(), saved));
      training.train(2, 3);  // and what the other has left is no obstacle
      save_checkpoint(path, training.model, *training.optimizer, {.step = 3}, {.sharded = sharded});
      EXPECT_EQ(load_checkpoint(path, training.model, *training.optimizer).step, 3);
    });
  }
}

}  // namespace
}  // namespace unisono::checkpoint_test
