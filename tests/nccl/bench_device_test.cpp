// Measurements in memory of devices, on the stand-in and among ranks that are threads.

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>

#include "fake_vendor.h"
#include "harness/session.h"
#include "peers/nccl.h"
#include "unit/bench/arena_file.h"
#include "unisono/error.h"

namespace unisono::bench {
namespace {

using namespace std::chrono_literals;

Plan plan_for(int ranks) {
  return {.operations = {Operation::all_reduce}, .sizes = {4, 100, 20'000}, .ranks = ranks, .on_device = true, .block_time = 100us, .timeout = 30s};
}

/// A rank's part of a test: its device, and candidates that it adds to.
using Body = std::function<void(int rank, BenchDevice& device, Candidates& candidates, const std::function<std::vector<Block>()>& measure)>;

/// Runs `body` on every rank; afterwards nothing is left, and nothing was misused.
void run_ranks(const Plan& plan, const Body& body) {
  fake::reset(plan.ranks);
  {
    const ArenaFile file(plan.ranks);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < plan.ranks; ++rank)
      threads.emplace_back([&, rank] {
        Arena arena(file.path(), rank, plan.ranks, false, plan.timeout);
        BenchDevice device(fake::vendor(), rank, plan.timeout);
        Candidates candidates;
        body(rank, device, candidates, [&] { return Session(plan, arena, candidates, &device).round(0); });
      });
  }
  EXPECT_EQ(fake::misuse(), "");
  EXPECT_EQ(fake::leftovers(), 0);
}

TEST(BenchDevice, NcclIsMeasuredInTheCollectivesThatItHas) {
  for (const auto& [ranks, dtype] : {std::pair(1, DType::float32), std::pair(2, DType::bfloat16), std::pair(3, DType::int64)}) {
    Plan plan = plan_for(ranks);
    plan.dtype = dtype;
    plan.data = ranks == 2 ? DataMode::varying : DataMode::constant;
    plan.operations.assign(operations().begin(), operations().end());
    const auto store = std::make_shared<MemoryStore>();
    run_ranks(plan, [&, ranks = ranks](int rank, BenchDevice&, Candidates& candidates, const auto& measure) {
      candidates.push_back(nccl_candidate(fake::vendor(), {.rank = rank, .ranks = ranks}, store, plan.timeout));
      std::set<std::string_view> measured;
      for (const Block& block : measure()) {
        measured.insert(to_string(block.operation));
        EXPECT_EQ(block.samples_ns.size() >= 5, rank == 0);
      }
      EXPECT_EQ(measured, (std::set<std::string_view>{"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
                                                      "all_to_all", "gather_v", "scatter_v", "all_to_all_v"}));
    });
  }
}

TEST(BenchDevice, CallsOnADeviceAreTimedInRows) {
  Plan plan = plan_for(1);
  plan.sizes = {20'000};
  plan.block_time = 3ms;
  run_ranks(plan, [&](int, BenchDevice&, Candidates& candidates, const auto& measure) {
    candidates.push_back(nccl_candidate(fake::vendor(), {.rank = 0, .ranks = 1}, std::make_shared<MemoryStore>(), plan.timeout));
    const std::vector<Block> blocks = measure();
    ASSERT_EQ(blocks.size(), 1U);
    constexpr std::size_t least_of_a_row = 4;
    EXPECT_GE(static_cast<std::size_t>(fake::calls("ncclAllReduce")), least_of_a_row * blocks.front().samples_ns.size());
  });
}

/// An all_reduce of one rank, by copies of the device, right or with a flaw.
class CopyCandidate final : public Candidate {
 public:
  enum class Flaw { none, last_element, behind_the_buffer, before_the_buffer };
  CopyCandidate(BenchDevice& device, Flaw flaw) : device_(device), flaw_(flaw) {}
  std::string_view name() const override { return "copy"; }
  bool supports(Operation operation, DType) const override { return operation == Operation::all_reduce; }
  void select(const Job& job) override { job_ = job; }
  void call() override {
    EXPECT_EQ(job_.device, device_.place());
    const std::size_t bytes = job_.shape.in * size_of(job_.dtype);
    auto* const out = static_cast<std::byte*>(job_.out);
    if (flaw_ != Flaw::last_element) device_.copy(out, job_.in, bytes);
    else device_.copy(out, job_.in, bytes - size_of(job_.dtype));
    if (flaw_ == Flaw::behind_the_buffer) device_.copy(out + bytes, job_.in, 1);
    if (flaw_ == Flaw::before_the_buffer) device_.copy(out - 1, job_.in, 1);
  }

 private:
  BenchDevice& device_;
  Flaw flaw_;
  Job job_ = {};
};

TEST(BenchDevice, AFlawInMemoryOfADeviceEndsTheRun) {
  using enum CopyCandidate::Flaw;
  for (const auto flaw : {none, last_element, behind_the_buffer, before_the_buffer}) {
    run_ranks(plan_for(1), [&](int, BenchDevice& device, Candidates& candidates, const auto& measure) {
      candidates.push_back(std::make_unique<CopyCandidate>(device, flaw));
      if (flaw == none) EXPECT_EQ(measure().size(), 3U);
      else EXPECT_THROW(measure(), WrongResult);
    });
  }
}

TEST(BenchDevice, RanksShareDevicesIfThereAreFewer) {
  fake::reset(2);
  for (const int rank : {0, 1, 2}) {
    const BenchDevice device(fake::vendor(), rank, 1s);
    EXPECT_EQ(device.place(), (Device{.type = Device::Type::cuda, .index = rank % 2}));
    EXPECT_EQ(fake::current_device(), rank % 2);
  }
}

TEST(BenchDevice, ADeviceThatDoesNothingIsATimeout) {
  fake::reset(1);
  {
    BenchDevice device(fake::vendor(), 0, 1s);
    std::byte* const memory = device.allocate(16);
    fake::stall(true);
    device.copy(memory, memory + 8, 8);
    EXPECT_THROW(device.synchronise(), Timeout);
    fake::stall(false);
    EXPECT_NO_THROW(device.synchronise());
  }
  EXPECT_EQ(fake::leftovers(), 0);
}

}  // namespace
}  // namespace unisono::bench
