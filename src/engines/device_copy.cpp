#include "engines/device_copy.h"

#include <poll.h>

#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "engines/plugins.h"
#include "kernels/pack.h"
#include "unisono/cuda.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::engines {
namespace {

constexpr std::string_view plugin_of_cuda = "nccl";
constexpr std::chrono::minutes longest_fetch{30};
constexpr int frequent_looks = 1000;                                              // of a wait for the device, before it pauses for 1 ms each time
constexpr std::int64_t longest_pitch = std::numeric_limits<std::int32_t>::max();  // of CUDA's devices

bool are_rows(const kernels::Axis& axis, std::size_t bytes) {
  const auto width = static_cast<std::int64_t>(bytes);
  return axis.to >= width && axis.from >= width && axis.to <= longest_pitch && axis.from <= longest_pitch;
}

}  // namespace

DeviceRuntime& require_runtime(Device::Type type) {
  DeviceRuntime* runtime = device_runtime();
  if (runtime == nullptr) {
    const FoundPlugin* found = find_plugin(plugin_of_cuda);
    if (found == nullptr || found->plugin == nullptr || found->plugin->runtime == nullptr) {
      throw BackendUnavailable(fmt::format("the plug-in {} is not here, which knows its runtime", plugin_of_cuda));
    }
    register_device_runtime(found->plugin->runtime());
    runtime = device_runtime();
  }
  if (runtime->type() != type) throw BackendUnavailable("the devices of this process are of another type");
  return *runtime;
}

void copy(DeviceStream& stream, const TensorView& to, const TensorView& from) {
  using kernels::Axis;
  if (from.numel() == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(from.dtype()));
  const std::vector<Axis> axes = to.is_contiguous() ? kernels::axes_of(from, &Axis::from, &Axis::to) : kernels::axes_of(to, &Axis::to, &Axis::from);
  DeviceStream::Rows rows{.bytes = static_cast<std::size_t>(size)};
  std::size_t outer = 0;
  if (!axes.empty() && axes[0].to == size && axes[0].from == size) rows.bytes *= static_cast<std::size_t>(axes[outer++].extent);
  if (outer < axes.size() && are_rows(axes[outer], rows.bytes)) {
    rows.count = static_cast<std::size_t>(axes[outer].extent);
    rows.to_pitch = static_cast<std::size_t>(axes[outer].to);
    rows.from_pitch = static_cast<std::size_t>(axes[outer++].from);
  }
  std::vector<std::int64_t> index(axes.size(), 0);
  std::int64_t to_offset = 0, from_offset = 0;
  for (;;) {
    rows.to = static_cast<std::byte*>(to.data()) + to_offset;
    rows.from = static_cast<const std::byte*>(from.data()) + from_offset;
    stream.copy(rows);
    std::size_t d = outer;
    for (; d < axes.size(); ++d) {
      to_offset += axes[d].to;
      from_offset += axes[d].from;
      if (++index[d] < axes[d].extent) break;
      to_offset -= axes[d].to * axes[d].extent;
      from_offset -= axes[d].from * axes[d].extent;
      index[d] = 0;
    }
    if (d == axes.size()) return;
  }
}

bool wait_for(DeviceEvent& event, const base::Deadline& deadline) {
  for (int look = 0; !event.reached(); ++look) {
    if (deadline.passed()) return false;
    // A device does not report its end, so the host looks often at first, then every millisecond.
    if (look < frequent_looks) std::this_thread::yield();
    else ::poll(nullptr, 0, 1);
  }
  return true;
}

void fetch(void* to, const TensorView& from) {
  if (from.numel() == 0) return;
  DeviceRuntime& runtime = require_runtime(from.device().type);
  const base::Deadline deadline(longest_fetch);
  const auto before = runtime.record(from.device(), current_stream());
  if (wait_for(*before, deadline)) {
    const auto stream = runtime.stream(from.device());
    copy(*stream, TensorView(to, from.dtype(), static_cast<std::size_t>(from.numel())), from);
    if (wait_for(*runtime.record(from.device(), stream->handle()), deadline)) return;
  }
  throw Timeout(fmt::format("{} did not get through to a copy within {} minutes", to_string(from.device()), longest_fetch.count()), {}, {});
}

}  // namespace unisono::engines
