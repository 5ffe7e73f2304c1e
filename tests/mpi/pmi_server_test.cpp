// The answers of `unisono run` to MPICH's ranks, and the requests that do it no harm.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>

#include "launch/mpi/pmi_server.h"

namespace unisono::launcher {
namespace {

class PmiServerTest : public ::testing::Test {
 protected:
  PmiServerTest() : server_({.hosts = {{.name = "here", .ranks = 2}}}, "job") {
    for (int rank = 0; rank < 2; ++rank) ends_.emplace_back(::dup(server_.rank_end(rank)));
    server_.started();
  }
  void send(int rank, const std::string& text) {
    ASSERT_EQ(::send(end(rank), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    serve();
  }
  void serve() {
    PollSet set;
    server_.wait_for(set);
    set.wake_within(std::chrono::milliseconds(1000));
    set.wait();
  }
  /// The line that has come; "closed" where the server has hung up.
  std::string answer(int rank) {
    char buffer[4096];
    const ssize_t got = ::recv(end(rank), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0) return "closed";
    return got < 0 ? "" : std::string(buffer, static_cast<std::size_t>(got));
  }
  std::string ask(int rank, const std::string& line) {
    send(rank, line + "\n");
    return answer(rank);
  }

 private:
  int end(int rank) const { return ends_[static_cast<std::size_t>(rank)].get(); }
  PmiServer server_;
  std::vector<base::FileDescriptor> ends_;
};

TEST_F(PmiServerTest, TheServerSaysWhatThereIs) {
  EXPECT_EQ(ask(0, "cmd=init pmi_version=1 pmi_subversion=1"), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get_maxes"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(ask(1, "cmd=get_universe_size"), "cmd=universe_size size=2\n");
  EXPECT_EQ(ask(1, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=job\n");
  EXPECT_EQ(ask(1, "cmd=get kvsname=job key=PMI_process_mapping"), "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
  EXPECT_EQ(ask(0, "cmd=finalize"), "cmd=finalize_ack\n");
}

TEST_F(PmiServerTest, TheServerKeepsWhatRanksPut) {
  EXPECT_EQ(ask(0, "cmd=get kvsname=job key=a"), "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(ask(1, "cmd=put kvsname=job key=a value=x=y"), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(ask(0, "cmd=get kvsname=job key=a"), "cmd=get_result rc=0 msg=success value=x=y\n");
  EXPECT_EQ(ask(0, "cmd=put kvsname=job key=b value=" + std::string(2000, 'x')), "cmd=put_result rc=-1 msg=too_long\n");
}

TEST_F(PmiServerTest, BarrierWaitsForAll) {
  EXPECT_EQ(ask(0, "cmd=barrier_in"), "");
  EXPECT_EQ(ask(1, "cmd=barrier_in"), "cmd=barrier_out\n");
  EXPECT_EQ(answer(0), "cmd=barrier_out\n");
}

TEST_F(PmiServerTest, LineMayComeInParts) {
  send(0, "cmd=get_uni");
  EXPECT_EQ(answer(0), "");
  send(0, "verse_size\ncmd=get_appnum\n");
  EXPECT_EQ(answer(0), "cmd=universe_size size=2\ncmd=appnum appnum=0\n");
}

TEST_F(PmiServerTest, WhatIsNoLineOfPmiEndsThatConnectionAlone) {
  EXPECT_EQ(ask(0, "GET / HTTP/1.1"), "closed");
  EXPECT_EQ(ask(1, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
  send(1, std::string(4096, 'x'));
  send(1, "x");
  EXPECT_EQ(answer(1), "closed");
}

/// Two launchers, with two ranks and with one. What they exchange comes at once when both have it.
class PmiServersOfTwoHosts : public ::testing::Test {
 protected:
  PmiServersOfTwoHosts() {
    for (int host = 0; host < 2; ++host) {
      const MpiPlaces places{.hosts = {{.name = "a", .ranks = 2}, {.name = "b", .ranks = 1}}, .own = host};
      servers_.push_back(std::make_unique<PmiServer>(
          places, "job", [this, host](const std::string& name, const std::vector<int>& hosts, std::string own, const auto& done) {
            EXPECT_EQ(hosts, (std::vector{0, 1}));
            auto& one = exchanges_[name];
            one.texts[host] = std::move(own);
            one.done.push_back(done);
            if (one.done.size() < 2) return;
            for (const auto& each : one.done) each({one.texts[0], one.texts[1]});
          }));
    }
    for (const auto& [host, local] : {std::pair(0, 0), std::pair(0, 1), std::pair(1, 0)}) {
      ends_.emplace_back(::dup(servers_[static_cast<std::size_t>(host)]->rank_end(local)));
    }
  }
  std::string ask(int rank, const std::string& line) {
    const std::string text = line + "\n";
    EXPECT_EQ(::send(end(rank), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    PollSet set;
    for (const auto& server : servers_) server->wait_for(set);
    set.wake_within(std::chrono::milliseconds(1000));
    set.wait();
    return answer(rank);
  }
  std::string answer(int rank) {
    char buffer[4096];
    const ssize_t got = ::recv(end(rank), buffer, sizeof buffer, MSG_DONTWAIT);
    return got < 0 ? "" : std::string(buffer, static_cast<std::size_t>(got));
  }

 private:
  struct Exchange {
    std::map<int, std::string> texts;
    std::vector<std::function<void(const std::vector<std::string>&)>> done;
  };
  int end(int rank) const { return ends_[static_cast<std::size_t>(rank)].get(); }
  std::map<std::string, Exchange> exchanges_;
  std::vector<std::unique_ptr<PmiServer>> servers_;
  std::vector<base::FileDescriptor> ends_;
};

TEST_F(PmiServersOfTwoHosts, ServersSayWhereTheRanksAre) {
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ask(rank, "cmd=get_universe_size"), "cmd=universe_size size=3\n");
    EXPECT_EQ(ask(rank, "cmd=get kvsname=job key=PMI_process_mapping"), "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n");
  }
}

TEST_F(PmiServersOfTwoHosts, ServersExchangeAtEachBarrierWhatRanksHavePut) {
  const std::string unknown = "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
  for (int round = 0; round < 2; ++round) {
    const std::string number = std::to_string(round);
    for (int rank = 0; rank < 3; ++rank) {
      const std::string of_rank = "key=" + number + "of" + std::to_string(rank) + " value=v" + number + std::to_string(rank);
      EXPECT_EQ(ask(rank, "cmd=put kvsname=job " + of_rank), "cmd=put_result rc=0 msg=success\n");
    }
    EXPECT_EQ(ask(0, "cmd=get kvsname=job key=" + number + "of2"), unknown);
    EXPECT_EQ(ask(2, "cmd=barrier_in"), "");
    EXPECT_EQ(ask(0, "cmd=barrier_in"), "");
    EXPECT_EQ(ask(1, "cmd=barrier_in"), "cmd=barrier_out\n");
    EXPECT_EQ(answer(0), "cmd=barrier_out\n");
    EXPECT_EQ(answer(2), "cmd=barrier_out\n");
    for (int asking = 0; asking < 3; ++asking) {
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(ask(asking, "cmd=get kvsname=job key=" + number + "of" + std::to_string(rank)),
                  "cmd=get_result rc=0 msg=success value=v" + number + std::to_string(rank) + "\n");
      }
    }
  }
}

}  // namespace
}  // namespace unisono::launcher
