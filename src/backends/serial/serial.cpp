#include "backends/serial/serial.h"

#include <cstring>
#include <mutex>

#include "kernels/reduce.h"

namespace unisono::backends {
namespace {

class Done final : public Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

class Serial final : public Backend {
 public:
  std::string_view name() const noexcept override { return "serial"; }
  Capabilities capabilities() const override { return {}; }

  void run(const CollectiveCall& call, Waiter&) override { carry_out(call); }
  std::unique_ptr<Task> start(const CollectiveCall& call) override {
    carry_out(call);
    return std::make_unique<Done>();
  }
  std::unique_ptr<Task> start_send(const MessageCall&) override { return refuse("send"); }
  std::unique_ptr<Task> start_recv(const MessageCall&) override { return refuse("recv"); }
  std::unique_ptr<Task> start_probe(const MessageCall&) override { return refuse("probe"); }

  void poison(const Failure& failure) override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  std::optional<Failure> failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  std::optional<Failure> look_for_failures(std::span<const int>, bool) override { return failure(); }

 private:
  static void carry_out(const CollectiveCall& call) {
    if (call.operation == Operation::exscan || call.in.numel() == 0) return;
    if (reduces(call.operation) && !call.custom) {
      const void* input = call.in.data();
      kernels::reduce(call.out.data(), &input, 1, static_cast<std::size_t>(call.out.numel()), call.in.dtype(), call.op,
                      1);  // normalises what an operation normalises
    } else if (call.in.data() != call.out.data()) {
      std::memcpy(call.out.data(), call.in.data(), call.in.bytes());
    }
  }
  [[noreturn]] static std::unique_ptr<Task> refuse(const char* operation) {
    throw InvalidArgument("there is nobody else in a group of one", {.operation = operation});
  }

  std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace

std::unique_ptr<Backend> make_serial(const BackendOptions&) { return std::make_unique<Serial>(); }

}  // namespace unisono::backends
