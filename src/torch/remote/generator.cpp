#include "torch/remote/generator.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "torch/remote/device.h"
#include "torch/remote/place.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

/// What PyTorch asks of a backend.
class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 6
      override
#endif
  {
    return true;
  }
  bool isAvailable() const
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 6
      override
#endif
  {
    return deviceCount() > 0;
  }
  bool hasPrimaryContext(at::DeviceIndex /*index*/) const override { return true; }
  at::DeviceIndex deviceCount() const override {
    const auto session = find_session();
    return session && session->workers() ? static_cast<at::DeviceIndex>(session->size()) : at::DeviceIndex{0};
  }
  void setCurrentDevice(at::DeviceIndex index) const override { set_current_worker(index); }
  at::DeviceIndex getCurrentDevice() const override { return static_cast<at::DeviceIndex>(current_worker()); }
  at::DeviceIndex exchangeDevice(at::DeviceIndex index) const override {
    const auto before = getCurrentDevice();
    set_current_worker(index);
    return before;
  }
  at::DeviceIndex maybeExchangeDevice(at::DeviceIndex index) const override { return index < 0 ? getCurrentDevice() : exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(at::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(at::DeviceIndex index) const
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 6
      override
#endif
  {
    return new_generator(index);
  }
  at::Device getDeviceFromPtr(void* /*data*/) const override {
    throw InvalidArgument("a pointer tells nothing about remote tensors, whose elements are in other processes");
  }
  bool isPinnedPtr(const void* /*data*/) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    throw Unsupported("memory cannot be pinned for remote tensors: their elements travel to other processes", {.hint = "leave pin_memory out"});
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);  // the worker's storage grows when it is used
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

RemoteGenerator::RemoteGenerator(std::shared_ptr<Session> session, int worker, std::uint64_t number)
    : c10::GeneratorImpl(at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(worker)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      session_(std::move(session)),
      worker_(worker),
      number_(number) {}

RemoteGenerator::~RemoteGenerator() {
  if (number_ != 0) session_->channel(worker_).drop(number_);
}

void RemoteGenerator::set_current_seed(std::uint64_t seed) {
  session_->channel(worker_).send(
      [&](WireWriter& out) {
        out.code(Command::seed);
        out.number(number_);
        out.number(seed);
      },
      false);
  seed_ = seed;
}

void RemoteGenerator::set_offset(std::uint64_t /*offset*/) { throw Unsupported("a worker's generator has no offset, as that of the cpu has none"); }

std::uint64_t RemoteGenerator::get_offset() const { throw Unsupported("a worker's generator has no offset, as that of the cpu has none"); }

std::uint64_t RemoteGenerator::seed() {
  const std::uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void RemoteGenerator::set_state(const c10::TensorImpl& state) {
  const at::Tensor bytes = at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(&state))).contiguous();
  if (!bytes.is_cpu() || bytes.scalar_type() != at::kByte) {
    throw InvalidArgument(fmt::format("the state of a generator is a tensor of bytes on the cpu, and not of {} on {}",
                                      c10::toString(bytes.scalar_type()), bytes.device().str()));
  }
  session_->channel(worker_).ask([&](WireWriter& out) {
    out.code(Command::set_state);
    out.number(number_);
    out.raw(bytes.const_data_ptr(), bytes.nbytes());
  });
}

c10::intrusive_ptr<c10::TensorImpl> RemoteGenerator::get_state() const {
  const auto answer = session_->channel(worker_).ask([&](WireWriter& out) {
    out.code(Command::get_state);
    out.number(number_);
  });
  WireReader in(answer.body);
  in.byte();
  const auto state = in.rest();
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(state.size())}, at::TensorOptions(at::kByte).device(at::kCPU));
  std::memcpy(bytes.mutable_data_ptr(), state.data(), state.size());
  return bytes.getIntrusivePtr();
}

RemoteGenerator* RemoteGenerator::clone_impl() const {
  auto copy = std::make_unique<RemoteGenerator>(session_, worker_, session_->new_storage());
  copy->set_state(*get_state());
  copy->seed_ = seed_;
  return copy.release();
}

const RemoteGenerator& generator_of(const at::Generator& generator) { return *static_cast<RemoteGenerator*>(generator.unsafeGetGeneratorImpl()); }

const at::Generator& default_generator(at::DeviceIndex index) {
  static std::mutex mutex;
  // None is replaced by that of a later controller: PyTorch may still have the reference.
  static auto& generators = *new std::map<std::pair<std::shared_ptr<Session>, int>, at::Generator>;
  const auto [session, worker] = place_of(at::Device(at::kPrivateUse1, index));
  const std::lock_guard lock(mutex);
  at::Generator& own = generators[{session, worker}];
  if (!own.defined()) own = at::make_generator<RemoteGenerator>(session, worker, 0);
  return own;
}

at::Generator new_generator(at::DeviceIndex index) {
  const auto [session, worker] = place_of(at::Device(at::kPrivateUse1, index));
  at::Generator made = at::make_generator<RemoteGenerator>(session, worker, session->new_storage());
  made.set_current_seed(c10::default_rng_seed_val);
  return made;
}

}  // namespace unisono::libtorch
