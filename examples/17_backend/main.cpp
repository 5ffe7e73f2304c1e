// unisono/backend.h: a backend of one's own, known by name. This one serves a world of one and counts what it is asked for.
#include <unisono/unisono.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../arguments.h"

namespace {

std::atomic<int> calls{0};

class Done final : public unisono::Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

class Counting final : public unisono::Backend {
 public:
  std::string_view name() const noexcept override { return "counting"; }
  unisono::Capabilities capabilities() const override { return {.any_source = false}; }
  std::unique_ptr<unisono::Task> start(const unisono::CollectiveCall& call) override {
    ++calls;
    if (call.in.data() != call.out.data() && call.out.numel() > 0) std::memcpy(call.out.data(), call.in.data(), call.out.bytes());
    return std::make_unique<Done>();
  }
  std::unique_ptr<unisono::Task> start_send(const unisono::MessageCall&) override { throw unisono::Unsupported("nobody to send to"); }
  std::unique_ptr<unisono::Task> start_recv(const unisono::MessageCall&) override { throw unisono::Unsupported("nobody to hear from"); }
  void poison(const unisono::Failure& failure) override { failure_ = failure; }
  std::optional<unisono::Failure> failure() override { return failure_; }
  std::optional<unisono::Failure> look_for_failures(std::span<const int>, bool) override { return failure_; }

 private:
  std::optional<unisono::Failure> failure_;
};

}  // namespace

constexpr const char* about = "A backend of one's own, known by name. It runs without a launcher.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::register_backend("counting", [](const unisono::BackendOptions&) { return std::make_unique<Counting>(); });
    unisono::initialize("counting");
    const auto all = unisono::all_gather(41);
    unisono::barrier();
    std::printf("%s answered %d calls, %d value\n", unisono::world().backend().c_str(), calls.load(), static_cast<int>(all.size()));
    unisono::finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
