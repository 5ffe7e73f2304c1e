// The success paths on real devices: ranks are processes, started by `unisono run` with backend nccl. Started by itself the program says what is
// missing for that (and ends with 77), or starts itself with 1, 2 and 4 ranks; scripts/test-gpu.sh brings what is needed.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "engines/nccl/calls.h"
#include "engines/nccl/loader.h"
#include "engines/nccl/runtime.h"
#include "covers.h"
#include "unisono/cuda.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace std::chrono_literals;
namespace nccl = unisono::engines::nccl;

namespace {

constexpr int skipped = 77;

/// What the test needs of the runtime and the library does not.
struct Runtime {
  int (*malloc)(void**, std::size_t);
  int (*free)(void*);
  int (*memcpy)(void*, const void*, std::size_t, int);
  Runtime() {
    void* library = nullptr;
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    }
    const char* chosen = std::getenv("UNISONO_CUDART_LIBRARY");
    if (library == nullptr && chosen != nullptr) library = ::dlopen(chosen, RTLD_NOW);
    malloc = reinterpret_cast<decltype(malloc)>(::dlsym(library, "cudaMalloc"));
    free = reinterpret_cast<decltype(free)>(::dlsym(library, "cudaFree"));
    memcpy = reinterpret_cast<decltype(memcpy)>(::dlsym(library, "cudaMemcpy"));
  }
};
Runtime& runtime() {
  static Runtime instance;
  return instance;
}
void require(int error) {
  if (error != 0) throw std::runtime_error("cuda error " + std::to_string(error));
}

/// Bytes on this rank's device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size, int index = device().index) : size_(size), device_{Device::Type::cuda, index} {
    require(static_cast<int>(nccl::vendor()->cuda.set_device(index)));
    require(runtime().malloc(&data_, std::max<std::size_t>(size, 1)));
  }
  ~DeviceBytes() { runtime().free(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void write(const void* from) { require(runtime().memcpy(data_, from, size_, 4)); }
  void read(void* to) const { require(runtime().memcpy(to, data_, size_, 4)); }
  void* data() const { return data_; }
  TensorView view(DType dtype) const { return part(dtype, 0, size_ / size_of(dtype)); }
  TensorView part(DType dtype, std::size_t begin, std::size_t count) const {
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
    return {static_cast<std::byte*>(data_) + begin * size_of(dtype), dtype, shape, {}, device_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
  Device device_;
};

template <class T>
class Array : public DeviceBytes {
 public:
  explicit Array(const std::vector<T>& values, int index = device().index) : DeviceBytes(values.size() * sizeof(T), index), count_(values.size()) {
    write(values.data());
  }
  explicit Array(std::size_t count, int index = device().index) : Array(std::vector<T>(count), index) {}
  std::vector<T> values() const {
    synchronize_stream();
    std::vector<T> result(count_);
    read(result.data());
    return result;
  }
  TensorView view() const { return DeviceBytes::view(dtype_of<T>::value); }
  TensorView part(std::size_t begin, std::size_t count) const { return DeviceBytes::part(dtype_of<T>::value, begin, count); }

 private:
  std::size_t count_;
};

std::vector<int> numbers(int r, std::size_t count) {
  std::vector<int> x(count);
  std::iota(x.begin(), x.end(), 1000 * (r + 1));
  return x;
}
std::vector<int> sums(int ranks, std::size_t count) {
  std::vector<int> x(count);
  for (int r = 0; r < ranks; ++r) {
    const auto own = numbers(r, count);
    for (std::size_t i = 0; i < count; ++i) x[i] += own[i];
  }
  return x;
}
std::vector<int> in_turn(int ranks, const std::function<std::size_t(int)>& count) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) {
    const auto block = numbers(r, count(r));
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

// The first of all, before anything here makes a device current.
TEST(AGpu, is_current_when_initialize_has_returned) {
  int current = -1;
  require(static_cast<int>(nccl::vendor()->cuda.get_device(&current)));
  EXPECT_EQ(current, device().index);
}

TEST(Gpu, collectives_of_many_lengths) {
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

TEST(Gpu, blocks_of_different_length) {
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
  std::vector<std::size_t> sends, receives;
  std::vector<int> gives, gets;
  for (int r = 0; r < n; ++r) {
    sends.push_back(static_cast<std::size_t>(me + 2 * r));
    receives.push_back(static_cast<std::size_t>(r + 2 * me));
    gives.insert(gives.end(), sends.back(), 100 * me + r);
    gets.insert(gets.end(), receives.back(), 100 * r + me);
  }
  const Array<int> sent(gives), received(gets.size());
  all_to_all_v(sent.view(), sends, received.view(), receives);
  EXPECT_EQ(received.values(), gets);
}

// Small whole numbers, exact in every dtype and order of summation.
TEST(Gpu, reductions_of_every_dtype) {
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

TEST(Gpu, messages) {
  const int n = world_size(), me = rank(), next = (me + 1) % n, before = (me + n - 1) % n;
  if (n == 1) GTEST_SKIP() << "nobody else";
  for (const std::size_t count : {1U, 1U << 18U}) {
    const Array<int> a(numbers(me, count)), b(numbers(me + 10, count)), from_a(count), from_b(count);
    Work send_a = isend(a.view(), next, world(), {.tag = 1}), send_b = isend(b.view(), next, world(), {.tag = 2});
    Work recv_b = irecv(from_b.view(), before, world(), {.tag = 2}), recv_a = irecv(from_a.view(), before, world(), {.tag = 1});
    for (Work* work : {&send_a, &send_b, &recv_a, &recv_b}) EXPECT_TRUE(work->wait_for(60s));
    EXPECT_EQ(from_a.values(), numbers(before, count));
    EXPECT_EQ(from_b.values(), numbers(before + 10, count));
  }
}

TEST(Gpu, streams_and_works) {
  nccl::Stream stream = nullptr;
  const nccl::OnDevice on_device(*nccl::vendor(), device().index);
  require(static_cast<int>(nccl::vendor()->cuda.stream_create(&stream, nccl::stream_non_blocking)));
  {
    const CurrentStream current(stream);
    constexpr std::size_t count = 1U << 22U;
    const Array<int> source(numbers(rank(), count)), x(count), copy(count);
    const auto put = [&](const DeviceBytes& to, const DeviceBytes& from) {
      require(static_cast<int>(nccl::vendor()->cuda.memcpy_async(to.data(), from.data(), count * sizeof(int), nccl::MemcpyKind::automatic, stream)));
    };
    put(x, source);
    Work work = all_reduce_async(x.view());
    work.wait();
    put(copy, x);  // behind it
    EXPECT_EQ(copy.values(), sums(world_size(), count));
    EXPECT_TRUE(work.wait_for(60s));
    EXPECT_TRUE(work.is_completed());
    // Others go on beside it.
    std::vector<Work> works;
    std::vector<std::unique_ptr<Array<int>>> arrays;
    for (int i = 0; i < 20; ++i) {
      arrays.push_back(std::make_unique<Array<int>>(numbers(rank(), 1000)));
      works.push_back(all_reduce_async(arrays.back()->view()));
    }
    wait_all(works);
    for (const auto& array : arrays) EXPECT_EQ(array->values(), sums(world_size(), 1000));
  }
  require(static_cast<int>(nccl::vendor()->cuda.stream_destroy(stream)));
}

TEST(Gpu, groups) {
  COVERS_ON_GPU("K-14");
  const int n = world_size(), me = rank();
  const auto half = split_group(world(), me % 2);
  ASSERT_TRUE(half);
  const Array<int> x(numbers(me, 100));
  all_reduce(x.view(), ReduceOp::sum, *half);
  std::vector<int> expected(100);
  for (int r = me % 2; r < n; r += 2) {
    for (std::size_t i = 0; i < 100; ++i) expected[i] += numbers(r, 100)[i];
  }
  EXPECT_EQ(x.values(), expected);
  std::vector<int> host{me};
  all_reduce(host, ReduceOp::max);
  EXPECT_EQ(host[0], n - 1);
}

TEST(Gpu, device_of_an_address_and_memory_in_use) {
  COVERS_ON_GPU("I-03", "B-03", "C-25", "V-11", "K-56");
  EXPECT_EQ(device().type, Device::Type::cuda);
  EXPECT_EQ(backend(), "nccl");
  const Array<int> x(numbers(rank(), 1U << 22U));
  all_reduce(std::span<int>(static_cast<int*>(x.data()), 1U << 22U));
  EXPECT_EQ(x.values(), sums(world_size(), 1U << 22U));
  EXPECT_GE(gpu_mem_usage(), 16U);
  EXPECT_GE(gpu_mem_peak(), gpu_mem_usage());
  const auto memory = device_runtime()->memory(device());
  if (memory.own) {
    EXPECT_EQ(gpu_mem_usage(), *memory.own >> 20U);
    EXPECT_LE(*memory.own, memory.used);
  }
}

// Each process with two tensors: on two devices, or on one where ranks may share it.
TEST(Gpu, lists_of_tensors) {
  const auto vendor = nccl::vendor();
  const int n = world_size(), me = rank();
  if (vendor->devices < 2 * n && !vendor->settings.shared_devices) GTEST_SKIP() << "missing on this machine: " << 2 * n << " devices";
  const int other = vendor->devices >= 2 * n ? me + n : device().index;
  const Array<int> a(numbers(2 * me, 100)), b(numbers(2 * me + 1, 100), other);
  const std::vector<TensorView> list{a.view(), b.view()};
  all_reduce_multigpu(list);
  EXPECT_EQ(a.values(), sums(2 * n, 100));
  require(static_cast<int>(vendor->cuda.set_device(other)));
  EXPECT_EQ(b.values(), sums(2 * n, 100));
}

TensorView every_other(const Array<int>& x, std::int64_t count) {
  const std::int64_t shape[] = {count}, strides[] = {2};
  return {x.data(), DType::int32, shape, strides, device()};
}

// What NCCL has not, through the host.
TEST(Gpu, through_the_host) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 1000)), y(std::vector<int>{3 * me, 4}), z(numbers(me, 8));
  all_reduce(y.view(), ReduceOp::avg);
  EXPECT_EQ(y.values(), (std::vector<int>{3 * (n - 1) / 2, 4}));
  auto view = x.view();
  scan(view);
  EXPECT_EQ(x.values(), sums(me + 1, 1000));
  std::span<int> range(static_cast<int*>(y.data()), 1);
  all_reduce(range, [](int a, int b) { return std::max(a, b); });
  EXPECT_EQ(y.values()[0], 3 * (n - 1) / 2);
  std::vector<int> sized;
  all_gather_v(z.view(), sized);
  EXPECT_EQ(sized, in_turn(n, [](int) { return std::size_t{8}; }));
  const AnyValue value = broadcast_any(AnyValue(every_other(z, 4)), n - 1);
  const auto elements = value.elements<int>();
  const auto last = numbers(n - 1, 8);
  EXPECT_EQ(std::vector<int>(elements.begin(), elements.end()), (std::vector<int>{last[0], last[2], last[4], last[6]}));
}

// What is strided, or of several pieces, packed on the device.
TEST(Gpu, packed_on_the_device) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 2000)), y(numbers(me, 1000));
  all_reduce(every_other(x, 1000));
  auto expected = numbers(me, 2000);
  const auto all = sums(n, 2000);
  for (std::size_t i = 0; i < expected.size(); i += 2) expected[i] = all[i];
  EXPECT_EQ(x.values(), expected);
  std::vector<TensorView> params{every_other(x, 1000), y.view()};
  all_reduce_params(params, {.op = ReduceOp::max});
  EXPECT_EQ(x.values(), expected);
  EXPECT_EQ(y.values(), numbers(n - 1, 1000));
  std::map<std::string, TensorView> means{{"x", every_other(x, 1000)}, {"y", y.view()}};
  average_across_processes(means);
  EXPECT_EQ(x.values(), expected);
  if (n == 1) return;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const Array<int> sent(numbers(me, 200)), received(std::vector<int>(100));
  Work work = isend(every_other(sent, 100), next);
  recv(received.view(), before);
  EXPECT_TRUE(work.wait_for(60s));
  const auto theirs = numbers(before, 200);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(received.values()[i], theirs[2 * i]);
}

TEST(Gpu, refusals_and_mismatches_leave_the_group_usable) {
  const int n = world_size(), me = rank();
  const Array<int> x(numbers(me, 100));
  auto view = x.view();
  std::vector<int> host(100);
  EXPECT_THROW(all_reduce(view, host), InvalidArgument);
  if (n > 1) {
    EXPECT_THROW(all_reduce(x.part(0, me == 0 ? 100 : 99)), Mismatch);
  }
  all_reduce(x.view());
  EXPECT_EQ(x.values(), sums(n, 100));
}

// The last one: the world is over afterwards.
TEST(GpuZ, abort_ends_what_is_under_way) {
  if (world_size() == 1) GTEST_SKIP() << "nobody else";
  const Array<int> x(numbers(rank(), 1U << 20U));
  if (rank() == 0) {
    Work work = all_reduce_async(x.view());
    work.wait_for(60s);
    world().abort("enough");
  }
  EXPECT_THROW(
      {
        for (;;) all_reduce(x.view());
      },
      PeerFailed);
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
