#pragma once

#include <cstdint>
#include <exception>
#include <source_location>
#include <string_view>

#include "unisono/process_group.h"
#include "unisono/tensor.h"
#include "xla_ffi.h"

namespace unisono::python::xla {

/// The content of a custom call of XLA: the operation and its parameters, as unisono.jax has written them into the program.
class Call {
 public:
  explicit Call(const CallFrame& frame) : frame_(frame) {}

  std::int64_t number(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  /// The array that goes in, the one that comes out. Tokens are passed over.
  TensorView in() const { return only(frame_.arguments); }
  TensorView out() const { return only(frame_.results); }
  /// The line that made it, "/home/me/train.py:12"; line 0 where it is not known.
  std::source_location place() const;

 private:
  const void* value(std::string_view name, AttributeType type) const;
  static TensorView only(const Buffers& buffers);
  const CallFrame& frame_;
};

/// The groups that compiled programs name by number, which a program may outlive. 0 is the world, whichever it is at the time.
std::int64_t number_of(const ProcessGroup& group);
/// InvalidArgument where it is not the one that the program was traced for.
ProcessGroup group_of(const Call& call, const std::source_location& where);

/// Carries out the operation on the thread of XLA that calls, without the interpreter lock.
void carry_out(const Call& call);

/// The error as XLA's, whose text begins with the name of its class. It is kept for a while: see kept_error.
Error* error_for(const Api& api, const std::exception_ptr& error);
/// The error whose text this text has in it, among the last ones; null where there is none.
std::exception_ptr kept_error(std::string_view text);

}  // namespace unisono::python::xla
