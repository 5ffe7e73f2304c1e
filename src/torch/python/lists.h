#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "unisono/detail/request.h"
#include "unisono/tensor.h"

namespace unisono::libtorch {

using TensorList = std::vector<at::Tensor>;

/// Returns the tensor for a call that only moves data: of a dtype that we do not know (such as float8) its bytes.
at::Tensor movable(const at::Tensor& tensor);
/// Returns the view for reading.
TensorView read(const at::Tensor& tensor);
/// Returns the view for writing, and raises the tensor's version counter.
TensorView write(const at::Tensor& tensor);

/// The tensors of a list as the blocks of one buffer. If they lie one behind the other, the buffer is their memory. Else it is a copy: `gather`
/// copies from the tensors, `scatter` to them. They have one dtype and one device, else InvalidArgument is thrown.
class Blocks {
 public:
  Blocks() = default;
  explicit Blocks(TensorList tensors);
  const at::Tensor& whole() const { return whole_; }
  bool is_copy() const { return is_copy_; }
  /// Returns whether all blocks have the same number of elements.
  bool is_even() const;
  /// Returns the number of elements of each block, in the dtype of whole().
  Counts counts() const;
  void bump_versions() const;
  void gather() const;
  void scatter() const;
  /// The copies that do the same on a device.
  std::vector<detail::TensorCopy> copies(bool gathers) const;

 private:
  /// Calls f(part, tensor) for each tensor and its part of a copied buffer: in the tensors' own dtype, or in the one in which the elements are moved.
  /// Without a copy there are no calls.
  template <class F>
  void for_each_part(bool as_moved, F&& f) const;

  TensorList tensors_;
  at::Tensor whole_;
  bool is_copy_ = false;
};

/// Makes the local work around an operation: copying from and to lists. Returns null where nothing is to be done.
std::shared_ptr<detail::PrologueEpilogue> copying(Blocks from, Blocks to);
/// Makes the work that sets `scaled` to factor * input: when it is the operation's turn, or on a device at once, on torch's current stream.
std::shared_ptr<detail::PrologueEpilogue> scaling(at::Tensor input, at::Tensor scaled, at::Tensor factor, Blocks from = {});

}  // namespace unisono::libtorch
