#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "kernels/vector.h"

// Bytes per second count what the program reads and writes: (fan-in + 1) times the size of a reduction's result, twice that of a copy.
namespace {

using unisono::DType;
using unisono::ReduceOp;

constexpr std::int64_t smallest = 4 << 10;
constexpr std::int64_t largest = 64 << 20;

struct Shape {
  const char* name;
  DType dtype;
  ReduceOp op;
  std::size_t fan_in;
};

void reduce(benchmark::State& state, const Shape& shape) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<std::byte>> memory(shape.fan_in, std::vector<std::byte>(bytes, std::byte{1}));
  std::vector<std::byte> out(bytes);
  std::vector<const void*> inputs;
  for (const auto& input : memory) inputs.push_back(input.data());
  for (auto _ : state) {
    unisono::kernels::reduce(out.data(), inputs.data(), inputs.size(), bytes / unisono::size_of(shape.dtype), shape.dtype, shape.op, inputs.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes * (shape.fan_in + 1)));
}

void copy(benchmark::State& state, void (*how)(void*, const void*, std::size_t)) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto offset = static_cast<std::size_t>(state.range(1));
  std::vector<std::byte> from(bytes + 128, std::byte{1});
  std::vector<std::byte> to(bytes + 128);
  for (auto _ : state) {
    how(to.data() + offset, from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}

void libc_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void list_all() {
  static constexpr Shape shapes[] = {
      {"sum/float32", DType::float32, ReduceOp::sum, 2},
      {"sum/float32", DType::float32, ReduceOp::sum, 3},
      {"sum/float32", DType::float32, ReduceOp::sum, 4},
      {"sum/float32", DType::float32, ReduceOp::sum, 8},
      {"sum/bfloat16", DType::bfloat16, ReduceOp::sum, 2},
      {"sum/float16", DType::float16, ReduceOp::sum, 2},
      {"max/float32", DType::float32, ReduceOp::max, 2},
      {"sum/int32", DType::int32, ReduceOp::sum, 2},
      {"avg/int32", DType::int32, ReduceOp::avg, 2},
      {"avg/int64", DType::int64, ReduceOp::avg, 2},
      {"product/int8", DType::int8, ReduceOp::product, 2},
      {"product/int64", DType::int64, ReduceOp::product, 2},
      {"product/complex64", DType::complex64, ReduceOp::product, 2},
  };
  for (const Shape& shape : shapes) {
    const std::string name = std::string(shape.name) + "/of" + std::to_string(shape.fan_in);
    benchmark::RegisterBenchmark(name.c_str(), reduce, shape)->Arg(8)->RangeMultiplier(16)->Range(smallest, largest);
  }
  const std::pair<const char*, void (*)(void*, const void*, std::size_t)> copies[] = {
      {"copy/memcpy", libc_copy}, {"copy/cached", unisono::kernels::copy}, {"copy/streaming", unisono::kernels::copy_streaming}};
  for (const auto& [name, how] : copies) {
    benchmark::RegisterBenchmark(name, copy, how)->ArgsProduct({benchmark::CreateRange(smallest, largest, 4), {0, 4}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  list_all();
  benchmark::AddCustomContext("kernels", unisono::kernels::target_name());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
