#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordination/exchange.h"
#include "unisono/error.h"

// Hosts whose exchanges meet in memory, for the tests of Exchange.
namespace unisono::coordination::testing {

using State = Exchange::State;

/// The messages on their way between the hosts, by receiver and sender.
using Mail = std::map<std::pair<int, int>, std::deque<std::string>>;

constexpr std::uint64_t group = 77;

/// The first rank of a host.
struct Host final : transport::CallMail {
  Host(int host, const std::vector<int>& hosts_of_ranks, Mail& mail)
      : topology(first_rank_of(host, hosts_of_ranks), hosts_of_ranks),
        mail_(mail),
        global_ranks(hosts_of_ranks.size()),
        route{.mail = this, .group = group, .global_ranks = &global_ranks} {
    std::iota(global_ranks.begin(), global_ranks.end(), 100);  // the ranks of the group are others in the world
  }

  void post(int to, std::uint64_t of_group, std::span<const std::byte> head, std::span<const std::byte> data) override {
    EXPECT_EQ(of_group, group);
    std::string& message = mail_[{to - 100, topology.rank}].emplace_back(reinterpret_cast<const char*>(head.data()), head.size());
    message.append(reinterpret_cast<const char*>(data.data()), data.size());
    sent += message.size();
    ++messages;
  }
  void look(int) override {}
  bool take(int from, std::uint64_t of_group, std::string& into) override {
    EXPECT_EQ(of_group, group);
    auto& queue = mail_[{topology.rank, from - 100}];
    if (queue.empty()) return false;
    into = std::move(queue.front());
    queue.pop_front();
    return true;
  }

  static int first_rank_of(int host, const std::vector<int>& hosts_of_ranks) {
    return static_cast<int>(std::find(hosts_of_ranks.begin(), hosts_of_ranks.end(), host) - hosts_of_ranks.begin());
  }

  /// Begins a call. Every rank contributes `each` bytes of its own number, or `only` alone.
  void begin(std::uint64_t number, const engines::Signature& signature, std::size_t each, int only = -1) {
    carried = {.each = each, .only = only};
    all.assign(carried.bytes(topology), std::byte{0xee});
    carried.all = all.data();
    for (const int r : topology.members) {
      if (only < 0 || only == r) std::fill_n(const_cast<std::byte*>(carried.of(r, topology)), each, std::byte(r));
    }
    exchange = std::make_unique<Exchange>(topology, route, memory, number, signature, &carried, all.data());
  }
  /// The same of one rank on each host, which sends to each of the others what is for it: `each` bytes that tell sender and receiver.
  void begin_directly(std::uint64_t number, const engines::Signature& signature, std::size_t each,
                      Carried::Pattern pattern = Carried::Pattern::blocks) {
    carried = {.pattern = pattern, .each = each};
    const int blocks = pattern == Carried::Pattern::blocks ? topology.size() : 1;
    own.clear();
    for (int to = 0; to < blocks; ++to) own.insert(own.end(), each, between(topology.rank, pattern == Carried::Pattern::blocks ? to : 0));
    carried.own = own;
    carried.arrived = &memory.arrived;
    exchange = std::make_unique<Exchange>(topology, route, memory, number, signature, &carried, nullptr);
  }
  /// The same of a call with a root: `only` sends, or `towards` receives.
  void begin_with_root(std::uint64_t number, const engines::Signature& signature, std::size_t each, Carried::Pattern pattern, int only, int towards) {
    begin_directly(number, signature, each, pattern);
    exchange.reset();
    carried.only = only;
    carried.towards = towards;
    if (only >= 0 && only != topology.rank) carried.own = {};
    exchange = std::make_unique<Exchange>(topology, route, memory, number, signature, &carried, nullptr);
  }
  /// The same of blocks of which the last ones are shorter: all together have `total` bytes.
  void begin_with_short_blocks(std::uint64_t number, const engines::Signature& signature, std::size_t each, std::size_t total) {
    begin_directly(number, signature, each);
    exchange.reset();
    own.resize(total);
    carried.own = own;
    exchange = std::make_unique<Exchange>(topology, route, memory, number, signature, &carried, nullptr);
  }
  static std::byte between(int from, int to) { return static_cast<std::byte>(7 * from + to + 1); }
  bool has_what_is_for_it() const {
    const int place = carried.pattern == Carried::Pattern::blocks ? topology.rank : 0;
    for (int r = 0; r < topology.size(); ++r) {
      if (r == topology.rank) continue;
      const auto block = carried.from(r, topology);
      if (block.size() != carried.direct_bytes(r, topology.rank) || std::ranges::count(block, between(r, place)) != std::ranges::ssize(block))
        return false;
    }
    return true;
  }
  bool has_all() const {
    for (int r = 0; r < topology.size(); ++r) {
      if (carried.only >= 0 && carried.only != r) continue;
      for (std::size_t i = 0; i < carried.each; ++i) {
        if (carried.of(r, topology)[i] != std::byte(r)) return false;
      }
    }
    return true;
  }

  GroupTopology topology;
  Mail& mail_;
  std::vector<int> global_ranks;
  ExchangeRoute route;
  ExchangeMemory memory;
  Carried carried;
  std::vector<std::byte> all, own;
  std::unique_ptr<Exchange> exchange;
  std::size_t sent = 0;
  int messages = 0;
};

inline std::vector<std::unique_ptr<Host>> make_hosts(const std::vector<int>& hosts_of_ranks, Mail& mail) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (int h = 0; h <= *std::max_element(hosts_of_ranks.begin(), hosts_of_ranks.end()); ++h) {
    hosts.push_back(std::make_unique<Host>(h, hosts_of_ranks, mail));
  }
  return hosts;
}

inline std::vector<int> one_rank_each(int hosts) {
  std::vector<int> ranks(static_cast<std::size_t>(hosts));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Advances all of them in random order until none can go on. Returns the states.
inline std::vector<State> advance_all(std::vector<std::unique_ptr<Host>>& hosts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> order(hosts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<State> states(hosts.size(), State::waiting);
  for (std::size_t turn = 0; turn < 2 * hosts.size() + 2; ++turn) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t h : order) {
      if (states[h] == State::waiting) states[h] = hosts[h]->exchange->advance();
    }
  }
  return states;
}

inline int rounds_of(int hosts) {
  int rounds = 0;
  for (int known = 1; known < hosts; known *= Exchange::radix) ++rounds;
  return rounds;
}

inline const engines::Signature call{.what = 1, .count = 2, .extra = 3};
inline const engines::Signature another{.what = 1, .count = 4, .extra = 3};

/// Makes hosts of which one is crowded, and lets them agree once.
inline std::vector<std::unique_ptr<Host>> settled_hosts(int n, int crowded, Mail& mail) {
  auto hosts = make_hosts(one_rank_each(n), mail);
  hosts[static_cast<std::size_t>(crowded)]->memory.is_crowded = true;
  for (auto& host : hosts) host->begin(1, call, 2);
  for (const State state : advance_all(hosts, 1)) EXPECT_EQ(state, State::agreed);
  for (auto& host : hosts) host->messages = 0;
  return hosts;
}

}  // namespace unisono::coordination::testing
