// Connections that lose, change, repeat, reorder, cut and delay what is sent, at the n-th frame of a kind: N5, N7, N8, N9. Between ranks a proxy
// stands that parses their frames, and another one between ranks and their store. A call is either right or fails on all ranks, and nobody crashes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "covers.h"
#include "faults.h"
#include "frame_proxy.h"

namespace unisono::testing {
namespace {

using std::chrono::seconds;
using What = Deed::What;
using transport::FrameKind;
using Direction = FrameProxy::Direction;

const std::string token = "the secret of these tests";

/// Ranks that meet in a store of the test, and whose connections go through proxies.
class ProxiedJob {
 public:
  struct Options {
    int ranks = 2;
    FrameProxy::Plan links = {};
    int server = 1;  ///< the rank whose listener has the proxy with the deed
    FrameProxy::Plan stores = {.protocol = Protocol::store};
    Variables variables = {};
    bool in_a_file = false;  ///< the store is in a file, and not served
  };

  ProxiedJob(const Options& options, const std::vector<std::string>& words)
      : store_(std::make_shared<TcpStore>("127.0.0.1", std::uint16_t{0}, TcpStoreOptions{.is_server = true, .token = token})),
        to_store_(store_->port(), options.stores),
        links_(options.in_a_file ? std::shared_ptr<Store>(std::make_shared<FileStore>(folder_.path() + "/store")) : store_, options.ranks,
               options.links, options.server) {
    for (int r = 0; r < options.ranks; ++r) {
      Variables variables = options.variables;
      // Rank 0 alone goes to the store through the proxy, so that it is known whose requests are meant.
      const int port = r == 0 ? to_store_.port() : store_->port();
      variables.insert({{"TEST_STORE_PORT", std::to_string(port)},
                        {"TEST_STORE_TOKEN", token},
                        {"TEST_PROXY", "1"},
                        {"TEST_INIT_RANK", std::to_string(r)},
                        {"TEST_INIT_WORLD_SIZE", std::to_string(options.ranks)},
                        {"TEST_INIT_BACKEND", "tcp"},
                        {"TEST_HOSTS", one_host_each(options.ranks)}});
      if (options.in_a_file) variables.insert({"TEST_STORE_FILE", folder_.path() + "/store"});
      ranks_.push_back(std::make_unique<RunningCommand>(faulty_rank(words), RunningCommand::Options{.environment = variables}));
    }
  }
  RunningCommand& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool has_struck() const { return links_.has_struck() || to_store_.has_struck(); }
  void go_on() {
    links_.go_on();
    to_store_.go_on();
  }

 private:
  TemporaryFolder folder_;
  std::shared_ptr<TcpStore> store_;
  FrameProxy to_store_;
  ProxiedLinks links_;
  std::vector<std::unique_ptr<RunningCommand>> ranks_;
};

void expect_all_right(ProxiedJob& job) {
  for (int r = 0; r < job.size(); ++r) {
    EXPECT_EQ(job[r].wait(seconds(120)), 0) << "rank " << r << ": " << job[r].out() << job[r].err();
    EXPECT_EQ(count(job[r].out(), "all right"), 1) << job[r].out();
  }
}

/// Every rank fails because of one of the two of that connection. Of two ranks neither names itself, and one of them says `says`; where there are
/// more, all may hear first from the one that has only lost its connection.
void expect_lost(ProxiedJob& job, int one, int other, const std::string& says) {
  std::string all;
  for (int r = 0; r < job.size(); ++r) {
    EXPECT_EQ(job[r].wait(seconds(50)), 3) << "rank " << r << ": " << job[r].out() << job[r].err();
    const auto lines = lines_of(job[r].out());
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=disconnected ")) << "rank " << r << ": " << error;
    const std::string culprit = word_after(error, "culprit=");
    EXPECT_TRUE(culprit == std::to_string(one) || culprit == std::to_string(other)) << "rank " << r << ": " << error;
    if (job.size() == 2) {
      EXPECT_NE(culprit, std::to_string(r)) << error;
    }
    EXPECT_EQ(word_after(error, "group="), "world") << error;
    EXPECT_EQ(word_after(error, "rank="), std::to_string(r)) << error;
    EXPECT_EQ(word_after(error, "op="), "all_reduce") << error;
    EXPECT_NE(word_after(error, "seq="), "0") << error;
    expect_later_calls_threw_the_same(lines);
    EXPECT_EQ(count(job[r].out(), "wrong result"), 0) << job[r].out();
    all += error + "\n";
  }
  if (job.size() == 2) {
    EXPECT_NE(all.find(says), std::string::npos) << all;
  }
}

struct Case {
  std::string name;
  Deed deed;
  std::string elements = "1";
  Direction direction = Direction::to_server;
  int ranks = 2, server = 1, client = 0;
  std::string says = "sent unexpected data";
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

std::string name_of(const ::testing::TestParamInfo<Case>& one) { return one.param.name; }

class ChangedFrames : public ::testing::TestWithParam<Case> {};

TEST_P(ChangedFrames, ChangedFramesFailTheCallOnAllRanks) {
  const Case& one = GetParam();
  ProxiedJob job({.ranks = one.ranks, .links = {.direction = one.direction, .deed = one.deed, .client = one.client}, .server = one.server},
                 {"rounds", "1000000", one.elements});
  ASSERT_TRUE(job[0].until([&] { return job.has_struck(); })) << job[0].out() << job[0].err();
  expect_lost(job, one.client, one.server, one.says);
}

constexpr auto call = FrameKind::call, data = FrameKind::data, request = FrameKind::request, clear = FrameKind::clear,
               heartbeat = FrameKind::heartbeat;
const std::string large = "2000000";

INSTANTIATE_TEST_SUITE_P(N7, ChangedFrames,
                         ::testing::Values(Case{"kind", {What::corrupt, -1, call, 3, 0}}, Case{"length", {What::corrupt, -1, call, 3, 4}},
                                           Case{"group", {What::corrupt, -1, call, 4, 8}}, Case{"zero", {What::corrupt, -1, call, 5, 20}},
                                           Case{"code", {What::corrupt, -1, call, 6, 47}}, Case{"words_of_a_call", {What::corrupt, -1, call, 7, 60}},
                                           Case{"of_the_accepting_side", {What::corrupt, -1, call, 3, 9}, "1", Direction::to_client},
                                           Case{"among_four", {What::corrupt, -1, call, 2, 9}, "1", Direction::to_client, 4, 1, 0},
                                           Case{"among_seven", {What::corrupt, -1, call, 2, 40}, "1", Direction::to_server, 7, 1, 0},
                                           Case{"head_of_data", {What::corrupt, -1, data, 2, 24}, large},
                                           Case{"request", {What::corrupt, -1, request, 2, 33}, large},
                                           Case{"clear", {What::corrupt, -1, clear, 2, 25}, large}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(N8, ChangedFrames,
                         ::testing::Values(Case{"cut_before_a_frame", {What::cut, -1, call, 3, 0}, "1", {}, 2, 1, 0, "rank"},
                                           Case{"cut_in_a_head", {What::cut, -1, call, 3, 17}, "1", {}, 2, 1, 0, "rank"},
                                           Case{"cut_behind_a_head", {What::cut, -1, call, 3, 48}, "1", {}, 4, 2, 0, "rank"},
                                           Case{"cut_before_the_last_byte", {What::cut, -1, call, 3, -1}, "1", Direction::to_client, 2, 1, 0, "rank"},
                                           Case{"cut_in_data", {What::cut, -1, data, 2, 70'000}, large, {}, 2, 1, 0, "rank"}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(N9, ChangedFrames,
                         ::testing::Values(Case{"twice", {What::duplicate, -1, call, 3}}, Case{"left_out", {What::drop, -1, call, 4}},
                                           Case{"twice_among_four", {What::duplicate, -1, call, 3}, "1", Direction::to_client, 4, 1, 0},
                                           Case{"data_twice", {What::duplicate, -1, data, 2}, large}, Case{"out_of_order", {What::swap, -1, call, 3}},
                                           Case{"data_out_of_order", {What::swap, -1, data, 1}, large}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(N5, ChangedFrames,
                         ::testing::Values(Case{"reset_in_small_calls", {What::reset, -1, call, 3, 20}, "1", {}, 2, 1, 0, "rank"},
                                           Case{"reset_in_large_calls", {What::reset, -1, data, 2, 500}, large, {}, 2, 1, 0, "rank"},
                                           Case{"reset_among_seven", {What::reset, -1, call, 3, 20}, "1", {}, 7, 1, 0, "rank"}),
                         name_of);

// Everything comes in two parts, divided at each of its bytes in turn, in either direction; then a frame of which half comes much later.
TEST(DividedFrames, N8DividedFramesAreNoFailureBetweenRanks) {
  for (const Direction direction : {Direction::to_server, Direction::to_client}) {
    ProxiedJob job({.ranks = 2, .links = {.direction = direction, .deed = {.what = What::split}}}, {"rounds", "100", "1"});
    expect_all_right(job);
    ProxiedJob of_four({.ranks = 4, .links = {.direction = direction, .deed = {.what = What::split}}, .server = 2}, {"rounds", "3", large});
    expect_all_right(of_four);
  }
}

class HalfAFrame : public ::testing::TestWithParam<Case> {};

TEST_P(HalfAFrame, N8HalfAFrameThatIsLateIsNoFailure) {
  const Case& one = GetParam();
  ProxiedJob job({.ranks = one.ranks, .links = {.direction = one.direction, .deed = one.deed, .client = one.client}, .server = one.server},
                 {"rounds", "20", one.elements});
  ASSERT_TRUE(job[0].until([&] { return job.has_struck(); })) << job[0].out() << job[0].err();
  EXPECT_FALSE(job[0].until([&] { return count(job[0].out(), "error") + count(job[0].out(), "all right") > 0; }, std::chrono::milliseconds(500)));
  job.go_on();
  expect_all_right(job);
}

INSTANTIATE_TEST_SUITE_P(N8, HalfAFrame,
                         ::testing::Values(Case{"hello", {What::hold, 1, call, 1, 30}}, Case{"proof", {What::hold, 2, call, 1, 7}},
                                           Case{"challenge", {What::hold, 1, call, 1, 2}, "1", Direction::to_client},
                                           Case{"head_of_a_call", {What::hold, -1, call, 3, 13}},
                                           Case{"a_call", {What::hold, -1, call, 3, 55}, "1", Direction::to_client, 4, 1, 0},
                                           Case{"data", {What::hold, -1, data, 2, 100'000}, large}),
                         name_of);

class ChangedHandshakes : public ::testing::TestWithParam<Case> {};

// m2: what a stranger could do as well is tried again; where a rank's own words do not hold, it is an error that says so.
TEST_P(ChangedHandshakes, ChangedHandshakesAreTriedAgainOrRefused) {
  const Case& one = GetParam();
  ProxiedJob job({.ranks = one.ranks, .links = {.direction = one.direction, .deed = one.deed, .client = one.client}, .server = one.server},
                 {"rounds", "3", "10"});
  if (one.says.empty()) {
    expect_all_right(job);
  } else {
    for (int r = 0; r < job.size(); ++r) {
      EXPECT_EQ(job[r].wait(seconds(50)), 3) << "rank " << r << ": " << job[r].out() << job[r].err();
      const std::string error = line_of(lines_of(job[r].out()), "error ");
      if (r == one.client) {
        EXPECT_NE(error.find(one.says), std::string::npos) << "rank " << r << ": " << error;
      }
      EXPECT_TRUE(error.starts_with(r == one.client ? "ProtocolError " : "PeerFailed ")) << "rank " << r << ": " << error;
    }
  }
  EXPECT_TRUE(job.has_struck());
}

std::vector<Case> handshakes() {
  std::vector<Case> all;
  for (const Direction direction : {Direction::to_server, Direction::to_client}) {
    const std::string side = direction == Direction::to_server ? "connecting" : "accepting";
    for (const int unit : {0, 1, 2}) {
      if (unit == 2 && direction == Direction::to_client) continue;  // below
      const int client = unit == 0 ? -1 : 0;                         // who connects is known with its second word
      all.push_back({fmt::format("cut_{}_{}", side, unit), {What::cut, unit, call, 1, 9}, "1", direction, 2, 1, client, ""});
      all.push_back({fmt::format("reset_{}_{}", side, unit), {What::reset, unit, call, 1, 3}, "1", direction, 4, 2, client, ""});
    }
  }
  all.push_back({"changed_hello", {What::corrupt, 1, call, 1, 37}, "1", Direction::to_server, 2, 1, 0, ""});
  all.push_back({"changed_proof", {What::corrupt, 2, call, 1, 12}, "1", Direction::to_server, 2, 1, 0, ""});
  all.push_back({"changed_acceptance", {What::corrupt, 2, call, 1, 12}, "1", Direction::to_client, 2, 1, 0, "is not that rank"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, ChangedHandshakes, ::testing::ValuesIn(handshakes()), name_of);

// The last word of a handshake does not arrive: one side is connected then, and the other one cannot be any more. Both learn it.
TEST(ChangedHandshake, N8AHandshakeWhoseLastWordIsCutEndsBothRanks) {
  ProxiedJob job(
      {.ranks = 2, .links = {.direction = Direction::to_client, .deed = {What::cut, 2, call, 1, 9}}, .variables = {{"TEST_INIT_TIMEOUT_MS", "6000"}}},
      {"rounds", "3", "10"});
  for (int r = 0; r < 2; ++r) EXPECT_EQ(job[r].wait(seconds(50)), 3) << "rank " << r << ": " << job[r].out() << job[r].err();
  EXPECT_TRUE(job.has_struck());
  const std::string of_zero = line_of(lines_of(job[0].out()), "error "), of_one = line_of(lines_of(job[1].out()), "error ");
  EXPECT_TRUE(of_zero.starts_with("Timeout missing=1 ")) << of_zero;
  EXPECT_TRUE(of_one.starts_with("PeerFailed cause=disconnected culprit=0 ")) << of_one;
}

// m1: the way to the store.
TEST(ProxiedStore, N8DividedFramesAreNoFailure) {
  for (const Direction direction : {Direction::to_server, Direction::to_client}) {
    ProxiedJob job({.ranks = 4, .stores = {.protocol = Protocol::store, .direction = direction, .deed = {.what = What::split}}},
                   {"rounds", "2", "10"});
    expect_all_right(job);
  }
}

TEST(ProxiedStore, N8HalfAFrameThatIsLateIsNoFailure) {
  ProxiedJob job({.ranks = 2, .stores = {.protocol = Protocol::store, .deed = {.what = What::hold, .unit = 5, .at = 6}}}, {"rounds", "2", "10"});
  ASSERT_TRUE(job[0].until([&] { return job.has_struck(); })) << job[0].out() << job[0].err();
  EXPECT_FALSE(job[0].until([&] { return count(job[0].out(), "ready") > 0; }, std::chrono::milliseconds(300)));
  job.go_on();
  expect_all_right(job);
}

// A rank whose way to the store is cut or changes its words cannot join; the other one misses it, by name.
TEST(ProxiedStore, N7N8WhatDoesNotHoldEndsTheJoining) {
  struct Change {
    Deed deed;
    Direction direction;
  };
  std::vector<std::unique_ptr<ProxiedJob>> jobs;  // all at once, because the others of most of them wait for the whole time
  for (const Change& change :
       {Change{{.what = What::cut, .unit = 4, .at = 3}, Direction::to_server}, Change{{.what = What::cut, .unit = 4, .at = 0}, Direction::to_client},
        Change{{.what = What::corrupt, .unit = 5, .at = 7}, Direction::to_server},
        Change{{.what = What::corrupt, .unit = 5, .at = -1}, Direction::to_client},
        Change{{.what = What::duplicate, .unit = 5}, Direction::to_client}}) {
    jobs.push_back(
        std::make_unique<ProxiedJob>(ProxiedJob::Options{.ranks = 2,
                                                         .stores = {.protocol = Protocol::store, .direction = change.direction, .deed = change.deed},
                                                         .variables = {{"TEST_INIT_TIMEOUT_MS", "6000"}}},
                                     std::vector<std::string>{"join-only"}));
  }
  for (const auto& each : jobs) {
    ProxiedJob& job = *each;
    EXPECT_EQ(job[0].wait(seconds(50)), 3) << job[0].out() << job[0].err();
    EXPECT_TRUE(job.has_struck());
    const std::string own = line_of(lines_of(job[0].out()), "error ");
    EXPECT_NE(own.find("store"), std::string::npos) << own;
    EXPECT_EQ(job[1].wait(seconds(50)), 3) << job[1].out() << job[1].err();
    const std::string other = line_of(lines_of(job[1].out()), "error ");
    EXPECT_TRUE(other.starts_with("Timeout missing=0 ") || word_after(other, "culprit=") == "0") << other;
  }
}

// N7: the content of messages is the ranks' own, and a change of it on the way is noticed where connections are encrypted, and only there
// (docs/design/reliability-matrix.md).
TEST(ChangedContent, N7ChangedContentIsNoticedWhereItIsEncrypted) {
  constexpr int in_the_payload = static_cast<int>(transport::frame_head_size + transport::call_head_size) + 43;
  ProxiedJob plain({.ranks = 2, .links = {.deed = {What::corrupt, -1, call, 3, in_the_payload}, .client = 0}}, {"rounds", "10", "24"});
  EXPECT_EQ(plain[1].wait(seconds(50)), 4) << plain[1].out() << plain[1].err();
  EXPECT_EQ(count(plain[1].out(), "wrong result in round"), 1) << plain[1].out();

  ProxiedJob encrypted({.ranks = 2,
                        .links = {.protocol = Protocol::opaque, .deed = {What::corrupt, -1, data, 1'000'000, 0}, .client = -1},
                        .variables = {{"UNISONO_TLS", "required"}, {"UNISONO_TOKEN", token}},
                        .in_a_file = true},
                       {"rounds", "1000000", large});
  ASSERT_TRUE(encrypted[0].until([&] { return encrypted.has_struck(); })) << encrypted[0].out() << encrypted[0].err();
  expect_lost(encrypted, 0, 1, "rank");
}

}  // namespace
}  // namespace unisono::testing
