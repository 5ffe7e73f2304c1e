// tcp:// at a multicast address.
#include <poll.h>

#include "base/host.h"
#include "covers.h"
#include "rendezvous/announcement.h"
#include "testing.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

const std::string token = "a secret of this test";

/// Every test has a name of its own at one address, so that they cannot meet each other.
std::string own_name(const std::string& more = "") {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{} {} {}", test->test_suite_name(), test->name(), ::getpid(), more);
}

Environment in_group(const std::string& secret = token, const std::string& interface = "") {
  return Environment(Variables{{"UNISONO_TOKEN", secret}, {"UNISONO_INTERFACE", interface}});
}

const std::string v4 = "tcp://239.255.83.17:23457";
const std::string v6 = "tcp://[ff15::5317]:23457";

/// The reason why this host cannot hear itself at the address; empty: it can.
std::string why_not(const std::string& url, const std::string& interface) {
  const auto colon = url.rfind(':');
  std::string host = url.substr(6, colon - 6);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  try {
    const MulticastSocket socket(base::resolve(host, 23458).front(), base::InterfaceRule::own(in_group(token, interface)));
    if (const int error = socket.send("heard?")) return base::error_text(error);
    return base::wait_for(socket.fd(), 1 /* POLLIN */, base::Deadline(2s)) ? ""
                                                                           : "this host does not hear its own multicast on " + socket.interface();
  } catch (const Error& error) {
    return error.what();
  }
}

struct Network {
  std::string name, url, interface;
};

class Multicast : public testing::TestWithParam<Network> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not(GetParam().url, GetParam().interface); !reason.empty()) GTEST_SKIP() << "skipped: " << reason;
  }
  Outcome come(int world_size, std::optional<int> rank, const std::string& group, std::chrono::milliseconds timeout = 60s,
               const std::string& secret = token) const {
    return attempt({.init_method = GetParam().url, .rank = rank, .world_size = world_size, .group_name = group, .timeout = timeout},
                   in_group(secret, GetParam().interface));
  }
};

INSTANTIATE_TEST_SUITE_P(Networks, Multicast,
                         testing::Values(Network{"v4", v4, ""}, Network{"v6", v6, ""}, Network{"v4Loopback", v4, "lo"},
                                         Network{"v6Loopback", v6, "lo"}),
                         [](const auto& one) { return one.param.name; });

// Ranks that are given, of which one serves; nobody but they know where.
TEST_P(Multicast, MulticastBringsRanksTogether) {
  COVERS("T-43");
  for (const int n : {1, 2, 3, 5}) {
    const std::string group = own_name(fmt::format("of {}", n));
    const auto outcomes = together(static_cast<std::size_t>(n), [&](int rank) { return come(n, rank, group); });
    expect_a_job(outcomes, n);
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().rank, rank);
      EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().serves_store, rank == 0 && n > 1);  // a job of one process meets nobody
    }
  }
}

// Those without a rank fill the gaps.
TEST_P(Multicast, MulticastAssignsRanksAroundThoseGiven) {
  COVERS("T-07", "T-43");
  const std::string group = own_name();
  const auto outcomes = together(5, [&](int i) { return come(5, i == 3 ? std::optional(0) : i == 1 ? std::optional(3) : std::nullopt, group); });
  expect_a_job(outcomes, 5);
  EXPECT_EQ(outcomes[3].get().rank, 0);
  EXPECT_EQ(outcomes[1].get().rank, 3);
  const std::string all = own_name("all");
  expect_a_job(together(4, [&](int) { return come(4, std::nullopt, all); }), 4);
}

// Several jobs on one address at the same time, told apart by their names alone; a space in one does no harm.
TEST_P(Multicast, JobsShareAnAddress) {
  COVERS("T-08", "K-15");
  const std::string left = own_name("left job"), right = own_name("right job");
  const auto outcomes = together(7, [&](int i) { return i < 3 ? come(3, i, left) : come(4, std::nullopt, right, 60s, "another secret, as long"); });
  expect_a_job({outcomes.begin(), outcomes.begin() + 3}, 3);
  expect_a_job({outcomes.begin() + 3, outcomes.end()}, 4);
  outcomes[0].get().store->set("left only", "1");
  EXPECT_EQ(outcomes[5].get().store->try_get("left only"), std::nullopt);
}

// Job after job under one name: what a finished one still says is not taken for the next.
TEST_P(Multicast, JobAfterJobMeets) {
  const std::string group = own_name();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(in_background([&, rank] {
      for (int round = 0; round < 5; ++round) {
        const Outcome outcome = come(3, rank, group);
        const JobIdentity& identity = outcome.get();
        EXPECT_EQ(identity.rank, rank);
        identity.store->set(fmt::format("{}", rank), fmt::format("{} {}", round, rank));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 20s), fmt::format("{} {}", round, other));
        // The rank that serves the store keeps it until the others have read it.
        identity.store->set(fmt::format("read by {}", rank), "1");
        if (rank == 0) identity.store->wait(std::vector<std::string>{"read by 1", "read by 2"}, 20s);
      }
    }));
  }
}

// A deadline over all of it, and who is missing.
TEST_P(Multicast, MissingRanksAreCountedAndNamed) {
  COVERS("K-15");
  const std::string group = own_name();
  const auto outcomes = together(2, [&](int i) { return come(5, 2 * i, group, 2s); });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<Timeout>();
    EXPECT_CONTAINS(text, "2 of 5 processes came to ");
    EXPECT_CONTAINS(text, "missing ranks 1, 3, 4");
    EXPECT_CONTAINS(text, fmt::format("rank 0 at {}:{}", base::host_name(), ::getpid()));
    try {
      std::rethrow_exception(outcome.error);
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), (std::vector<int>{1, 3, 4}));
    }
  }
}

// Everybody learns of a rank that two have.
TEST_P(Multicast, ARankThatTwoHaveIsRefused) {
  COVERS("T-07", "K-15");
  const std::string group = own_name();
  const auto outcomes = together(3, [&](int i) { return come(3, i == 0 ? 0 : 1, group); });
  for (const Outcome& outcome : outcomes) EXPECT_CONTAINS(outcome.text<InvalidArgument>(), "rank 1 is claimed by ");
}

TEST_P(Multicast, DifferentWorldSizesAreToldToBoth) {
  const std::string group = own_name();
  const auto outcomes = together(2, [&](int i) { return come(2 + i, i, group); });
  for (const Outcome& outcome : outcomes) {
    EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 2");
    EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 3");
  }
}

// Datagrams that are not of the job's token are ignored, and counted where they might be the reason.
TEST_P(Multicast, ForgedAnnouncementsAreIgnored) {
  const std::string group = own_name();
  const std::string host = GetParam().url == v4 ? "239.255.83.17" : "ff15::5317";
  const auto address = base::resolve(host, 23457).front();
  const MulticastSocket stranger(address, base::InterfaceRule::own(in_group(token, GetParam().interface)));
  Announcement forged;
  forged.group_name = group;
  forged.nonce = "someone";
  forged.member = {1, 1, "elsewhere", "elsewhere"};
  forged.world_size = 2;
  std::jthread forger([&](const std::stop_token& stop) {
    const std::string place = base::describe(address);
    std::string damaged = encode(forged, token, place);
    damaged[damaged.size() / 2] ^= 1;
    while (!stop.stop_requested()) {
      stranger.send(encode(forged, "guessed", place));
      stranger.send(encode(forged, "", place));
      stranger.send(encode(forged, token, "elsewhere"));  // recorded at another address
      stranger.send(damaged);
      stranger.send("hello");
      ::poll(nullptr, 0, 5);
    }
  });
  const std::string text = come(2, 0, group, 2s).text<Timeout>();
  EXPECT_CONTAINS(text, "1 of 2 processes came");
  EXPECT_CONTAINS(text, "not of this job's token");
  EXPECT_CONTAINS(text, "were no announcements");
  expect_a_job(together(2, [&](int rank) { return come(2, rank, group); }), 2);
  forger.request_stop();
  const auto strangers = together(2, [&](int rank) { return come(2, rank, group + "2", 2s, fmt::format("a token of rank {}", rank)); });
  for (const Outcome& outcome : strangers) EXPECT_CONTAINS(outcome.text<Timeout>(), "not of this job's token");
}

// The deadline stands however many datagrams come, and not every process that says that it is one of the job is kept in mind.
TEST_P(Multicast, AFloodStopsNobody) {
  const std::string group = own_name();
  const std::string host = GetParam().url == v4 ? "239.255.83.17" : "ff15::5317";
  const auto address = base::resolve(host, 23457).front();
  const MulticastSocket stranger(address, base::InterfaceRule::own(in_group(token, GetParam().interface)));
  std::jthread flood([&](const std::stop_token& stop) {
    Announcement someone;
    someone.group_name = group;
    someone.member = {-1, 1, "elsewhere", "elsewhere"};
    someone.world_size = 3;
    const std::string foreign = encode(someone, "guessed", "elsewhere");
    for (int i = 0; !stop.stop_requested(); ++i) {
      someone.nonce = fmt::format("nonce {}", i);
      stranger.send(encode(someone, token, base::describe(address)));
      stranger.send(foreign);
    }
  });
  const std::string text = come(3, 0, group, 3s).text<Timeout>();
  EXPECT_CONTAINS(text, "1 of 3 processes came");
  EXPECT_CONTAINS(text, "not of this job's token");
  EXPECT_CONTAINS(text, "others have not heard this process");
  EXPECT_CONTAINS(text, "when too many others had been heard");
}

/// Hears all that is said at an address, and plays it back again and again, every 2 ms.
class Recorder {
 public:
  Recorder(const std::string& host, const std::string& interface)
      : socket_(base::resolve(host, 23457).front(), base::InterfaceRule::own(in_group(token, interface))) {}
  void record(const std::function<void()>& said) {
    const std::jthread listener([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (base::wait_for(socket_.fd(), POLLIN, base::Deadline(20ms))) take();
      }
    });
    said();
  }
  std::jthread play() {
    take();
    return std::jthread([this](const std::stop_token& stop) {
      for (std::size_t i = 0; !stop.stop_requested(); ++i) {
        socket_.send(recorded_[i % recorded_.size()]);
        ::poll(nullptr, 0, 2);
      }
    });
  }
  std::size_t size() const { return recorded_.size(); }

 private:
  void take() {
    while (const auto datagram = socket_.receive()) recorded_.push_back(datagram->bytes);
  }
  MulticastSocket socket_;
  std::vector<std::string> recorded_;
};

// A recording of earlier runs, of good ones, of half ones and of one that was refused, ends no job.
TEST_P(Multicast, ARecordOfEarlierRunsThatIsPlayedBackDisturbsNobody) {
  const std::string group = own_name();
  Recorder recorder(GetParam().url == v4 ? "239.255.83.17" : "ff15::5317", GetParam().interface);
  recorder.record([&] {
    expect_a_job(together(3, [&](int rank) { return come(3, rank, group); }), 3);
    together(2, [&](int rank) { return come(3, rank, group, 300ms); });
    for (const Outcome& outcome : together(3, [&](int i) { return come(3, i == 0 ? 0 : 1, group); })) outcome.text<InvalidArgument>();
    for (const Outcome& outcome : together(2, [&](int i) { return come(2 + i, i, group); })) outcome.text<Mismatch>();
  });
  EXPECT_GT(recorder.size(), 20U);
  const std::jthread player = recorder.play();
  for (int round = 0; round < 3; ++round) expect_a_job(together(3, [&](int rank) { return come(3, rank, group); }), 3);

  expect_a_job(together(4, [&](int) { return come(4, std::nullopt, group); }), 4);

  // And those that are refused are refused still.
  for (const Outcome& outcome : together(3, [&](int i) { return come(3, i == 0 ? 0 : 1, group); })) {
    EXPECT_CONTAINS(outcome.text<InvalidArgument>(), "rank 1 is claimed by ");
  }
}

TEST_P(Multicast, ARankThatEndedCanBeStartedAgain) {
  const std::string group = own_name();
  EXPECT_CONTAINS(come(2, 1, group, 100ms).text<Timeout>(), "missing ranks 0");
  expect_a_job(together(2, [&](int rank) { return come(2, rank, group); }), 2);
}

TEST_P(Multicast, MulticastWorksWithoutATokenThatWasSaidToBeNone) {
  const std::string group = own_name();
  expect_a_job(together(3, [&](int rank) { return come(3, rank, group, 60s, "none"); }), 3);
}

TEST(MulticastRules, ImpossibleRequestsAreRefused) {
  COVERS("T-06", "K-15", "T-43");
  const auto refused = [](JobRequest request, const Environment& environment = in_group()) {
    request.init_method = v4;
    return attempt(request, environment).text<InvalidArgument>();
  };
  EXPECT_CONTAINS(refused({.rank = 0}), "world_size is not given");
  EXPECT_CONTAINS(refused({.rank = 2, .world_size = 2}), "rank 2 is not within a world of 2");
  EXPECT_CONTAINS(refused({.rank = -1, .world_size = 2}), "rank -1");
  EXPECT_CONTAINS(refused({.rank = 0, .world_size = 2, .group_name = std::string(256, 'x')}), "256 bytes");
  EXPECT_CONTAINS(refused({.rank = 0, .world_size = 2}, Environment()), "UNISONO_TOKEN");
  const std::string text = refused({.rank = 0, .world_size = 2}, in_group(token, "no_such"));
  EXPECT_CONTAINS(text, "UNISONO_INTERFACE is \"no_such\"");
  EXPECT_CONTAINS(text, "lo");
}

}  // namespace
}  // namespace unisono::rendezvous
