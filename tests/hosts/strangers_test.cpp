// A third host that is no part of the job sends what it likes to the store of two others, while they are at work and while they meet.

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "../unit/store/talk.h"
#include "job.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/error.h"

namespace unisono::testing {
namespace {

using namespace store;

std::size_t resident_kib(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * 4;
}

/// Two hosts at work, and a third one.
class UnauthenticatedConnections : public ::testing::Test {
 protected:
  void SetUp() override {
    hosts_ = std::make_unique<Hosts>(3);
    if (!hosts_->why_not().empty()) GTEST_SKIP() << "skipped: " << hosts_->why_not();
    job_ = start_job(*hosts_, 2, {HOST_RANK, "hold", folder_.path() + "/go"});
    for (const auto& launcher : job_) ASSERT_TRUE(launcher->until_out_has("holding\n", 2)) << launcher->err();
  }
  void TearDown() override {
    if (job_.empty()) return;
    write_secret(folder_.path() + "/go", "");
    for (const auto& launcher : job_) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
  }
  FileDescriptor connect() const { return base::try_connect(address(), Deadline(30s)).fd; }
  base::SocketAddress address() const { return base::resolve("10.77.0.1", 29500).front(); }
  std::shared_ptr<Client> member() const { return connect_tcp({address()}, "the store", {.token = secret.at("UNISONO_TOKEN")}, Deadline(30s)); }
  /// A connection that has proved itself, word by word, and the codes of its frames.
  struct Proved {
    FileDescriptor fd;
    FrameSealer sealer;
    FrameOpener opener;
    FrameBuffer in = {};

    Status answer() {
      FrameOpener::Fault fault = FrameOpener::Fault::none;
      for (;;) {
        if (const auto frame = opener.take(in, 1 << 16, fault)) return status_of(*frame);
        char chunk[65536];
        const ssize_t n = base::wait_for(fd.get(), POLLIN, Deadline(20s)) ? ::recv(fd.get(), chunk, sizeof chunk, 0) : 0;
        if (n <= 0 || fault != FrameOpener::Fault::none) return static_cast<Status>(0);
        in.append({chunk, static_cast<std::size_t>(n)});
      }
    }
  };
  Proved proved() const {
    FileDescriptor fd = connect();
    const std::string nonce(nonce_size, 'n'), token = secret.at("UNISONO_TOKEN");
    const Exchange exchange{nonce, challenge(fd, nonce, true), ""};
    say(fd, Writer(Op::proof).text(client_proof(token, exchange)).finish());
    EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
    const base::FrameKeys keys = client_keys(token, exchange).value();
    return {std::move(fd), FrameSealer(keys.sending), FrameOpener(keys.receiving)};
  }
  /// Sends the request for "hostile/0", "hostile/1", …, many on their way at once, and counts how many were refused.
  static std::size_t ask_many(Proved& by, Op op, std::size_t times) {
    std::size_t refused = 0;
    for (std::size_t done = 0; done < times;) {
      std::string requests;
      const std::size_t end = std::min(times, done + 2000);
      for (std::size_t i = done; i < end; ++i) {
        Writer request(op, i);
        request.text(fmt::format("hostile/{}", i));
        if (op == Op::set) request.text("");
        requests += by.sealer.seal(request.finish());
      }
      say(by.fd, requests);
      for (; done < end; ++done) {
        const Status status = by.answer();
        if (status == static_cast<Status>(0)) return times;
        if (status != Status::ok) ++refused;
      }
    }
    return refused;
  }
  void from_outside(const std::function<void()>& body) const { hosts_->in_network_of(2, body); }
  void expect_well() const {
    const auto client = member();
    client->set("well", "yes");
    EXPECT_EQ(client->get("well", 10s), "yes");
  }
  const std::string& log() {
    job_[0]->until([] { return false; }, std::chrono::milliseconds(100));
    return job_[0]->err();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Hosts> hosts_;
  std::vector<std::unique_ptr<RunningCommand>> job_;
};

TEST_F(UnauthenticatedConnections, TenThousandConnectionsOfNoiseChangeNothing) {  // A1
  const std::size_t before = resident_kib(job_[0]->pid());
  from_outside([&] {
    const auto client = member();
    std::mt19937 random(20260607);
    for (int i = 0; i < 10'000; ++i) {
      const FileDescriptor fd = connect();
      ASSERT_TRUE(fd) << i;
      // Most are short, and some are long.
      std::string noise(1 + random() % (i % 500 == 0 ? std::size_t{1} << 20 : 200), '\0');
      for (std::size_t k = 0; k < noise.size(); k += 4) noise[k] = static_cast<char>(random());
      if (i % 3 == 1) noise = greeting() + noise;
      if (i % 3 == 2) noise = greeting() + Writer(Op::hello).text(std::string(nonce_size, 'n')).text("").integer(1).finish() + noise;
      ::send(fd.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
      if (i % 500 == 0) {
        client->set("i", std::to_string(i));
        EXPECT_EQ(client->get("i", 10s), std::to_string(i));
      }
    }
  });
  EXPECT_LT(resident_kib(job_[0]->pid()), before + 8 * 1024);
  EXPECT_LE(count(log(), "closed a connection from 10.77.0.3"), 60) << "not a line for each: " << log();
  EXPECT_GE(count(log(), "closed a connection from 10.77.0.3"), 1);
}

TEST_F(UnauthenticatedConnections, ALengthAllocatesNothing) {  // A2: 2^31, 2^32 - 1, and within a frame
  const std::size_t before = resident_kib(job_[0]->pid());
  from_outside([&] {
    for (const std::string& length : {std::string("\x00\x00\x00\x80", 4), std::string("\xff\xff\xff\x7f", 4), std::string("\xff\xff\xff\xff", 4)}) {
      for (int i = 0; i < 20; ++i) {
        const FileDescriptor fd = connect();
        say(fd, greeting());
        hear(fd, greeting_size);
        say(fd, length);
        EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
      }
    }
    // Such numbers after the proof, as lengths of fields and as numbers of keys.
    for (const std::uint64_t number : {std::uint64_t{1} << 31, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
      Proved with_number = proved();
      say(with_number.fd, with_number.sealer.seal(Writer(Op::wait, 1).integer(1000).integer(number).text("key").finish()));
      EXPECT_EQ(with_number.answer(), Status::refused);
    }
    expect_well();
  });
  EXPECT_LT(resident_kib(job_[0]->pid()), before + 8 * 1024);
}

TEST_F(UnauthenticatedConnections, TwoHundredConnectionsWithHalfAHandshakeDelayNobody) {  // A3
  from_outside([&] {
    std::vector<FileDescriptor> slow;
    for (int i = 0; i < 200; ++i) {
      slow.push_back(connect());
      say(slow.back(), std::string_view(greeting()).substr(0, static_cast<std::size_t>(i % 16)));
    }
    expect_well();
    for (const FileDescriptor& fd : slow) EXPECT_EQ(hear(fd), "") << "closed, and in time";
  });
}

TEST_F(UnauthenticatedConnections, ConnectionsOfOtherProtocolsLearnNothingAndAreNamedOnce) {  // A4
  from_outside([&] {
    for (const std::string& probe :
         {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
          std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string("*1\r\n$4\r\nPING\r\n"), std::string("\r\n\r\n"), std::string("\0\0\0\x90\xffSMB", 8),
          std::string("OPTIONS sip:nm SIP/2.0\r\n"), std::string(65536, 'A')}) {
      const FileDescriptor fd = connect();
      say(fd, probe);
      // A stranger that speaks TLS may be of the job, and is told in TLS's own words that there is none here.
      EXPECT_EQ(hear(fd), probe.starts_with(base::tls_begins) ? base::no_tls_here : "") << probe;
    }
    expect_well();
  });
  EXPECT_EQ(count(log(), "closed a connection from 10.77.0.3: its data is not that of unisono"), 1) << log();
}

TEST_F(UnauthenticatedConnections, ConnectionsWithoutTheSecretGetNothing) {  // A5: wrong, none, replayed, reflected
  from_outside([&] {
    for (const char* token : {"another", ""}) {
      EXPECT_THROW(connect_tcp({address()}, "the store", {.token = token}, Deadline(10s)), ProtocolError) << token;
    }
    const std::string nonce(nonce_size, 'n');
    const FileDescriptor overheard = connect();
    const Exchange exchange{nonce, challenge(overheard, nonce, true), ""};
    const std::string proof = client_proof(secret.at("UNISONO_TOKEN"), exchange);
    say(overheard, Writer(Op::proof).text(proof).finish());
    const std::string verdict = hear_frame(overheard);
    ASSERT_EQ(status_of(verdict), Status::ok);
    Reader in(verdict);
    in.byte();
    in.integer();
    const std::string its_proof(in.text());
    for (const std::string& again : {proof, its_proof, std::string(), std::string(proof_size, '\0')}) {
      const FileDescriptor fd = connect();
      challenge(fd, nonce, true);
      say(fd, Writer(Op::proof).text(again).finish());
      EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
    }
    // A request instead of the proof is not looked at.
    const FileDescriptor hasty = connect();
    challenge(hasty, nonce, true);
    say(hasty, Writer(Op::set, 1).text("planted").text("x").finish());
    EXPECT_EQ(status_of(hear_frame(hasty)), Status::refused);
    EXPECT_EQ(member()->try_get("planted"), std::nullopt);
  });
}

TEST_F(UnauthenticatedConnections, ConnectionsWithTheSecretBreakLimitsForThemselvesAlone) {  // A6
  from_outside([&] {
    const auto bad = member();
    const auto good = member();
    EXPECT_THROW(bad->set(std::string(1 << 20, 'k'), "x"), InvalidArgument);
    // More keys than a store keeps: that many are there, the others are refused, and nobody is cut off.
    Proved greedy = proved();
    const std::size_t most = Limits{}.keys;
    const std::size_t refused = ask_many(greedy, Op::set, most + 1);
    EXPECT_GT(refused, 1U);
    EXPECT_LT(refused, 200U) << "only as many as were there before";
    EXPECT_THROW(good->set("one more", ""), InvalidArgument);
    good->set("hostile/0", "still to be changed");
    EXPECT_EQ(ask_many(greedy, Op::erase, most + 1), 0U);
    Proved huge = proved();
    say(huge.fd, huge.sealer.seal(std::string("\x00\x00\x00\x40", 4)));  // a value of 1 GiB is announced
    EXPECT_EQ(huge.answer(), Status::refused);
    Proved odd = proved();
    say(odd.fd, odd.sealer.seal(std::string("\x01\0\0\0\xee", 5)));  // no request of ours
    EXPECT_EQ(odd.answer(), Status::refused);
    expect_well();
  });
}

// Noise while the ranks meet: they meet.
TEST(UnauthenticatedConnectionsWhileJoining, ConnectionsWhileJoiningKeepNobodyOut) {  // A1, A3
  MAKE_HOSTS(hosts, 3);
  auto variables = secret;
  const auto first = hosts.start(0, node_words({.node = 0, .master = "10.77.0.1"}, {HOST_RANK, "meet"}), variables);
  ASSERT_TRUE(eventually([&] { return !hosts.listening(0).empty(); }));
  hosts.in_network_of(2, [&] {
    std::atomic<bool> stop{false};
    std::vector<std::jthread> noise;
    for (int i = 0; i < 4; ++i) {
      noise.emplace_back([&, i] {
        std::vector<FileDescriptor> held;
        while (!stop) {
          auto opened = base::try_connect(base::resolve("10.77.0.1", 29500).front(), Deadline(5s));
          if (opened.fd) say(opened.fd, i % 2 == 0 ? "GET / HTTP/1.0\r\n\r\n" : std::string_view("UNISTO"));
          if (opened.fd && i % 2 == 1) held.push_back(std::move(opened.fd));
          if (held.size() > 100) held.erase(held.begin());
          ::poll(nullptr, 0, 1);  // a stranger has not our processors as well
        }
      });
    }
    const auto second = hosts.start(1, node_words({.node = 1, .master = "10.77.0.1"}, {HOST_RANK, "meet"}), variables);
    EXPECT_EQ(second->wait(), 0) << second->err();
    stop = true;
  });
  EXPECT_EQ(first->wait(), 0) << first->err();
}

}  // namespace
}  // namespace unisono::testing
