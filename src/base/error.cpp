#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>

#include "base/error_place.h"
#include "base/error_text.h"
#include "base/printable.h"
#include "unisono/operation.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using std::string_view_literals::operator""sv;

/// The folder of this library's sources, as the compiler names it: builders of packages have it write another one into programs.
constexpr std::string_view own_root = [] {
  const std::string_view file = std::source_location::current().file_name();
  return file.substr(0, file.size() - "src/base/error.cpp"sv.size());
}();

/// Returns true for a file of this library. Its lines are left out of errors, since they do not help a user of the library.
bool is_own(std::string_view file) {
  if (file.find("include/unisono/") != std::string_view::npos) return true;
  if (!file.starts_with(own_root)) return false;
  const std::string_view below = file.substr(own_root.size());
  return below.starts_with("src/") || below.starts_with("tools/") || below.starts_with("bench/");
}

ErrorInfo without_own_place(ErrorInfo info) {
  if (info.where.line() != 0 && is_own(info.where.file_name())) info.where = {};
  return info;
}

std::string sentence(std::string_view message, const ErrorInfo& info, std::string_view at) {
  std::string text;
  if (!info.operation.empty()) {
    text += info.operation;
    if (info.sequence != 0) text += " #" + std::to_string(info.sequence);
    if (!info.group.empty()) text += " on group " + info.group;
    if (info.rank >= 0) text += ", " + base::name_rank(info.rank, info.world_rank);
  }
  if (!at.empty()) text += (text.empty() ? "at " : ", at ") + std::string(at);
  if (!text.empty()) text += ": ";
  text += message;
  if (info.culprit) {
    const bool is_worker = info.group == base::group_of_workers;
    text += " [culprit: " + (is_worker ? "worker " + std::to_string(*info.culprit) : base::name_rank(*info.culprit, info.world_culprit));
    if (!info.host.empty()) text += " on " + info.host;
    text += ']';
  }
  if (!info.hint.empty()) text += " (" + info.hint + ")";
  return text;
}

std::string sentence(std::string_view message, const ErrorInfo& info) {
  return sentence(message, info, info.where.line() != 0 ? base::place_text(info.where) : std::string());
}

}  // namespace

Error::Error(std::string_view message, ErrorInfo info) : std::runtime_error(""), message_(message), info_(without_own_place(std::move(info))) {
  std::runtime_error::operator=(std::runtime_error(sentence(message_, info_)));
}
std::string Error::what_at(std::string_view place) const { return where() ? what() : sentence(message_, info_, place); }
Timeout::Timeout(std::string_view message, ErrorInfo info, std::vector<int> missing)
    : Error(message, std::move(info)), missing_(std::move(missing)) {}
PeerFailed::PeerFailed(std::string_view message, ErrorInfo info, Cause cause) : Error(message, std::move(info)), cause_(cause) {}
RemoteError::RemoteError(std::string_view message, ErrorInfo info, std::string type) : Error(message, std::move(info)), type_(std::move(type)) {}
LaunchFailed::LaunchFailed(std::string_view message, ErrorInfo info, std::vector<ProcessEnd> ends)
    : Error(message, std::move(info)), ends_(std::move(ends)) {}

// The destructors are defined here, so that each type has its type information in one library and can be caught across shared libraries.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
NotInitialized::~NotInitialized() = default;
AlreadyInitialized::~AlreadyInitialized() = default;
NotMember::~NotMember() = default;
Unsupported::~Unsupported() = default;
BackendUnavailable::~BackendUnavailable() = default;
Mismatch::~Mismatch() = default;
Timeout::~Timeout() = default;
PeerFailed::~PeerFailed() = default;
ProtocolError::~ProtocolError() = default;
LaunchFailed::~LaunchFailed() = default;
RemoteError::~RemoteError() = default;
Cancelled::~Cancelled() = default;

std::string_view to_string(PeerFailed::Cause cause) noexcept {
  switch (cause) {
    case PeerFailed::Cause::exited: return "exited";
    case PeerFailed::Cause::killed: return "killed";
    case PeerFailed::Cause::silent: return "silent";
    case PeerFailed::Cause::aborted: return "aborted";
    case PeerFailed::Cause::disconnected: return "disconnected";
  }
  return "unknown";
}

namespace base {

void set_place(Error& error, const std::source_location& where) {
  if (error.info_.where.line() != 0 || where.line() == 0 || is_own_place(where)) return;
  error.info_.where = where;
  error.std::runtime_error::operator=(std::runtime_error(sentence(error.message_, error.info_)));
}

bool is_own_place(const std::source_location& where) { return is_own(where.file_name()); }

std::string place_text(const std::source_location& where) {
  if (where.line() == 0 || is_own(where.file_name())) return {};
  const std::string_view file = where.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

std::exception_ptr placed(std::exception_ptr error, const std::source_location& where) {
  if (!error) return error;
  try {
    std::rethrow_exception(error);
  } catch (Error& ours) {
    set_place(ours, where);
  } catch (...) {  // NOLINT(bugprone-empty-catch): an exception of another type stays as it is
  }
  return error;
}

std::string what_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

std::string message_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.message();
  } catch (...) {
    return what_of(error);
  }
}

}  // namespace base

void detail::refuse_operation(Operation operation) {
  throw InvalidArgument("there is no operation of the number " + std::to_string(static_cast<int>(operation)));
}

}  // namespace unisono

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
