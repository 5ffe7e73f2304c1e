// The module unisono.torch._C makes a process group for torch.distributed, which has Python names for all of its methods.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "torch/python/living.h"
#include "torch/python/process_group.h"
#include "torch/python/versions.h"
#include "unisono/version.h"

namespace {

/// Torch's description of a group.
struct Given {
  std::string group_name;
  std::vector<std::uint64_t> global_ranks_in_group;
};

c10::intrusive_ptr<c10d::Backend> create(const c10d::DistributedBackendOptions& options, const std::string& name, const std::string& engine) {
  using unisono::libtorch::ProcessGroupUnisono;
  auto own = c10::make_intrusive<ProcessGroupUnisono::Options>(name, std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout));
  const auto& ranks = options.global_ranks_in_group;
  own->name = ranks.empty() ? "world" : options.group_id;
  unisono::libtorch::describe_group(*own, Given{.group_name = own->name, .global_ranks_in_group = {ranks.begin(), ranks.end()}});
  auto store = ranks.empty() ? options.store : unisono::libtorch::place_of_group(ranks.front(), options.store);
  return c10::make_intrusive<ProcessGroupUnisono>(std::move(store), options.group_rank, options.group_size, std::move(own), engine);
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  pybind11::module_::import("torch.distributed");
  module.attr("torch_version") = TORCH_VERSION;
  module.def("end_all", torch::wrap_pybind_function_no_gil(unisono::libtorch::end_all), pybind11::arg("how"));
  module.def("create", torch::wrap_pybind_function_no_gil(create), pybind11::arg("options"), pybind11::arg("name"), pybind11::arg("engine"));
}
