// unisono/engine.h: a user's engine is registered under a name. This one serves a world of one and counts its calls.
#include <unisono/unisono.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "../arguments.h"

namespace {

std::atomic<int> calls{0};

class Done final : public unisono::Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

class Counting final : public unisono::Engine {
 public:
  std::string_view name() const noexcept override { return "counting"; }
  bool offers(const unisono::CollectiveCall&) const override { return true; }
  std::unique_ptr<unisono::Task> start(const unisono::CollectiveCall& call) override {
    ++calls;
    if (call.in.data() != call.out.data() && call.out.numel() > 0) std::memcpy(call.out.data(), call.in.data(), call.out.bytes());
    return std::make_unique<Done>();
  }
  void abort(const unisono::Failure&) noexcept override {}
};

}  // namespace

constexpr const char* about = "An engine of one's own, known by name. It runs without a launcher.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::register_engine("counting", [](const unisono::EngineOptions&) { return std::make_unique<Counting>(); });
    unisono::initialize("counting");
    const auto all = unisono::all_gather(41);
    static_cast<void>(unisono::broadcast(all.front(), 0));
    std::printf("%s answered %d calls, %d value\n", unisono::world().backend().c_str(), calls.load(), static_cast<int>(all.size()));
    unisono::finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
