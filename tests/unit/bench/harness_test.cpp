// The parts of the bench that decide whether a result is right and what is said of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "harness/arena.h"
#include "harness/buffers.h"
#include "harness/operations.h"
#include "harness/plan.h"
#include "harness/statistics.h"
#include "unisono/error.h"

namespace unisono::bench {
namespace {

TEST(BenchStatistics, MedianAndQuantilesAreExact) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_EQ(quantile(hundred, 0.99), 99);
  EXPECT_EQ(quantile(hundred, 1), 100);
  EXPECT_EQ(quantile(hundred, 0), 1);
}

TEST(BenchStatistics, IntervalOfTheMedianHoldsItAndIgnoresAnOutlier) {
  const Interval interval = median_interval({2.0, 2.1, 1.9, 2.05, 2.2, 1.95, 2.0, 2.1, 1.9, 2.0, 50});
  EXPECT_EQ(interval.middle, 2.0);
  EXPECT_LE(interval.low, interval.middle);
  EXPECT_GE(interval.high, interval.middle);
  EXPECT_GE(interval.low, 1.9);
  EXPECT_LE(interval.high, 2.2);
  const Interval lone = median_interval({7});
  EXPECT_EQ(lone.low, 7);
  EXPECT_EQ(lone.high, 7);
}

TEST(BenchStatistics, DrawsAreTheSameForTheSameSeed) {
  Draws a(5), b(5), c(6);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t x = a.next();
    EXPECT_EQ(x, b.next());
    EXPECT_NE(x, c.next());
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 100U);
}

TEST(BenchStamps, ACallOfRanksThatShareProcessorsBeginsWithTheFirst) {
  const std::vector<Stamp> of_ranks{{.begin = 100, .end = 150}, {.begin = 180, .end = 300}, {.begin = 120, .end = 160}};
  EXPECT_EQ(duration_ns(of_ranks, false), 120.0);  // from 180
  EXPECT_EQ(duration_ns(of_ranks, true), 200.0);   // from 100
}

TEST(BenchOperations, NamesComeBack) {
  for (Operation operation : operations()) EXPECT_EQ(parse_operation(to_string(operation)), operation);
  EXPECT_FALSE(parse_operation("copy"));
  EXPECT_FALSE(parse_operation("all-reduce"));
}

TEST(BenchOperations, SizeIsTheLargerBufferInWholeBlocks) {
  EXPECT_EQ(shape_of(Operation::all_reduce, 3, 64, 4).in, 16U);
  const Shape gathered = shape_of(Operation::all_gather, 3, 64, 4);
  EXPECT_EQ(gathered.in, 5U);
  EXPECT_EQ(gathered.out, 15U);
  EXPECT_EQ(bytes_of(gathered, 4), 60U);
  const Shape scattered = shape_of(Operation::reduce_scatter, 4, 1, 8);
  EXPECT_EQ(scattered.in, 4U);
  EXPECT_EQ(scattered.out, 1U);
  EXPECT_EQ(bytes_of(shape_of(Operation::barrier, 4, 64, 4), 4), 0U);
}

TEST(BenchOperations, UnevenBlocksGrowWithTheRank) {
  EXPECT_EQ(uneven_blocks(2, 2), (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(uneven_blocks(302, 2), (std::vector<std::size_t>{101, 201}));
  EXPECT_EQ(uneven_blocks(1003, 3), (std::vector<std::size_t>{167, 335, 501}));
  EXPECT_EQ(uneven_exchange(1003, 3, 1), (std::vector<std::size_t>{335, 501, 167}));
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t elements : {std::size_t{9}, std::size_t{10}, std::size_t{1000}, std::size_t{12'345}}) {
      const auto blocks = uneven_blocks(elements, ranks);
      EXPECT_EQ(std::accumulate(blocks.begin(), blocks.end(), std::size_t{0}), elements);
      EXPECT_GE(*std::ranges::min_element(blocks), 1U);
      EXPECT_TRUE(std::ranges::is_sorted(blocks) || elements < 100U);
      for (int from = 0; from < ranks; ++from)  // what one sends is what the other receives
        for (int to = 0; to < ranks; ++to)
          EXPECT_EQ(uneven_exchange(elements, ranks, from)[static_cast<std::size_t>(to)],
                    uneven_exchange(elements, ranks, to)[static_cast<std::size_t>(from)]);
    }
  }
  const Shape gathered = shape_of(Operation::gather_v, 3, 4012, 4, 1);
  EXPECT_EQ(gathered.in, 335U);
  EXPECT_EQ(gathered.out, 1003U);
  EXPECT_EQ(bytes_of(gathered, 4), 4012U);
  EXPECT_EQ(shape_of(Operation::scatter_v, 3, 4012, 4, 2).out, 501U);
}

TEST(BenchOperations, AWindowHasSoManyPlacesAsFitIntoAMebibyte) {
  EXPECT_EQ(shape_of(Operation::bandwidth, 2, 8, 4).in, 2U * 64U);
  EXPECT_EQ(shape_of(Operation::bandwidth, 2, 1 << 16, 4).in, (1U << 14) * 16U);
  const Shape large = shape_of(Operation::bidirectional, 2, 4 << 20, 4);
  EXPECT_EQ(large.out, 1U << 20);
  EXPECT_EQ(bytes_of(large, 4), std::size_t{4} << 20) << "the size is that of a message";
  EXPECT_EQ(partner_of(4, 5), std::nullopt);
  EXPECT_EQ(partner_of(3, 5), 2);
  EXPECT_EQ(partner_of(2, 5), 3);
}

TEST(BenchOperations, BusFactorsAreThoseOfTheOperations) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::reduce_scatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::broadcast, 4), 1);
}

TEST(BenchPlan, APlanSurvivesTheWayToTheRanks) {
  const Plan plan{.operations = {Operation::scatter, Operation::barrier},
                  .sizes = {8, 1 << 20},
                  .dtype = DType::bfloat16,
                  .data = DataMode::touch,
                  .candidates = {"unisono", "gloo"},
                  .mpi = {.name = "openmpi-5", .library = "/x/libmpi.so.40"},
                  .backend = "native",
                  .ranks = 7,
                  .hosts = 3,
                  .in_place = true,
                  .reports = {"counts"},
                  .bind = false,
                  .seed = 99,
                  .block_time = std::chrono::microseconds(17),
                  .timeout = std::chrono::milliseconds(18),
                  .folder = "/a \"b\"",
                  .arena = "c"};
  const Plan back = plan_from_json(to_json(plan));
  EXPECT_EQ(to_json(back), to_json(plan));
  EXPECT_EQ(back.operations, plan.operations);
  EXPECT_EQ(back.dtype, plan.dtype);
  EXPECT_EQ(back.hosts, plan.hosts);
  EXPECT_TRUE(back.reports_on("counts"));
  EXPECT_FALSE(back.reports_on("progress"));
  EXPECT_EQ(back.data, plan.data);
  EXPECT_EQ(back.folder, plan.folder);
  EXPECT_EQ(back.timeout, plan.timeout);
}

TEST(BenchPlan, DtypesHaveShortAndLongNames) {
  EXPECT_EQ(parse_dtype("f32"), DType::float32);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bfloat16);
  EXPECT_EQ(short_name(DType::int64), "i64");
  EXPECT_THROW(parse_dtype("f8"), InvalidArgument);
}

/// The same with blocks of different length.
std::vector<double> expected_uneven(Operation operation, int rank, int ranks, const Shape& shape, const std::vector<std::vector<double>>& inputs) {
  const auto own = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  const std::vector<std::size_t> blocks = uneven_blocks(shape.size, ranks);
  std::size_t before = 0;
  for (std::size_t r = 0; r < own; ++r) before += blocks[r];
  std::vector<double> out;
  for (std::size_t r = 0; r < n; ++r) {
    std::size_t start = 0, count = blocks[r];
    if (operation == Operation::all_to_all_v) {
      for (std::size_t to = 0; to < own; ++to) start += blocks[(r + to) % n];
      count = blocks[(r + own) % n];
    }
    for (std::size_t j = 0; j < count; ++j) out.push_back(inputs[r][start + j]);
  }
  if (operation != Operation::scatter_v && operation != Operation::reduce_scatter_v) return out;
  out.assign(shape.out, 0);
  for (std::size_t j = 0; j < shape.out; ++j)
    for (std::size_t r = 0; r < (operation == Operation::scatter_v ? 1 : n); ++r) out[j] += inputs[r][before + j];
  return out;
}

/// The result that an operation must give, worked out by the elements instead of by tables.
std::vector<double> expected(Operation operation, int rank, int ranks, const Shape& shape, const std::vector<std::vector<double>>& inputs) {
  if (operation.traits() != nullptr && operation.traits()->has_counts) return expected_uneven(operation, rank, ranks, shape, inputs);
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t block = shape.out / static_cast<std::size_t>(ranks);
  std::vector<double> out(shape.out);
  const auto sum = [&](std::size_t i, std::size_t of_ranks) {
    double total = 0;
    for (std::size_t r = 0; r < of_ranks; ++r) total += inputs[r][i];
    return total;
  };
  const auto n = static_cast<std::size_t>(ranks);
  using Element = std::function<double(std::size_t)>;
  const std::map<Operation, Element> elements{
      {Operation::all_reduce, [&](std::size_t j) { return sum(j, n); }},
      {Operation::reduce, [&](std::size_t j) { return sum(j, n); }},
      {Operation::scan, [&](std::size_t j) { return sum(j, own + 1); }},
      {Operation::exscan, [&](std::size_t j) { return sum(j, own); }},
      {Operation::broadcast, [&](std::size_t j) { return inputs[0][j]; }},
      {Operation::all_gather, [&](std::size_t j) { return inputs[j / block][j % block]; }},
      {Operation::gather, [&](std::size_t j) { return inputs[j / block][j % block]; }},
      {Operation::reduce_scatter, [&](std::size_t j) { return sum(own * shape.out + j, n); }},
      {Operation::scatter, [&](std::size_t j) { return inputs[0][own * shape.out + j]; }},
      {Operation::all_to_all, [&](std::size_t j) { return inputs[j / block][own * block + j % block]; }},
      {Operation::send_recv, [&](std::size_t j) { return inputs[(own + n - 1) % n][j]; }},
      {Operation::ping_pong, [&](std::size_t j) { return inputs[own ^ 1][j]; }},
      {Operation::bandwidth, [&](std::size_t j) { return inputs[own ^ 1][j]; }},
      {Operation::bidirectional, [&](std::size_t j) { return inputs[own ^ 1][j]; }},
      {Operation::message_rate, [&](std::size_t j) { return inputs[own ^ 1][j]; }},
  };
  for (std::size_t j = 0; j < shape.out; ++j) out[j] = elements.at(operation)(j);
  return out;
}

/// Tells whether a rank gets nothing that could be wrong.
bool has_no_output(Operation operation, int rank, int ranks) {
  if (is_in_pairs(operation) && (rank ^ 1) >= ranks) return true;
  const bool one_way = operation == Operation::bandwidth || operation == Operation::message_rate;
  return (root_only(operation) && rank != 0) || (operation == Operation::exscan && rank == 0) || (one_way && rank % 2 == 0);
}

class BenchPattern : public ::testing::TestWithParam<int> {};

TEST_P(BenchPattern, APatternAcceptsTheRightResultAndSeesEveryWrongElement) {
  const int ranks = GetParam();
  const Pattern pattern(DType::float64, ranks);
  for (Operation operation : operations()) {
    if (operation == Operation::barrier) continue;
    const auto shape_on = [&](int rank) { return shape_of(operation, ranks, 20'000 * sizeof(double), sizeof(double), rank); };
    std::vector<std::vector<double>> inputs(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      std::vector<double>& in = inputs[static_cast<std::size_t>(r)];
      in.resize(std::max(shape_on(r).in, shape_on(r).out));
      pattern.fill(in.data(), shape_on(r).in, r, 42);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const Shape shape = shape_on(rank);
      if (is_in_pairs(operation) && (rank ^ 1) >= ranks) continue;
      std::vector<double> out = expected(operation, rank, ranks, shape, inputs);
      EXPECT_EQ(pattern.wrong(operation, out.data(), shape, rank, 42), std::nullopt) << to_string(operation) << " on " << rank << " of " << ranks;
      if (has_no_output(operation, rank, ranks)) continue;
      EXPECT_NE(pattern.wrong(operation, out.data(), shape, rank, 43), std::nullopt) << "another seed must give another result";
      for (std::size_t i : {std::size_t{0}, shape.out / 2, shape.out - 1}) {
        out[i] += 1;
        const auto wrong = pattern.wrong(operation, out.data(), shape, rank, 42);
        ASSERT_TRUE(wrong.has_value()) << to_string(operation) << " element " << i;
        EXPECT_NE(wrong->find("element " + std::to_string(i) + " "), std::string::npos) << *wrong;
        out[i] -= 1;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BenchPattern, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(BenchPatterns, SumsAreExactInSixteenBits) {
  for (int ranks : {2, 8, 16}) {
    const Pattern pattern(DType::bfloat16, ranks);
    constexpr std::size_t elements = 200;
    std::vector<float> sums(elements);
    std::vector<bfloat16> values(elements);
    for (int r = 0; r < ranks; ++r) {
      pattern.fill(values.data(), elements, r, 3);
      for (std::size_t i = 0; i < elements; ++i) sums[i] += static_cast<float>(values[i]);
    }
    for (std::size_t i = 0; i < elements; ++i) {
      values[i] = bfloat16(sums[i]);
      EXPECT_EQ(static_cast<float>(values[i]), sums[i]) << "rounded: the sum is not exact";
    }
    EXPECT_EQ(pattern.wrong(Operation::all_reduce, values.data(), {elements, elements}, 0, 3), std::nullopt);
  }
}

TEST(BenchPatterns, NeighboursRanksAndRewritesDiffer) {
  const Pattern pattern(DType::float32, 3);
  std::vector<float> a(100), b(100);
  pattern.fill(a.data(), a.size(), 0, 1);
  pattern.fill(b.data(), b.size(), 1, 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NE(a[i], b[i]);
    if (i > 0) {
      EXPECT_NE(a[i], a[i - 1]);
    }
  }
  Rewriter rewriter(DType::float32, 0, 3);
  rewriter.rewrite(reinterpret_cast<std::byte*>(a.data()), 400);
  rewriter.rewrite(reinterpret_cast<std::byte*>(b.data()), 400);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]);
}

TEST(BenchBuffer, TheGuardSeesWritesBesideTheBuffer) {
  GuardedBuffer buffer(1000);
  for (std::size_t used : {std::size_t{1000}, std::size_t{8}, std::size_t{0}}) {
    buffer.guard(used);
    std::memset(buffer.data(), 1, used);
    EXPECT_TRUE(buffer.guards_intact());
    for (std::byte* outside : {buffer.data() - 1, buffer.data() + used}) {
      *outside ^= std::byte{1};
      EXPECT_FALSE(buffer.guards_intact());
      *outside ^= std::byte{1};
    }
  }
}

TEST(BenchReals, SumsAreJudgedByTheirErrorBound) {
  constexpr std::size_t elements = 1000;
  std::vector<float> x(elements), sum(elements);
  for (int r = 0; r < 5; ++r) {
    fill_reals(DType::float32, x.data(), elements, r, 9);
    for (std::size_t i = 0; i < elements; ++i) {
      EXPECT_LE(std::abs(x[i]), 1);
      sum[i] += x[i];
    }
  }
  EXPECT_EQ(wrong_real_sum(DType::float32, sum.data(), elements, 5, 9), std::nullopt);
  sum[777] += 1e-4F;
  EXPECT_NE(wrong_real_sum(DType::float32, sum.data(), elements, 5, 9), std::nullopt);
  sum[777] = std::nanf("");
  EXPECT_NE(wrong_real_sum(DType::float32, sum.data(), elements, 5, 9), std::nullopt);
}

TEST(BenchReading, ReadingConsumesAndHashesEveryByte) {
  std::vector<std::byte> bytes(203, std::byte{7});
  const std::uint64_t consumed = consume(bytes.data(), bytes.size());
  const std::uint64_t hash = hash_of(bytes.data(), bytes.size());
  for (std::byte& byte : bytes) {
    byte = std::byte{8};
    EXPECT_NE(consume(bytes.data(), bytes.size()), consumed);
    EXPECT_NE(hash_of(bytes.data(), bytes.size()), hash);
    byte = std::byte{7};
  }
}

}  // namespace
}  // namespace unisono::bench
