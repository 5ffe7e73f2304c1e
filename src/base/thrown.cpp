#include "base/thrown.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "unisono/error.h"

namespace unisono::base {

std::string readable(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string name = text ? text.get() : type.name();
  if (name.starts_with("unisono::")) name.erase(0, std::string_view("unisono::").size());
  return name;
}

namespace {

bool is_of_peer(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailed&) {
    return true;
  } catch (const std::nested_exception& outer) {
    return outer.nested_ptr() && is_of_peer(outer.nested_ptr());
  } catch (...) {
    return false;
  }
}

}  // namespace

Thrown Thrown::describe(const std::exception_ptr& error) {
  Thrown thrown;
  thrown.of_peer = is_of_peer(error);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    thrown.type = readable(typeid(e));
    thrown.message = e.what();
    if (const auto* ours = dynamic_cast<const Error*>(&e)) {
      thrown.culprit = ours->culprit().value_or(-1);
      thrown.blamed = ours->world_culprit();
    }
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    thrown.type = type != nullptr ? readable(*type) : "an exception of unknown type";
  }
  return thrown;
}

}  // namespace unisono::base
