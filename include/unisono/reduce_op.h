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

/// How the elements of the ranks are combined. Which dtypes each takes:
///   sum, product     every dtype; integers wrap; on boolean they are or, and
///   avg              every dtype but boolean; of integers: the exact sum divided by the group's size, truncated toward zero
///   min, max         every dtype but the complex ones; a NaN on any rank gives a NaN; -0 is less than +0
///   band, bor, bxor  integers and boolean
///   land, lor        every dtype but the complex ones: what is not zero is true, the result is 0 or 1
/// Another pair is InvalidArgument. float16 and bfloat16 accumulate in float32 and are rounded once.
enum class ReduceOp { sum, product, min, max, avg, band, bor, bxor, land, lor };

/// "sum", "SUM", "PROD", "PRODUCT", "MIN", "MAX", "MEAN", "AVG", "AVERAGE", "AND", "BAND", "OR", "BOR", "XOR", "BXOR", "LAND", "LOR" in any
/// case. Throws InvalidArgument for anything else.
UNISONO_API ReduceOp parse_reduce_op(std::string_view text);
UNISONO_API std::string_view to_string(ReduceOp op) noexcept;

/// The sum of what the ranks have, each of them multiplied by its rank's own factor before (PREMUL_SUM of NCCL and torch). For floating-point and
/// complex dtypes, and all_reduce, reduce and reduce_scatter. Halves are rounded after the product as well as after the sum.
struct PremulSum {
  double factor = 1;
};
constexpr PremulSum premul_sum(double factor) noexcept { return {factor}; }

namespace detail {

/// A user's callable, erased: combines n elements, accumulator[i] = f(accumulator[i], element[i]).
struct CustomReduction {
  std::function<void(void* accumulator, const void* elements, std::size_t n)> apply;
  std::string_view type_name;  ///< compared between the ranks
};

}  // namespace detail

/// The operation of a collective: a ReduceOp, premul_sum(factor), or a callable T(T, T) that is associative, commutative, and the
/// same on every rank.
template <class T>
class Reduction {
 public:
  Reduction(ReduceOp op) noexcept : op_(op) {}              // NOLINT(google-explicit-constructor): a ReduceOp stands for itself
  Reduction(PremulSum op) noexcept : factor_(op.factor) {}  // NOLINT(google-explicit-constructor)

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

  ReduceOp op() const noexcept { return op_; }
  const std::shared_ptr<const detail::CustomReduction>& custom() const noexcept { return custom_; }
  std::optional<double> factor() const noexcept { return factor_; }

 private:
  ReduceOp op_ = ReduceOp::sum;
  std::optional<double> factor_;
  std::shared_ptr<const detail::CustomReduction> custom_;
};

/// For a buffer whose element type only its dtype tells: no callable can fit it.
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
