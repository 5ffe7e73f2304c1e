#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>

#include "torch/remote/operators.h"
#include "torch/remote/session.h"
#include "torch/remote/wire.h"

namespace unisono::libtorch {

/// The arguments of an operator as bytes, in two parts: what the results' shapes depend on, which is the key of the cache of shapes, and the rest,
/// which is which tensors they are, and amounts.
class Arguments {
 public:
  /// Reads the arguments of a call.
  ///
  /// @throws InvalidArgument for tensors of several devices, and for values that no worker understands
  Arguments(const Operator& op, c10::ArrayRef<c10::IValue> values);

  int worker() const noexcept { return worker_; }
  const std::shared_ptr<Session>& session() const noexcept { return session_; }
  Channel& channel() const { return session_->channel(worker_); }
  int generation() const noexcept { return generation_; }
  std::string_view key() const { return key_.view(); }
  const WireWriter& key_bytes() const { return key_; }
  const WireWriter& rest_bytes() const { return rest_; }

 private:
  void value(const c10::IValue& value, bool is_amount);
  void tensor(const at::Tensor& tensor);
  void cpu_tensor(const at::Tensor& tensor);
  void amount(const c10::IValue& value, bool is_amount);
  void list(const c10::IValue& value, bool are_amounts);
  void device(const at::Device& device);
  void generator(const at::Generator& generator);
  /// Refuses a tensor of this process as one that is written to: of its number only a copy goes to the worker.
  void check_written(const c10::IValue& value) const;
  void place(const std::shared_ptr<Session>& session, int worker, int generation);

  const Operator& op_;
  WireWriter key_, rest_;
  std::shared_ptr<Session> session_;
  int worker_ = -1;
  int generation_ = 0;
};

}  // namespace unisono::libtorch
