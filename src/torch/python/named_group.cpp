#include "torch/python/named_group.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "unisono/context.h"
#include "unisono/detail/place.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

using WeakGroup = c10::weak_intrusive_ptr<ProcessGroupUnisono>;

struct Names {
  std::mutex mutex;
  std::map<std::string, WeakGroup, std::less<>> groups;
};
// Groups may be looked up after the destructors of static objects have run, so this is never destroyed.
Names& names() {
  static auto& instance = *new Names;
  return instance;
}

constexpr std::string_view world_name = "world";

}  // namespace

NamedGroup NamedGroup::find(std::string_view name) {
  if (name.empty()) name = world_name;
  {
    const std::lock_guard lock(names().mutex);
    if (const auto found = names().groups.find(name); found != names().groups.end()) {
      if (auto group = found->second.lock()) return NamedGroup(std::move(group));
    }
  }
  if (name == world_name && is_initialized()) return NamedGroup(nullptr);
  throw InvalidArgument(fmt::format("there is no group \"{}\" of backend unisono in this process", name),
                        {.hint = name == world_name ? "form it first: init_process_group(\"unisono\") or unisono.initialize()"
                                                    : "the name of a group of torch.distributed is group.group_name"});
}

void NamedGroup::add(const std::string& name, const c10::intrusive_ptr<ProcessGroupUnisono>& group) {
  if (name.empty()) return;
  const std::lock_guard lock(names().mutex);
  std::erase_if(names().groups, [](const auto& other) { return other.second.expired(); });
  names().groups.insert_or_assign(name, WeakGroup(group));
}

int NamedGroup::size() const { return group_ ? group_->getSize() : current_world().size(); }

void NamedGroup::run(const detail::Request& request, const at::Device& device) const {
  if (group_) return group_->carry_out(request, device, kNoTimeout);
  const TorchStream stream(device);
  detail::run(request, current_world(), {.where = detail::place_of_caller()});
}

}  // namespace unisono::libtorch
