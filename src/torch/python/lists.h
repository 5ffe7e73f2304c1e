#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "unisono/detail/request.h"
#include "unisono/tensor.h"

namespace unisono::libtorch {

using TensorList = std::vector<at::Tensor>;

/// A tensor as a call that moves it and does not calculate sees it: of a dtype that we do not know (float8, say), its bytes.
at::Tensor movable(const at::Tensor& tensor);
/// View of what a call reads.
TensorView read(const at::Tensor& tensor);
/// View of what a call writes to: its version counter goes up.
TensorView write(const at::Tensor& tensor);

/// The tensors of one list as the blocks of one buffer: the memory they lie in, if they lie there one behind the other; else memory of its own, which
/// `gather` fills from them and `scatter` shares out to them. They have one dtype and one device, else InvalidArgument.
class Blocks {
 public:
  Blocks() = default;
  explicit Blocks(TensorList tensors);
  const at::Tensor& whole() const { return whole_; }
  bool is_copy() const { return is_copy_; }
  /// As many elements in each.
  bool is_even() const;
  /// How many elements in each, in the dtype of whole().
  Counts counts() const;
  void bump_versions() const;
  void gather() const;
  void scatter() const;
  /// Of memory of its own: each tensor and its part of it, `(part, tensor)`, in whatever dtype the elements are moved as.
  template <class F>
  void for_each_copy(F&& f) const {
    std::int64_t begin = 0;
    for (const at::Tensor& tensor : tensors_) {
      if (!is_copy_) return;
      const at::Tensor elements = movable(tensor);
      f(whole_.narrow(0, begin, elements.numel()), elements);
      begin += elements.numel();
    }
  }

 private:
  TensorList tensors_;
  at::Tensor whole_;
  bool is_copy_ = false;
};

/// What is to be done in this rank's memory around an operation: copying from and to lists, and scaling for PREMUL_SUM. Null where nothing is.
std::shared_ptr<detail::PrologueEpilogue> copying(Blocks from, Blocks to);
/// `scaled` becomes factor * input: when the operation's turn has come, and on a device at once, in the order of torch's current stream.
std::shared_ptr<detail::PrologueEpilogue> scaling(at::Tensor input, at::Tensor scaled, at::Tensor factor, Blocks from = {});

}  // namespace unisono::libtorch
