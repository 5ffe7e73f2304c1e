#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine_rank.h"

namespace engine_rank {
namespace {

template <class T>
std::vector<T> folded(ReduceOp op, int first, int last, std::size_t n) {
  std::vector<T> result = given<T>(first, n);
  for (int r = first + 1; r < last; ++r) {
    const std::vector<T> next = given<T>(r, n);
    combine(dtype_of<T>::value, op == ReduceOp::avg ? ReduceOp::sum : op, result.data(), next.data(), n);
  }
  if (op == ReduceOp::avg) {
    for (T& value : result) value = static_cast<T>(static_cast<double>(value) / (last - first));
  }
  return result;
}

/// A reduction of n elements of type T on each rank.
struct Reduction {
  Engine& engine;
  int rank, size;
  ReduceOp op;
  std::size_t n;
  Form form;

  template <class T>
  std::string name() const {
    return fmt::format("{} of {} x {}", to_string(op), n, to_string(dtype_of<T>::value));
  }
  template <class T>
  std::vector<T> of_all(std::size_t count) const {
    return folded<T>(op, 0, size, count);
  }
};

/// False where the engine does not offer it, and need not.
template <class T>
bool check_all_reduce(const Reduction& its) {
  const DType dtype = dtype_of<T>::value;
  std::vector<T> x = given<T>(its.rank, its.n), out(its.n);
  CollectiveCall call;
  call.op = its.op;
  call.count = its.n;
  call.operation = Operation::all_reduce;
  call.in = view(x);
  call.out = view(out);
  if (!its.engine.offers(call)) {
    const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
    const bool may_refuse = (is_half && (its.size > 2 || its.op == ReduceOp::avg)) || (its.op == ReduceOp::avg && dtype < DType::float16);
    if (!may_refuse) fail("all_reduce, " + its.name<T>() + ": not offered");
    return false;
  }
  carry_out(its.engine, call, its.form);
  expect(out, its.of_all<T>(its.n), "all_reduce, " + its.name<T>());
  call.out = call.in;
  carry_out(its.engine, call, its.form);
  expect(x, its.of_all<T>(its.n), "all_reduce in place, " + its.name<T>());
  return true;
}

/// At the last rank.
template <class T>
void check_reduce(const Reduction& its) {
  std::vector<T> x = given<T>(its.rank, its.n);
  CollectiveCall call;
  call.op = its.op;
  call.count = its.n;
  call.in = call.out = view(x);
  call.operation = Operation::reduce;
  call.root = its.size - 1;
  if (its.rank != call.root) call.out = TensorView(nullptr, dtype_of<T>::value, std::size_t{0});
  carry_out(its.engine, call, its.form);
  if (its.rank == call.root) expect(x, its.of_all<T>(its.n), "reduce, " + its.name<T>());
}

template <class T>
void check_scans(const Reduction& its) {
  CollectiveCall call;
  call.op = its.op;
  call.count = its.n;
  call.operation = Operation::scan;
  std::vector<T> x = given<T>(its.rank, its.n);
  call.in = call.out = view(x);
  if (!its.engine.offers(call)) return;
  carry_out(its.engine, call, its.form);
  expect(x, folded<T>(its.op, 0, its.rank + 1, its.n), "scan, " + its.name<T>());
  x = given<T>(its.rank, its.n);
  call.in = call.out = view(x);
  call.operation = Operation::exscan;
  carry_out(its.engine, call, its.form);
  expect(x, its.rank == 0 ? given<T>(0, its.n) : folded<T>(its.op, 0, its.rank, its.n), "exscan, " + its.name<T>());
}

/// The ranks' shares of a longer line, all of one length: into memory of its own, and into the rank's own block.
template <class T>
void check_equal_shares(const Reduction& its) {
  const DType dtype = dtype_of<T>::value;
  const std::size_t n = its.n, whole = n * static_cast<std::size_t>(its.size);
  const std::vector<T> sums = its.of_all<T>(whole);
  CollectiveCall call;
  call.op = its.op;
  call.count = n;
  call.operation = Operation::reduce_scatter;
  for (const bool own : {false, true}) {
    std::vector<T> line = given<T>(its.rank, whole), share(n);
    const std::size_t begin = n * static_cast<std::size_t>(its.rank);
    call.in = view(line);
    call.out = own ? TensorView(line.data() + begin, dtype, n) : view(share);
    carry_out(its.engine, call, its.form);
    const T* const result = own ? line.data() + begin : share.data();
    expect(std::vector<T>(result, result + n),
           std::vector<T>(sums.begin() + static_cast<std::ptrdiff_t>(begin), sums.begin() + static_cast<std::ptrdiff_t>(begin + n)),
           "reduce_scatter, " + its.name<T>());
  }
}

/// Rank r's share has r elements.
template <class T>
void check_uneven_shares(const Reduction& its) {
  std::vector<std::size_t> lengths(static_cast<std::size_t>(its.size));
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = r;
  CollectiveCall call;
  call.op = its.op;
  call.counts = Counts(lengths);
  call.count = call.counts.total();
  std::vector<T> line = given<T>(its.rank, call.count), share(static_cast<std::size_t>(its.rank));
  const std::vector<T> expected = its.of_all<T>(call.count);
  const auto begin = static_cast<std::ptrdiff_t>(call.counts.before(static_cast<std::size_t>(its.rank)));
  call.operation = Operation::reduce_scatter_v;
  call.in = view(line);
  call.out = view(share);
  carry_out(its.engine, call, its.form);
  expect(share, std::vector<T>(expected.begin() + begin, expected.begin() + begin + its.rank), "reduce_scatter_v, " + its.name<T>());
}

template <class T>
void check_reduction(const Reduction& its) {
  if (!check_all_reduce<T>(its)) return;
  check_reduce<T>(its);
  check_scans<T>(its);
  check_equal_shares<T>(its);
  check_uneven_shares<T>(its);
}

template <class T>
void check_operations(Engine& engine, int rank, int size, Form form) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg, ReduceOp::land, ReduceOp::lor})
    for (const std::size_t n : {1, 5, 3000}) check_reduction<T>({engine, rank, size, op, n, form});
  if constexpr (std::is_integral_v<T>) {
    for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) check_reduction<T>({engine, rank, size, op, 5, form});
  }
}

}  // namespace

void check_reductions(Engine& engine, int rank, int size, Form form) {
  check_operations<std::int8_t>(engine, rank, size, form);
  check_operations<std::int32_t>(engine, rank, size, form);
  check_operations<std::uint64_t>(engine, rank, size, form);
  check_operations<float>(engine, rank, size, form);
  check_operations<double>(engine, rank, size, form);
  check_operations<float16>(engine, rank, size, form);
  check_operations<bfloat16>(engine, rank, size, form);
}

void check_nan(Engine& engine, int rank, int size, Form form) {
  std::vector<float> x(static_cast<std::size_t>(size), 1.0F);
  const std::uint32_t bits = 0xffc00000U + static_cast<std::uint32_t>(rank + 1);
  std::memcpy(&x[static_cast<std::size_t>(rank)], &bits, sizeof bits);
  CollectiveCall call;
  call.operation = Operation::all_reduce;
  call.count = x.size();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    std::vector<float> y = x;
    call.in = call.out = view(y);
    call.op = op;
    carry_out(engine, call, form);
    if (size > 1) expect(y, std::vector<float>(x.size(), std::numeric_limits<float>::quiet_NaN()), "NaN");
  }
}

}  // namespace engine_rank
