#include "backends/spanning/statements.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace unisono::backends {
namespace {

// On the wire: fields that are separated by a byte which no text of ours has. Signatures go as hexadecimal numbers.
constexpr char separator = '\x1f';

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <class T>
T number(std::string_view text, int base = 10) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::string to_text(const engine::Signature& s) { return fmt::format("{:x}.{:x}.{:x}", s.what, s.count, s.extra); }
engine::Signature from_text(std::string_view text) {
  engine::Signature s;
  const auto first = text.find('.');
  const auto second = text.find('.', first + 1);
  if (second == std::string_view::npos) return s;
  s.what = number<std::uint64_t>(text.substr(0, first), 16);
  s.count = number<std::uint64_t>(text.substr(first + 1, second - first - 1), 16);
  s.extra = number<std::uint64_t>(text.substr(second + 1), 16);
  return s;
}

engine::Signature signature_in(const engine::Ballot& ballot) {
  engine::Signature s;
  std::memcpy(&s, ballot.key.data(), sizeof s);
  return s;
}

}  // namespace

// "s", the call's number, 1 and the signature and label of all; or 0 and for each rank its number, signature and call.
std::string Statements::encode(std::uint64_t call, const Statement& statement) {
  std::string text = fmt::format("s{0}{1}{0}{2}", separator, call, statement.agrees ? 1 : 0);
  if (statement.agrees) return text += fmt::format("{0}{1}{0}{2}", separator, to_text(statement.signature), statement.label);
  for (const engine::Ballot& ballot : statement.ballots) {
    text += fmt::format("{0}{1}{0}{2}{0}{3}", separator, ballot.rank, to_text(signature_in(ballot)), ballot.call);
  }
  return text;
}
std::string Statements::encode_waiting(std::uint64_t call, const std::vector<int>& ranks) {
  return fmt::format("w{0}{1}{0}{2}", separator, call, fmt::join(ranks, std::string(1, separator)));
}
std::string Statements::encode_left_out(std::uint64_t call, const std::set<int>& hosts) {
  return fmt::format("o{0}{1}{0}{2}", separator, call, fmt::join(hosts, std::string(1, separator)));
}

void Statements::take(int host, std::string_view text) {
  const auto fields = split(text);
  if (fields.size() < 3) return;
  const auto call = number<std::uint64_t>(fields[1]);
  const std::lock_guard lock(mutex_);
  if (call < oldest_) return;  // of a call that is over: all who were in it know already how it ended
  if (fields[0] == "w") {
    auto& ranks = awaited_[{call, host}];
    ranks.clear();
    for (std::size_t i = 2; i < fields.size(); ++i) {
      if (!fields[i].empty()) ranks.push_back(number<int>(fields[i]));
    }
    return;
  }
  if (fields[0] == "o") {
    for (std::size_t i = 2; i < fields.size(); ++i) left_out_[call].insert(number<int>(fields[i]));
    return;
  }
  if (fields[0] != "s" || fields.size() < 5) return;
  Statement statement{.agrees = fields[2] == "1", .signature = {}, .label = {}, .ballots = {}};
  if (statement.agrees) {
    statement.signature = from_text(fields[3]);
    statement.label = fields[4];
  }
  for (std::size_t i = 3; !statement.agrees && i + 2 < fields.size(); i += 3) {
    engine::Ballot ballot = engine::ballot_of(number<int>(fields[i]), from_text(fields[i + 1]), {});
    ballot.call = fields[i + 2];
    statement.ballots.push_back(std::move(ballot));
  }
  statements_.try_emplace({call, host}, std::move(statement));  // said twice it is the same, and somebody may be reading it
}

const Statements::Statement* Statements::of(int host, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = statements_.find({call, host});
  return found == statements_.end() ? nullptr : &found->second;  // stays until `forget_before`, which its reader calls
}

std::optional<std::vector<int>> Statements::awaited_by(int host, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = awaited_.find({call, host});
  return found == awaited_.end() ? std::nullopt : std::optional(found->second);
}

void Statements::leave_out(std::uint64_t call, const std::set<int>& hosts) {
  const std::lock_guard lock(mutex_);
  left_out_[call].insert(hosts.begin(), hosts.end());
}

std::set<int> Statements::left_out(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  const auto found = left_out_.find(call);
  return found == left_out_.end() ? std::set<int>() : found->second;
}

void Statements::forget_before(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  oldest_ = call;
  statements_.erase(statements_.begin(), statements_.lower_bound({call, -1}));
  awaited_.erase(awaited_.begin(), awaited_.lower_bound({call, -1}));
  left_out_.erase(left_out_.begin(), left_out_.lower_bound(call));
}

}  // namespace unisono::backends
