#include "torch/remote/device.h"

#include <c10/core/DeviceType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "torch/remote/place.h"
#include "torch/remote/session.h"
#include "unisono/error.h"
#include "unisono/torch/remote.h"

namespace unisono::libtorch {
namespace {

constexpr const char* backend_name = "remote";
/// Autograd has a thread for each device that it finds at the first backward pass, and knows no others later. So many are announced, even if the
/// first controller has fewer workers than a later one.
constexpr int least_devices = 16;

/// Storages are numbers of the worker's: nothing is allocated here.
class RemoteAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t /*bytes*/) override {
    const auto [session, worker] = place_of(at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(current_worker())));
    auto* const handle = new Handle(session, worker, session->new_storage());
    return {nullptr, handle, [](void* context) { delete static_cast<Handle*>(context); },
            at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(worker))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    throw Unsupported("the elements of a remote tensor cannot be copied by pointer", {.hint = "copy_() copies them"});
  }
};

/// Makes the storages that PyTorch itself makes, as for torch.UntypedStorage, like those of make_storage.
c10::intrusive_ptr<c10::StorageImpl> storage_for_torch(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes, c10::DataPtr pointer,
                                                       c10::Allocator* allocator, bool resizable) {
  const auto size = static_cast<std::size_t>(bytes.expect_int());
  if (pointer.get_context() == nullptr) pointer = device_allocator()->allocate(size);
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), std::move(bytes), std::move(pointer), allocator, resizable);
  forbid_data(*storage);
  return storage;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  at::DeviceType type() const override { return at::kPrivateUse1; }
  at::Device exchangeDevice(at::Device device) const override {
    const at::Device before = getDevice();
    setDevice(device);
    return before;
  }
  at::Device getDevice() const override { return {at::kPrivateUse1, static_cast<at::DeviceIndex>(current_worker())}; }
  void setDevice(at::Device device) const override { set_current_worker(device.index()); }
  void uncheckedSetDevice(at::Device device) const noexcept override { set_current_worker(device.index()); }
  at::DeviceIndex deviceCount() const noexcept override {
    const auto session = find_session();
    return static_cast<at::DeviceIndex>(std::max(session ? session->size() : 0, least_devices));
  }
  // A worker carries out one operator after the other: there is one stream.
  c10::Stream getStream(at::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(at::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  bool queryStream(const c10::Stream& /*stream*/) const override { return false; }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream.device()); }
  void synchronizeDevice(const at::DeviceIndex index) const
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 6
      override
#endif
  {
    synchronize(at::Device(at::kPrivateUse1, index));
  }
};

}  // namespace

c10::Allocator* device_allocator() noexcept {
  static RemoteAllocator allocator;
  return &allocator;
}

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string now = c10::get_privateuse1_backend();
    if (c10::is_privateuse1_backend_registered() && now != backend_name) {
      return note_other_backend(now);
    }
    c10::register_privateuse1_backend(backend_name);
    const c10::impl::DeviceGuardImplRegistrar registrar(at::kPrivateUse1, new Guard);  // guards last as long as the process
    c10::SetAllocator(at::kPrivateUse1, device_allocator());
    c10::SetStorageImplCreate(at::kPrivateUse1, &storage_for_torch);
    register_hooks();
    register_operators();
  });
}

}  // namespace unisono::libtorch
