#include "unisono/error.h"

#include <utility>

#include "ground/error_text.h"

namespace unisono {
namespace {

std::string sentence(std::string_view message, const ErrorInfo& info) {
  std::string text;
  if (!info.operation.empty()) {
    text += info.operation;
    if (info.sequence != 0) text += " #" + std::to_string(info.sequence);
    if (!info.group.empty()) text += " on group " + info.group;
    if (info.rank >= 0) text += ", rank " + std::to_string(info.rank);
    text += ": ";
  }
  text += message;
  if (info.culprit) {
    text += " [culprit: rank " + std::to_string(*info.culprit);
    if (!info.host.empty()) text += " on " + info.host;
    text += "]";
  }
  if (!info.hint.empty()) text += " (" + info.hint + ")";
  return text;
}

}  // namespace

Error::Error(std::string_view message, ErrorInfo info) : std::runtime_error(sentence(message, info)), message_(message), info_(std::move(info)) {}
Timeout::Timeout(std::string_view message, ErrorInfo info, std::vector<int> missing)
    : Error(message, std::move(info)), missing_(std::move(missing)) {}
PeerFailed::PeerFailed(std::string_view message, ErrorInfo info, Cause cause) : Error(message, std::move(info)), cause_(cause) {}
LaunchFailed::LaunchFailed(std::string_view message, ErrorInfo info, std::vector<ProcessEnd> ends)
    : Error(message, std::move(info)), ends_(std::move(ends)) {}

// Out of line, so that each type has one home and can be caught across shared libraries.
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

namespace ground {

std::string what_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
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

}  // namespace ground

}  // namespace unisono
