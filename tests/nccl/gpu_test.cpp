// The success paths on real devices: ranks are processes, started by `unisono run` with backend nccl. Started by itself the program says what is
// missing for that (and ends with 77), or starts itself with 1, 2 and 4 ranks; scripts/test/gpu brings what is needed.

#include <gtest/gtest.h>

#include <complex>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>

#include <fmt/format.h>

#include "engines/nccl/calls.h"
#include "engines/nccl/loader.h"
#include "gpu_arrays.h"
#include "uneven_exchange.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace unisono::gpu;
namespace nccl = unisono::engines::nccl;

namespace {

constexpr int skipped = 77;

// The first of all, before anything here makes a device current.
TEST(AGpu, AGpuIsCurrentWhenInitializeHasReturned) {
  int current = -1;
  require(static_cast<int>(nccl::vendor()->cuda.get_device(&current)));
  EXPECT_EQ(current, device().index);
}

TEST(Gpu, CollectivesAreRightAtManyLengths) {
  const int n = world_size(), me = rank();
  const auto ranks = static_cast<std::size_t>(n);
  for (const std::size_t count : {1U, 7U, 1024U, 1U << 20U}) {
    const Array<int> x(numbers(me, count));
    all_reduce(x.view());
    EXPECT_EQ(x.values(), sums(n, count)) << count;
    for (int root = 0; root < n; ++root) {
      const Array<int> y(numbers(me, count));
      broadcast(y.view(), root);
      EXPECT_EQ(y.values(), numbers(root, count));
      const Array<int> z(numbers(me, count)), whole(me == root ? count * ranks : 0), back(count);
      reduce(z.view(), root);
      EXPECT_EQ(z.values(), me == root ? sums(n, count) : numbers(me, count));
      const Array<int> part(numbers(me, count));
      gather(part.view(), whole.view(), root);
      if (me == root) {
        EXPECT_EQ(whole.values(), in_turn(n, [&](int) { return count; }));
      }
      scatter(whole.view(), back.view(), root);
      EXPECT_EQ(back.values(), numbers(me, count));
    }
    const Array<int> part(numbers(me, count)), whole(count * ranks);
    all_gather(part.view(), whole.view());
    EXPECT_EQ(whole.values(), in_turn(n, [&](int) { return count; }));
    const Array<int> in(numbers(me, count * ranks)), out(count), swapped(count * ranks);
    reduce_scatter(in.view(), out.view());
    const auto all = sums(n, count * ranks);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(count) * me;
    EXPECT_EQ(out.values(), std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    all_to_all(in.view(), swapped.view());
    const auto got = swapped.values();
    for (int r = 0; r < n; ++r) {
      const auto theirs = numbers(r, count * ranks);
      EXPECT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(count) * r, got.begin() + static_cast<std::ptrdiff_t>(count) * (r + 1),
                             theirs.begin() + static_cast<std::ptrdiff_t>(count) * me));
    }
  }
}

TEST(Gpu, BlocksMayHaveDifferentLengths) {
  const int n = world_size(), me = rank();
  const auto length = [](int r) { return static_cast<std::size_t>(1000 * r); };
  std::vector<std::size_t> counts;
  for (int r = 0; r < n; ++r) counts.push_back(length(r));
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const Array<int> part(numbers(me, length(me))), whole(total), at_root(me == 0 ? total : 0), back(length(me));
  all_gather_v(part.view(), whole.view(), counts);
  EXPECT_EQ(whole.values(), in_turn(n, length));
  gather_v(part.view(), at_root.view(), counts);
  if (me == 0) {
    EXPECT_EQ(at_root.values(), in_turn(n, length));
  }
  scatter_v(at_root.view(), counts, back.view());
  EXPECT_EQ(back.values(), numbers(me, length(me)));
  const Array<int> in(numbers(me, total)), out(length(me));
  reduce_scatter_v(in.view(), counts, out.view());
  const auto all = sums(n, total);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + me, std::size_t{0}));
  EXPECT_EQ(out.values(), std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(length(me))));
  const UnevenExchange exchange(n, me);
  const Array<int> sent(exchange.gives), received(exchange.gets.size());
  all_to_all_v(sent.view(), exchange.sends, received.view(), exchange.receives);
  EXPECT_EQ(received.values(), exchange.gets);
}

// Small whole numbers, exact in every dtype and order of summation.
TEST(Gpu, EveryDtypeIsReduced) {
  constexpr DType dtypes[] = {DType::boolean, DType::int8,     DType::int32,   DType::int64,   DType::uint8,     DType::uint32,    DType::uint64,
                              DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};
  constexpr ReduceOp operations[] = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min,  ReduceOp::max, ReduceOp::avg,
                                     ReduceOp::band, ReduceOp::bor,     ReduceOp::land, ReduceOp::lor};
  constexpr std::size_t count = 256;
  const int n = world_size(), me = rank();
  for (const DType dtype : dtypes) {
    std::vector<std::vector<std::byte>> inputs;
    for (int r = 0; r < n; ++r) {
      std::vector<std::byte> bytes(count * size_of(dtype));
      for (std::size_t i = 0; i < count; ++i) {
        std::byte* to = bytes.data() + i * size_of(dtype);
        const auto number = dtype == DType::boolean ? (i >> r) & 1U : 1U + (i + static_cast<std::size_t>(r)) % 2;
        const auto put = [&](auto x) { std::memcpy(to, &x, sizeof x); };
        switch (dtype) {
          case DType::float16: put(float16(static_cast<float>(number))); break;
          case DType::bfloat16: put(bfloat16(static_cast<float>(number))); break;
          case DType::float32: put(static_cast<float>(number)); break;
          case DType::float64: put(static_cast<double>(number)); break;
          case DType::complex64: put(std::complex<float>(static_cast<float>(number), 2)); break;
          case DType::complex128: put(std::complex<double>(static_cast<double>(number), 2)); break;
          default: std::memcpy(to, &number, size_of(dtype));
        }
      }
      inputs.push_back(std::move(bytes));
    }
    for (const ReduceOp op : operations) {
      if (!nccl::reduction_of(dtype, op)) continue;
      DeviceBytes memory(count * size_of(dtype));
      memory.write(inputs[static_cast<std::size_t>(me)].data());
      all_reduce(memory.view(dtype), op);
      synchronize_stream();
      std::vector<std::byte> got(count * size_of(dtype)), expected = inputs[static_cast<std::size_t>(me)];
      memory.read(got.data());
      all_reduce(TensorView(expected.data(), dtype, count), op);  // in host memory
      EXPECT_EQ(got, expected) << to_string(dtype) << ' ' << to_string(op);
    }
  }
}

int start_ranks(const char* self) {
  std::string missing;
  int devices = 0;
  try {
    devices = nccl::vendor()->devices;
  } catch (const BackendUnavailable& error) {
    missing = error.what();
  }
  const char* command = std::getenv("UNISONO_TOOL");
  if (command == nullptr) missing = "the unisono command (UNISONO_TOOL)";
  if (!missing.empty()) {
    std::cout << "skipped, missing on this machine: " << missing << '\n';
    return skipped;
  }
  int failed = 0;
  for (const int ranks : {1, 2, 4}) {
    const std::string shared = ranks > devices ? "NCCL_MULTI_RANK_GPU_ENABLE=1 " : "";
    const std::string line = fmt::format("env {}UNISONO_BACKEND=nccl UNISONO_TIMEOUT=120 '{}' run -n {} -- '{}'", shared, command, ranks, self);
    std::cout << "== " << line << std::endl;
    if (std::system(line.c_str()) != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (infer_launcher() == Launcher::none) return start_ranks(argv[0]);
  InitOptions options;
  options.backend = "nccl";
  initialize(options);
  const int result = RUN_ALL_TESTS();
  try {
    finalize();
  } catch (const Error& error) {  // the last test ends the group
    std::cout << error.what() << '\n';
  }
  return result;
}
