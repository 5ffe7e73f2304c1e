#include "coordination/ballots.h"

#include <algorithm>
#include <cstring>

#include "coordination/notices.h"

namespace unisono::coordination {
namespace {

void put(base::ByteWriter& to, const engines::Signature& s) { to.put(s.what).put(s.count).put(s.extra); }
engines::Signature get_signature(base::ByteReader& from) {
  engines::Signature s;
  s.what = from.get<std::uint64_t>();
  s.count = from.get<std::uint64_t>();
  s.extra = from.get<std::uint64_t>();
  return s;
}

engines::Signature signature_in(const engines::Ballot& ballot) {
  engines::Signature s;
  std::memcpy(&s, ballot.key.data(), sizeof s);
  return s;
}

template <class Numbers>
std::string encode_numbers(NoticeKind kind, std::uint64_t call, const Numbers& numbers) {
  base::ByteWriter notice = Notices::of_kind(kind).put(call).put(static_cast<std::uint32_t>(numbers.size()));
  for (const int n : numbers) notice.put(static_cast<std::int32_t>(n));
  return notice.take();
}
std::vector<int> get_numbers(base::ByteReader& from) {
  std::vector<int> numbers;
  for (auto left = from.get<std::uint32_t>(); left > 0 && from.ok(); --left) numbers.push_back(from.get<std::int32_t>());
  return numbers;
}

}  // namespace

// The notice holds the call's number and whether all agree, then their signature and label, or each rank's number, signature and call.
std::string Ballots::encode(std::uint64_t call, const Statement& statement) {
  base::ByteWriter notice = Notices::of_kind(NoticeKind::ballot).put(call).put(static_cast<std::uint8_t>(statement.agrees ? 1 : 0));
  if (statement.agrees) {
    put(notice, statement.signature);
    return notice.text(statement.label).take();
  }
  notice.put(static_cast<std::uint32_t>(statement.ballots.size()));
  for (const engines::Ballot& ballot : statement.ballots) {
    notice.put(static_cast<std::int32_t>(ballot.rank));
    put(notice, signature_in(ballot));
    notice.text(ballot.call);
  }
  return notice.take();
}
std::string Ballots::encode_waiting(std::uint64_t call, const std::vector<int>& ranks) { return encode_numbers(NoticeKind::waiting, call, ranks); }
std::string Ballots::encode_left_out(std::uint64_t call, const std::set<int>& hosts) { return encode_numbers(NoticeKind::left_out, call, hosts); }

Ballots::Statement Ballots::decode_statement(base::ByteReader& content) {
  Statement statement{.agrees = content.get<std::uint8_t>() != 0, .signature = {}, .label = {}, .ballots = {}};
  if (statement.agrees) {
    statement.signature = get_signature(content);
    statement.label = content.text();
    return statement;
  }
  for (auto left = content.get<std::uint32_t>(); left > 0 && content.ok(); --left) {
    const auto rank = content.get<std::int32_t>();
    engines::Ballot ballot = engines::ballot_of(rank, get_signature(content), {});
    ballot.call = content.text();
    statement.ballots.push_back(std::move(ballot));
  }
  return statement;
}

void Ballots::take(int host, std::string_view notice) {
  base::ByteReader content(notice);
  const auto kind = static_cast<NoticeKind>(content.get<std::uint8_t>());
  const auto call = content.get<std::uint64_t>();
  const bool is_statement = kind == NoticeKind::ballot;
  Statement statement = is_statement ? decode_statement(content) : Statement();
  std::vector<int> numbers = is_statement ? std::vector<int>() : get_numbers(content);
  if (!content.complete()) return;
  const std::lock_guard lock(mutex_);
  if (call < oldest_) return;  // its call is over: all ranks know the result
  if (is_statement) {
    if (call > newest_.load()) newest_.store(call);
    ballots_.try_emplace({call, host}, std::move(statement));  // a second one has the same content, and another thread may be reading the first
  } else if (kind == NoticeKind::waiting) {
    awaited_[{call, host}] = std::move(numbers);
  } else if (kind == NoticeKind::left_out) {
    left_out_[call].insert(numbers.begin(), numbers.end());
  }
}

const Ballots::Statement* Ballots::of(int host, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = ballots_.find({call, host});
  return found == ballots_.end() ? nullptr : &found->second;  // stays until its reader calls `forget_before`
}

bool Ballots::is_disputed(std::uint64_t call, const engines::Signature& signature) {
  if (newest_.load() < call) return false;
  const std::lock_guard lock(mutex_);
  const auto end = ballots_.lower_bound({call + 1, -1});
  return std::any_of(ballots_.lower_bound({call, -1}), end,
                     [&](const auto& entry) { return !entry.second.agrees || !engines::fit(entry.second.signature, signature); });
}

std::optional<std::vector<int>> Ballots::awaited_by(int host, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = awaited_.find({call, host});
  return found == awaited_.end() ? std::nullopt : std::optional(found->second);
}

void Ballots::leave_out(std::uint64_t call, const std::set<int>& hosts) {
  const std::lock_guard lock(mutex_);
  left_out_[call].insert(hosts.begin(), hosts.end());
}

std::set<int> Ballots::left_out(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = left_out_.find(call);
  return found == left_out_.end() ? std::set<int>() : found->second;
}

void Ballots::forget_before(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  oldest_ = call;
  ballots_.erase(ballots_.begin(), ballots_.lower_bound({call, -1}));
  awaited_.erase(awaited_.begin(), awaited_.lower_bound({call, -1}));
  left_out_.erase(left_out_.begin(), left_out_.lower_bound(call));
}

}  // namespace unisono::coordination
