// Tensors on workers: what operators make of them, compared with the same on the cpu.

#include <sstream>

#include "covers.h"
#include "remote_world.h"

namespace unisono::remote_testing {
namespace {

torch::Tensor numbers() { return torch::arange(6, torch::kFloat).reshape({2, 3}); }

TEST(RemoteTensors, TravelThereAndBackAsTheyAre) {
  COVERS("T-14");
  with_workers(2, [](const Controller& workers) {
    for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kLong, torch::kBool, torch::kHalf, torch::kBFloat16, torch::kComplexFloat}) {
      const auto local = torch::arange(30).reshape({5, 6}).to(dtype);
      const torch::Tensor there = workers[1].tensor(local);
      EXPECT_EQ(there.device(), remote(1));
      EXPECT_SAME(there, local);
      EXPECT_TRUE(torch::equal(there.t().cpu(), local.t()));
    }
    const auto large = torch::randn({300, 301});
    EXPECT_SAME(large.to(remote(0)), large);
    EXPECT_SAME(torch::empty({0, 3}).to(remote(0)), torch::empty({0, 3}));
    EXPECT_SAME(torch::tensor(7).to(remote(0)), torch::tensor(7));
  });
}

TEST(RemoteTensors, ATensorMayBeChangedAsSoonAsItIsOnItsWay) {
  with_workers(1, [](const Controller& workers) {
    auto local = torch::ones({100'000});
    const torch::Tensor there = workers[0].tensor(local);
    local.zero_();
    EXPECT_EQ(there.sum().item<float>(), 100'000);
  });
}

TEST(RemoteTensors, FactoriesMakeThemOnTheDeviceThatIsNamedOrGuarded) {
  with_workers(2, [](const Controller&) {
    EXPECT_SAME(torch::zeros({2, 2}, remote(1)), torch::zeros({2, 2}));
    EXPECT_SAME(torch::full({3}, 2.5, remote(1)), torch::full({3}, 2.5));
    EXPECT_SAME(torch::arange(2, 9, 3, torch::TensorOptions(remote(0)).dtype(torch::kInt)), torch::arange(2, 9, 3, torch::kInt));
    EXPECT_SAME(torch::eye(3, remote(0)), torch::eye(3));
    EXPECT_SAME(torch::linspace(0, 1, 5, remote(0)), torch::linspace(0, 1, 5));
    const c10::DeviceGuard guard(remote(1));
    EXPECT_EQ(torch::ones({2}, torch::Device("remote")).device(), remote(1));
    EXPECT_EQ(torch::ones_like(torch::ones({2}, remote(0))).device(), remote(0));
  });
}

TEST(RemoteTensors, OperatorsGiveWhatTheyGiveOnTheCpu) {
  with_workers(1, [](const Controller& workers) {
    const auto a = torch::randn({4, 5}), b = torch::randn({5, 4}), c = torch::randn({4, 5});
    const torch::Tensor x = workers[0].tensor(a), y = workers[0].tensor(b), z = workers[0].tensor(c);
    EXPECT_SAME(x.mm(y), a.mm(b));
    EXPECT_SAME((x + z * 2 - 1).relu().sum(1), (a + c * 2 - 1).relu().sum(1));
    EXPECT_SAME(torch::softmax(x, 1), torch::softmax(a, 1));
    EXPECT_SAME(torch::cat({x, z}, 1), torch::cat({a, c}, 1));
    EXPECT_SAME(torch::stack({x, z}), torch::stack({a, c}));
    EXPECT_SAME(torch::where(x > 0, x, z), torch::where(a > 0, a, c));
    EXPECT_SAME(std::get<1>(x.sort(1)), std::get<1>(a.sort(1)));
    EXPECT_SAME(std::get<0>(torch::linalg_qr(x)), std::get<0>(torch::linalg_qr(a)));
    EXPECT_SAME(x.to(torch::kDouble) / 3, a.to(torch::kDouble) / 3);
    EXPECT_SAME(torch::einsum("ij,kj->ik", {x, z}), torch::einsum("ij,kj->ik", {a, c}));
    EXPECT_SAME(x.clone(torch::MemoryFormat::Contiguous).cumsum(0), a.cumsum(0));
    EXPECT_SAME(torch::conv1d(x.reshape({1, 4, 5}), z.reshape({2, 2, 5}).repeat({1, 2, 1})),
                torch::conv1d(a.reshape({1, 4, 5}), c.reshape({2, 2, 5}).repeat({1, 2, 1})));
    const torch::Tensor scalar = torch::tensor(2.5);
    EXPECT_SAME(x * scalar, a * scalar);
  });
}

TEST(RemoteTensors, ViewsShareTheElements) {
  with_workers(1, [](const Controller& workers) {
    auto local = numbers();
    const torch::Tensor there = workers[0].tensor(local);
    for (const torch::Tensor& t : {local, there}) {
      t.t()[1].add_(10);
      t.view({3, 2}).select(0, 2).mul_(2);
      t.as_strided({2}, {4}, 1).neg_();
      t.unfold(1, 2, 1).select(2, 0).sub_(1);
      t.slice(1, 0, 2).copy_(t.slice(1, 1, 3).clone());
      t.diagonal().zero_();
      t.unsqueeze(0).expand({1, 2, 3}).squeeze().narrow(1, 2, 1).fill_(4);
    }
    EXPECT_SAME(there, local);
    EXPECT_TRUE(there.t().is_alias_of(there));
  });
}

TEST(RemoteTensors, TensorsThatAnOperatorWritesIntoAreWrittenOnTheWorker) {
  with_workers(1, [](const Controller& workers) {
    auto local = numbers();
    torch::Tensor there = workers[0].tensor(local);
    there.add_(1).mul_(there).clamp_(2, 20);
    local.add_(1).mul_(local).clamp_(2, 20);
    EXPECT_SAME(there, local);
    torch::Tensor small = torch::empty({0}, remote(0)), fitting = torch::empty({3, 3}, remote(0)), strided = torch::empty({3, 3}, remote(0)).t();
    const auto product = local.t().mm(local);
    for (torch::Tensor& out : std::vector<torch::Tensor>{small, fitting, strided}) {
      torch::mm_out(out, there.t(), there);
      EXPECT_TRUE(torch::equal(out.cpu(), product));
    }
    EXPECT_EQ(small.sizes(), (std::vector<std::int64_t>{3, 3}));
    there.resize_({4, 4});
    there.zero_();
    EXPECT_SAME(there, torch::zeros({4, 4}));
    there[0][1] = 5;
    EXPECT_EQ(there.sum().item<float>(), 5);
  });
}

TEST(RemoteTensors, ShapesThatDependOnElementsAreAskedFor) {
  with_workers(1, [](const Controller& workers) {
    const auto local = torch::tensor({3, 0, 3, 5, 0, 1});
    const torch::Tensor there = workers[0].tensor(local);
    EXPECT_SAME(there.nonzero(), local.nonzero());
    EXPECT_SAME(there.masked_select(there > 1), local.masked_select(local > 1));
    EXPECT_SAME(there.index({there > 1}), local.index({local > 1}));
    EXPECT_SAME(std::get<0>(torch::_unique2(there)), std::get<0>(torch::_unique2(local)));
    EXPECT_SAME(there.index({torch::tensor({1, 4})}), local.index({torch::tensor({1, 4})}));
    EXPECT_SAME(torch::bincount(there), torch::bincount(local));
    EXPECT_EQ(there.max().item<std::int64_t>(), 5);
    EXPECT_TRUE(there.equal(there.clone()));
    EXPECT_FALSE(there.equal(there + 1));
    torch::Tensor written = there.clone();
    written.index_put_({written > 1}, torch::tensor(9));
    EXPECT_SAME(written, torch::tensor({9, 0, 9, 9, 0, 1}));
    // The same operator on the same shapes, with other elements.
    EXPECT_SAME((there * 0).nonzero(), (local * 0).nonzero());
    EXPECT_SAME((there + 1).nonzero(), (local + 1).nonzero());
  });
}

TEST(RemoteTensors, LazyConjugatesAreResolvedThere) {
  with_workers(1, [](const Controller& workers) {
    const auto local = torch::randn({3, 3}, torch::kComplexDouble);
    const torch::Tensor there = workers[0].tensor(local);
    EXPECT_TRUE(torch::equal(there.conj().cpu(), local.conj()));
    EXPECT_SAME(there.conj().mm(there), local.conj().mm(local));
    EXPECT_SAME(there.conj().resolve_conj(), local.conj().resolve_conj());
    EXPECT_TRUE(torch::equal(torch::imag(there.conj()).cpu(), torch::imag(local.conj())));
    torch::Tensor target = torch::zeros({3, 3}, torch::TensorOptions(remote(0)).dtype(torch::kComplexDouble));
    target.conj().copy_(local);
    EXPECT_TRUE(torch::equal(target.cpu(), local.conj().resolve_conj()));
  });
}

TEST(RemoteTensors, MoveFromWorkerToWorker) {
  with_workers(3, [](const Controller& workers) {
    const auto local = torch::randn({50, 60});
    const torch::Tensor there = workers[0].tensor(local);
    const torch::Tensor moved = (there + 1).to(remote(2));
    EXPECT_EQ(moved.device(), remote(2));
    EXPECT_SAME(moved, local + 1);
    EXPECT_TRUE(torch::equal(there.t().to(remote(1)).cpu(), local.t()));
    torch::Tensor part = torch::zeros({50, 120}, torch::TensorOptions(remote(1)).dtype(torch::kDouble));
    part.slice(1, 0, 120, 2).copy_(moved);
    EXPECT_TRUE(torch::equal(part.slice(1, 0, 120, 2).cpu(), (local + 1).to(torch::kDouble)));
    EXPECT_EQ(part.slice(1, 1, 120, 2).abs().sum().item<double>(), 0);
    // Crossing transfers, without a word between.
    std::vector<torch::Tensor> ring;
    for (int i = 0; i < 3; ++i) ring.push_back(torch::full({20'000}, static_cast<float>(i), remote(i)));
    for (int round = 0; round < 5; ++round) {
      std::vector<torch::Tensor> next;
      for (int i = 0; i < 3; ++i) next.push_back(ring[static_cast<std::size_t>((i + 2) % 3)].to(remote(i)) + 1);
      ring = next;
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring[static_cast<std::size_t>(i)].mean().item<float>(), static_cast<float>((i + 10) % 3 + 5));
  });
}

TEST(RemoteTensors, RandomNumbersAreThoseOfAProcessWithTheSameSeed) {
  with_processes(1, [](const Controller&) {
    const auto drawn = [](const torch::Device& device) {
      torch::manual_seed(11);
      torch::Tensor x = torch::randn({5}, device);
      x = torch::cat({x, torch::rand({5}, device), torch::empty({5}, device).bernoulli_(0.5), torch::randperm(5, device).to(torch::kFloat)});
      return torch::cat({x, torch::dropout(torch::ones({20}, device), 0.3, true)}).cpu();
    };
    EXPECT_TRUE(torch::allclose(drawn(torch::kCPU), drawn(remote(0))));
    manual_seed(12);
    const auto after = torch::randn({3}, remote(0)).cpu();
    torch::manual_seed(12);
    EXPECT_TRUE(torch::equal(after, torch::randn({3})));
  });
}

TEST(RemoteTensors, AGeneratorOfAWorkerHasAStateOfItsOwn) {
  with_processes(2, [](const Controller&) {
    auto generator = at::globalContext().defaultGenerator(remote(1));
    generator.set_current_seed(5);
    const auto state = generator.get_state();
    const auto first = torch::randn({4}, generator, remote(1)).cpu();
    const auto second = torch::randn({4}, generator, remote(1)).cpu();
    EXPECT_FALSE(torch::equal(first, second));
    generator.set_state(state);
    EXPECT_TRUE(torch::equal(torch::randn({4}, generator, remote(1)).cpu(), first));
    auto copy = generator.clone();
    EXPECT_TRUE(torch::equal(torch::randn({4}, copy, remote(1)).cpu(), second));
    EXPECT_TRUE(torch::equal(torch::randn({4}, generator, remote(1)).cpu(), second));
  });
}

TEST(RemoteTensors, ArgumentsOfCallsAreTheTensorsThere) {
  with_workers(2, [](const Controller& workers) {
    const torch::Tensor there = workers[1].tensor(numbers());
    EXPECT_EQ(workers[1].call(sum_there, there).get(), 15);
    workers[1].call(add_there, there.t()[0], 2.0).get();
    EXPECT_EQ(workers[1].call(sum_there, there * 2).get(), 38);
    EXPECT_TRUE(torch::equal(there.select(1, 0).cpu(), torch::tensor({2.F, 5.F})));
  });
}

TEST(RemoteTensors, RemoteTensorsAreSavedAndLoadedWithTheirElements) {
  with_workers(2, [](const Controller& workers) {
    std::stringstream file;
    torch::save(std::vector{workers[1].tensor(numbers()), workers[1].tensor(numbers()).t()}, file);
    std::vector<torch::Tensor> loaded;
    torch::load(loaded, file, torch::Device(torch::kCPU));
    ASSERT_EQ(loaded.size(), 2u);
    EXPECT_TRUE(torch::equal(loaded[0], numbers()));
    EXPECT_TRUE(torch::equal(loaded[1], numbers().t()));
    file.seekg(0);
    std::vector<torch::Tensor> there;
    torch::load(there, file, remote(0));
    EXPECT_SAME(there[0], numbers());
  });
}

TEST(RemoteTensors, RemoteTensorsArePrintedWithTheirElements) {
  with_workers(1, [](const Controller& workers) {
    std::ostringstream out;
    out << workers[0].tensor(numbers());
    EXPECT_NE(out.str().find("3  4  5"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("remoteFloatType{2,3}"), std::string::npos) << out.str();
  });
}

}  // namespace
}  // namespace unisono::remote_testing
