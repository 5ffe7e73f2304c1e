#include "store/served_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/secret.h"
#include "unisono/error.h"

namespace unisono::store {

const std::string* Waiters::first_missing(const std::vector<std::string>& keys, const Table& table) {
  for (const std::string& key : keys) {
    if (table.find(key) == nullptr) return &key;
  }
  return nullptr;
}

const std::string* Waiters::next_missing(Waiter& waiter, const Table& table) {
  for (; waiter.seen < waiter.keys.size(); ++waiter.seen) {
    ++looks_;
    if (table.find(waiter.keys[waiter.seen]) == nullptr) return &waiter.keys[waiter.seen];
  }
  // A key that was there may have been erased meanwhile.
  looks_ += waiter.keys.size();
  const std::string* const erased = first_missing(waiter.keys, table);
  if (erased != nullptr) waiter.seen = static_cast<std::size_t>(erased - waiter.keys.data());
  return erased;
}

std::uint64_t Waiters::park(Waiter waiter, const Table& table) {
  const std::uint64_t id = next_++;
  const std::string* missing = next_missing(waiter, table);
  const std::string key = missing == nullptr ? std::string() : *missing;
  by_key_[key].insert(id);
  by_time_.emplace(waiter.expires, id);
  filed_under_.emplace(id, key);
  all_.emplace(id, std::move(waiter));
  return id;
}

Waiter Waiters::remove(std::uint64_t id) {
  Waiter waiter = std::move(all_.at(id));
  all_.erase(id);
  by_time_.erase({waiter.expires, id});
  unfile(id);
  return waiter;
}

void Waiters::unfile(std::uint64_t id) {
  const auto key = filed_under_.extract(id);
  const auto under = by_key_.find(key.mapped());
  under->second.erase(id);
  if (under->second.empty()) by_key_.erase(under);
}

void Waiters::refile(std::uint64_t id, const std::string& key) {
  unfile(id);
  by_key_[key].insert(id);
  filed_under_.emplace(id, key);
}

void Waiters::drop(std::uint64_t id) { remove(id); }

std::optional<std::pair<std::uint64_t, Waiter>> Waiters::complete(const std::string& key, const Table& table) {
  // A waiter that misses another key is filed under that key, so that each is looked at once.
  for (auto under = by_key_.find(key); under != by_key_.end(); under = by_key_.find(key)) {
    const std::uint64_t id = *under->second.begin();
    const std::string* missing = next_missing(all_.at(id), table);
    if (missing == nullptr) return std::pair(id, remove(id));
    if (*missing == key) break;
    refile(id, *missing);
  }
  return std::nullopt;
}

std::optional<std::pair<std::uint64_t, Waiter>> Waiters::expire(base::Clock::time_point now) {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  const std::uint64_t id = by_time_.begin()->second;
  return std::pair(id, remove(id));
}

namespace {

constexpr std::size_t most_bequests = 16;  ///< keys that a connection sets when it ends
constexpr std::int64_t longest_wait_ms_of_request = std::int64_t{1} << 40;
constexpr std::size_t enough_of_answer = std::size_t{256} << 10;  ///< bytes of values in an answer for many keys, before the last one
constexpr int most_missing_named = 64;                            ///< keys in the answer to a wait that has expired

}  // namespace

void ServedKeys::set(std::string_view key, std::string_view value) {
  table_.set(key, value);
  touched_.emplace_back(key);
}

ServedKeys::Outcome ServedKeys::carry_out(std::uint64_t session_id, Session& session, std::uint64_t request, Op op, Reader& in, Writer& reply) {
  switch (op) {
    case Op::get:
    case Op::wait: return wait(session_id, session, request, op, in, reply);
    case Op::set: {
      const std::string_view key = in.text();
      const std::string_view value = in.text();
      if (!in.complete()) return Outcome::malformed;
      set(key, value);
      return Outcome::done;
    }
    case Op::try_get: return get(in, reply);
    case Op::try_get_all: return get_all(in, reply);
    case Op::add: {
      const std::string_view key = in.text();
      const auto amount = static_cast<std::int64_t>(in.integer());
      if (!in.complete()) return Outcome::malformed;
      reply.integer(static_cast<std::uint64_t>(table_.add(key, amount)));
      touched_.emplace_back(key);
      return Outcome::done;
    }
    case Op::compare_set: {
      const std::string_view key = in.text();
      const std::string_view expected = in.text();
      const std::string_view desired = in.text();
      if (!in.complete()) return Outcome::malformed;
      reply.text(table_.compare_set(key, expected, desired));
      touched_.emplace_back(key);
      return Outcome::done;
    }
    case Op::erase: {
      const std::string_view key = in.text();
      if (!in.complete()) return Outcome::malformed;
      reply.integer(table_.erase(key) ? 1 : 0);
      return Outcome::done;
    }
    case Op::num_keys:
      if (!in.complete()) return Outcome::malformed;
      reply.integer(table_.size());
      return Outcome::done;
    case Op::will: return take_will(session, in);
    default: return Outcome::malformed;
  }
}

ServedKeys::Outcome ServedKeys::get(Reader& in, Writer& reply) const {
  const std::string_view key = in.text();
  if (!in.complete()) return Outcome::malformed;
  if (const auto secret = secrets_.find(key); secret != secrets_.end()) {
    reply.text(secret->second.view());
    base::clear_vector_registers();
    return Outcome::done;
  }
  const std::string* value = table_.find(key);
  if (value == nullptr) return Outcome::absent;
  reply.text(*value);
  return Outcome::done;
}

// Answers for as many of the keys as fit; the client asks for the others again.
ServedKeys::Outcome ServedKeys::get_all(Reader& in, Writer& reply) const {
  const std::uint64_t count = in.integer();
  std::vector<const std::string*> values;
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string* const value = table_.find(in.text());
    if (bytes > enough_of_answer) continue;
    values.push_back(value);
    bytes += value == nullptr ? 0 : value->size();
  }
  if (!in.complete() || count == 0) return Outcome::malformed;
  reply.integer(values.size());
  for (const std::string* const value : values) reply.integer(value == nullptr ? 0 : 1).text(value == nullptr ? std::string_view() : *value);
  return Outcome::done;
}

ServedKeys::Outcome ServedKeys::take_will(Session& session, Reader& in) const {
  const std::uint64_t count = in.integer();
  decltype(session.will) will;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    std::string key(in.text());
    will.emplace_back(std::move(key), in.text());
  }
  if (!in.complete()) return Outcome::malformed;
  if (will.size() > most_bequests) throw InvalidArgument(fmt::format("a connection leaves at most {} keys", most_bequests));
  for (const auto& [key, value] : will) Table::check(options_.limits, key, value);
  session.will = std::move(will);
  return Outcome::done;
}

ServedKeys::Outcome ServedKeys::wait(std::uint64_t session_id, Session& session, std::uint64_t request, Op op, Reader& in, Writer& reply) {
  const auto timeout_ms = static_cast<std::int64_t>(in.integer());
  const std::uint64_t count = op == Op::get ? 1 : in.integer();
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) keys.emplace_back(in.text());
  if (!in.complete()) return Outcome::malformed;
  Waiter waiter{session_id, request, op == Op::get, std::move(keys), {}};
  // A key set in this batch is in the table already; the waiters for it are answered when the batch is done.
  if (Waiters::first_missing(waiter.keys, table_) == nullptr) return answer(waiter, Status::ok, reply), Outcome::done;
  const std::size_t bytes = waiter.bytes();
  if (session.waiting.size() >= options_.most_waiting || session.waiting_bytes + bytes > options_.most_waiting_bytes) {
    throw InvalidArgument(fmt::format("one connection waits for more than the store remembers ({} requests, {} bytes of keys)", options_.most_waiting,
                                      options_.most_waiting_bytes));
  }
  waiter.expires = base::Clock::now() + std::chrono::milliseconds(std::clamp<std::int64_t>(timeout_ms, 0, longest_wait_ms_of_request));
  session.waiting.insert(waiters_.park(std::move(waiter), table_));
  session.waiting_bytes += bytes;
  return Outcome::parked;
}

std::optional<ServedKeys::Parked> ServedKeys::take_complete() {
  for (; !touched_.empty(); touched_.pop_front()) {
    if (auto complete = waiters_.complete(touched_.front(), table_)) return complete;
  }
  return std::nullopt;
}

void ServedKeys::answer(const Waiter& waiter, Status status, Writer& reply) const {
  if (status == Status::expired) {
    int named = 0;
    for (const std::string& key : waiter.keys) {
      if (table_.find(key) == nullptr && named++ < most_missing_named) reply.text(key);
    }
  } else if (waiter.wants_value) {
    reply.text(*table_.find(waiter.keys.front()));
  }
}

void ServedKeys::end(const Session& session) {
  for (const std::uint64_t waiter : session.waiting) waiters_.drop(waiter);
  for (const auto& [key, value] : session.will) {
    if (table_.find(key) != nullptr) continue;
    try {
      set(key, value);
    } catch (const InvalidArgument& error) {  // the table is full
      base::warn(fmt::format("the store could not keep what a connection left: {}", error.message()));
    }
  }
}

}  // namespace unisono::store
