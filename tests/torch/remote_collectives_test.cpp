// Collectives of tensors among workers.

#include "covers.h"
#include "remote_world.h"
#include "thrown_by.h"

namespace unisono::remote_testing {
namespace {

/// A tensor on each worker, with other elements everywhere.
RemoteTensors different(const Controller& workers, at::IntArrayRef sizes) {
  std::vector<torch::Tensor> tensors;
  for (int i = 0; i < workers.size(); ++i) tensors.push_back((torch::arange(c10::multiply_integers(sizes)).reshape(sizes) * 10 + i).to(remote(i)));
  return RemoteTensors(std::move(tensors));
}

TEST(RemoteCollectives, OneTensorIsCopiedToAllWorkers) {
  with_workers(3, [](const Controller& workers) {
    const RemoteTensors all = workers.tensor(torch::arange(4));
    ASSERT_EQ(all.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(all[i].device(), remote(static_cast<int>(i)));
      EXPECT_SAME(all[i], torch::arange(4));
    }
  });
}

TEST(RemoteCollectives, GiveWhatTheyGiveAmongRanks) {
  COVERS("T-14");
  for (const int n : {1, 2, 3, 4}) {
    with_workers(n, [n](const Controller& workers) {
      const auto base = torch::arange(6) * 10;
      std::vector<torch::Tensor> locals;
      for (int i = 0; i < n; ++i) locals.push_back(base + i);
      const auto sum = torch::stack(locals).sum(0);
      for (const auto& own : different(workers, {6}).all_reduce()) EXPECT_TRUE(torch::equal(own.cpu(), sum));
      for (const auto& own : different(workers, {6}).all_reduce(ReduceOp::max)) EXPECT_TRUE(torch::equal(own.cpu(), locals.back()));
      for (const auto& own : different(workers, {6}).broadcast(n - 1)) EXPECT_TRUE(torch::equal(own.cpu(), locals.back()));
      EXPECT_TRUE(torch::equal(different(workers, {6}).reduce(n - 1)[static_cast<std::size_t>(n) - 1].cpu(), sum));
      for (const auto& own : different(workers, {6}).all_gather()) EXPECT_TRUE(torch::equal(own.cpu(), torch::stack(locals)));
      const auto rows = torch::arange(n * 3).reshape({n, 3}) * 10;
      const auto scattered = different(workers, {n, 3}).reduce_scatter().cpu();
      const auto exchanged = different(workers, {n, 3}).all_to_all().cpu();
      for (int i = 0; i < n; ++i) {
        EXPECT_TRUE(torch::equal(scattered[static_cast<std::size_t>(i)], rows[i] * n + n * (n - 1) / 2));
        for (int j = 0; j < n; ++j) EXPECT_TRUE(torch::equal(exchanged[static_cast<std::size_t>(i)][j], rows[i] + j));
      }
    });
  }
}

TEST(RemoteCollectives, WaitForTheOperatorsBeforeThem) {
  with_workers(2, [](const Controller& workers) {
    const RemoteTensors all = workers.tensor(torch::ones({1000}));
    for (int i = 0; i < 20; ++i) {
      for (const auto& own : all) torch::Tensor(own).mul_(0.5);
      all.all_reduce();
    }
    for (const auto& own : all) EXPECT_SAME(own, torch::ones({1000}));
  });
}

TEST(RemoteCollectives, TensorsThatAreNotOneOnEachWorkerAreRefused) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor first = workers[0].tensor(torch::ones({3})), second = workers[1].tensor(torch::ones({3}));
    EXPECT_THROW(RemoteTensors({first}), InvalidArgument);
    EXPECT_THROW(RemoteTensors({second, first}), InvalidArgument);
    EXPECT_THROW(RemoteTensors({first, torch::ones({3})}), InvalidArgument);
    const RemoteTensors all({first, second});
    EXPECT_THROW(all.broadcast(2), InvalidArgument);
    EXPECT_THROW(static_cast<void>(all.all_to_all()), InvalidArgument);
    EXPECT_SAME(all.all_reduce()[0], torch::full({3}, 2.F));
  });
}

TEST(RemoteCollectives, TensorsOfAnEarlierControllerAreRefused) {
  torch::Tensor left;
  with_workers(1, [&](const Controller& workers) { left = workers[0].tensor(torch::ones({3})); });
  with_workers(1, [&](const Controller&) {
    const auto error = thrown_by<InvalidArgument>([&] { RemoteTensors({left}); });
    EXPECT_NE(std::string(error.what()).find("tensor 0 belongs to a controller that has ended"), std::string::npos) << error.what();
  });
}

TEST(RemoteCollectives, ATensorThatHasFailedLeavesThemOutOnAllWorkers) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor wrong = workers[0].tensor(torch::ones({3})).gather(0, workers[0].tensor(torch::tensor({5})));
    const torch::Tensor other = workers[1].tensor(torch::ones({1}));
    const RemoteTensors all({wrong, other});
    all.all_reduce();
    const RemoteTensors gathered = all.all_gather();
    const auto there = thrown_by<RemoteError>([&] { synchronize(remote(0)); });
    EXPECT_NE(std::string(there.what()).find("operator aten::gather on worker 0 failed"), std::string::npos) << there.what();
    const auto elsewhere = thrown_by<RemoteError>([&] { synchronize(remote(1)); });
    EXPECT_NE(std::string(elsewhere.what()).find("left out: on another worker its tensor has failed"), std::string::npos) << elsewhere.what();
    for (const auto& own : gathered) EXPECT_THROW(static_cast<void>(own.cpu()), RemoteError);
    EXPECT_SAME(other, torch::ones({1}));
    EXPECT_SAME(workers.tensor(torch::ones({3})).all_reduce()[1], torch::full({3}, 2.F));
  });
}

TEST(RemoteCollectives, DifferentTensorsAreAnErrorOnEachWorker) {
  with_workers(2, [](const Controller& workers) {
    const RemoteTensors all({workers[0].tensor(torch::ones({3})), workers[1].tensor(torch::ones({4}))});
    all.all_reduce();
    for (int i = 0; i < 2; ++i) {
      const auto error = thrown_by<RemoteError>([&] { synchronize(remote(i)); });
      EXPECT_NE(std::string(error.what()).find("a collective of tensors on worker " + std::to_string(i) + " failed"), std::string::npos)
          << error.what();
      EXPECT_EQ(error.type(), "unisono::Mismatch");
    }
    EXPECT_SAME(all[0], torch::ones({3}));
  });
}

}  // namespace
}  // namespace unisono::remote_testing
