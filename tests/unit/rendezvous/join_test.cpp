// Ranks join over a store; and the failures on the way.
#include "testing.h"

#include <atomic>

#include "covers.h"
#include "rendezvous/join.h"
#include "rendezvous/record.h"
#include "store/client.h"
#include "store/server.h"

namespace unisono::rendezvous {
namespace {

TEST(Join, MissingRanksAreNamedOnEveryRank) {  // R1
  COVERS("Q-09");
  const int port = free_port();
  const auto outcomes = together(2, [&](int i) { return attempt({.timeout = 2s}, Environment(job_variables(2 * i, 5, port))); });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<Timeout>();
    EXPECT_CONTAINS(text, "2 of 5 ranks joined");
    EXPECT_CONTAINS(text, "missing ranks 1, 3, 4");
    try {
      std::rethrow_exception(outcome.error);
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), (std::vector<int>{1, 3, 4}));
    }
  }
}

std::vector<Record> records_of(int ranks, int per_host) {
  std::vector<Record> records;
  for (int r = 0; r < ranks; ++r) {
    Record& record = records.emplace_back(own_record(r));
    const int host = r % 100 == 99 ? 0 : r / per_host;  // now and then one that stands above
    record.member.pid = 4'000 + host * 17 + r % per_host;
    record.member.host = fmt::format("node-{:04}", host);
    record.member.machine = fmt::format("{:08x}-aaaa-bbbb-cccc-{:012x}/4026531840/4026531836", host * 7919, r / 800);
  }
  return records;
}

TEST(Join, TheListOfMembersIsShortAndSaysAll) {
  std::vector<Record> records = records_of(1000, 8);
  records[500].member.machine = "another kind of name";
  const std::string text = MemberList::encode(records);
  EXPECT_LT(text.size(), 10U * records.size());
  const MemberList list(text);
  const auto& members = list.members();
  ASSERT_EQ(members.size(), records.size());
  for (std::size_t r = 0; r < members.size(); ++r) {
    EXPECT_EQ(members[r].rank, static_cast<int>(r));
    EXPECT_EQ(members[r].pid, records[r].member.pid);
    EXPECT_EQ(members[r].host, records[r].member.host);
    EXPECT_EQ(members[r].machine, records[r].member.machine);
    EXPECT_EQ(list.rank_of(records[r]), static_cast<int>(r));
    Record without_rank = records[r];
    without_rank.member.rank = -1;
    EXPECT_EQ(list.rank_of(without_rank), static_cast<int>(r));
  }
  EXPECT_EQ(list.rank_of(own_record(3)), -1) << "another process took that seat earlier";
  EXPECT_EQ(list.rank_of(own_record({})), -1);
  EXPECT_EQ(list.rank_of(own_record(1000)), -1);
}

TEST(Join, AMalformedListOfMembersIsRefused) {
  EXPECT_TRUE(MemberList(MemberList::encode({})).members().empty());
  const std::string text = MemberList::encode(records_of(5, 2));
  EXPECT_EQ(MemberList(text).members().size(), 5U);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_THROW(MemberList(text.substr(0, size)), ProtocolError) << size;
  EXPECT_THROW(MemberList(text + "x"), ProtocolError);
  for (std::size_t i = 0; i < text.size(); ++i) {  // whatever else a changed byte means, it must not be followed out of the list
    std::string changed = text;
    changed[i] = static_cast<char>(~changed[i]);
    try {
      EXPECT_LE(MemberList(changed).members().size(), text.size());
    } catch (const ProtocolError&) {  // NOLINT(bugprone-empty-catch): as it should be
    }
  }
}

TEST(Join, AListOfMembersWhoseProcessesAreBeyondAnyNumberIsRefused) {
  // A member, 4 bytes of a mark, a new host "a" on the machine "b", a run of one; then the difference to the process before, and the mark.
  const std::string begin("\1\4\0\0\1a\0\0\1b\1", 11), mark("1234");
  EXPECT_EQ(MemberList(begin + "\2" + mark).members().at(0).pid, 1);
  const std::string largest = std::string("\xfe") + std::string(8, '\xff') + "\1", lowest = std::string(9, '\xff') + "\1";
  EXPECT_THROW(MemberList(begin + largest + mark), ProtocolError);
  EXPECT_THROW(MemberList(begin + lowest + mark), ProtocolError);
  std::string two = begin + "\2" + mark + largest + mark;  // the second one's would leave 64 bits
  two[0] = two[10] = 2;
  EXPECT_THROW(MemberList{two}, ProtocolError);
}

TEST(Join, ADuplicateIsRejectedAndTheJobIsNotDisturbed) {  // R2
  const int port = free_port();
  std::vector<Outcome> outcomes;  // one of which serves the store: it must stay until the others have read it
  auto first =
      in_background([&] { outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 3, port))); }); });
  // Chance decides which of the two rank 1 comes second, until the first one sits: wait for that.
  const auto look = store::connect_tcp(base::resolve("127.0.0.1", static_cast<std::uint16_t>(port)), "the store", {}, base::Deadline(60s));
  look->wait(std::vector<std::string>{"unisono/rendezvous//1/rank/0", "unisono/rendezvous//1/rank/1"}, 60s);
  const std::string text = attempt({.timeout = 60s}, Environment(job_variables(1, 3, port))).text<InvalidArgument>();
  const std::string pid = fmt::format(":{}", ::getpid());
  EXPECT_CONTAINS(text, "rank 1 is taken by");
  EXPECT_NE(text.find(pid), text.rfind(pid)) << text;  // both are named
  const Outcome third = attempt({.timeout = 60s}, Environment(job_variables(2, 3, port)));
  EXPECT_EQ(third.get().rank, 2);
  first.join();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.get().world_size, 3);
}

TEST(Join, ALatecomerToACompleteJobIsRejected) {  // R2
  auto store = std::make_shared<MemoryStore>();
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2, .store = store}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.rank = 1, .world_size = 2, .store = store}).text<InvalidArgument>(), "rank 1 is taken");
}

TEST(Join, DifferentWorldSizesAreToldToBoth) {  // R3
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 2 + rank, port))); });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<Mismatch>();
    EXPECT_CONTAINS(text, "says 2");
    EXPECT_CONTAINS(text, "says 3");
    EXPECT_CONTAINS(text, "rank 0");
    EXPECT_CONTAINS(text, "rank 1");
  }
}

// A rank that asks a moment later for what ended the job, while rank 0, which serves the store, has read it already.
TEST(Join, TheStoreStaysUntilTheOthersHaveReadTheVerdict) {  // R3
  const int port = free_port();
  std::atomic<bool> zero_has_ended = false;
  auto zero = in_background([&] {
    const Outcome outcome = attempt({.timeout = 60s}, Environment(job_variables(0, 2, port)));
    zero_has_ended = true;
    EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 3");
  });
  auto one = store::connect_tcp(base::resolve("127.0.0.1", static_cast<std::uint16_t>(port)), "the store", {}, base::Deadline(60s));
  const std::string group = "unisono/rendezvous//1/";
  const std::string world = one->compare_set(group + "world", "", "3\trank 1 elsewhere");
  if (world.starts_with('2')) one->set(group + "done", "mismatch\trank 0 says 2, rank 1 says 3");  // rank 0 was first: then this one ends the job
  one->wait(std::vector<std::string>{group + "done"}, 60s);
  const base::Deadline while_one_is_there(300ms);
  while (!zero_has_ended && !while_one_is_there.passed()) std::this_thread::yield();
  EXPECT_CONTAINS(one->get(group + "done", 60s), "mismatch");
  one.reset();
}

TEST(Join, AnotherJobOrAttemptIsRefused) {  // R4
  const int port = free_port();
  const auto of_run = [&](int rank, const std::string& attempt_number) {
    return Environment(with(with(job_variables(rank, 2, port), "UNISONO_JOB_ID", "j1"), "UNISONO_ATTEMPT", attempt_number));
  };
  Outcome zero;  // which serves the store: it must stay until the others have read it
  auto first = in_background([&] { zero = attempt({.timeout = 60s}, of_run(0, "1")); });
  const std::string text = attempt({.timeout = 60s}, of_run(1, "0")).text<ProtocolError>();
  EXPECT_CONTAINS(text, "another job");
  EXPECT_EQ(attempt({.timeout = 60s}, of_run(1, "1")).get().rank, 1);
  first.join();
}

TEST(Join, AnotherLibraryAroundItIsToldToAll) {
  auto store = std::make_shared<MemoryStore>();
  const auto outcomes = together(3, [&](int rank) {
    return attempt({.rank = rank, .world_size = 3, .timeout = 60s, .store = store, .library = rank == 1 ? "PyTorch 2.7" : "PyTorch 2.13"});
  });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<ProtocolError>();
    EXPECT_CONTAINS(text, "with PyTorch 2.7");
    EXPECT_CONTAINS(text, "with PyTorch 2.13");
    EXPECT_CONTAINS(text, "rank 1");
  }
}

TEST(Join, AnotherVersionIsRefusedWithBothNamed) {  // R5
  auto store = std::make_shared<MemoryStore>();
  store->set("unisono/rendezvous//1/version", "version 9.8.7 (wire 6)\trank 0 at elsewhere:1");
  const std::string text = attempt({.rank = 1, .world_size = 2, .store = store}).text<ProtocolError>();
  EXPECT_CONTAINS(text, "version 9.8.7 (wire 6)");
  EXPECT_CONTAINS(text, "version 0.");
  EXPECT_CONTAINS(text, "elsewhere:1");
}

TEST(Join, APortInUseIsNamedAtOnce) {  // R6
  const auto taken = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const int port = base::local_address(taken.fd.get()).port();
  const std::string text = attempt({.timeout = 60s}, Environment(job_variables(0, 2, port))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, fmt::format("127.0.0.1:{}", port));
}

TEST(Join, AStoreThatNobodyServesIsOneMessage) {  // R7
  const int port = free_port();
  const std::string text = attempt({.timeout = 150ms}, Environment(job_variables(1, 2, port))).text<Timeout>();
  EXPECT_CONTAINS(text, fmt::format("127.0.0.1:{}", port));
}

TEST(Join, SomebodySilentAtTheAddressIsATimeout) {  // R7: accepts, never speaks
  const auto silent = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const int port = base::local_address(silent.fd.get()).port();
  EXPECT_CONTAINS(attempt({.timeout = 1s}, Environment(job_variables(1, 2, port))).text<Timeout>(), "silent");
}

TEST(Join, AFailureLeavesNothingOpen) {
  COVERS("K-01");
  const int port = free_port();
  const auto fail = [&] {
    const auto outcomes = together(2, [&](int i) { return attempt({.timeout = 60ms}, Environment(job_variables(i, 3, port))); });
    for (const Outcome& outcome : outcomes) outcome.text<Error>();  // Timeout, or PeerFailed where the one that serves has just given up
    attempt({.timeout = 60ms}, Environment(job_variables(1, 3, port))).text<Timeout>();
  };
  fail();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i) fail();
  EXPECT_EQ(open_descriptors(), before);
  // And the same job can be tried again.
  expect_a_job(together(2, [&](int rank) { return attempt({}, Environment(job_variables(rank, 2, port))); }), 2);
}

TEST(Join, ManyComeAtOnce) {  // R10
  const int port = free_port();
  const auto outcomes = together(48, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 48, port))); });
  std::set<int> ranks;
  for (const Outcome& outcome : outcomes) ranks.insert(outcome.get().rank);
  EXPECT_EQ(ranks.size(), 48U);
}

TEST(Join, OneAddressServesJobAfterJob) {
  const int port = free_port();
  for (int round = 0; round < 5; ++round) {
    const auto outcomes = together(3, [&](int rank) { return attempt({}, Environment(job_variables(rank, 3, port))); });
    expect_a_job(outcomes, 3);
  }
}

TEST(Join, ARankThatIsEarlyForTheNextJobWaitsForItsServer) {
  const int port = free_port();
  auto first = together(2, [&](int rank) { return attempt({}, Environment(job_variables(rank, 2, port))); });
  expect_a_job(first, 2);
  // Rank 1 leaves and comes back while rank 0 still serves the first job.
  first[1] = {};
  Outcome again;
  auto early = in_background([&] { again = attempt({.timeout = 60s}, Environment(job_variables(1, 2, port))); });
  first[0] = {};
  const Outcome zero = attempt({.timeout = 60s}, Environment(job_variables(0, 2, port)));
  EXPECT_EQ(zero.get().rank, 0);
  early.join();
  EXPECT_EQ(again.get().rank, 1);
}

TEST(Token, AddressesThatAreNotLoopbackNeedOne) {
  const std::string text = attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "UNISONO_TOKEN");
  EXPECT_CONTAINS(text, "192.0.2.1:1234");
  EXPECT_CONTAINS(text, "none");
  // With the token, or "none" said aloud, it is tried; that this host has no such address is another matter.
  const Environment token(Variables{{"UNISONO_TOKEN", "sixteen bytes ab"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}, token).text<InvalidArgument>(), "cannot listen");
  const Environment guessable(Variables{{"UNISONO_TOKEN", "fifteen bytes a"}});
  const std::string refused = attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}, guessable).text<InvalidArgument>();
  EXPECT_CONTAINS(refused, "the job's secret has 15 bytes");
  EXPECT_CONTAINS(refused, "openssl rand");
  EXPECT_EQ(refused.find("fifteen"), std::string::npos) << "the secret itself is not to be written anywhere";
  const Environment none(Variables{{"UNISONO_TOKEN", "none"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}, none).text<InvalidArgument>(), "cannot listen");
}

TEST(Token, AWrongOneIsRefused) {
  const int port = free_port();
  const auto of = [&](int rank, const std::string& token) { return Environment(with(job_variables(rank, 2, port), "UNISONO_TOKEN", token)); };
  Outcome zero;  // which serves the store: it must stay until the others have read it
  auto first = in_background([&] { zero = attempt({.timeout = 60s}, of(0, "right")); });
  EXPECT_CONTAINS(attempt({.timeout = 60s}, of(1, "wrong")).text<ProtocolError>(), "token");
  EXPECT_CONTAINS(attempt({.timeout = 60s}, Environment(job_variables(1, 2, port))).text<ProtocolError>(), "token");
  EXPECT_EQ(attempt({.timeout = 60s}, of(1, "right")).get().rank, 1);
  first.join();
}

TEST(GivenStore, AGivenStoreNeedsRankAndSize) {
  COVERS("I-40");
  auto store = std::make_shared<MemoryStore>();
  EXPECT_CONTAINS(attempt({.world_size = 2, .store = store}).text<InvalidArgument>(), "rank is not given");
  EXPECT_CONTAINS(attempt({.rank = 0, .store = store}).text<InvalidArgument>(), "world_size is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 0, .world_size = 2, .store = store}).text<InvalidArgument>(), "init_method");
}

TEST(GivenStore, AGivenStoreCarriesJobAfterJob) {
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(in_background([&, rank] {
      for (int round = 0; round < 10; ++round) {
        const JobIdentity identity = meet({.rank = rank, .world_size = 3, .timeout = 60s, .store = store}, Environment());
        EXPECT_EQ(identity.rank, rank);
        identity.store->set(fmt::format("{}", rank), fmt::format("{}", round));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 60s), fmt::format("{}", round));
      }
    }));
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(store->timeout(), 5min);
}

TEST(GivenStore, TheJobCanBeTriedAgainAfterATimeout) {
  auto store = std::make_shared<MemoryStore>();
  EXPECT_CONTAINS(attempt({.rank = 0, .world_size = 2, .timeout = 30ms, .store = store}).text<Timeout>(), "missing ranks 1");
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2, .timeout = 60s, .store = store}); });
  expect_a_job(outcomes, 2);
}

}  // namespace
}  // namespace unisono::rendezvous
