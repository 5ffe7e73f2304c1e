// What Python calls: the operators torch.ops.unisono.create and launcher_store, and two functions for ctypes. Nothing here knows Python, so that an
// extension depends on the version of PyTorch alone. Groups pass between Python and this operator as PyTorch's own operators pass them
// (ProcessGroup.boxed and unbox).

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>
#include <torch/version.h>

#include "torch/python/errors.h"
#include "torch/python/named_group.h"
#include "torch/python/process_group.h"
#include "torch/python/store.h"
#include "torch/python/versions.h"
#include "unisono/detail/launcher_store.h"
#include "unisono/export.h"

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Torch's description of a group.
struct Given {
  std::string group_name;
  std::vector<std::uint64_t> global_ranks_in_group;
};

/// Joins a group: collective over its ranks. `given` has torch's store, the rank and the size, and no backend yet. `name` is for profilers, `engine`
/// the backend's name in `initialize`, `ranks` the members' numbers in the job (none: all of them), `library` what all members must have. Returns a
/// group whose backend for the cpu is ours.
Group create(const Group& given, std::string name, std::string engine, std::int64_t timeout_ms, const std::string& group_id, at::IntArrayRef ranks,
             std::string library) {
  using unisono::libtorch::ProcessGroupUnisono;
  auto own = c10::make_intrusive<ProcessGroupUnisono::Options>(std::move(name), std::chrono::milliseconds(timeout_ms));
  own->name = ranks.empty() ? "world" : group_id;
  const std::string own_name = own->name;
  own->library = std::move(library);
  unisono::libtorch::describe_group(*own, Given{.group_name = own->name, .global_ranks_in_group = {ranks.begin(), ranks.end()}});
  auto store = unisono::libtorch::store_of(*given);
  auto part = ranks.empty() ? store : unisono::libtorch::place_of_group(ranks.front(), store);
  auto made = c10::make_intrusive<c10d::ProcessGroup>(std::move(store), given->getRank(), given->getSize());
  auto backend = c10::make_intrusive<ProcessGroupUnisono>(std::move(part), given->getRank(), given->getSize(), std::move(own), std::move(engine));
  for (const std::string& known : {own_name, group_id}) unisono::libtorch::NamedGroup::add(known, backend);
  made->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, std::move(backend));
  return made;
}

/// Returns the store of the launcher that has started this process as that rank of that many, inside a group without a backend. Nothing where none
/// has.
std::optional<Group> launcher_store(std::string place, std::int64_t rank, std::int64_t size, std::int64_t timeout_ms) {
  const auto own_rank = static_cast<int>(rank), own_size = static_cast<int>(size);
  return unisono::libtorch::with_torch_errors([&]() -> std::optional<Group> {
    auto store = unisono::detail::launcher_store(own_rank, own_size, place, std::chrono::milliseconds(timeout_ms));
    if (!store) return std::nullopt;
    return c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<unisono::libtorch::LauncherStore>(std::move(store)), own_rank, own_size);
  });
}

TORCH_LIBRARY(unisono, operators) {  // NOLINT(clang-diagnostic-exit-time-destructors): torch's macro
  operators.def("create", create);
  operators.def("launcher_store", launcher_store);
}

}  // namespace

/// Returns the version of the PyTorch whose headers this was compiled with.
extern "C" UNISONO_API const char* unisono_torch_built_for() { return TORCH_VERSION; }

/// Ends this process's part in all groups; `how` says how the process ends, or is empty.
extern "C" UNISONO_API void unisono_torch_end_all(const char* how) { unisono::libtorch::end_all(how); }
