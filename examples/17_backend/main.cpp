// unisono/engine.h: a user's engine is registered under a name. This one serves a world of one and counts its calls.
#include <unisono/unisono.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "../arguments.h"

namespace {

std::atomic<int> calls{0};
std::string last_call;

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
    last_call = unisono::name_of(call);
    if (call.in.data() != call.out.data() && call.out.numel() > 0) std::memcpy(call.out.data(), call.in.data(), call.out.bytes());
    return std::make_unique<Done>();
  }
  void abort(const unisono::Failure&) noexcept override {}
};

/// An engine learns from a table what an operation is, and combines elements as the library's own engines do.
void what_engines_know() {
  int combining = 0, rooted = 0, uneven = 0, prefixes = 0, messages = 0, of_all = 0;
  for (const unisono::OperationTraits& row : unisono::operation_table) {
    combining += unisono::reduces(row.operation) ? 1 : 0;
    rooted += unisono::has_root(row.operation) ? 1 : 0;
    uneven += unisono::has_counts(row.operation) ? 1 : 0;
    prefixes += unisono::is_prefix(row.operation) ? 1 : 0;
    messages += unisono::is_message(row.operation) ? 1 : 0;
    of_all += unisono::is_from_all_to_all(row) && !unisono::is_message(row.operation) ? 1 : 0;
  }
  std::printf("operations: %d combine, %d have a root, %d have counts, %d go up to each rank, %d are messages, %d go from all to all\n", combining,
              rooted, uneven, prefixes, messages, of_all);
  const unisono::OperationTraits& gather = unisono::traits_of(unisono::Operation::gather);
  std::printf("a gather at rank 1 gives rank 0 something: %s; a rank other than its root gets something: %s\n",
              unisono::contributes(gather, 2, 0, {3, 1}) ? "yes" : "no", unisono::takes_part(gather.receivers, false) ? "yes" : "no");
  float sum[] = {1, 2};
  const float with[] = {4, 8};
  unisono::combine(unisono::DType::float32, unisono::ReduceOp::sum, sum, with, 2);
  unisono::divide(unisono::DType::float32, sum, 2, 2);
  std::printf("combined and divided: %g %g\n", static_cast<double>(sum[0]), static_cast<double>(sum[1]));
}

}  // namespace

constexpr const char* about = "An engine of one's own, known by name. It runs without a launcher.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::register_engine("counting", [](const unisono::EngineOptions&) { return std::make_unique<Counting>(); });
    unisono::initialize("counting");
    const auto all = unisono::all_gather(41);
    static_cast<void>(unisono::broadcast(all.front(), 0));
    std::printf("%s answered %d calls, %d value, the last one was %s\n", unisono::world().backend().c_str(), calls.load(),
                static_cast<int>(all.size()), last_call.c_str());
    unisono::finalize();
    what_engines_know();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
