#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

/// The way in which the elements of the ranks are combined.
///
/// | operation        | dtypes                                                                        |
/// | sum, product     | every dtype; integers wrap; on boolean they are or, and                       |
/// | avg              | every dtype but boolean; on integers the exact sum divided by the group's     |
/// |                  | size, truncated toward zero                                                   |
/// | min, max         | every dtype but the complex ones; a NaN on any rank gives a NaN; -0 < +0      |
/// | band, bor, bxor  | integers and boolean                                                          |
/// | land, lor        | every dtype but the complex ones: all but zero is true, the result is 0 or 1  |
///
/// Any other pair is InvalidArgument. float16 and bfloat16 are accumulated in float32 and rounded
/// once.
enum class ReduceOp { sum, product, min, max, avg, band, bor, bxor, land, lor };

/// Reads the name of an operation in any spelling that torch, ignite, mmengine or MPI uses, in
/// upper or lower case: "sum", "prod", "product", "min", "max", "mean", "avg", "average", "and",
/// "band", "or", "bor", "xor", "bxor", "land", "lor".
///
/// @throws InvalidArgument for anything else
UNISONO_API ReduceOp parse_reduce_op(std::string_view text);

/// Returns the name of the enumerator: "sum".
UNISONO_API std::string_view to_string(ReduceOp op) noexcept;

/// The sum of what the ranks have, each multiplied by its rank's own factor before (PREMUL_SUM of
/// NCCL and torch).
///
/// It is defined for floating-point and complex dtypes, in all_reduce, reduce and reduce_scatter.
/// Halves are rounded after the product as well as after the sum.
struct PremulSum {
  /// The factor of this rank. Ranks may have different ones.
  double factor = 1;
};

/// Returns the operation with this rank's factor: `all_reduce(x, premul_sum(0.25))`.
constexpr PremulSum premul_sum(double factor) noexcept { return {factor}; }

namespace detail {

/// A user's callable, without its type: it combines n elements by accumulator[i] =
/// f(accumulator[i], element[i]).
struct CustomReduction {
  std::function<void(void* accumulator, const void* elements, std::size_t n)> apply;
  /// The name of the callable's type, which the ranks compare.
  std::string_view type_name;
};

}  // namespace detail

/// The operation of a collective on elements of type T. Users never name this type: it is made from
/// a ReduceOp, from premul_sum(factor), or from a callable `T(T, T)`.
///
/// A callable is associative, commutative, and the same on every rank. It may be called on any
/// thread, at any time until the operation is done. On backend nccl it is carried out in the host's
/// memory.
///
/// ```cpp
/// all_reduce(x, [](float a, float b) { return std::hypot(a, b); });
/// ```
template <class T>
class Reduction {
 public:
  /// Stands for a ReduceOp.
  Reduction(ReduceOp op) noexcept : op_(op) {}  // NOLINT(google-explicit-constructor): a ReduceOp stands for itself
  /// Stands for a sum with a factor.
  Reduction(PremulSum op) noexcept : factor_(op.factor) {}  // NOLINT(google-explicit-constructor)

  /// Takes a callable, which is copied.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, ReduceOp> && !std::same_as<std::remove_cvref_t<F>, Reduction> &&
           std::is_invocable_r_v<T, const std::remove_cvref_t<F>&, T, T>) Reduction(F&& function)  // NOLINT(google-explicit-constructor)
      : custom_(std::make_shared<const detail::CustomReduction>(
            detail::CustomReduction{[f = std::forward<F>(function)](void* accumulator, const void* elements, std::size_t n) {
                                      T* a = static_cast<T*>(accumulator);
                                      const T* e = static_cast<const T*>(elements);
                                      for (std::size_t i = 0; i < n; ++i) a[i] = f(a[i], e[i]);
                                    },
                                    __PRETTY_FUNCTION__})) {}

  /// Returns the operation; sum if a callable or a factor was given.
  ReduceOp op() const noexcept { return op_; }
  /// Returns the callable, or null.
  const std::shared_ptr<const detail::CustomReduction>& custom() const noexcept { return custom_; }
  /// Returns this rank's factor, if one was given.
  std::optional<double> factor() const noexcept { return factor_; }

 private:
  ReduceOp op_ = ReduceOp::sum;
  std::optional<double> factor_;
  std::shared_ptr<const detail::CustomReduction> custom_;
};

/// The operation on a buffer whose element type only its dtype tells, a TensorView or an
/// at::Tensor: no callable can fit it.
template <>
class Reduction<void> {
 public:
  Reduction(ReduceOp op) noexcept : op_(op) {}              // NOLINT(google-explicit-constructor)
  Reduction(PremulSum op) noexcept : factor_(op.factor) {}  // NOLINT(google-explicit-constructor)
  ReduceOp op() const noexcept { return op_; }
  std::shared_ptr<const detail::CustomReduction> custom() const noexcept { return nullptr; }
  std::optional<double> factor() const noexcept { return factor_; }

 private:
  ReduceOp op_ = ReduceOp::sum;
  std::optional<double> factor_;
};

}  // namespace unisono
