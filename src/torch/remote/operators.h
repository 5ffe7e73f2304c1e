#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

// What is known of an operator, found out at its first call.

namespace unisono::libtorch {

struct Operator {
  enum class Result : std::uint8_t {
    fresh,    ///< a new tensor, or a list of them
    aliased,  ///< an argument that the operator writes to
    viewed,   ///< a view of an argument
    value,    ///< no tensor: only the worker knows it
  };
  struct Return {
    Result result = Result::fresh;
    std::size_t argument = 0;  // of aliased and viewed
  };

  explicit Operator(const c10::OperatorHandle& called);

  c10::OperatorHandle handle;
  std::uint32_t number;  // in commands
  std::string name;      // with the overload: "aten::add.Tensor"
  std::vector<Return> returns;
  std::vector<std::size_t> written;  // arguments
  std::vector<bool> is_amount;       // of each argument: its value has no part in the results' shapes
  bool has_view = false;             // among the results
  bool has_value = false;            // among the results
  bool has_meta = false;             // a kernel for shapes alone may exist
  bool is_predictable = false;       // the results' shapes depend on the arguments' shapes and numbers alone
  bool takes_indices = false;        // which may be masks, and on the cpu
};

/// Returns what is known of an operator. It lasts as long as the process.
const Operator& operator_of(const c10::OperatorHandle& handle);

/// The kernel of every operator that has no other one: sends it to the worker of its tensors.
void carry_out(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace unisono::libtorch
