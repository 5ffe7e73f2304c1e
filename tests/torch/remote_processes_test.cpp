// Workers that are processes of their own.

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "remote_world.h"
#include "thrown_by.h"

namespace unisono::remote_testing {
namespace {

int pid_there() { return static_cast<int>(::getpid()); }
UNISONO_REMOTE(pid_there);

TEST(RemoteProcesses, ATensorIsInTheProcessOfItsWorker) {
  const Controller workers({.workers = 2});
  EXPECT_NE(workers[1].call(pid_there).get(), ::getpid());
  torch::Tensor there = workers[1].tensor(torch::arange(200'000, torch::kFloat)), other = there.to(remote(0)) * 2;
  there.add_(other.to(remote(1)));
  EXPECT_SAME(there, torch::arange(200'000, torch::kFloat) * 3);
  torch::Tensor leaf = torch::ones({3}, remote(0)).requires_grad_();
  (leaf * 3).sum().backward();
  EXPECT_SAME(leaf.grad(), torch::full({3}, 3.F));
}

TEST(RemoteProcesses, TheDefaultDtypeIsThatOfTheController) {
  const Controller workers({.workers = 1});
  const torch::Tensor there = workers[0].tensor(torch::arange(3));
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kDouble));
  const torch::Tensor halves = there / 2;
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kFloat));
  EXPECT_SAME(halves, (torch::arange(3) / 2).to(torch::kDouble));
  EXPECT_SAME(there / 2, torch::arange(3) / 2);
}

TEST(RemoteProcesses, ADeadWorkerIsNamedAndTheOtherGoesOn) {
  const Controller workers({.workers = 2});
  const torch::Tensor there = workers[0].tensor(torch::ones({3})), other = workers[1].tensor(torch::ones({3}));
  const int pid = workers[0].call(pid_there).get();
  ::kill(pid, SIGKILL);
  const auto error = thrown_by<PeerFailed>([&] { static_cast<void>((there + 1).cpu()); });
  EXPECT_EQ(error.culprit(), 0);
  EXPECT_THROW(static_cast<void>(there + 1), PeerFailed);
  EXPECT_THROW(torch::Tensor(there).add_(1), PeerFailed);
  EXPECT_THROW(synchronize(remote(0)), PeerFailed);
  EXPECT_EQ((other + 1).sum().item<float>(), 6);
}

/// Ends the process with code 3 and the text of what f throws.
template <class F>
[[noreturn]] void end_with_error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(RemoteProcesses, AControllerThatComesAfterAutogradIsToldToComeBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        torch::ones({3}).requires_grad_().sum().backward();
        const Controller workers({.workers = 1});
        end_with_error_of([&] { static_cast<void>(workers[0].tensor(torch::ones({3}))); });
      },
      ::testing::ExitedWithCode(3), "autograd has threads for 0 devices, and the number of workers is 1.*make the controller before");
}

TEST(RemoteProcesses, AnotherBackendOfTheProgramKeepsItsPlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        c10::register_privateuse1_backend("mine");
        const Controller workers({.workers = 1});
        if (workers[0].call(pid_there).get() == ::getpid()) std::_Exit(1);
        end_with_error_of([&] { static_cast<void>(workers[0].tensor(torch::ones({3}))); });
      },
      ::testing::ExitedWithCode(3), "one backend of a program, PrivateUse1, and \"mine\" has it");
}

}  // namespace
}  // namespace unisono::remote_testing
