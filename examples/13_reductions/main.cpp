// unisono/reduce_op.h: elements are combined by an operation given by name, by enumerator, or as a function of the user's.
#include <unisono/unisono.h>

#include <array>
#include <cstdio>
#include <exception>
#include <numeric>

#include "../arguments.h"

constexpr const char* about = "How elements are combined: by name (OPERATION: mean, sum, max, ...), by enumerator, or by a function of one's own.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about, "[OPERATION]", 1); code >= 0) return code;
  auto op = unisono::ReduceOp::sum;
  try {
    op = unisono::parse_reduce_op(argc > 1 ? argv[1] : "MEAN");  // accepts any usual spelling
  } catch (const unisono::InvalidArgument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    const double combined = unisono::all_reduce(1.0 + rank, op);
    const int bits = unisono::all_reduce(1 << rank, unisono::ReduceOp::bor);
    const bool all_even = unisono::all_reduce(rank % 2 == 0, unisono::ReduceOp::land);
    if (rank == 0) std::printf("%s %g, bits %d, all even: %s\n", to_string(op).data(), combined, bits, all_even ? "yes" : "no");

    // The function must be associative, commutative, and the same on every rank.
    std::array<unsigned, 2> numbers{12U * static_cast<unsigned>(rank + 1), 18U};
    unisono::all_reduce(numbers, [](unsigned a, unsigned b) { return std::gcd(a, b); });
    if (rank == 0) std::printf("greatest common divisors %u %u\n", numbers[0], numbers[1]);

    // Each rank weights its own elements, and the sum is taken of the products: here a mean weighted by the ranks.
    std::array<double, 1> weighted{10.0 * (rank + 1)};
    const double weight = 2.0 * (rank + 1) / (unisono::world_size() * (unisono::world_size() + 1));
    unisono::all_reduce(weighted, unisono::premul_sum(weight));
    if (rank == 0) std::printf("weighted mean %.4f\n", weighted[0]);

    // An operation that does not fit the dtype is an error before anything is moved.
    try {
      static_cast<void>(unisono::all_reduce(1.5, unisono::ReduceOp::bxor));
    } catch (const unisono::InvalidArgument& error) {
      if (rank == 0) std::printf("refused: %s\n", error.message().c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
