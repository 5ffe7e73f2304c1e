#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/ATen_fwd.h>
#include <c10/core/CPUAllocator.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "torch/remote/worker.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

c10::Storage new_storage(std::size_t bytes) {
  return {c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator()->allocate(bytes), c10::GetCPUAllocator(), true};
}

/// Keeps the elements: PyTorch's resize_ does.
void grow(c10::Storage& storage, std::size_t bytes) {
  auto larger = c10::GetCPUAllocator()->allocate(bytes);
  if (storage.nbytes() > 0) std::memcpy(larger.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(larger));
  storage.set_nbytes(bytes);
}

}  // namespace

WorkerTable& worker_table() {
  static thread_local WorkerTable table;
  return table;
}

c10::Storage& WorkerTable::storage(std::uint64_t number, std::size_t bytes) {
  if (!spoilt_.empty()) {
    if (const auto found = spoilt_.find(number); found != spoilt_.end()) throw Spoilt(found->second);
  }
  const auto found = storages_.find(number);
  if (found == storages_.end()) return storages_.emplace(number, libtorch::new_storage(bytes)).first->second;
  if (found->second.nbytes() < bytes) grow(found->second, bytes);
  return found->second;
}

void WorkerTable::drop(std::uint64_t number) {
  storages_.erase(number);
  if (!spoilt_.empty()) spoilt_.erase(number);
  if (!generators_.empty()) generators_.erase(number);
}

void WorkerTable::name_operator(std::uint64_t number, const std::string& name, const std::string& overload) {
  operators_.insert_or_assign(
      number, NamedOperator{overload.empty() ? name : name + "." + overload, c10::Dispatcher::singleton().findSchema({name, overload})});
}

const c10::OperatorHandle& WorkerTable::operator_at(std::uint64_t number) {
  const auto found = operators_.find(number);
  if (found == operators_.end()) throw ProtocolError("a command for remote tensors has an operator without a name");
  if (!found->second.handle) {
    throw RemoteError(fmt::format("there is no operator {} on worker {}", found->second.name, detail::worker_number()),
                      {.hint = "the library that defines it must be loaded there, too"});
  }
  return *found->second.handle;
}

at::Generator& WorkerTable::generator(std::uint64_t number) {
  if (number == 0) return const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator());
  auto& generator = generators_[number];
  if (!generator.defined()) generator = at::detail::createCPUGenerator();
  return generator;
}

at::Tensor tensor_at(const Geometry& geometry, std::uint8_t flags, std::uint64_t storage, std::size_t bytes) {
  if (bytes_of(geometry) > bytes) {
    throw InvalidArgument(
        fmt::format("a view {} with offset {} reaches beyond its storage of {} bytes", described(geometry), geometry.offset, bytes));
  }
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(worker_table().storage(storage, bytes)),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(geometry.dtype));
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  if ((flags & Flag::wrapped_number) != 0) impl->set_wrapped_number(true);
  if ((flags & Flag::conjugate) != 0) impl->_set_conj(true);
  if ((flags & Flag::negative) != 0) impl->_set_neg(true);
  return tensor;
}

at::Tensor read_tensor(WireReader& in, std::uint8_t flags) {
  Geometry geometry = in.shape();
  const std::uint64_t storage = in.number();
  const std::size_t bytes = in.number();
  geometry.offset = static_cast<std::int64_t>(in.number());
  return tensor_at(geometry, flags, storage, bytes);
}

RemoteFailure current_failure() {
  try {
    throw;
  } catch (const Spoilt& spoilt) {
    return *spoilt.failure;
  } catch (const RemoteError& error) {
    return {error.type(), error.what()};
  } catch (const c10::Error& error) {
    return {"c10::Error", error.what_without_backtrace()};
  } catch (const std::exception& error) {
    int status = 0;
    char* const plain = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
    RemoteFailure failure{status == 0 ? plain : typeid(error).name(), error.what()};
    std::free(plain);
    return failure;
  } catch (...) {
    return {"", "an exception that is not a std::exception"};
  }
}

}  // namespace unisono::libtorch
