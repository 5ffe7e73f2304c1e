// Under our own launcher, and beside torchrun's agent.
#include "testing.h"

#include <fstream>
#include "covers.h"
#include "rendezvous/plan.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "store/server.h"

namespace unisono::rendezvous {
namespace {

Variables launched(int rank, int world_size, int fd) {
  return with(with(job_variables(rank, world_size, 1), "LOCAL_RANK", fmt::format("{}", rank)), "UNISONO_LAUNCHER_FD", fmt::format("{}", fd));
}

TEST(UnderOurLauncher, RanksMeetOverTheDescriptorAgainAndAgain) {
  store::StoreServer server;
  std::vector<int> fds;
  for (int rank = 0; rank < 3; ++rank) {
    auto pair = base::make_socket_pair();
    server.adopt(std::move(pair.first));
    fds.push_back(pair.second.release());
  }
  for (int round = 0; round < 3; ++round) {
    const auto outcomes = together(3, [&](int rank) { return attempt({}, Environment(launched(rank, 3, fds[static_cast<std::size_t>(rank)]))); });
    expect_a_job(outcomes, 3);
    EXPECT_EQ(outcomes[1].get().launcher, Launcher::unisono);
    outcomes[1].get().store->set("unisono/status/1", "initialized");
    EXPECT_EQ(server.peek("unisono/status/1"), "initialized");  // the launcher sees the ranks' keys as they are
  }
}

TEST(UnderOurLauncher, ALauncherThatGoesIsNoticed) {
  auto server = std::make_unique<store::StoreServer>();
  auto pair = base::make_socket_pair();
  server->adopt(std::move(pair.first));
  const int fd = pair.second.release();
  Outcome outcome;
  auto rank = in_background([&] { outcome = attempt({.timeout = 60s}, Environment(launched(0, 2, fd))); });
  const base::Deadline deadline(20s);
  while (!server->peek("unisono/rendezvous//1/joined") && !deadline.passed()) std::this_thread::yield();
  server.reset();
  rank.join();
  EXPECT_CONTAINS(outcome.text<PeerFailed>(), "launcher");
}

TEST(UnderOurLauncher, ABadDescriptorIsNamed) {
  EXPECT_CONTAINS(attempt({}, Environment(launched(0, 1, 987654))).text<InvalidArgument>(), "UNISONO_LAUNCHER_FD is 987654");
  std::ofstream file("/dev/null");
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  EXPECT_CONTAINS(attempt({}, Environment(launched(0, 1, pipe_ends[0]))).text<InvalidArgument>(), "UNISONO_LAUNCHER_FD");
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

/// Runs in a child process, whose parent is this one. Returns what it says.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) throw Error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = error.what();
    }
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;) text.append(part.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST(UnderOurLauncher, AGroupThatMeetsInAnotherStoreHasTheLaunchersToken) {
  store::StoreServer server;
  tell_of_store(server, base::resolve("127.0.0.1", 1).front(), "the token of the launchers", "", "");
  for (const bool may_end : {false, true}) {
    for (const int launched_as : {0, 3}) {  // the job's own group, and a part of it
      auto pair = base::make_socket_pair();
      server.adopt(std::move(pair.first));
      const Environment environment(with(launched(launched_as, 8, pair.second.get()), "UNISONO_TOKEN", "the token of the environment"));
      const JobRequest alone{.rank = 0, .world_size = 1, .store = std::make_shared<MemoryStore>(), .store_may_end = may_end};
      EXPECT_EQ(in_child([&] { return std::string(attempt(alone, environment).get().token.value_or("none at all").view()); }),
                "the token of the launchers");
      const Environment not_launched(with(job_variables(launched_as, 8, 1), "UNISONO_TOKEN", "the token of the environment"));
      EXPECT_EQ(attempt(alone, not_launched).get().token, "the token of the environment");
    }
  }
}

TEST(UnderOurLauncher, ARankThatIsDoneIsMissedByThoseAloneWhoHaveNotMetIt) {
  MemoryStore launcher;
  launcher.set("unisono/exit/first", "2 exit 0 done");
  EXPECT_NO_THROW(throw_if_a_rank_ended(launcher, EndsThatCount::before_finalize));
  EXPECT_THROW(throw_if_a_rank_ended(launcher), PeerFailed);
  launcher.set("unisono/exit/first", "2 exit 0");
  EXPECT_THROW(throw_if_a_rank_ended(launcher, EndsThatCount::before_finalize), PeerFailed);
}

/// A store in which every look at the other ranks finds one that has ended.
class StoreOfTheBereft final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { inner_.set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override {
    if (!inner_.try_get(key)) throw PeerFailed("a rank has ended", {}, PeerFailed::exited);
    return inner_.get(key, timeout);
  }
  std::optional<std::string> try_get(std::string_view key) override { return inner_.try_get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_.add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_.wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    // The last rank comes, reads the verdict and ends while this one sleeps.
    if (expected == desired && on_comparison) std::exchange(on_comparison, {})();
    return inner_.compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_.erase(key); }
  std::int64_t num_keys() override { return inner_.num_keys(); }

  std::function<void()> on_comparison;

 private:
  MemoryStore inner_;
};

TEST(UnderOurLauncher, AJobThatIsCompleteIsJoinedAlthoughARankHasEnded) {
  for (const bool is_complete : {true, false}) {
    StoreOfTheBereft store;
    const auto request = [](int rank) { return JoinRequest{.self = own_record(rank), .world_size = 2}; };
    store.on_comparison = [&] {
      if (is_complete) join(store, request(1), base::Deadline(10s));
    };
    if (is_complete) {
      EXPECT_EQ(join(store, request(0), base::Deadline(10s))->members.size(), 2U);
    } else {
      EXPECT_THROW(join(store, request(0), base::Deadline(10s)), PeerFailed);
    }
  }
}

/// The identity of rank 0 of three that met in a store, the last of them elsewhere or not.
JobIdentity met(const std::string& machine_of_last, std::optional<std::string> token) {
  JobIdentity identity;
  identity.world_size = 3;
  identity.store = std::make_shared<MemoryStore>();
  identity.token = std::move(token);
  for (int rank = 0; rank < 3; ++rank)
    identity.members.push_back({.rank = rank, .pid = 1, .host = fmt::format("host{}", rank / 2), .machine = rank == 2 ? machine_of_last : "one"});
  return identity;
}

std::string refusal(const JobIdentity& identity, const Environment& environment = {}) {
  Outcome outcome;
  try {
    check_secret(identity, environment);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome.text<InvalidArgument>();
}

TEST(TheSecretOfRanks, TheSecretOfSeveralHostsIsAskedForWhereverTheyMet) {
  const std::string none = refusal(met("another", std::nullopt));
  EXPECT_CONTAINS(none, "the ranks are on several hosts (rank 0 on host0, rank 2 on host1), so their connections need the job's secret");
  EXPECT_CONTAINS(none, "set UNISONO_TOKEN");
  EXPECT_CONTAINS(refusal(met("another", "")), "need the job's secret");
  EXPECT_CONTAINS(refusal(met("another", "too short")), "the job's secret has 9 bytes");
  EXPECT_NO_THROW(check_secret(met("another", "none"), {}));
  EXPECT_NO_THROW(check_secret(met("another", "sixteen bytes it"), {}));
}

TEST(TheSecretOfRanks, TheSecretOfOneHostIsNotNeeded) {
  EXPECT_NO_THROW(check_secret(met("one", std::nullopt), {}));
  JobIdentity apart = met("another", std::nullopt);  // in namespaces of their own, say
  apart.launcher_store = apart.store;
  EXPECT_NO_THROW(check_secret(apart, {})) << "nobody but the launcher's processes reaches this store";
}

TEST(TheSecretOfRanks, TheSecretIsNeededForEncryptionWhereverTheyAre) {
  for (const char* mode : {"on", "required"}) {
    const Variables encrypts{{"UNISONO_TLS", mode}};
    for (const char* machine : {"one", "another"}) {
      for (const auto& token : {std::optional<std::string>(), std::optional<std::string>("none")})
        EXPECT_CONTAINS(refusal(met(machine, token), Environment(encrypts)), fmt::format("UNISONO_TLS={} takes the job's secret", mode));
      EXPECT_NO_THROW(check_secret(met(machine, "sixteen bytes it"), Environment(encrypts)));
      const Variables certified = with(with(with(encrypts, "UNISONO_TLS_CERT", "c"), "UNISONO_TLS_KEY", "k"), "UNISONO_TLS_CA", "a");
      EXPECT_NO_THROW(check_secret(met(machine, "none"), Environment(certified)));
    }
  }
}

Variables under_torchrun(int rank, int world_size, int local_world_size, int port, const std::string& restart = "0") {
  Variables all = with(job_variables(rank, world_size, port), "LOCAL_RANK", fmt::format("{}", rank % local_world_size));
  all["LOCAL_WORLD_SIZE"] = fmt::format("{}", local_world_size);
  all["TORCHELASTIC_RUN_ID"] = "none";
  all["TORCHELASTIC_RESTART_COUNT"] = restart;
  all["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  return all;
}

TEST(UnderTorchrun, TheAgentsPortIsLeftAlone) {
  COVERS("E-12");
  const auto agent = base::try_listen(base::resolve("127.0.0.1", 0).front());  // holds MASTER_PORT and speaks another language
  const int port = base::local_address(agent.fd.get()).port();
  for (const int local : {4, 2}) {  // one host, and two
    const auto outcomes = together(4, [&](int rank) { return attempt({.timeout = 60s}, Environment(under_torchrun(rank, 4, local, port))); });
    expect_a_job(outcomes, 4);
    EXPECT_EQ(outcomes[3].get().local_rank, 3 % local);
    EXPECT_EQ(outcomes[3].get().job_id, outcomes[0].get().job_id);
    EXPECT_EQ(outcomes[3].get().job_id.size(), 16U) << "torchrun's name for every run without one, \"none\", names no job";
  }
  base::FileDescriptor visitor(::accept4(agent.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_FALSE(visitor);  // nobody knocked
}

TEST(UnderTorchrun, TheAgentsOfSeveralHostsCountRestartsByThemselves) {
  const auto agent = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const int port = base::local_address(agent.fd.get()).port();
  const auto outcomes = together(2, [&](int rank) {  // the rank that failed was the second host's
    return attempt({.timeout = 60s}, Environment(under_torchrun(rank, 2, 1, port, rank == 1 ? "1" : "0")));
  });
  expect_a_job(outcomes, 2);
}

TEST(UnderTorchrun, StrangersOnThePortsBesideArePassedOver) {
  std::optional<base::Opened> stranger;
  int port = 0;
  while (!stranger || !stranger->fd) {
    port = free_port();
    if (port < 65000) stranger = base::try_listen(base::resolve("127.0.0.1", static_cast<std::uint16_t>(port + 1)).front());
  }
  auto banner = in_background([&] {
    for (int i = 0; i < 1; ++i) {
      if (!base::wait_for(stranger->fd.get(), 1 /* POLLIN */, base::Deadline(60s))) return;
      const base::FileDescriptor visitor(::accept4(stranger->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      EXPECT_GT(::send(visitor.get(), "220 hello\r\n", 11, MSG_NOSIGNAL), 0);
      stranger->fd.reset();
    }
  });
  const auto outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(under_torchrun(rank, 2, 1, port))); });
  banner.join();
  expect_a_job(outcomes, 2);
}

}  // namespace
}  // namespace unisono::rendezvous
