// A broadcast whose receivers know nothing of what comes (ignite's safe_mode); safe_broadcast.py is the same in Python.
//   unisono run -n 2 -- from-safe_broadcast
#include <unisono/unisono.h>

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

using unisono::AnyValue;

int main() {
  const unisono::Context context;
  const bool is_source = unisono::rank() == 0;
  // Only the source gives a value. Kind, dtype, shape and content come from it.
  const auto from_source = [&](AnyValue value) { return unisono::broadcast_any(is_source ? std::optional(std::move(value)) : std::nullopt); };

  const AnyValue number = from_source(16777217);  // a float32, as which ignite's numbers travel, cannot hold it
  const AnyValue text = from_source("naïve");
  const std::vector<float> x{1.5F, 2.5F, 3.5F};
  const AnyValue tensor = from_source(AnyValue(x));
  std::printf("rank %d: %d %s, %zu elements\n", unisono::rank(), number.number<int>(), text.string().c_str(), tensor.elements<float>().size());

  // Where the receivers do know the kind, the plain broadcast is shorter, and faster.
  std::vector<float> known = is_source ? x : std::vector<float>(3);
  unisono::broadcast(known, 0);
  std::printf("rank %d: %g %g %g\n", unisono::rank(), known[0], known[1], known[2]);
}
