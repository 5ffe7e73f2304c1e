// What no header for a type of another library takes: one wrong call for each -DCASE=<number>. Case 0 is right.
#include "mdspan_double.h"
#include "unisono/collectives.h"
#include "unisono/mdspan.h"
#if CASE >= 10
#include "unisono/eigen.h"
#endif

using namespace mdspan_double;

float memory[9];

#if CASE == 0
void call() { unisono::all_reduce(mdspan<float, 2>(memory, {3, 3})); }
#elif CASE == 1
void call() { unisono::all_reduce(mdspan<float, 2, layout_right, handle_accessor<float> >({memory}, {3, 3})); }
#elif CASE == 2
void call() { unisono::all_reduce(mdspan<float, 2, layout_without_strides>(memory, {3, 3}, {})); }
#elif CASE == 3
void call() { unisono::all_reduce(mdspan<const float, 2>(memory, {3, 3})); }
#elif CASE == 10
void call() {
  Eigen::Matrix3f m;
  unisono::all_reduce(m.row(0));
}
#elif CASE == 11
void call(const Eigen::MatrixXf& m) { unisono::all_reduce(m.col(0)); }
#elif CASE == 12
void call(const Eigen::MatrixXf& m) {
  Eigen::MatrixXf out;
  unisono::all_reduce(m.transpose(), out);
}
#endif
