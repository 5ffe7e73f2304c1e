#include "engines/serial/serial.h"

#include <cstring>

#include "kernels/reduce.h"

namespace unisono::engines::serial {
namespace {

class Done final : public Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

void copy_or_normalise(const CollectiveCall& call) {
  // The lone rank gets from itself, or from nobody.
  if (!contributes(traits_of(call.operation), 0, 0, {1, 0}) || call.in.numel() == 0) return;
  if (reduces(call.operation) && !call.custom) {
    const void* input = call.in.data();
    kernels::reduce(call.out.data(), &input, 1, static_cast<std::size_t>(call.out.numel()), call.in.dtype(), call.op,
                    1);  // normalises truth values
  } else if (call.in.data() != call.out.data()) {
    std::memcpy(call.out.data(), call.in.data(), call.in.bytes());
  }
}

class Serial final : public Engine {
 public:
  std::string_view name() const noexcept override { return "serial"; }
  bool compares_calls() const noexcept override { return true; }
  bool offers(const CollectiveCall&) const override { return true; }
  void carry_out(const CollectiveCall& call, Waiter&) override { copy_or_normalise(call); }
  std::unique_ptr<Task> start(const CollectiveCall& call) override {
    copy_or_normalise(call);
    return std::make_unique<Done>();
  }
  void abort(const Failure&) noexcept override {}
};

}  // namespace

std::unique_ptr<Engine> make_serial() { return std::make_unique<Serial>(); }

}  // namespace unisono::engines::serial
