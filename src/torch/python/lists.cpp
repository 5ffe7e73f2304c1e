#include "torch/python/lists.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "unisono/error.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {
namespace {

bool is_known(at::ScalarType type) {
  try {
    static_cast<void>(dtype_of_torch(type));
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

at::Tensor one_line(const TensorList& tensors, std::int64_t numel) {
  const at::Tensor& first = tensors.front();
  const auto* next = static_cast<const std::byte*>(first.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.storage().unsafeGetStorageImpl() != first.storage().unsafeGetStorageImpl()) return {};
    if (tensor.numel() > 0 && tensor.data_ptr() != next) return {};
    next += tensor.nbytes();
  }
  return first.as_strided({numel}, {1}, first.storage_offset());
}

// Copies memory rather than values, so that autograd and the checks of inference tensors do not interfere.
void copy_memory(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_contiguous() && from.is_contiguous() && to.is_cpu()) {
    if (to.nbytes() > 0) std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor target = to;  // NOLINT(performance-unnecessary-copy-initialization): copy_ is of a tensor that is not const
  target.copy_(from.view(to.sizes()));
}

class Copying : public detail::PrologueEpilogue {
 public:
  Copying(Blocks from, Blocks to) : from_(std::move(from)), to_(std::move(to)) {}
  void prologue() override { from_.gather(); }
  void epilogue() override { to_.scatter(); }
  std::string_view terms() const final { return {}; }

 private:
  Blocks from_, to_;
};

/// Does the same copies on the device, in the order of its stream.
class CopyingOnDevice final : public detail::PrologueEpilogue {
 public:
  CopyingOnDevice(Blocks from, Blocks to) : from_(std::move(from)), to_(std::move(to)) {}
  void prologue() override {}
  void epilogue() override {}
  std::string_view terms() const override { return {}; }
  std::vector<detail::TensorCopy> prologue_copies() const override { return from_.copies(true); }
  std::vector<detail::TensorCopy> epilogue_copies() const override { return to_.copies(false); }

 private:
  Blocks from_, to_;
};

/// Keeps memory alive that an operation on a device reads until it is done.
class Kept final : public detail::PrologueEpilogue {
 public:
  explicit Kept(at::Tensor memory) : memory_(std::move(memory)) {}
  void prologue() override {}
  void epilogue() override {}
  std::string_view terms() const override { return {}; }

 private:
  at::Tensor memory_;
};

class Scaling final : public Copying {
 public:
  Scaling(at::Tensor input, at::Tensor scaled, at::Tensor factor, Blocks from)
      : Copying(std::move(from), {}), input_(std::move(input)), scaled_(std::move(scaled)), factor_(std::move(factor)) {}
  void prologue() override {
    Copying::prologue();
    const at::AutoDispatchBelowADInplaceOrView below;
    at::mul_out(scaled_, input_, factor_);
  }

 private:
  at::Tensor input_, scaled_, factor_;
};

}  // namespace

at::Tensor movable(const at::Tensor& tensor) {
  if (!tensor.defined() || is_known(tensor.scalar_type()) || tensor.is_quantized()) return tensor;
  return tensor.dim() == 0 ? tensor.view({1}).view(at::kByte) : tensor.view(at::kByte);
}

TensorView read(const at::Tensor& tensor) { return detail::view_of_torch(tensor); }

TensorView write(const at::Tensor& tensor) {
  at::Tensor handle = tensor;
  buffer_traits<at::Tensor>::written(handle);
  return detail::view_of_torch(tensor);
}

Blocks::Blocks(TensorList tensors) : tensors_(std::move(tensors)) {
  const at::Tensor& first = tensors_.front();
  std::int64_t numel = 0;
  for (const at::Tensor& tensor : tensors_) {
    static_cast<void>(read(movable(tensor)));
    if (tensor.scalar_type() != first.scalar_type() || tensor.device() != first.device()) {
      throw InvalidArgument(fmt::format("a list holds tensors of {} on {} and of {} on {}", c10::toString(first.scalar_type()), first.device().str(),
                                        c10::toString(tensor.scalar_type()), tensor.device().str()),
                            {.hint = "the tensors of one call have one dtype and one device"});
    }
    numel += tensor.numel();
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  whole_ = one_line(tensors_, numel);
  is_copy_ = !whole_.defined();
  if (is_copy_) whole_ = at::empty({numel}, first.options().memory_format(std::nullopt).requires_grad(false));
  whole_ = movable(whole_);
}

bool Blocks::is_even() const {
  return std::ranges::all_of(tensors_, [&](const at::Tensor& tensor) { return tensor.numel() == tensors_.front().numel(); });
}

Counts Blocks::counts() const {
  const auto bytes = static_cast<std::size_t>(tensors_.front().element_size() / whole_.element_size());
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors_) counts.push_back(static_cast<std::size_t>(tensor.numel()) * bytes);
  return counts;
}

void Blocks::bump_versions() const {
  for (at::Tensor tensor : tensors_) buffer_traits<at::Tensor>::written(tensor);
}

template <class F>
void Blocks::for_each_part(bool as_moved, F&& f) const {
  if (!is_copy_) return;
  const at::ScalarType own = tensors_.front().scalar_type();
  const at::Tensor whole = as_moved || whole_.scalar_type() == own ? whole_ : whole_.view(own);
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor elements = as_moved ? movable(tensor) : tensor;
    f(whole.narrow(0, begin, elements.numel()), elements);
    begin += elements.numel();
  }
}

void Blocks::gather() const {
  for_each_part(false, [](const at::Tensor& part, const at::Tensor& tensor) { copy_memory(part.view(tensor.sizes()), tensor); });
}
void Blocks::scatter() const {
  for_each_part(false, [](const at::Tensor& part, const at::Tensor& tensor) { copy_memory(tensor, part); });
}
std::vector<detail::TensorCopy> Blocks::copies(bool gathers) const {
  const at::AutoDispatchBelowADInplaceOrView below;
  std::vector<detail::TensorCopy> copies;
  for_each_part(true, [&](const at::Tensor& part, const at::Tensor& tensor) {
    copies.push_back(gathers ? detail::TensorCopy{read(part), read(tensor)} : detail::TensorCopy{read(tensor), read(part)});
  });
  return copies;
}

std::shared_ptr<detail::PrologueEpilogue> copying(Blocks from, Blocks to) {
  if (!from.is_copy() && !to.is_copy()) return nullptr;
  if (!(from.is_copy() ? from.whole() : to.whole()).is_cpu()) return std::make_shared<CopyingOnDevice>(std::move(from), std::move(to));
  return std::make_shared<Copying>(std::move(from), std::move(to));
}

std::shared_ptr<detail::PrologueEpilogue> scaling(at::Tensor input, at::Tensor scaled, at::Tensor factor, Blocks from) {
  if (!scaled.is_cpu()) {
    // The copy runs on torch's current stream, and the operation comes after that stream.
    from.gather();
    const at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor result = scaled;
    at::mul_out(result, input, factor);
    return std::make_shared<Kept>(std::move(scaled));
  }
  return std::make_shared<Scaling>(std::move(input), std::move(scaled), std::move(factor), std::move(from));
}

}  // namespace unisono::libtorch
