#include "controller/errors.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error_text.h"
#include "unisono/detail/remote_errors.h"

namespace unisono::controller {
namespace {

/// The types that arrive as themselves. Their numbers travel.
enum class Type : std::uint8_t {
  other,
  plain,
  invalid_argument,
  not_initialized,
  already_initialized,
  not_member,
  unsupported,
  backend_unavailable,
  mismatch,
  timeout,
  peer_failed,
  protocol_error,
  launch_failed,
  remote_error,
  cancelled,
};

template <class E>
bool is(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

Type type_of(const Error& error) {
  if (is<InvalidArgument>(error)) return Type::invalid_argument;
  if (is<NotInitialized>(error)) return Type::not_initialized;
  if (is<AlreadyInitialized>(error)) return Type::already_initialized;
  if (is<NotMember>(error)) return Type::not_member;
  if (is<Unsupported>(error)) return Type::unsupported;
  if (is<BackendUnavailable>(error)) return Type::backend_unavailable;
  if (is<Mismatch>(error)) return Type::mismatch;
  if (is<Timeout>(error)) return Type::timeout;
  if (is<PeerFailed>(error)) return Type::peer_failed;
  if (is<ProtocolError>(error)) return Type::protocol_error;
  if (is<LaunchFailed>(error)) return Type::launch_failed;
  if (is<RemoteError>(error)) return Type::remote_error;
  if (is<Cancelled>(error)) return Type::cancelled;
  return Type::plain;
}

/// The controller is told numbers of workers, not ranks in a group of this one.
void put(base::ByteWriter& bytes, const Error& error) {
  bytes.put(detail::blamed_worker(error.info())).text(error.host());
  const auto* const late = dynamic_cast<const Timeout*>(&error);
  const auto* const lost = dynamic_cast<const PeerFailed*>(&error);
  bytes.put(static_cast<std::int32_t>(lost != nullptr ? lost->cause() : PeerFailed::Cause::disconnected));
  std::vector<int> missing;
  for (const int rank : late != nullptr ? late->missing() : std::vector<int>()) {
    ErrorInfo one = error.info();
    if (one.culprit != rank) one.world_culprit = -1;
    one.culprit = rank;
    if (const int worker = detail::blamed_worker(one); worker >= 0) missing.push_back(worker);
  }
  bytes.put(static_cast<std::uint32_t>(missing.size()));
  for (const int worker : missing) bytes.put(worker);
}

/// What travels of an error, beside its text, which has operation, group and hint already.
struct Facts {
  std::optional<int> culprit = {};
  std::string host = {};
  PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
  std::vector<int> missing = {};
};

Facts get(base::ByteReader& bytes) {
  Facts facts;
  if (const int culprit = bytes.get<int>(); culprit >= 0) facts.culprit = culprit;
  facts.host = bytes.text();
  const auto cause = bytes.get<std::int32_t>();
  if (cause >= 0 && cause <= static_cast<std::int32_t>(PeerFailed::Cause::disconnected)) facts.cause = static_cast<PeerFailed::Cause>(cause);
  const auto count = bytes.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && bytes.ok(); ++i) facts.missing.push_back(bytes.get<int>());
  return facts;
}

std::exception_ptr make(Type type, std::string_view message, ErrorInfo info, Facts facts, std::string name) {
  const auto error = [&]<class E>(std::type_identity<E>) { return std::make_exception_ptr(E(message, std::move(info))); };
  switch (type) {
    case Type::other:
    case Type::remote_error: return std::make_exception_ptr(RemoteError(message, std::move(info), std::move(name)));
    case Type::plain: break;
    case Type::invalid_argument: return error(std::type_identity<InvalidArgument>());
    case Type::not_initialized: return error(std::type_identity<NotInitialized>());
    case Type::already_initialized: return error(std::type_identity<AlreadyInitialized>());
    case Type::not_member: return error(std::type_identity<NotMember>());
    case Type::unsupported: return error(std::type_identity<Unsupported>());
    case Type::backend_unavailable: return error(std::type_identity<BackendUnavailable>());
    case Type::mismatch: return error(std::type_identity<Mismatch>());
    case Type::timeout: return std::make_exception_ptr(Timeout(message, std::move(info), std::move(facts.missing)));
    case Type::peer_failed: return std::make_exception_ptr(PeerFailed(message, std::move(info), facts.cause));
    case Type::protocol_error: return error(std::type_identity<ProtocolError>());
    case Type::launch_failed: return error(std::type_identity<LaunchFailed>());
    case Type::cancelled: return error(std::type_identity<Cancelled>());
  }
  return error(std::type_identity<Error>());
}

std::string call_text(const CallText& call) { return fmt::format("worker {}: {}({})", call.worker, call.function, call.types); }

}  // namespace

std::vector<std::byte> encode_error(const std::exception_ptr& error) {
  base::ByteWriter bytes;
  const auto thrown = base::Thrown::describe(error);
  try {
    std::rethrow_exception(error);
  } catch (const Error& own) {
    bytes.put(static_cast<std::uint8_t>(type_of(own))).text(thrown.type).text(own.what());
    put(bytes, own);
  } catch (...) {
    bytes.put(static_cast<std::uint8_t>(Type::other)).text(thrown.type).text(thrown.message);
  }
  const std::string text = bytes.take();
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

std::exception_ptr decode_error(std::span<const std::byte> encoded, const CallText& call) {
  base::ByteReader bytes({reinterpret_cast<const char*>(encoded.data()), encoded.size()});
  const auto type = static_cast<Type>(bytes.get<std::uint8_t>());
  std::string name(bytes.text());
  const std::string_view text = bytes.text();
  Facts facts;
  if (type != Type::other) facts = get(bytes);
  std::string message = call_text(call) + ": ";
  if (type == Type::other) message += name + (text.empty() ? "" : ": ");
  ErrorInfo info{.operation = "call",
                 .group = base::group_of_workers,
                 .culprit = facts.culprit.value_or(call.worker),
                 .host = facts.host.empty() ? call.host : facts.host,
                 .where = call.where};
  return make(type, message.append(text), std::move(info), std::move(facts), std::move(name));
}

std::exception_ptr cancelled_call(const CallText& call) {
  return std::make_exception_ptr(Cancelled(call_text(call) + ": the call was cancelled before it had begun",
                                           {.operation = "call", .group = base::group_of_workers, .where = call.where}));
}

std::exception_ptr lost_worker(const std::exception_ptr& why, const CallText& call) {
  auto cause = PeerFailed::Cause::disconnected;
  std::string text = base::message_of(why);
  try {
    std::rethrow_exception(why);
  } catch (const PeerFailed& lost) {
    cause = lost.cause();
  } catch (...) {  // NOLINT(bugprone-empty-catch): its text is there
  }
  const std::string subject = call.function.empty() ? fmt::format("worker {}", call.worker) : call_text(call);
  return std::make_exception_ptr(PeerFailed(fmt::format("{}: the worker is lost: {}", subject, text),
                                            {.operation = "call",
                                             .group = base::group_of_workers,
                                             .culprit = call.worker,
                                             .host = call.host,
                                             .where = call.where,
                                             .world_culprit = call.rank},
                                            cause));
}

}  // namespace unisono::controller
