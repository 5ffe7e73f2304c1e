#include "rendezvous/multicast_discovery.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include <fmt/format.h>

#include "base/log.h"
#include "base/socket.h"
#include "base/switches.h"
#include "rendezvous/record.h"
#include "store/authentication.h"
#include "store/client.h"
#include "store/wire.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using base::Clock;
using base::Deadline;

constexpr auto shortest_pause = std::chrono::milliseconds(5);
// The number of datagrams that are read before the clock is checked again, so that a flood of them cannot delay it.
constexpr int most_at_once = 256;
constexpr std::size_t longest_name = 255;  // bytes of a group name in a datagram

// The order in which processes without a rank fill the gaps: neighbours on a host stay neighbours.
bool before(const Announcement* a, const Announcement* b) {
  const auto key = [](const Announcement* said) { return std::tie(said->member.host, said->member.machine, said->member.pid, said->nonce); };
  return key(a) < key(b);
}

// A process that refuses the job says so for this time, and this often.
constexpr auto farewell_time = std::chrono::milliseconds(500);
constexpr int farewell_period_ms = 20;
constexpr std::size_t enough_of_presence = 400;  // bytes of a text about the processes that are present

std::string describe(const Announcement& said) {
  return said.member.rank < 0 ? where(said.member) : fmt::format("rank {} at {}", said.member.rank, where(said.member));
}

}  // namespace

MulticastDiscovery::MulticastDiscovery(Request request, const base::Environment& environment, const Deadline& deadline)
    : request_(std::move(request)),
      token_(store::token_for(std::span(&request_.address, 1), std::nullopt, environment)),
      tls_(store::tls_for(token_, environment)),
      place_(base::describe(request_.address)),
      socket_(request_.address, base::InterfaceRule::own_or_others(environment)),
      others_(request_.world_size) {
  if (request_.group_name.size() > longest_name)
    throw InvalidArgument(fmt::format("the group name has {} bytes; a datagram carries {}", request_.group_name.size(), longest_name), info());
  const Record own = own_record(request_.rank);
  self_.group_name = request_.group_name;
  self_.nonce = own.nonce;
  self_.member = own.member;
  self_.world_size = request_.world_size;
  self_.library = store::describe_own_version();
  if (request_.rank.value_or(0) == 0) {
    listening_ = store::listen_on({socket_.own_address().with_port(0)});
    self_.port = base::local_address(listening_.get()).port();
  }
  gather(deadline);
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) throw Error(fmt::format("an event descriptor: {}", base::error_text(errno)));
  announcer_ = base::Thread("the announcements", [this] { keep_announcing(); });
}

MulticastDiscovery::~MulticastDiscovery() {
  if (!announcer_.joinable()) return;
  ::eventfd_write(wake_.get(), 1);
  announcer_.join();
}

Meeting MulticastDiscovery::meeting() const {
  return {"the store at " + base::describe(server_), {server_}, {.token = token_, .job_tag = self_.job, .tls = tls_}, [this] {
            return base::FileDescriptor(::fcntl(listening_.get(), F_DUPFD_CLOEXEC, 0));
          }};
}

void MulticastDiscovery::gather(const Deadline& deadline) {
  auto pause = shortest_pause;
  auto next = Clock::now();
  for (;;) {
    if (Clock::now() >= next) {
      announce();
      next = Clock::now() + pause;
      pause = std::min(pause * 2, longest_pause);
    }
    if (deadline.passed()) give_up(deadline);
    base::check_interruption();
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    pollfd entry{socket_.fd(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_timeout(static_cast<int>(std::clamp<std::int64_t>(rest, 0, longest_pause.count()))));
    bool changed = listen();
    forget_the_silent();
    look_for_quarrels();
    changed = name_job() || changed;
    if (!self_.agreed && all_agree()) {
      self_.agreed = true;
      changed = true;
    }
    if (self_.agreed) {
      settle();
      return announce();
    }
    // A new process must not wait for this one's next turn. The short pause keeps all processes from answering each of its datagrams at the same
    // moment.
    if (changed) {
      pause = shortest_pause;
      next = std::min(next, Clock::now() + shortest_pause);
    }
  }
}

void MulticastDiscovery::announce() {
  ++self_.number;
  self_.heard = others_.next_echoes();
  send_error_ = socket_.send(encode(self_, token_.view(), place_));
}

/// Receives datagrams. Returns true where one brought something new.
bool MulticastDiscovery::listen() {
  bool changed = false;
  for (int i = 0; i < most_at_once; ++i) {
    const auto datagram = socket_.receive();
    if (!datagram) break;
    changed = hear_one(*datagram) || changed;
  }
  return changed;
}

bool MulticastDiscovery::hear_one(const MulticastSocket::Datagram& datagram) {
  Heard heard = hear(datagram.bytes, request_.group_name, token_.view(), place_);
  switch (heard.hearing) {
    case Hearing::another_group: return false;
    case Hearing::another_version: ++other_versions_; return false;
    case Hearing::forged: ++forged_; return false;
    case Hearing::nothing: ++nothing_; return false;
    case Hearing::ours: break;
  }
  Announcement& said = heard.announcement;
  if (said.nonce == self_.nonce || others_.is_old(said)) return false;
  const bool fresh = std::ranges::find(said.heard, echo_of(self_.nonce)) != said.heard.end();
  if (said.refusal && fresh) refuse(*said.refusal);
  // An agreed job that this process has never named is complete without it.
  if (said.agreed && !named_.contains(said.job)) {
    others_.leave_out(said.nonce);
    return false;
  }
  if (others_.is_left_out(said.nonce) || !others_.make_room_for(said.nonce)) return false;
  if (said.agreed) standing_ = said.job;
  return others_.take(std::move(said), datagram.source, fresh);
}

void MulticastDiscovery::forget_the_silent() {
  others_.forget_the_silent();
  std::erase_if(quarrels_, [&](const auto& each) {
    const auto gone = [&](const std::string& nonce) { return nonce != self_.nonce && others_.find(nonce) == nullptr; };
    return gone(each.first.first) || gone(each.first.second);
  });
}

std::vector<const Announcement*> MulticastDiscovery::everybody() const {
  std::vector<const Announcement*> all = others_.proven();
  all.insert(all.begin(), &self_);
  return all;
}

/// Returns the processes by rank; null: there is none. Surplus ones are left out, by the same rule on every process.
std::vector<const Announcement*> MulticastDiscovery::chosen() const {
  std::vector<const Announcement*> by_rank(static_cast<std::size_t>(request_.world_size)), open;
  for (const Announcement* said : everybody()) {
    if (said->world_size != request_.world_size) continue;
    if (!standing_.empty() && !named_.at(standing_).contains(said->nonce)) continue;
    if (said->member.rank < 0) open.push_back(said);
    else by_rank[static_cast<std::size_t>(said->member.rank)] = said;
  }
  std::ranges::sort(open, before);
  auto next = open.begin();
  for (const Announcement*& place : by_rank) {
    if (place == nullptr && next != open.end()) place = *next++;
  }
  return by_rank;
}

/// Names the complete job. Returns true where it differs from the one before.
bool MulticastDiscovery::name_job() {
  std::string job;
  const auto by_rank = chosen();
  const bool complete = std::ranges::find(by_rank, nullptr) == by_rank.end() && std::ranges::find(by_rank, &self_) != by_rank.end();
  if (complete && quarrels_.empty()) {
    std::string text = fmt::format("unisono discovery {}\n{}\n{}\n", place_, request_.group_name.size(), request_.group_name);
    for (const Announcement* said : by_rank) text += said->nonce + "\n";
    job = store::digest(text);
    auto& members = named_[job];
    for (const Announcement* said : by_rank) members.insert(said->nonce);
  }
  if (job == self_.job) return false;
  self_.job = std::move(job);
  return true;
}

bool MulticastDiscovery::all_agree() const {
  if (self_.job.empty()) return false;
  if (self_.job == standing_) return true;
  return std::ranges::all_of(chosen(), [&](const Announcement* said) { return said->job == self_.job; });
}

void MulticastDiscovery::settle() {
  const auto by_rank = chosen();
  rank_ = static_cast<int>(std::ranges::find(by_rank, &self_) - by_rank.begin());
  if (rank_ == 0) {
    server_ = base::local_address(listening_.get());
  } else {
    listening_.reset();
    server_ = others_.find(by_rank[0]->nonce)->source.with_port(by_rank[0]->port);
  }
}

/// Goes on announcing for the processes that have not heard yet that all agree. Announcements of such a process are answered.
void MulticastDiscovery::keep_announcing() {
  auto next = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    if (now >= next) {
      announce();
      next = now + longest_pause;
    }
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    pollfd entries[2] = {{socket_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    ::poll(entries, 2, static_cast<int>(std::clamp<std::int64_t>(rest, 0, longest_pause.count())));
    if (entries[1].revents != 0) return;
    for (int i = 0; i < most_at_once; ++i) {
      const auto datagram = socket_.receive();
      if (!datagram) break;
      const Heard heard = hear(datagram->bytes, request_.group_name, token_.view(), place_);
      const bool asks = heard.hearing == Hearing::ours && !heard.announcement.agreed && named_.at(self_.job).contains(heard.announcement.nonce);
      if (asks) next = std::min(next, Clock::now() + shortest_pause);
    }
  }
}

// The refusals of a job at a multicast address: ranks that contradict each other, and ranks that do not come.

void MulticastDiscovery::look_for_quarrels() {
  const auto all = everybody();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i]->world_size != all[j]->world_size) quarrel(Announcement::Refusal::Kind::mismatch, *all[j], *all[i]);
      else if (all[i]->member.rank >= 0 && all[i]->member.rank == all[j]->member.rank)
        quarrel(Announcement::Refusal::Kind::duplicate, *all[j], *all[i]);
    }
  }
}

/// Reports a conflict only between two processes that both live: the last datagram of one that has ended may still arrive.
void MulticastDiscovery::quarrel(Announcement::Refusal::Kind kind, const Announcement& first, const Announcement& second) {
  const auto times = [&](const std::string& nonce) {
    const auto* const found = others_.find(nonce);
    return found == nullptr ? 0 : found->times;
  };
  const auto alive = [&](const std::string& nonce, int before) { return nonce == self_.nonce || times(nonce) > before; };
  const auto [seen, fresh] = quarrels_.try_emplace({first.nonce, second.nonce}, Quarrel{times(first.nonce), times(second.nonce)});
  if (fresh || !alive(first.nonce, seen->second.first) || !alive(second.nonce, seen->second.second)) return;
  Announcement::Refusal refusal{.kind = kind, .text = {}};
  if (kind == Announcement::Refusal::Kind::duplicate) {
    refusal.text = fmt::format("rank {} is claimed by {} and by {}", first.member.rank, where(first.member), where(second.member));
  } else {
    refusal.text = fmt::format("{} says {}, {} says {}", describe(first), first.world_size, describe(second), second.world_size);
  }
  // The other processes are told, also those that come a moment later and would wait until their time is over.
  self_.refusal = refusal;
  for (const Deadline lingering(farewell_time); !lingering.passed();) {
    announce();
    ::poll(nullptr, 0, lingering.poll_timeout(farewell_period_ms));
    listen();  // the next announcement repeats the nonces of new processes, which believe it then
  }
  refuse(refusal);
}

void MulticastDiscovery::refuse(const Announcement::Refusal& refusal) const {
  if (refusal.kind == Announcement::Refusal::Kind::duplicate)
    throw InvalidArgument(
        refusal.text, info("every process needs a rank of its own: was one started twice? If a job of this name has failed just now, start again"));
  throw Mismatch("the ranks disagree about the world size: " + refusal.text,
                 info("world_size must be the same on every rank. If a job of this name has failed just now, start again"));
}

void MulticastDiscovery::give_up(const Deadline& deadline) const {
  const auto by_rank = chosen();
  std::vector<int> missing;
  std::string here;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r] == nullptr) missing.push_back(static_cast<int>(r));
    else if (here.size() < enough_of_presence) here += fmt::format("{}{}", here.empty() ? "" : ", ", describe(*by_rank[r]));
  }
  std::string text = fmt::format("{} of {} processes came to {} (group name \"{}\", interface {}) within {} ms", by_rank.size() - missing.size(),
                                 by_rank.size(), place_, request_.group_name, socket_.interface(), deadline.timeout().count());
  text += missing.empty() ? fmt::format(", and did not agree (here: {})", here) : fmt::format("; missing ranks {} (here: {})", list(missing), here);
  if (others_.of_other_jobs() > 0)
    text += fmt::format("; {} others are of a job of that name that is complete without this process", others_.of_other_jobs());
  if (forged_ > 0) text += fmt::format("; {} datagrams were ignored because they are not of this job's token", forged_);
  if (other_versions_ > 0) text += fmt::format("; {} were of another version of unisono", other_versions_);
  text += others_.describe_unproven();
  if (nothing_ > 0) text += fmt::format("; {} were no announcements", nothing_);
  if (send_error_ != 0) text += fmt::format("; sending failed: {}", base::error_text(send_error_));
  throw Timeout(text,
                info("were all of them started, with the same UNISONO_TOKEN, and is it the same network? UNISONO_INTERFACE names the interface"),
                std::move(missing));
}

}  // namespace unisono::rendezvous
