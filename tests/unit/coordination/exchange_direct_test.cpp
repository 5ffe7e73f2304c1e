// The exchange in which every host sends to each of the others what is for it.

#include <gtest/gtest.h>

#include "exchange_hosts.h"

namespace unisono::coordination::testing {
namespace {

// Every host gets from each of the others what is for it, in one round of messages, before and after the hosts know whether they share processors.
TEST(Exchange, TheExchangeSendsDirectlyWhatIsForEachOfTheOthers) {
  for (int n = 2; n <= 20; ++n) {
    Mail mail;
    auto hosts = make_hosts(one_rank_each(n), mail);
    hosts[static_cast<std::size_t>(n / 2)]->memory.is_crowded = true;
    for (std::uint64_t number = 1; number <= 6; ++number) {
      for (auto& host : hosts) {
        host->messages = 0;
        if (number % 3 == 0) host->begin(number, call, 3);  // between others
        else host->begin_directly(number, call, 3 + number, number % 3 == 1 ? Carried::Pattern::blocks : Carried::Pattern::directly);
      }
      for (const State state : advance_all(hosts, static_cast<unsigned>(n))) EXPECT_EQ(state, State::agreed) << n << " hosts, call " << number;
      for (const auto& host : hosts) {
        EXPECT_TRUE(number % 3 == 0 ? host->has_all() : host->has_what_is_for_it()) << n << " hosts, call " << number;
        if (number % 3 == 0) continue;
        EXPECT_EQ(host->messages, n - 1);
      }
    }
  }
}

// Blocks are of one length but for the last ones: shares of elements that are no multiple of the ranks, or fewer than these.
TEST(Exchange, TheExchangeSendsShorterBlocksToTheLast) {
  for (int n = 2; n <= 9; ++n) {
    for (const std::size_t total : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(n) * 4 - 1, static_cast<std::size_t>(n) * 3 + 1}) {
      Mail mail;
      auto hosts = make_hosts(one_rank_each(n), mail);
      for (auto& host : hosts) host->begin_with_short_blocks(1, call, 4, total);
      for (const State state : advance_all(hosts, static_cast<unsigned>(n))) EXPECT_EQ(state, State::agreed) << n << " " << total;
      std::size_t received = 0;
      for (const auto& host : hosts) {
        EXPECT_TRUE(host->has_what_is_for_it()) << n << " " << total;
        const int rank = host->topology.rank;
        received += host->carried.direct_bytes(rank == 0 ? 1 : 0, rank);
      }
      EXPECT_EQ(received, total) << n;
    }
  }
}

TEST(Exchange, TheExchangeSendsElementsOfACallWithARootToThoseWhoNeedThemAlone) {
  for (int n = 2; n <= 9; ++n) {
    for (const auto pattern : {Carried::Pattern::blocks, Carried::Pattern::directly}) {
      for (const bool is_from_root : {true, false}) {
        if (!is_from_root && pattern == Carried::Pattern::blocks) continue;  // of no operation
        Mail mail;
        auto hosts = make_hosts(one_rank_each(n), mail);
        const int root = n / 2;
        for (auto& host : hosts) host->begin_with_root(1, call, 5, pattern, is_from_root ? root : -1, is_from_root ? -1 : root);
        for (const State state : advance_all(hosts, static_cast<unsigned>(n))) EXPECT_EQ(state, State::agreed) << n;
        for (const auto& host : hosts) {
          EXPECT_TRUE(host->has_what_is_for_it()) << n;
          EXPECT_EQ(host->messages, n - 1) << "calls are compared by all";
          for (int r = 0; r < n; ++r) {
            if (r == host->topology.rank) continue;
            const bool has_some = is_from_root ? r == root : host->topology.rank == root;
            EXPECT_EQ(host->carried.from(r, host->topology).size(), has_some ? 5U : 0U) << n << " from " << r << " to " << host->topology.rank;
          }
        }
      }
    }
  }
}

TEST(Exchange, TheExchangeEndsNowhereDirectlyBeforeAllHaveCome) {
  Mail mail;
  auto hosts = make_hosts(one_rank_each(5), mail);
  const std::unique_ptr<Host> late = std::move(hosts.back());
  hosts.pop_back();
  for (auto& host : hosts) host->begin_directly(1, call, 1);
  for (const State state : advance_all(hosts, 3)) EXPECT_EQ(state, State::waiting);
  for (const auto& host : hosts) EXPECT_TRUE(!host->exchange->has_come(4) && host->exchange->has_come(host->topology.rank == 0 ? 1 : 0));
}

// Hosts whose calls differ may use different patterns. None of them agrees, one at least sees it, and nothing of it is left in the next call.
TEST(Exchange, TheExchangeLetsNobodyAgreeWhereSomeSendDirectlyAndOthersDoNot) {
  for (int n = 2; n <= 12; ++n) {
    for (const bool settled : {false, true}) {
      for (const bool odd_is_direct : {false, true}) {
        for (int odd = 0; odd < n; ++odd) {
          Mail mail;
          auto hosts = settled ? settled_hosts(n, 0, mail) : make_hosts(one_rank_each(n), mail);
          for (auto& host : hosts) {
            const bool is_odd = host->topology.rank == odd;
            if (is_odd == odd_is_direct) host->begin_directly(2, is_odd ? another : call, 4);
            else host->begin(2, is_odd ? another : call, 4);
          }
          const auto states = advance_all(hosts, 5);
          EXPECT_EQ(std::ranges::count(states, State::agreed), 0) << n << " " << odd << settled << odd_is_direct;
          EXPECT_GT(std::ranges::count(states, State::differs), 0) << n << " " << odd << settled << odd_is_direct;
          for (auto& host : hosts) host->begin_directly(3, call, 2);
          for (const State state : advance_all(hosts, 6)) EXPECT_EQ(state, State::agreed) << n << " " << odd << settled << odd_is_direct;
          for (const auto& host : hosts) EXPECT_TRUE(host->has_what_is_for_it());
        }
      }
    }
  }
}

}  // namespace
}  // namespace unisono::coordination::testing
