#include "backends/spanning/agreement.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ground/deadline.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

constexpr auto time_until_told = std::chrono::milliseconds(100);

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

/// What the first rank of a host lets the others of it know.
struct Verdict {
  std::int32_t agrees = 1;
  std::int32_t culprit = -1;
  std::int32_t ranks = 0;
  std::int32_t has_majority = 0;
  engine::Signature majority{};
  char calls[216]{};
};
static_assert(sizeof(Verdict) == 256);

/// Between two looks at what has come, while ranks are known to differ.
constexpr auto look_period = std::chrono::microseconds(200);

class SpanningAgreement final : public Task {
 public:
  SpanningAgreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call)
      : parts_(parts),
        place_(*parts.place),
        number_(number),
        call_(call),
        signature_(engine::signature_of(call)),
        next_telling_(ground::Clock::now() + time_until_told) {}

  bool advance() override {
    parts_.poll();
    for (;;) {
      switch (phase_) {
        case Phase::host:
          if (parts_.host != nullptr && !agree_on_host()) return tell_who_is_late(), false;
          phase_ = place_.is_leader() ? Phase::hosts : Phase::verdict;
          if (phase_ == Phase::verdict) parts_.all_but_told();
          if (place_.is_leader()) state(own_statement());
          break;
        case Phase::hosts:
          if (!all_stated()) return tell_that_we_are_here(), false;
          phase_ = Phase::verdict;
          parts_.all_but_told();
          break;
        case Phase::verdict:
          if (parts_.host != nullptr && !share_verdict()) return false;
          parts_.statements->forget_before(number_);
          phase_ = Phase::done;
          if (verdict_.agrees == 0) throw_as_told();
          return true;
        case Phase::done: return true;
      }
    }
  }

  std::vector<int> waiting_for() const override {
    if (phase_ == Phase::done) return {};
    std::vector<int> ranks = late_here();
    for (int h = 0; h < place_.host_count(); ++h) {
      if (h == place_.host() || parts_.statements->of(h, number_) != nullptr) continue;
      // Whoever waits there says for whom; where nobody has said anything, nobody has come.
      const auto awaited = parts_.statements->awaited_by(h, number_);
      for (int r = 0; r < place_.size(); ++r) {
        if (place_.host_of(r) == h && (!awaited || std::find(awaited->begin(), awaited->end(), r) != awaited->end())) ranks.push_back(r);
      }
    }
    if (ranks.empty() && inner_) ranks = global(inner_->waiting_for());
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  // Bells ring for what comes from this host. What comes from another is noticed by the Link's thread, which rings too.
  bool is_rung_for() const override { return true; }

 private:
  enum class Phase { host, hosts, verdict, done };

  std::vector<int> global(std::vector<int> locals) const {
    for (int& r : locals) r = place_.members[static_cast<std::size_t>(r)];
    return locals;
  }

  bool agree_on_host() {
    if (!inner_) inner_ = parts_.host->start_agreement(call_);
    try {
      if (!inner_->advance()) return false;
    } catch (const engine::Disagreement& disagreement) {
      phase_ = Phase::done;
      own_ballots_ = disagreement.ballots();
      decide_for_this_rank();
    }
    inner_.reset();
    return true;
  }

  /// Called on a host whose ranks differ: each of its ranks decides by itself.
  [[noreturn]] void decide_for_this_rank() {
    if (place_.is_leader()) {
      const std::string text = Statements::encode(number_, own_statement());
      for (int r = 0; r < place_.size(); ++r) {
        if (!place_.here(r)) parts_.tell(r, text);
      }
    }
    wait_for_statements();
    const engine::Decision decision = engine::decide(all_ballots());
    throw_mismatch(decision.culprit(), engine::describe(decision, decision.blames(place_.rank)), decision.ranks);
  }

  Statements::Statement own_statement() const {
    return {.agrees = own_ballots_.empty(), .signature = signature_, .label = engine::label_of(call_), .ballots = own_ballots_};
  }

  void state(const Statements::Statement& statement) {
    const std::string text = Statements::encode(number_, statement);
    for (int h = 0; h < place_.host_count(); ++h) {
      if (h != place_.host()) parts_.tell(place_.leaders[static_cast<std::size_t>(h)], text);
    }
  }

  /// Called by the first rank of a host whose ranks agree.
  bool all_stated() {
    bool all = true, same = true;
    for (int h = 0; h < place_.host_count(); ++h) {
      if (h == place_.host()) continue;
      const auto* statement = parts_.statements->of(h, number_);
      all = all && statement != nullptr;
      same = same && (statement == nullptr || (statement->agrees && statement->signature == signature_));
    }
    if (same) return all;
    wait_for_statements();
    const engine::Decision decision = engine::decide(all_ballots());
    verdict_.agrees = 0;
    verdict_.culprit = decision.culprit().value_or(-1);
    verdict_.ranks = decision.ranks;
    verdict_.has_majority = decision.majority ? 1 : 0;
    if (decision.majority) std::memcpy(&verdict_.majority, decision.majority->data(), sizeof verdict_.majority);
    std::size_t size = decision.calls.copy(verdict_.calls, sizeof verdict_.calls - 1);
    // No half of a character.
    while (size < decision.calls.size() && size > 0 && (static_cast<unsigned char>(decision.calls[size]) & 0xc0U) == 0x80U)
      verdict_.calls[--size] = '\0';
    return true;
  }

  /// Some ranks are known to differ. What the others have called says who differs from most.
  void wait_for_statements() {
    const ground::Deadline deadline(detail::ballot_time());
    std::vector<bool> answered(static_cast<std::size_t>(place_.host_count()));
    for (;;) {
      parts_.poll();
      bool all = true;
      for (int h = 0; h < place_.host_count(); ++h) {
        if (h == place_.host()) continue;
        const auto* statement = parts_.statements->of(h, number_);
        all = all && statement != nullptr;
        // Its ranks decide each by itself, and only the first one has been told so far.
        if (statement == nullptr || statement->agrees || !place_.is_leader() || answered[static_cast<std::size_t>(h)]) continue;
        answered[static_cast<std::size_t>(h)] = true;
        const std::string text = Statements::encode(number_, own_statement());
        for (int r = 0; r < place_.size(); ++r) {
          if (place_.host_of(r) == h) parts_.tell(r, text);
        }
      }
      if (all || deadline.passed()) return;
      std::this_thread::sleep_for(look_period);
    }
  }

  /// The ballots of all ranks that are known to have come.
  std::vector<engine::Ballot> all_ballots() const {
    std::vector<engine::Ballot> ballots;
    for (int h = 0; h < place_.host_count(); ++h) {
      const Statements::Statement own = own_statement();
      const Statements::Statement* statement = h == place_.host() ? &own : parts_.statements->of(h, number_);
      if (statement == nullptr) continue;
      ballots.insert(ballots.end(), statement->ballots.begin(), statement->ballots.end());
      for (int r = 0; statement->agrees && r < place_.size(); ++r) {
        if (place_.host_of(r) == h) ballots.push_back(engine::ballot_of(r, statement->signature, statement->label));
      }
    }
    return ballots;
  }

  bool share_verdict() {
    if (!inner_) {
      shared_.operation = Operation::broadcast;
      shared_.in = shared_.out = Tensor(&verdict_, DType::uint8, sizeof verdict_);
      shared_.count = sizeof verdict_;
      shared_.root = 0;
      inner_ = parts_.host->start(shared_);
    }
    if (!inner_->advance()) return false;
    inner_.reset();
    return true;
  }

  std::vector<int> late_here() const { return phase_ == Phase::host && inner_ ? global(inner_->waiting_for()) : std::vector<int>(); }

  // Only the first ranks of the hosts have been told so far.
  void tell_that_we_are_here() {
    if (ground::Clock::now() < next_telling_) return;
    next_telling_ = ground::Clock::time_point::max();
    const std::string text = Statements::encode(number_, own_statement());
    for (int r = 0; r < place_.size(); ++r) {
      if (!place_.here(r) && place_.leaders[static_cast<std::size_t>(place_.host_of(r))] != r) parts_.tell(r, text);
    }
  }

  // The ranks of other hosts cannot see for whom this one waits; should their deadline pass, they are to name the right ones.
  void tell_who_is_late() {
    const auto now = ground::Clock::now();
    if (now < next_telling_) return;
    next_telling_ = now + time_until_told;
    std::vector<int> late = late_here();
    if (late == told_) return;
    const std::string text = Statements::encode_waiting(number_, late);
    told_ = std::move(late);
    for (int r = 0; r < place_.size(); ++r) {
      if (!place_.here(r)) parts_.tell(r, text);
    }
  }

  [[noreturn]] void throw_as_told() {
    const bool blamed = verdict_.has_majority != 0 && signature_ != verdict_.majority;
    throw_mismatch(verdict_.culprit < 0 ? std::nullopt : std::optional<int>(verdict_.culprit),
                   engine::describe(engine::Decision{.calls = verdict_.calls}, blamed), verdict_.ranks);
  }
  [[noreturn]] void throw_mismatch(std::optional<int> culprit, const std::string& text, int ranks) {
    ErrorInfo info;
    info.operation = name_of(call_);
    info.sequence = call_.sequence;
    info.rank = place_.rank;
    info.culprit = culprit;
    info.hint = engine::mismatch_hint;
    throw engine::Disagreement(text, std::move(info), ranks);
  }

  AgreementParts parts_;
  const Place& place_;
  std::uint64_t number_;
  const CollectiveCall& call_;
  engine::Signature signature_;
  std::vector<engine::Ballot> own_ballots_;  // where the ranks of this host differ
  Phase phase_ = Phase::host;
  std::unique_ptr<Task> inner_;
  Verdict verdict_;
  CollectiveCall shared_;
  ground::Clock::time_point next_telling_;
  std::vector<int> told_;
};

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

void Statements::forget_before(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  oldest_ = call;
  statements_.erase(statements_.begin(), statements_.lower_bound({call, -1}));
  awaited_.erase(awaited_.begin(), awaited_.lower_bound({call, -1}));
}

std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call) {
  return std::make_unique<SpanningAgreement>(parts, number, call);
}

}  // namespace unisono::backends
