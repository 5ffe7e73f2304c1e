#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/remote/wire.h"
#include "unisono/error.h"

// The worker's side of remote tensors. All of it is used by the thread that serves calls.

namespace unisono::libtorch {

/// An error that a command has met, or that an argument of it has from an earlier one.
struct RemoteFailure {
  std::string type, message;
};

/// The storages, operators and generators of a worker's process.
class WorkerTable {
 public:
  /// Returns the storage, which is made or grows if it has fewer bytes.
  ///
  /// @throws the failure of the command that should have made it
  c10::Storage& storage(std::uint64_t number, std::size_t bytes);
  bool has(std::uint64_t number) const { return storages_.contains(number); }
  void keep(std::uint64_t number, c10::Storage storage) { storages_.insert_or_assign(number, std::move(storage)); }
  void drop(std::uint64_t number);
  /// Has later commands that use the storage fail with this.
  void spoil(std::uint64_t number, const std::shared_ptr<const RemoteFailure>& why) { spoilt_.insert_or_assign(number, why); }
  /// Returns a number for a storage that an operator has made whose results the controller did not foresee.
  std::uint64_t new_storage() noexcept { return next_ += 2; }

  /// Returns the operator of this number; `name` and `overload` come with its first use.
  ///
  /// @throws RemoteError if this process has no such operator
  const c10::OperatorHandle& operator_at(std::uint64_t number);
  void name_operator(std::uint64_t number, const std::string& name, const std::string& overload);
  const std::string& name_of(std::uint64_t number) const { return operators_.at(number).name; }

  at::Generator& generator(std::uint64_t number);

  /// The first failure of a command that nobody waited for.
  std::shared_ptr<const RemoteFailure> failure;

 private:
  struct NamedOperator {
    std::string name;
    std::optional<c10::OperatorHandle> handle;
  };
  std::unordered_map<std::uint64_t, c10::Storage> storages_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const RemoteFailure>> spoilt_;
  std::unordered_map<std::uint64_t, NamedOperator> operators_;
  std::unordered_map<std::uint64_t, at::Generator> generators_;
  std::uint64_t next_ = 1;
};

/// Returns the table of this worker, which is a thread in some programs.
WorkerTable& worker_table();

/// Thrown for an argument that an earlier command has failed to make.
struct Spoilt final : RemoteError {
  explicit Spoilt(std::shared_ptr<const RemoteFailure> why) : RemoteError(why->message, {}, why->type), failure(std::move(why)) {}
  std::shared_ptr<const RemoteFailure> failure;
};

/// Returns the tensor that a controller describes.
at::Tensor tensor_at(const Geometry& geometry, std::uint8_t flags, std::uint64_t storage, std::size_t bytes);
/// Reads what write_tensor wrote.
at::Tensor read_tensor(WireReader& in, std::uint8_t flags = 0);

/// Keeps the name of an operator, if the command has it, which is not carried out.
void learn_operator(WireReader in);
/// Carries out an operator and writes the answer, if the controller waits for one.
void run_operator(WireReader& in, WireWriter& answer);

/// Returns a description of the exception under way. To be called in a handler.
RemoteFailure current_failure();

}  // namespace unisono::libtorch
