// Workers that are processes of their own.

#include <csignal>

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

TEST(RemoteProcesses, ADeadWorkerIsNamedAndTheOtherGoesOn) {
  const Controller workers({.workers = 2});
  const torch::Tensor there = workers[0].tensor(torch::ones({3})), other = workers[1].tensor(torch::ones({3}));
  const int pid = workers[0].call(pid_there).get();
  ::kill(pid, SIGKILL);
  const auto error = thrown_by<PeerFailed>([&] { static_cast<void>((there + 1).cpu()); });
  EXPECT_EQ(error.culprit(), 0);
  EXPECT_THROW(static_cast<void>(there + 1), PeerFailed);
  EXPECT_THROW(synchronize(remote(0)), PeerFailed);
  EXPECT_EQ((other + 1).sum().item<float>(), 6);
}

}  // namespace
}  // namespace unisono::remote_testing
