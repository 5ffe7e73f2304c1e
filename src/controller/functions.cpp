#include "controller/functions.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "base/error_text.h"
#include "base/hash.h"
#include "unisono/error.h"

namespace unisono {
namespace controller {
namespace {

/// The functions of this process, which are never destroyed: static objects register them, and threads may look while the process ends.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, std::unique_ptr<const detail::RemoteFunction>> functions;
  std::unordered_map<std::string, const detail::RemoteFunction*> pointers;  // by key_of
  std::string twice;                                                        // the first one that a static object has registered a second time
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// Names a pointer by the name of its type, which differs for pointers of the same bytes.
std::string key_of(const std::type_info& type, std::span<const std::byte> pointer) {
  std::string key(reinterpret_cast<const char*>(pointer.data()), pointer.size());
  return key += type.name();
}

/// Returns the function, and whether it is a new one.
std::pair<const detail::RemoteFunction*, bool> add(detail::RemoteFunction&& function) {
  Registry& all = registry();
  const std::uint64_t number = number_of(function);
  const std::unique_lock lock(all.mutex);
  const auto [found, is_new] = all.functions.try_emplace(number);
  if (is_new) found->second = std::make_unique<const detail::RemoteFunction>(std::move(function));
  return {found->second.get(), is_new};
}

[[noreturn]] void refuse_twice(const std::string& text) {
  throw InvalidArgument("the function " + text + " is registered twice", {.hint = "a function has one name and is registered in one place"});
}

}  // namespace

std::uint64_t number_of(std::string_view name, std::string_view signature) noexcept {
  return base::stable_hash(name) * 31 + base::stable_hash(signature);
}

const detail::RemoteFunction* function_of(std::uint64_t number) noexcept {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.functions.find(number);
  return found == all.functions.end() ? nullptr : found->second.get();
}

std::vector<Known> compared_functions() {
  std::vector<Known> known;
  {
    Registry& all = registry();
    const std::shared_lock lock(all.mutex);
    for (const auto& [number, function] : all.functions) {
      if (function->is_compared) known.push_back({function->name, function->signature});
    }
  }
  std::ranges::sort(known);
  return known;
}

void check_registered_once() {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  if (!all.twice.empty()) refuse_twice(all.twice);
}

}  // namespace controller

const detail::RemoteFunction& detail::register_remote(RemoteFunction function) {
  const std::string text = function.name + function.signature;
  const auto [added, is_new] = controller::add(std::move(function));
  if (!is_new) controller::refuse_twice(text);
  return *added;
}

const detail::RemoteFunction& detail::declare_remote(RemoteFunction function) noexcept {
  std::string text = function.name + function.signature;
  const auto [added, is_new] = controller::add(std::move(function));
  if (!is_new) {
    controller::Registry& all = controller::registry();
    const std::unique_lock lock(all.mutex);
    if (all.twice.empty()) all.twice = std::move(text);
  }
  return *added;
}

void detail::name_remote(const std::type_info& type, std::span<const std::byte> pointer, const RemoteFunction& function) noexcept {
  controller::Registry& all = controller::registry();
  const std::unique_lock lock(all.mutex);
  all.pointers.try_emplace(controller::key_of(type, pointer), &function);
}

const detail::RemoteFunction* detail::find_remote(const std::type_info& type, std::span<const std::byte> pointer) noexcept {
  controller::Registry& all = controller::registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.pointers.find(controller::key_of(type, pointer));
  return found == all.pointers.end() ? nullptr : found->second;
}

std::string detail::type_text(const std::type_info& type) { return base::readable(type); }

const detail::RemoteFunction* detail::find_remote(std::string_view name, std::string_view signature) noexcept {
  return controller::function_of(controller::number_of(name, signature));
}

}  // namespace unisono
