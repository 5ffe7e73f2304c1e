#include "context/formation.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_text.h"
#include "base/log.h"
#include "store/requests.h"
#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_tell = 2s, time_to_read = 1s;
constexpr std::string_view failed_key = "failed";

/// Encodes why a rank gives up, as three fields separated by tabs: the rank, the kind (with the ranks missed by a Timeout, or the cause of a loss),
/// and the message.
std::string encode(int rank, const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const Timeout& timeout) {
    return fmt::format("{}\ttimeout {}\t{}", rank, fmt::join(timeout.missing(), " "), timeout.message());
  } catch (const PeerFailed& failed) {
    if (failed.culprit()) return fmt::format("{}\tlost {}\t{}", *failed.culprit(), static_cast<int>(failed.cause()), failed.message());
    return fmt::format("{}\tfailed\t{}", rank, failed.message());
  } catch (...) {
    return fmt::format("{}\tfailed\t{}", rank, base::message_of(reason));
  }
}

std::vector<int> numbers_behind(const std::string& word) {
  std::vector<int> numbers;
  for (auto at = word.find(' '); at != std::string::npos && at + 1 < word.size(); at = word.find(' ', at + 1)) {
    numbers.push_back(std::atoi(word.c_str() + at + 1));
  }
  return numbers;
}

std::string host_of(int rank, const Formation::Parts& parts) {
  return rank >= 0 && static_cast<std::size_t>(rank) < parts.hosts.size() ? parts.hosts[static_cast<std::size_t>(rank)] : std::string();
}

[[noreturn]] void throw_said(std::string_view text, const Formation::Parts& parts) {
  const auto next = [&] {
    const auto end = std::min(text.find('\t'), text.size());
    const std::string field(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
  };
  const int culprit = std::atoi(next().c_str());
  const std::string kind = next();
  ErrorInfo info{.operation = parts.operation, .group = parts.group, .rank = parts.rank, .culprit = culprit, .host = host_of(culprit, parts)};
  const std::vector<int> numbers = numbers_behind(kind);
  if (kind.starts_with("timeout")) {
    info.culprit.reset();
    info.host.clear();
    throw Timeout(fmt::format("rank {} gave up: {}", culprit, text), std::move(info), numbers);
  }
  if (kind.starts_with("lost") && !numbers.empty()) throw PeerFailed(text, std::move(info), static_cast<PeerFailed::Cause>(numbers.front()));
  const std::string_view how = parts.group.empty() ? "cannot join" : "cannot form the group";
  throw PeerFailed(fmt::format("rank {} {}: {}", culprit, how, text), std::move(info), PeerFailed::Cause::aborted);
}

}  // namespace

Formation::Formation(Parts parts) : parts_(std::move(parts)) {
  watched_ = std::make_shared<store::WatchedStore>(parts_.store, [forming = forming_] {
    if (const Formation* formation = forming->load()) formation->look();
  });
}

Formation::~Formation() { forming_->store(nullptr); }

void Formation::look() const {
  if (parts_.size == 1) return;
  if (const auto text = parts_.store->try_get(failed_key)) throw_said(*text, parts_);
  try {
    parts_.look();
  } catch (const PeerFailed&) {
    // A member that fails writes its reason before it ends the world, so the reason may have come between the two looks.
    std::optional<std::string> text;
    try {
      text = parts_.store->try_get(failed_key);
    } catch (const std::exception& error) {  // the store is gone as well
      base::log(base::LogLevel::debug, error.what());
    }
    if (text) throw_said(*text, parts_);
    throw;
  }
}

std::exception_ptr Formation::explain(std::exception_ptr reason) const {
  try {
    std::rethrow_exception(reason);
  } catch (const PeerFailed& failed) {
    ErrorInfo info = failed.info();
    if (!info.operation.empty()) return reason;
    info.operation = parts_.operation;
    info.group = parts_.group;
    info.rank = parts_.rank;
    if (info.culprit) info.host = host_of(*info.culprit, parts_);
    return std::make_exception_ptr(PeerFailed(failed.message(), std::move(info), failed.cause()));
  } catch (...) {
    return reason;
  }
}

void Formation::give_up(const std::exception_ptr& reason) noexcept {
  if (parts_.size == 1) return;
  const store::RequestLimit limit(time_to_tell);  // the reason may be that the store does not answer
  try {
    parts_.store->compare_set(failed_key, "", encode(parts_.rank, reason));
    if (!parts_.serves_store) return parts_.store->set("read/" + std::to_string(parts_.rank), "1");
    std::vector<std::string> keys;
    for (int r = 0; r < parts_.size; ++r) {
      if (r != parts_.rank) keys.push_back("read/" + std::to_string(r));
    }
    parts_.store->wait(keys, time_to_read);
  } catch (const std::exception& error) {  // the others are gone or no longer listen
    base::log(base::LogLevel::debug, error.what());
  }
}

}  // namespace unisono::context
