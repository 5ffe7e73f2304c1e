// Ranks of a group tell each other of ballots, failures, departures, messages between two ranks and the calls in which they wait, and spread notices,
// in notices, frames of calls and words that are handed on. Any bytes are dropped or refused with ProtocolError, and what is kept is bounded by the
// bytes that came; what is encoded comes back.
#include <array>
#include <memory>

#include "coordination/ballots.h"
#include "coordination/failure_state.h"
#include "coordination/notices.h"
#include "coordination/whereabouts.h"
#include "engines/decision.h"
#include "group/messages/channel_carrier.h"
#include "input.h"
#include "transport/tcp/relay.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using coordination::Ballots;
using coordination::NoticeKind;

constexpr int hosts = 3, ranks = 40;
constexpr std::uint64_t calls = 4;

/// Uses the ballots as an agreement does.
void decide_on(Ballots& ballots) {
  for (std::uint64_t call = 0; call < calls; ++call) {
    ballots.is_disputed(call, {});
    ballots.left_out(call);
    std::vector<engines::Ballot> all = {engines::ballot_of(0, {}, "own")};
    for (int host = 0; host < hosts; ++host) {
      ballots.awaited_by(host, call);
      const Ballots::Statement* const statement = ballots.of(host, call);
      if (statement == nullptr) continue;
      if (statement->agrees) all.push_back(engines::ballot_of(host, statement->signature, statement->label));
      all.insert(all.end(), statement->ballots.begin(), statement->ballots.end());
    }
    if (std::ranges::any_of(all, [&](const auto& ballot) { return ballot.key != all.front().key; })) {
      const engines::Decision decision = engines::decide(all);
      require(decision.ranks == static_cast<int>(all.size()) && !engines::describe(decision, true).empty(), "a decision has a text");
    }
  }
}

void check_ballots(Input& in) {
  Ballots ballots;
  while (in.has_more()) {
    const int host = static_cast<int>(in.choice(hosts - 1));
    if (in.flag()) {
      const auto kind = in.flag() ? NoticeKind::ballot : in.flag() ? NoticeKind::waiting : NoticeKind::left_out;
      ballots.take(host, coordination::Notices::of_kind(kind).put(std::uint64_t{in.choice(calls)}).raw(in.text()).bytes());
      continue;
    }
    Ballots::Statement statement;
    statement.agrees = in.flag();
    statement.signature = {.what = in.number<std::uint64_t>(), .count = in.number<std::uint64_t>(), .extra = in.number<std::uint64_t>()};
    statement.label = in.text(40);
    for (std::size_t i = in.choice(3); i > 0 && !statement.agrees; --i) {
      statement.ballots.push_back(engines::ballot_of(in.number<std::int32_t>(), statement.signature, in.text(40)));
      statement.signature.what ^= in.number<std::uint64_t>();
    }
    const std::uint64_t call = in.choice(calls - 1);
    Ballots fresh;
    fresh.take(host, Ballots::encode(call, statement));
    const Ballots::Statement* const again = fresh.of(host, call);
    require(again != nullptr && Ballots::encode(call, *again) == Ballots::encode(call, statement), "a statement comes back");
    ballots.take(host, Ballots::encode(call, statement));
    if (in.choice(7) == 0) ballots.forget_before(in.choice(calls));
  }
  decide_on(ballots);
}

void check_failure(Input& in) {
  if (in.flag()) {
    if (const auto failure = coordination::decode_failure(in.rest(), ranks)) {
      require(failure->culprit >= -1 && failure->culprit < ranks, "a culprit is a rank, or none");
      for (const int rank : failure->missing) require(rank >= 0 && rank < ranks, "whoever is missing is a rank");
    }
    return;
  }
  Failure failure{.kind = in.flag() ? Failure::Kind::timeout : Failure::Kind::peer_failed,
                  .cause = PeerFailed::silent,
                  .culprit = static_cast<int>(in.choice(ranks)) - 1};
  for (std::size_t i = in.choice(ranks); i > 0; --i) failure.missing.push_back(static_cast<int>(in.choice(ranks - 1)));
  failure.message = in.rest().substr(0, 1024);
  const std::string notice = coordination::encode_failure(failure);
  const auto again = coordination::decode_failure(notice, ranks);
  require(again && coordination::encode_failure(*again) == notice, "a failure comes back");
}

void check_spread(Input& in) {
  const std::string_view bytes = in.rest();
  refuses<ProtocolError>([&] {
    const auto notice = transport::decode_spread(bytes, ranks);
    for (int rank = 0; rank < ranks; ++rank) notice.is_for(rank);
    const std::string text = transport::encode(notice);
    require(transport::encode(transport::decode_spread(text, ranks)) == text, "a spread notice comes back");
  });
  refuses<ProtocolError>([&] {
    const auto departures = transport::decode_departures(bytes, ranks);
    for (const auto& each : departures) require(each.rank >= 0 && each.rank < ranks, "a rank that is gone is a rank");
    const std::string text = transport::encode(departures);
    require(transport::encode(transport::decode_departures(text, ranks)) == text, "a list of departures comes back");
  });
}

/// A transfer on a channel that is done at once.
class Done final : public Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
};

void check_messages(Input& in) {
  std::size_t told = 0;
  const auto done = [](const auto&...) -> std::unique_ptr<Task> { return std::make_unique<Done>(); };
  group::ChannelCarrier carrier({.rank = 0,
                                 .tell = [&](int, std::string_view notice, auto) { told += notice.size(); },
                                 .poll = [] {},
                                 .channels = {.send = done, .recv = done, .discard = done}});
  while (in.has_more()) {
    base::ByteWriter notice = coordination::Notices::of_kind(in.flag() ? NoticeKind::message : NoticeKind::taken);
    const std::string elements = in.text();
    if (in.flag()) notice.put(std::uint64_t{elements.size()}).put(in.number<std::int32_t>()).put(in.number<std::uint32_t>()).put(std::uint32_t{0});
    notice.raw(elements);
    if (in.choice(7) == 0) carrier.take_report(1, notice.bytes());
    else carrier.take(1, notice.take());
    if (in.flag()) continue;
    while (const auto message = carrier.next(1)) {
      const auto bytes = static_cast<std::size_t>(message->header.bytes);
      std::vector<std::byte> memory(std::min<std::size_t>(bytes, UINT8_MAX));
      engines::Delivery delivery;
      delivery.to = bytes == memory.size() ? memory.data() : nullptr;
      carrier.deliver(1, message->ticket, message->header, delivery);
      // A sender that uses a channel again before its message was received breaks the protocol.
      if (!delivery.is_done && in.flag()) refuses<ProtocolError>([&] { carrier.advance(1, delivery); });
      if (!delivery.is_done) carrier.withdraw(1, message->ticket, delivery);
    }
  }
}

/// Other ranks print what a rank says of itself, in their errors.
void check_whereabouts(Input& in) {
  constexpr std::size_t longest = 300;
  coordination::Whereabouts told;
  while (in.has_more()) {
    const int rank = static_cast<int>(in.choice(ranks - 1));
    base::ByteWriter notice = coordination::Notices::of_kind(NoticeKind::whereabouts);
    const bool is_whole = in.flag();
    std::string said;
    const std::string piece = in.text();
    for (std::size_t i = in.choice(2) + 1; i > 0; --i) said += piece;
    if (is_whole) notice.text(said);
    else notice.raw(said);
    const std::string_view text = coordination::Notices::content_of(notice.bytes()).text();
    require(!is_whole || text == said, "a place comes back");
    told.take(rank, text);
    const std::string shown = told.of(rank);
    require(shown.size() <= std::min(longest, text.size()), "a place is short");
    require(std::ranges::all_of(shown, [](char c) { return static_cast<unsigned char>(c) >= ' '; }), "a place can be printed");
  }
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  switch (in.choice(4)) {
    case 0: return check_ballots(in);
    case 1: return check_failure(in);
    case 2: return check_spread(in);
    case 3: return check_messages(in);
    default: return check_whereabouts(in);
  }
}

}  // namespace unisono::fuzz
