// The exchange between the first ranks of the hosts: all of them learn that all have come to the same call, and get all contributions.

#include <gtest/gtest.h>

#include <bit>

#include "exchange_hosts.h"

namespace unisono::coordination::testing {
namespace {

TEST(Exchange, TheExchangeGivesAllContributionsToAnyNumberOfHosts) {
  for (int n = 1; n <= 40; ++n) {
    Mail mail;
    auto hosts = make_hosts(one_rank_each(n), mail);
    for (std::uint64_t number = 1; number <= 3; ++number) {
      for (auto& host : hosts) host->begin(number, call, 5);
      const auto states = advance_all(hosts, static_cast<unsigned>(n));
      for (std::size_t h = 0; h < hosts.size(); ++h) {
        EXPECT_EQ(states[h], State::agreed) << n << " hosts, host " << h;
        EXPECT_TRUE(hosts[h]->has_all()) << n << " hosts, host " << h;
        for (int other = 0; other < n; ++other) EXPECT_TRUE(hosts[h]->exchange->has_come(other));
      }
    }
    // As the comment of the class says: the contributions of the others once, and few heads in each round.
    for (const auto& host : hosts) {
      EXPECT_LE(host->messages, 3 * rounds_of(n) * (Exchange::radix - 1)) << n;
      EXPECT_EQ(host->sent, static_cast<std::size_t>(host->messages) * 32 + 3 * 5 * static_cast<std::size_t>(n - 1)) << n;
    }
  }
}

TEST(Exchange, TheExchangeKnowsHostsOfSeveralRanks) {
  Mail mail;
  auto hosts = make_hosts({0, 1, 1, 2, 0, 2, 2, 3}, mail);
  for (const int only : {-1, 0, 2, 6, 7}) {
    for (auto& host : hosts) host->begin(static_cast<std::uint64_t>(only + 2), call, 3, only);
    for (const State state : advance_all(hosts, 7)) EXPECT_EQ(state, State::agreed);
    for (const auto& host : hosts) EXPECT_TRUE(host->has_all()) << only;
  }
}

// A host that has not come keeps all others waiting, and they know what they know.
TEST(Exchange, TheExchangeEndsNowhereBeforeAllHaveCome) {
  for (int n = 2; n <= 20; ++n) {
    Mail mail;
    auto hosts = make_hosts(one_rank_each(n), mail);
    const std::unique_ptr<Host> late = std::move(hosts.back());
    hosts.pop_back();
    for (auto& host : hosts) host->begin(1, call, 1);
    for (const State state : advance_all(hosts, 3)) EXPECT_EQ(state, State::waiting) << n;
    for (const auto& host : hosts) EXPECT_FALSE(host->exchange->has_come(n - 1)) << n;
  }
}

TEST(Exchange, TheExchangeLetsNobodyAgreeWhereOneCallDiffers) {
  for (int n = 2; n <= 20; ++n) {
    Mail mail;
    auto hosts = make_hosts(one_rank_each(n), mail);
    for (auto& host : hosts) host->begin(1, host == hosts.back() ? another : call, 1);
    const auto states = advance_all(hosts, 5);
    EXPECT_EQ(std::count(states.begin(), states.end(), State::agreed), 0) << n;
    EXPECT_GT(std::count(states.begin(), states.end(), State::differs), 0) << n;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      if (states[h] != State::differs) continue;
      const auto& differing = hosts[h]->exchange->differing();
      ASSERT_TRUE(differing);
      EXPECT_EQ(differing->second, differing->first == n - 1 ? another : call);
    }
  }
}

// What is left over from a call in which the ranks differed belongs to no later call, and what comes early is kept.
TEST(Exchange, TheExchangeKeepsCallsApart) {
  Mail mail;
  auto hosts = make_hosts(one_rank_each(6), mail);
  for (auto& host : hosts) host->begin(1, host == hosts[2] ? another : call, 4);
  advance_all(hosts, 1);
  for (auto& host : hosts) host->begin(2, call, 4);
  for (const State state : advance_all(hosts, 2)) EXPECT_EQ(state, State::agreed);
  for (const auto& host : hosts) EXPECT_TRUE(host->has_all());

  hosts[0]->begin(3, another, 4);
  EXPECT_EQ(hosts[0]->exchange->advance(), State::waiting);
  hosts[0]->begin(4, call, 4);  // it has given up the third call
  EXPECT_EQ(hosts[0]->exchange->advance(), State::waiting);
  hosts[1]->begin(3, another, 4);
  EXPECT_EQ(hosts[1]->exchange->advance(), State::waiting);  // the message of the third call has been used
  for (std::size_t h = 1; h < hosts.size(); ++h) hosts[h]->begin(4, call, 4);
  for (const State state : advance_all(hosts, 2)) EXPECT_EQ(state, State::agreed);
  for (const auto& host : hosts) EXPECT_TRUE(host->has_all());
}

// One crowded host is enough: from the second call on the messages of all hosts together are few.
TEST(Exchange, TheExchangeTakesTheTreeWhereProcessorsAreShared) {
  for (int n = 3; n <= 40; ++n) {
    Mail mail;
    auto hosts = settled_hosts(n, n / 2, mail);
    for (std::uint64_t number = 2; number <= 4; ++number) {
      for (auto& host : hosts) host->begin(number, call, 5, number == 3 ? n - 1 : -1);
      for (const State state : advance_all(hosts, static_cast<unsigned>(n))) EXPECT_EQ(state, State::agreed) << n;
      for (const auto& host : hosts) EXPECT_TRUE(host->has_all()) << n << " hosts, call " << number;
    }
    int messages = 0;
    for (const auto& host : hosts) messages += host->messages;
    EXPECT_EQ(messages, 3 * 2 * (n - 1)) << n;
  }
}

// Up to eight hosts all but the first send one message and wait for one. Many bytes come back from several hosts.
TEST(Exchange, TheTreeIsFlatForFewBytes) {
  for (int n = 3; n <= 8; ++n) {
    for (const std::size_t each : {std::size_t{1}, Exchange::few_bytes + 1}) {
      Mail mail;
      auto hosts = settled_hosts(n, 0, mail);
      for (auto& host : hosts) host->begin(2, call, each, 0);
      for (const State state : advance_all(hosts, static_cast<unsigned>(n))) EXPECT_EQ(state, State::agreed) << n;
      for (const auto& host : hosts) EXPECT_TRUE(host->has_all()) << n << " hosts, " << each << " bytes";
      const int largest_part = std::bit_width(static_cast<unsigned>(n - 1));
      EXPECT_EQ(hosts[0]->messages, each == 1 ? n - 1 : largest_part) << n;
      for (const auto& host : hosts) {
        if (each == 1 && host != hosts[0]) {
          EXPECT_EQ(host->messages, 1) << n;
        }
      }
    }
  }
}

// Calls of few and of many bytes have different ways back.
TEST(Exchange, TheExchangeLetsNobodyAgreeInTheTreeWhereOneCallIsLarger) {
  for (int n = 3; n <= 20; ++n) {
    for (const bool odd_is_larger : {false, true}) {
      for (std::size_t odd = 0; odd < static_cast<std::size_t>(n); ++odd) {
        Mail mail;
        auto hosts = settled_hosts(n, 1, mail);
        for (auto& host : hosts) {
          const bool is_odd = host == hosts[odd];
          host->begin(2, is_odd ? another : call, is_odd == odd_is_larger ? Exchange::few_bytes : 1);
        }
        const auto states = advance_all(hosts, 5);
        EXPECT_EQ(std::count(states.begin(), states.end(), State::agreed), 0) << n << " " << odd;
        EXPECT_GT(std::count(states.begin(), states.end(), State::differs), 0) << n << " " << odd;
        for (auto& host : hosts) host->begin(3, call, 2);  // nothing of it is left
        for (const State state : advance_all(hosts, 6)) EXPECT_EQ(state, State::agreed) << n << " " << odd;
      }
    }
  }
}

TEST(Exchange, TheTreeEndsNowhereBeforeAllHaveCome) {
  for (int n = 3; n <= 20; ++n) {
    for (int late = 0; late < n; ++late) {
      Mail mail;
      auto hosts = settled_hosts(n, 0, mail);
      for (auto& host : hosts) host->begin(2, call, 1);
      const std::unique_ptr<Host> missing = std::move(hosts[static_cast<std::size_t>(late)]);
      hosts.erase(hosts.begin() + late);
      for (const State state : advance_all(hosts, 3)) EXPECT_EQ(state, State::waiting) << n << " " << late;
      for (const auto& host : hosts) EXPECT_FALSE(host->exchange->has_come(late)) << n << " " << late;
    }
  }
}

TEST(Exchange, TheExchangeLetsNobodyAgreeInTheTreeWhereOneCallDiffers) {
  for (int n = 3; n <= 20; ++n) {
    for (std::size_t odd = 0; odd < static_cast<std::size_t>(n); ++odd) {
      Mail mail;
      auto hosts = settled_hosts(n, 1, mail);
      for (auto& host : hosts) host->begin(2, host == hosts[odd] ? another : call, 1);
      const auto states = advance_all(hosts, 5);
      EXPECT_EQ(std::count(states.begin(), states.end(), State::agreed), 0) << n << " " << odd;
      EXPECT_GT(std::count(states.begin(), states.end(), State::differs), 0) << n << " " << odd;
      for (auto& host : hosts) host->begin(3, call, 2);  // nothing of it is left
      for (const State state : advance_all(hosts, 6)) EXPECT_EQ(state, State::agreed) << n << " " << odd;
      for (const auto& host : hosts) EXPECT_TRUE(host->has_all());
    }
  }
}

// Where the first call differs, nobody knows yet, so all go on as before.
TEST(Exchange, TheExchangeSettlesOnlyWhenAllHaveAgreed) {
  Mail mail;
  auto hosts = make_hosts(one_rank_each(7), mail);
  hosts[3]->memory.is_crowded = true;
  for (auto& host : hosts) host->begin(1, host == hosts[5] ? another : call, 1);
  advance_all(hosts, 1);
  for (const auto& host : hosts) EXPECT_FALSE(host->memory.is_settled);
  for (std::uint64_t number = 2; number <= 3; ++number) {
    for (auto& host : hosts) host->begin(number, call, 3);
    for (const State state : advance_all(hosts, 2)) EXPECT_EQ(state, State::agreed);
    for (const auto& host : hosts) EXPECT_TRUE(host->has_all() && host->memory.is_settled);
  }
}

TEST(Exchange, TheExchangeRefusesAMessageOfAnotherLength) {
  Mail mail;
  auto hosts = make_hosts(one_rank_each(2), mail);
  hosts[0]->begin(1, call, 4);
  hosts[1]->begin(1, call, 5);
  EXPECT_EQ(hosts[0]->exchange->advance(), State::waiting);
  EXPECT_THROW(hosts[1]->exchange->advance(), ProtocolError);
}

TEST(Exchange, TheExchangeLooksWithoutUsing) {
  Mail mail;
  auto hosts = make_hosts(one_rank_each(2), mail);
  for (auto& host : hosts) host->begin(1, call, 4);
  EXPECT_EQ(hosts[0]->exchange->advance(), State::waiting);
  EXPECT_FALSE(hosts[0]->exchange->look());
  EXPECT_EQ(hosts[1]->exchange->advance(), State::agreed);
  EXPECT_TRUE(hosts[0]->exchange->look());
  EXPECT_TRUE(hosts[0]->exchange->look());
  EXPECT_EQ(hosts[0]->exchange->advance(), State::agreed);
  EXPECT_TRUE(hosts[0]->has_all());
}

}  // namespace
}  // namespace unisono::coordination::testing
