// Reductions of lists of tensors: every dtype and operation, the same bits everywhere, and what each rank gets.

#include <cstring>
#include <random>
#include <span>

#include "blocks.h"
#include "covers.h"
#include "kernels/reduce.h"
#include "multigpu_lists.h"

using namespace unisono;
using namespace conformance;

namespace {

void without_negative_zeros(oracle::Bytes& x, DType dtype) {
  const auto clean = [&]<class F>(F) {
    for (std::size_t i = 0; i < x.size(); i += sizeof(F)) {
      F value;
      std::memcpy(&value, x.data() + i, sizeof value);
      value += F(0);
      std::memcpy(x.data() + i, &value, sizeof value);
    }
  };
  if (dtype == DType::complex64) clean(float{});
  if (dtype == DType::complex128) clean(double{});
}

// Every tensor of every rank gets the combination of all.
WORLD_TEST(Multigpu, AllReduceSumsTheListsOfAllRanks) {
  COVERS("T-29", "B-25");
  for (const std::size_t len : {1UL, 2UL, 5UL}) {
    for (const std::size_t count : some_counts()) {
      List<double> list(len, count), again(len, count);
      all_reduce_multigpu(list);
      Work work = all_reduce_multigpu_async(again);
      work.wait();
      for (std::size_t j = 0; j < len; ++j) {
        ASSERT_EQ(difference(list.memory[j], sum_of_all<double>(len, count)), "") << j << " of " << len;
        ASSERT_EQ(again.memory[j], list.memory[j]);
      }
    }
  }
}

// The result is that of one reduction of all tensors, also where two stages could wrap, truncate or round twice.
WORLD_TEST(Multigpu, AllReduceCombinesEveryDtypeAndOperation) {
  COVERS("T-29", "R-01", "R-02", "R-03", "R-04", "R-05", "R-06", "R-07", "R-08", "W-04");
  const auto n = static_cast<std::size_t>(world_size());
  constexpr std::size_t count = 37;
  for (const std::size_t len : {1UL, 3UL}) {
    for (const DType dtype : oracle::every_dtype) {
      for (const ReduceOp op : oracle::every_op) {
        std::vector<oracle::Bytes> inputs, own;
        const bool rounds = dtype >= DType::float16 && (op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::product);
        for (std::size_t p = 0; p < n * len; ++p) {
          if (!rounds) {
            inputs.push_back(oracle::values(dtype, count, 3 + p));
          } else {  // small integers, in the real parts: exact in every order
            oracle::Bytes x(count * size_of(dtype));
            oracle::with_type(dtype, [&]<class T>(T) {
              for (std::size_t i = 0; i < count; ++i) {
                const T value(static_cast<float>(op == ReduceOp::product ? (p + i) % 5 == 0 ? -2 : 1 : static_cast<int>((i * 7 + p * 3) % 23) - 11));
                std::memcpy(x.data() + i * sizeof(T), &value, sizeof(T));
              }
            });
            inputs.push_back(std::move(x));
          }
        }
        std::vector<TensorView> tensors;
        for (std::size_t j = 0; j < len; ++j) own.push_back(inputs[static_cast<std::size_t>(rank()) * len + j]);
        for (auto& x : own) tensors.push_back(line(x, dtype));
        if (!kernels::supports(dtype, op)) {
          EXPECT_EQ(thrown_by<InvalidArgument>([&] { all_reduce_multigpu(tensors, op); }).operation(), "all_reduce_multigpu");
          continue;
        }
        all_reduce_multigpu(tensors, op);
        auto expected = oracle::reduce(inputs, count, dtype, op, n * len);
        if (op == ReduceOp::product) {  // what sign a complex product's zero has depends on where one begins
          for (auto& x : own) without_negative_zeros(x, dtype);
          without_negative_zeros(expected, dtype);
        }
        for (const auto& x : own) ASSERT_TRUE(x == expected) << to_string(dtype) << " " << to_string(op) << " of " << len;
      }
    }
  }
}

// Rule 8 for lists: the same bits everywhere, whatever the numbers; halves are rounded once.
WORLD_TEST(Multigpu, AllReduceGivesTheSameBitsEverywhere) {
  COVERS("T-28");
  std::mt19937_64 random(static_cast<std::uint64_t>(rank()) + 5);
  std::normal_distribution<float> normal(0.0F, 1e3F);
  List<float> list(3, 5003, 0.0F);
  for (auto& x : list.memory) {
    for (auto& v : x) v = normal(random);
  }
  all_reduce_multigpu(list, ReduceOp::avg);
  auto first = list.memory[0];
  broadcast(first);
  for (const auto& x : list.memory) ASSERT_EQ(std::memcmp(first.data(), x.data(), first.size() * sizeof(float)), 0);

  List<bfloat16> halves(4, 3, bfloat16(rank() == 0 ? 64.0F : 0.25F));  // in steps of 0.25 the sum would stay at 256
  all_reduce_multigpu(halves);
  const bfloat16 expected(256.0F + static_cast<float>(world_size() - 1));
  for (const auto& x : halves.memory) ASSERT_EQ(x[2].bits, expected.bits);
}

// Only the first tensor of the root; every other stays as it was.
WORLD_TEST(Multigpu, ReduceSumsTheListsAtTheRoot) {
  COVERS("T-31", "K-11");
  for (int dst = 0; dst < world_size(); ++dst) {
    for (const std::size_t len : {1UL, 2UL, 3UL}) {
      for (const std::size_t count : some_counts()) {
        List<double> list(len, count);
        const List<double> before_call(len, count);
        if (dst % 2 == 0) reduce_multigpu(list, dst);
        else reduce_multigpu_async(list, dst).wait();
        for (std::size_t j = 0; j < len; ++j) {
          const bool gets_it = rank() == dst && j == 0;
          ASSERT_EQ(difference(list.memory[j], gets_it ? sum_of_all<double>(len, count) : before_call.memory[j]), "") << j << " of " << len;
        }
      }
    }
  }
}

// The counterpart: output j of rank k is the combination of block k * len + j of all inputs.
WORLD_TEST(Multigpu, ReduceScatterSharesTheSumsOut) {
  const auto n = static_cast<std::size_t>(world_size());
  for (const std::size_t len : {1UL, 2UL, 3UL}) {
    for (const std::size_t count : some_counts()) {
      if (count > 5000 && len > 2) continue;
      List<double> inputs(len, n * len * count), outputs(len, count, -1.0), again(len, count, -2.0);
      const List<double> before_call(len, n * len * count);
      reduce_scatter_multigpu(outputs, inputs);
      reduce_scatter_multigpu_async(again, inputs).wait();
      const auto sum = sum_of_all<double>(len, n * len * count);
      for (std::size_t j = 0; j < len; ++j) {
        const std::size_t block = static_cast<std::size_t>(rank()) * len + j;
        ASSERT_EQ(difference(outputs.memory[j], std::span(sum).subspan(block * count, count)), "") << count << ", " << j << " of " << len;
      }
      ASSERT_EQ(again.memory, outputs.memory);
      ASSERT_EQ(inputs.memory, before_call.memory) << "the inputs were written to";
      if (count == 7) {
        reduce_scatter_multigpu(outputs, inputs, ReduceOp::avg);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(outputs.memory[0][i], sum[static_cast<std::size_t>(rank()) * len * count + i] / static_cast<double>(n * len));
        }
      }
    }
  }
}

}  // namespace
