// unisono/tensor.h: a user's type becomes a buffer by one line, and a column of a matrix is used without copying it first.
#include <unisono/unisono.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> elements = std::vector<double>(static_cast<std::size_t>(rows * columns));
  double& at(std::int64_t row, std::int64_t column) { return elements[static_cast<std::size_t>(row * columns + column)]; }
};

template <>
struct unisono::buffer_traits<Matrix> {
  static TensorView view(Matrix& matrix) { return {matrix.elements.data(), DType::float64, std::array{matrix.rows, matrix.columns}}; }
};

constexpr const char* about = "A type of one's own as a buffer, and a column of a matrix as it lies.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    Matrix matrix{3, 2};
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t column = 0; column < 2; ++column) matrix.at(row, column) = static_cast<double>(10 * row + column + unisono::rank());
    }
    unisono::all_reduce(matrix);
    if (unisono::rank() == 0) std::printf("sum: last element %g\n", matrix.at(2, 1));

    // The view has 3 elements, each 2 after the one before: the second column. It is packed on the way; the first column is not touched.
    for (std::int64_t row = 0; row < 3; ++row) matrix.at(row, 1) = 100.0 * unisono::rank();
    unisono::TensorView column(&matrix.at(0, 1), unisono::DType::float64, std::array<std::int64_t, 1>{3}, std::array<std::int64_t, 1>{2});
    unisono::all_reduce(column, unisono::ReduceOp::max);
    if (unisono::rank() == 0) {
      std::printf("a stride of %d elements of %zu bytes, contiguous: %s\n", static_cast<int>(column.strides()[0]), unisono::size_of(column.dtype()),
                  column.is_contiguous() ? "yes" : "no");
    }
    if (unisono::rank() == 0) std::printf("columns of row 0: %g %g\n", matrix.at(0, 0), matrix.at(0, 1));

    // 16-bit floats are for storage: sums are taken in float and rounded once.
    std::array half{unisono::float16(0.5F * static_cast<float>(unisono::rank()))};
    unisono::all_reduce(half);
    if (unisono::rank() == 0) std::printf("half: %g\n", static_cast<double>(half[0]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
