#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <memory>

#include "torch/remote/session.h"

namespace unisono::libtorch {

/// A source of random numbers in a worker's process. Number 0 is the worker's default generator, which its own functions use as well.
class RemoteGenerator final : public c10::GeneratorImpl {
 public:
  RemoteGenerator(std::shared_ptr<Session> session, int worker, std::uint64_t number);
  ~RemoteGenerator() override;

  void set_current_seed(std::uint64_t seed) override;
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  std::uint64_t current_seed() const override { return seed_; }
  std::uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  const std::shared_ptr<Session>& session() const noexcept { return session_; }
  int worker() const noexcept { return worker_; }
  std::uint64_t number() const noexcept { return number_; }

 private:
  RemoteGenerator* clone_impl() const override;

  std::shared_ptr<Session> session_;
  int worker_;
  std::uint64_t number_;
  std::uint64_t seed_ = c10::default_rng_seed_val;
};

/// Returns a generator that was made for a remote device.
const RemoteGenerator& generator_of(const at::Generator& generator);
/// Returns the default generator of a worker.
const at::Generator& default_generator(at::DeviceIndex worker);
/// Makes another one.
at::Generator new_generator(at::DeviceIndex worker);

}  // namespace unisono::libtorch
