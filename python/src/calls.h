#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>
#include <vector>

#include "arguments.h"
#include "buffer.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/work.h"

// From the arguments of a call to its request, and from the request to what Python gets.

namespace unisono::python {

/// The buffers that an operation under way works on, and its result.
struct Memory {
  std::vector<Buffer> buffers = {};
  nb::object result = nb::none();  // what the blocking call returns

  /// Takes hold of one more buffer.
  TensorView add(nb::handle object, Use use, const char* operation) { return buffers.emplace_back(object, use, operation).view(); }
};

/// Returns the name of the function, which is that in C++.
inline const char* name_of(Operation operation) { return traits_of(operation).name.data(); }
inline detail::Request request_of(Operation operation, const TensorView& in, const TensorView& out) { return {operation, in, out}; }
inline detail::Request request_of(Operation operation, const TensorView& in, const TensorView& out, Combination op) {
  return {.operation = operation, .in = in, .out = out, .op = op.op, .custom = std::move(op.custom), .factor = op.factor};
}
inline bool is_here(Rank rank, const ProcessGroup& group) { return detail::rank_is(rank, group); }
inline std::size_t size_of_group(const ProcessGroup& group) { return static_cast<std::size_t>(group.size()); }

/// Carries out a request without the interpreter lock. `stream`: that of memory of a device. `out`: what it writes to, whose library may have to find
/// it complete.
void carry_out(const detail::Request& request, const Trailing& trailing, const std::optional<void*>& stream = {}, const Buffer* out = nullptr);
/// The same of a request on this memory, whose last buffer is the output where that is a new array. Returns the result.
nb::object carry_out(const detail::Request& request, const Trailing& trailing, const Memory& memory);
nb::object start(const detail::Request& request, const Trailing& trailing, Memory memory);
nb::object start(const detail::MessageRequest& request, const Trailing& trailing, Memory memory);
/// The result of a call, or a Work.
template <bool IsAsync>
nb::object conclude(const detail::Request& request, const Trailing& trailing, Memory memory) {
  return IsAsync ? start(request, trailing, std::move(memory)) : carry_out(request, trailing, memory);
}
/// A Work of Python for one that was started.
nb::object as_object(Work work, Memory memory);

/// Of an array that cannot be written to (JAX): the result is a new one, as that of a number is.
bool is_returned(nb::handle x);

/// Whether the object is a WithPlace of Python, a value with the place where it is, which min and max choose among: one pair, or an array of them.
bool is_placed(nb::handle x);
/// Carries out a reduction of pairs: one is returned, an array is worked on in place. None where this rank gets no result.
nb::object reduce_pairs(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing);
/// Starts an all_reduce of an array of pairs.
nb::object start_pairs(Operation operation, nb::handle x, nb::handle op, const Trailing& trailing);

/// The object that rank `src` has, on every rank. `label`: what the user called, a string literal.
nb::object broadcast_one(const char* label, nb::handle x, Rank src, const Trailing& trailing);
/// A list of objects, element r from rank r; with a `dst` None elsewhere.
nb::object gather_all(const char* label, nb::handle x, std::optional<Rank> dst, const Trailing& trailing);

}  // namespace unisono::python
