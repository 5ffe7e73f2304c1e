#include "store/etcd/keys.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "base/log.h"
#include "store/authentication.h"
#include "store/table.h"
#include "unisono/error.h"

namespace unisono::store::etcd {

using base::Deadline;
using Kind = Failure::Kind;
using namespace std::chrono_literals;

namespace {

/// etcd takes requests of 1.5 MiB. Longer values are cut into pieces.
constexpr std::size_t piece_bytes = std::size_t{512} << 10;
constexpr std::size_t most_operations = 100;  ///< of a transaction; etcd takes 128
/// The answer to a request is awaited for so long beyond the deadline of a wait.
constexpr auto slack = 2000ms;
/// The time that leaving may take, and where etcd has not answered before.
constexpr auto leave_time = 2000ms, leave_time_of_lost = 200ms;
constexpr auto fresh_for = 200ms;  ///< so long a process counts as alive without another question
constexpr char whole = '=', in_pieces = '#';

std::string pieces_prefix(const std::string& prefix, std::string_view name) { return fmt::format("{}/c/{}/", prefix, name); }
std::string end_of(std::string prefix) {
  ++prefix.back();
  return prefix;
}

/// "#NAME BYTES"
struct Pieces {
  std::string name;
  std::size_t bytes = 0;
};
std::optional<Pieces> pieces_of(const std::string& raw) {
  if (raw.empty() || raw.front() != in_pieces) return std::nullopt;
  Pieces pieces;
  std::istringstream text(raw.substr(1));
  text >> pieces.name >> pieces.bytes;
  if (text.fail() || pieces.bytes > Limits{}.value_bytes) return std::nullopt;
  return pieces;
}

}  // namespace

Keys::Keys(Location location, const Deadline& deadline)
    : pid_(::getpid()),
      parts_(std::make_unique<Parts>(std::move(location), deadline)),
      client_(parts_->client),
      leases_(parts_->leases),
      writer_(parts_->writer) {}

Keys::~Keys() {
  if (::getpid() != pid_) {  // a child of fork has neither the thread, which may hold locks for ever here, nor anything to take back
    static_cast<void>(parts_.release());
    return;
  }
  try {
    leases_.leave(Deadline(std::min<Milliseconds>(timeout(), client_.is_lost() ? leave_time_of_lost : leave_time)));
  } catch (const std::exception& error) {  // then the leases end by themselves
    base::debug(error.what());
  }
  client_.stop();
}

std::string Keys::whole_key(std::string_view key) const {
  Table::check({}, key, {});
  return fmt::format("{}/k/{}", location().prefix, key);
}

/// Returns nothing where the pieces belong to a value that has been replaced meanwhile.
std::optional<std::string> Keys::value_of(const KeyValue& stored, const Deadline& deadline) {
  if (!stored.value.empty() && stored.value.front() == whole) return stored.value.substr(1);
  const auto pieces = pieces_of(stored.value);
  if (!pieces) throw ProtocolError(fmt::format("{} holds a value that unisono has not written: \"{}\"", client_.name(), printable(stored.key)));
  const std::string prefix = pieces_prefix(location().prefix, pieces->name);
  Answer answer;
  client_.transact({.then = {{.kind = Operation::Kind::get, .key = prefix, .range_end = end_of(prefix)}}}, answer, deadline);
  std::string value;
  for (const KeyValue& piece : answer.results.front().values) value += piece.value;
  if (value.size() != pieces->bytes) return std::nullopt;
  return value;
}

Keys::Found Keys::find(std::string_view key, const Deadline& deadline) {
  const std::string name = whole_key(key);
  for (;;) {
    Answer answer;
    client_.transact({.then = {{.kind = Operation::Kind::get, .key = name}}}, answer, deadline);
    const auto& values = answer.results.front().values;
    if (values.empty()) return {};
    const KeyValue& stored = values.front();
    if (auto value = value_of(stored, deadline)) return {true, std::move(*value), stored.value, stored.mod_revision};
    if (deadline.passed())
      throw Timeout(
          fmt::format("{}: the value of \"{}\" was replaced again and again for {} ms", client_.name(), printable(key), deadline.timeout().count()));
  }
}

/// Returns what stands for the value under its key, and stores its pieces where it is long.
std::string Keys::store_pieces(std::string_view value, const Deadline& deadline) {
  if (value.size() <= piece_bytes) return std::string(1, whole).append(value);
  const std::string name = fresh_name();
  const std::string prefix = pieces_prefix(location().prefix, name);
  for (std::size_t i = 0; i * piece_bytes < value.size();) {
    Answer answer;
    const Operation put{.kind = Operation::Kind::put,
                        .key = fmt::format("{}{:04}", prefix, i),
                        .value = std::string(value.substr(i * piece_bytes, piece_bytes)),
                        .lease = leases_.of_all()};
    if (client_.transact({.then = {put}}, answer, deadline).kind == Kind::lease_gone) {
      leases_.renew(deadline);
      i = 0;
    } else {
      ++i;
    }
  }
  return fmt::format("{}{} {}", in_pieces, name, value.size());
}

/// Removes the pieces of a value that has been replaced. They are in nobody's way, and end with the lease at the latest.
void Keys::erase_pieces(const std::string& raw, const Deadline& deadline) noexcept {
  try {
    const auto pieces = pieces_of(raw);
    if (!pieces) return;
    const std::string prefix = pieces_prefix(location().prefix, pieces->name);
    Answer answer;
    client_.transact({.then = {{.kind = Operation::Kind::erase, .key = prefix, .range_end = end_of(prefix)}}}, answer, deadline);
  } catch (const std::exception& error) {
    base::debug(error.what());
  }
}

void Keys::set(std::string_view key, std::string_view value) {
  Table::check({}, key, value);
  const Deadline deadline(timeout());
  const Operation put{.kind = Operation::Kind::put, .key = whole_key(key), .value = store_pieces(value, deadline), .previous = true};
  const auto outcome = writer_.write({.then = {put}}, deadline);
  if (!outcome.results.empty() && !outcome.results.front().values.empty()) erase_pieces(outcome.results.front().values.front().value, deadline);
}

/// Sets the value where the key is still as it was found.
bool Keys::replace(std::string_view key, const Found& found, std::string_view value, const Deadline& deadline) {
  const std::string name = whole_key(key);
  const std::string raw = store_pieces(value, deadline);
  const bool applied =
      writer_
          .write({.conditions = {{.key = name, .revision = found.mod_revision}}, .then = {{.kind = Operation::Kind::put, .key = name, .value = raw}}},
                 deadline)
          .applied;
  erase_pieces(applied ? found.raw : raw, deadline);
  if (!applied && deadline.passed())
    throw Timeout(fmt::format("{}: others changed \"{}\" again and again for {} ms", client_.name(), printable(key), deadline.timeout().count()));
  return applied;
}

std::int64_t Keys::add(std::string_view key, std::int64_t amount) {
  const Deadline deadline(timeout());
  for (;;) {
    const Found found = find(key, deadline);
    const std::int64_t sum = Table::sum(key, found.exists ? &found.value : nullptr, amount);
    if (replace(key, found, std::to_string(sum), deadline)) return sum;
  }
}

std::string Keys::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  Table::check({}, key, expected);
  Table::check({}, key, desired);
  const Deadline deadline(timeout());
  for (;;) {
    Found found = find(key, deadline);
    if (found.value != expected) return std::move(found.value);
    if (replace(key, found, desired, deadline)) return std::string(desired);
  }
}

bool Keys::erase(std::string_view key) {
  const Deadline deadline(timeout());
  const std::string name = whole_key(key);
  for (;;) {
    Answer answer;
    client_.transact({.then = {{.kind = Operation::Kind::get, .key = name}}}, answer, deadline);
    const auto& values = answer.results.front().values;
    if (values.empty()) return false;
    const Transaction change{.conditions = {{.key = name, .revision = values.front().mod_revision}},
                             .then = {{.kind = Operation::Kind::erase, .key = name}}};
    if (!writer_.write(change, deadline).applied) continue;
    erase_pieces(values.front().value, deadline);
    return true;
  }
}

std::int64_t Keys::num_keys() {
  const std::string prefix = location().prefix + "/k/";
  Answer answer;
  client_.transact({.then = {{.kind = Operation::Kind::count, .key = prefix, .range_end = end_of(prefix)}}}, answer, Deadline(timeout()));
  return answer.results.front().count;
}

/// Asks for many keys, and returns a revision of etcd not later than the answers.
std::int64_t Keys::look(std::span<const std::string> keys, Operation::Kind kind, std::vector<Result>& results, const Deadline& deadline) {
  std::int64_t revision = 0;
  while (results.size() < keys.size()) {
    Transaction reads;
    for (const std::string& key : keys.subspan(results.size(), std::min(most_operations, keys.size() - results.size())))
      reads.then.push_back({.kind = kind, .key = whole_key(key)});
    Answer answer;
    client_.transact(reads, answer, deadline);
    if (revision == 0) revision = answer.revision;
    std::ranges::move(answer.results, std::back_inserter(results));
  }
  return revision;
}

void Keys::await(std::span<const std::string> keys, Milliseconds timeout) {
  const Deadline deadline(timeout), asking(base::clamped(timeout) + slack);
  for (;;) {
    std::vector<Result> results;
    const std::int64_t revision = look(keys, Operation::Kind::count, results, asking);
    std::vector<std::string> missing, watched;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (results[i].count > 0) continue;
      missing.push_back(keys[i]);
      watched.push_back(whole_key(keys[i]));
    }
    if (missing.empty()) return;
    if (deadline.passed()) throw_missing(client_.name(), missing, timeout);
    client_.watch(watched, revision + 1, deadline);
  }
}

std::string Keys::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const Milliseconds time = timeout.value_or(this->timeout());
  const Deadline deadline(time);
  const std::string name(key);
  for (;;) {
    if (Found found = find(key, Deadline(base::clamped(deadline.left()) + slack)); found.exists) return std::move(found.value);
    if (deadline.passed()) throw_missing(client_.name(), {&name, 1}, time);
    try {
      await({&name, 1}, deadline.left());
    } catch (const Timeout&) {
      if (client_.is_lost()) throw;
      throw_missing(client_.name(), {&name, 1}, time);
    }
  }
}

std::optional<std::string> Keys::try_get(std::string_view key) {
  Found found = find(key, Deadline(timeout()));
  return found.exists ? std::optional(std::move(found.value)) : std::nullopt;
}

std::vector<std::optional<std::string>> Keys::try_get_all(std::span<const std::string> keys) {
  const Deadline deadline(timeout());
  std::vector<Result> results;
  look(keys, Operation::Kind::get, results, deadline);
  std::vector<std::optional<std::string>> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto& found = values.emplace_back();
    if (results[i].values.empty()) continue;
    found = value_of(results[i].values.front(), deadline);
    if (!found) found = try_get(keys[i]);
  }
  return values;
}

void Keys::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  if (!keys.empty()) await(keys, timeout.value_or(this->timeout()));
}

bool Keys::is_present(std::int64_t presence) {
  const std::string key = Leases::presence_key(location().prefix, presence);
  const std::lock_guard lock(seen_mutex_);
  const auto now = base::Clock::now();
  // A join asks for many processes at a time.
  if (now - seen_at_ < fresh_for && present_.contains(key)) return true;
  const std::string prefix = location().prefix + "/p/";
  Answer answer;
  client_.transact({.then = {{.kind = Operation::Kind::get, .key = prefix, .range_end = end_of(prefix)}}}, answer, Deadline(timeout()));
  present_.clear();
  for (const KeyValue& process : answer.results.front().values) present_.insert(process.key);
  seen_at_ = now;
  return present_.contains(key);
}

std::shared_ptr<KeysInEtcd> open_etcd(std::string_view url, const base::Environment& environment, const Deadline& deadline) {
  return std::make_shared<Keys>(location_of(url, environment), deadline);
}

}  // namespace unisono::store::etcd
