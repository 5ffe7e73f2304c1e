#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include "unisono/counts.h"
#include "unisono/detail/object_concept.h"
#include "unisono/detail/standard.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

// Sentences that the compiler says about arguments that no function takes, in place of a page of
// candidates.

namespace unisono::detail {

/// An argument that is one element. Collectives take it by value and return the result.
template <class X>
concept value = Element<std::remove_cvref_t<X>>;
/// The argument of a collective: a buffer that is worked on in place, or a value.
template <class X>
concept in_or_value = Buffer<X> || value<X>;
/// An argument that can be the operation of a reduction of X.
template <class Op, class X>
concept operation_for = std::convertible_to<Op, Reduction<element_type_t<X>>> ||
    (value<X>&& std::convertible_to<Op, Reduction<std::remove_cvref_t<X>>>);

/// Says why a type is not a buffer, or why a buffer cannot be written to.
template <class X>
constexpr void refuse_as_buffer() {
  using Plain = std::remove_cvref_t<X>;
  static_assert(
      !is_vector_bool<Plain>,
      "unisono: a std::vector<bool> is not a buffer, its elements have no addresses; use std::vector<unsigned char> or std::unique_ptr<bool[]>");
  static_assert(!is_string<Plain>,
                "unisono: a std::string is an object, never a buffer; use the object collectives, or a std::span of its characters");
  static_assert(
      is_vector_bool<Plain> || is_string<Plain> || has_view<Plain>,
      "unisono: this type is neither a buffer (a contiguous range of elements, a TensorView, or a type with unisono::buffer_traits) nor a value "
      "(one element)");
  static_assert(!has_view<Plain> || is_vector_bool<Plain>,
                "unisono: this buffer cannot be written to: give an lvalue that is not const, or a view of such elements");
}

/// Says why an argument is not a value.
template <class X>
constexpr void refuse_as_value() {
  static_assert(!has_view<X>, "unisono: a buffer stands where a value is meant: this form takes one element; give an output buffer, too");
  static_assert(has_view<X>, "unisono: this type is not a value: a value is one element of a DType");
}

/// The commonest slips of those who come from PyTorch and MPI: something else stands where the
/// operation or the group is meant.
template <class X>
concept text = is_text<X> || is_string<std::remove_cvref_t<X>>;

/// The std::optional that new_group returns.
template <class X>
concept optional_group = std::same_as<std::remove_cvref_t<X>, std::optional<ProcessGroup>>;
template <class X>
concept number = std::integral<std::remove_cvref_t<X>>;
template <class X>
concept no_operation = text<X> || number<X> || optional_group<X> || std::same_as<std::remove_cvref_t<X>, ProcessGroup>;
/// Stands for a list of ranks in braces, which has no type: `{0, 1}`. The arguments make it depend
/// on the parameters of the template in which it is refused.
template <class...>
struct RankList {};
template <class X>
inline constexpr bool is_rank_list = false;
template <class... X>
inline constexpr bool is_rank_list<RankList<X...>> = true;
template <std::ranges::range X>
inline constexpr bool is_rank_list<X> = number<std::ranges::range_value_t<X>> && !text<X>;

/// The ranks of a group stand where the group is meant.
template <class X>
concept rank_list = is_rank_list<std::remove_cvref_t<X>>;
template <class X>
concept misplaced_group = optional_group<X> || rank_list<X> || std::same_as<std::remove_cvref_t<X>, CallOptions>;
/// A group stands where the sender is meant.
template <class X>
concept misplaced_source = optional_group<X> || std::same_as<std::remove_cvref_t<X>, ProcessGroup>;

/// A number or another group stands where a message has its group. MPI has the tag there.
template <class X>
concept no_group = number<X> || misplaced_group<X>;

/// A group or an operation stands where the root is meant.
template <class X>
concept misplaced_root = optional_group<X> || std::same_as<std::remove_cvref_t<X>, ProcessGroup> || std::same_as<std::remove_cvref_t<X>, ReduceOp>;

/// Says why an argument is not a root.
template <class X>
constexpr void refuse_as_root() {
  static_assert(std::same_as<std::remove_cvref_t<X>, ReduceOp>,
                "unisono: a group stands where the root is meant: the root comes before the group: broadcast(x, 0, group)");
  static_assert(!std::same_as<std::remove_cvref_t<X>, ReduceOp>,
                "unisono: an operation stands where the rank of the result is meant, which comes before it: reduce(x, 0, ReduceOp::sum)");
}

/// Objects stand where a buffer for the result of an object collective is meant.
template <class X, class Y>
concept objects_as_output = object_value<X> && object_value<Y> && !InBuffer<X>;

/// Says that objects are returned.
template <class X>
constexpr void refuse_as_output() {
  static_assert(has_view<X>, "unisono: objects are returned and not written to an output: const auto all = all_gather(x)");
}

/// Data stands where the counts are meant, or counts that the compiler cannot tell from data.
template <class C, class In>
concept data_as_counts = has_view<C> && !std::same_as<std::remove_cvref_t<C>, Counts> && std::same_as<element_type_t<C>, element_type_t<In>>;

/// Says where the counts of a call stand.
template <class C>
constexpr void refuse_as_counts() {
  static_assert(!has_view<C>,
                "unisono: elements of the input's type stand where the counts are meant, which come between input and output: "
                "scatter_v(in, counts, out); if they are the counts, say so: Counts(counts)");
}

/// Says why an argument is not a group.
template <class X>
constexpr void refuse_as_group() {
  static_assert(!optional_group<X>,
                "unisono: this group is a std::optional: new_group, split_group and shrink_group return std::nullopt to a process that is not a "
                "member; check first (if (group)), then give *group");
  static_assert(!number<X>, "unisono: a number stands where the group is meant: a tag is an option: send(x, 1, world(), {.tag = 7})");
  static_assert(!rank_list<X>,
                "unisono: a list of ranks stands where the group is meant: these ranks meet to form a group, once and not in every call: "
                "const auto group = new_group({0, 1}); if (group) all_reduce(x, ReduceOp::sum, *group)");
  static_assert(!std::same_as<std::remove_cvref_t<X>, CallOptions>,
                "unisono: the options stand behind the group: give the group before them, world() for all processes");
}

/// Says why an argument is not an operation.
template <class X>
constexpr void refuse_as_operation() {
  static_assert(!text<X>, "unisono: the operation is ReduceOp::sum, not \"sum\"; parse_reduce_op(\"sum\") reads text");
  static_assert(!number<X>, "unisono: a number stands where the operation is meant, which is a ReduceOp: ReduceOp::sum");
  static_assert(!std::same_as<std::remove_cvref_t<X>, ProcessGroup>,
                "unisono: a group stands where the operation is meant: the operation comes before the group: all_reduce(x, ReduceOp::sum, group)");
  if constexpr (optional_group<X>) refuse_as_group<X>();
}

/// Says why a call cannot resize an output.
template <class X>
constexpr void refuse_as_growable() {
  static_assert(!has_view<X>,
                "unisono: without counts the output is sized by the call, which only a std::vector of elements can be: give one, or the counts");
}

}  // namespace unisono::detail
