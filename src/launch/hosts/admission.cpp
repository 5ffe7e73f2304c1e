#include "launch/hosts/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "launch/job_options.h"
#include "launch/process/host.h"
#include "store/server.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

constexpr const char* tickets_key = "launchers/tickets";
constexpr std::string_view taken_in = "taken ", refused = "refused ";
/// The pause between two looks at launchers that may have gone while they wait.
constexpr std::chrono::milliseconds look_for_the_dead{250};

std::string offer_key(int host) { return fmt::format("launchers/offer/{}", host); }
std::string answer_key(int host) { return fmt::format("launchers/answer/{}", host); }
ErrorInfo info(std::string hint = {}) { return {.operation = "unisono run", .hint = std::move(hint)}; }

/// Returns the lowest number of a launcher that has offered nothing so far, and has not left either.
int next_to_come(const store::StoreServer& server) {
  int number = 1;
  while (server.peek(offer_key(number)) || server.peek(goodbye_key(number))) ++number;
  return number;
}

// The fields of each text, in the order in which they are written.
auto offer_fields(auto& offer) { return std::tie(offer.ranks, offer.least, offer.where); }
auto welcome_fields(auto& welcome) {
  return std::tie(welcome.first_rank, welcome.world_size, welcome.least_ranks, welcome.max_restarts, welcome.master_port, welcome.is_late,
                  welcome.job_name);
}

}  // namespace

std::string encode_offer(const HostOffer& offer) { return write_fields(offer_fields(offer)); }

HostOffer decode_offer(const std::string& text) {
  std::istringstream in(text);
  HostOffer offer;
  if (!read_fields(in, offer_fields(offer)) || offer.ranks < 1 || offer.ranks > most_ranks || offer.least < 0 || offer.least > offer.ranks ||
      !is_one_word(offer.where)) {
    throw ProtocolError("a launcher sent malformed data about its ranks");
  }
  return offer;
}

std::string encode_welcome(const JobTerms& welcome) { return write_fields(welcome_fields(welcome)); }

JobTerms decode_welcome(const std::string& text) {
  std::istringstream in(text);
  JobTerms welcome{.is_open = true};
  const bool is_whole = read_fields(in, welcome_fields(welcome));
  const bool is_known = welcome.first_rank >= 0 && welcome.first_rank < welcome.world_size && welcome.least_ranks >= 1 && welcome.max_restarts >= 0 &&
                        welcome.master_port >= 0 && welcome.master_port <= highest_port;
  if (!is_whole || !is_known || !is_one_word(welcome.job_name)) throw ProtocolError("the launcher of host 0 sent malformed data about the job");
  return welcome;
}

int take_ticket(store::Client& store) { return static_cast<int>(store.add(tickets_key, 1)); }

JobTerms ask_for_place(store::Client& store, int number, const HostOffer& offer, const base::Deadline& deadline) {
  std::string said;
  try {
    store.leave_will({{goodbye_key(number), "the connection to it ended"}});
    store.set(offer_key(number), encode_offer(offer));
    said = store.get(answer_key(number), deadline.left());
  } catch (const Timeout&) {
    throw Timeout("host 0 has not taken this host into the job: too few hosts have come, or the job has as many as --nnodes allows", info(), {});
  } catch (const PeerFailed& error) {
    throw PeerFailed(fmt::format("host 0 has ended, and has not taken this host into the job: {}", error.message()), info(), error.cause());
  }
  if (said.starts_with(refused)) throw InvalidArgument(said.substr(refused.size()), info());
  if (!said.starts_with(taken_in)) throw ProtocolError("the launcher of host 0 sent a malformed answer");
  return decode_welcome(said.substr(taken_in.size()));
}

Admission::Admission(Parts parts, HostRoster& hosts) : parts_(std::move(parts)), hosts_(hosts), next_rank_(parts_.own.ranks) {
  hosts_.add({.number = 0, .ranks = parts_.own.ranks, .where = parts_.own.where});
}

void Admission::answer(int host, const std::string& text) {
  parts_.store->set(answer_key(host), text);
  answered_.insert(host);
}

void Admission::welcome(const JobHost& host) {
  JobTerms words = parts_.terms;
  words.first_rank = host.first_rank;
  words.world_size = next_rank_;
  words.is_late = host.is_late;
  answer(host.number, std::string(taken_in) + encode_welcome(words));
}

void Admission::publish() { parts_.store->set(hosts_key, encode_roster(hosts_.all())); }

std::optional<JobHost> Admission::next_offer() {
  const store::StoreServer& server = *parts_.store->own_server();
  const std::string tickets = server.peek(tickets_key).value_or("0");
  int last = 0;
  std::from_chars(tickets.data(), tickets.data() + tickets.size(), last);
  for (int number = 1; number <= last; ++number) {
    if (answered_.contains(number) || hosts_.find(number) || server.peek(goodbye_key(number))) continue;
    const auto said = server.peek(offer_key(number));
    if (!said) continue;
    const HostOffer offer = decode_offer(*said);
    if (offer.ranks == parts_.own.ranks && offer.least == parts_.own.least)
      return JobHost{.number = number, .ranks = offer.ranks, .where = offer.where};
    answer(number, fmt::format("{}with --nnodes MIN:MAX every host has as many ranks: {} runs {}, and {} {}", refused, parts_.own.where,
                               parts_.own.ranks, offer.where, offer.ranks));
  }
  return std::nullopt;
}

void Admission::gather(const base::Deadline& deadline, std::chrono::milliseconds last_call) {
  const store::StoreServer& server = *parts_.store->own_server();
  std::optional<base::Deadline> closing;
  for (;;) {
    std::vector<JobHost> all = hosts_.all();
    std::erase_if(all, [&](const JobHost& host) { return server.peek(goodbye_key(host.number)).has_value(); });
    hosts_.set(std::move(all));
    while (hosts_.present() < parts_.most_hosts) {
      auto host = next_offer();
      if (!host) break;
      hosts_.add(std::move(*host));
    }
    const int present = hosts_.present();
    if (present < parts_.least_hosts) closing.reset();
    else if (!closing) closing.emplace(last_call);
    if (present >= parts_.most_hosts || (closing && closing->passed())) break;
    if (deadline.passed() && !closing) {
      throw Timeout(fmt::format("{} of at least {} hosts have come", present, parts_.least_hosts), info("start the launchers of all hosts together"),
                    {});
    }
    try {
      parts_.store->get(offer_key(next_to_come(server)), look_for_the_dead);
    } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): nobody has come
    }
  }
  std::vector<JobHost> all = hosts_.all();
  std::ranges::sort(all, {}, &JobHost::number);
  next_rank_ = 0;
  for (JobHost& host : all) {
    host.first_rank = next_rank_;
    next_rank_ += host.ranks;
  }
  hosts_.set(all);
  publish();
  for (const JobHost& host : all) {
    if (host.number > 0) welcome(host);
  }
}

std::vector<std::string> Admission::admit() {
  std::vector<std::string> news;
  for (;;) {
    const std::lock_guard lock(mutex_);
    if (!is_closed_ && hosts_.present() >= parts_.most_hosts) return news;
    auto host = next_offer();
    if (!host) return news;
    if (is_closed_ || next_rank_ > most_ranks - host->ranks) {
      answer(host->number, fmt::format("{}the job is over, or comes to its end", refused));
      continue;
    }
    host->first_rank = next_rank_;
    host->is_late = true;
    next_rank_ += host->ranks;
    hosts_.add(*host);
    publish();
    welcome(*host);
    news.push_back(fmt::format("{} has come; the job has {} hosts now", host->where, hosts_.present()));
  }
}

void Admission::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

}  // namespace unisono::launcher
