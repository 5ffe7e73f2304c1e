// Joining over a store that outlives its processes, as torchrun's agent keeps one across restarts: what dead processes have left there.
#include "testing.h"

#include <sys/types.h>

#include "base/host.h"
#include "rendezvous/join.h"
#include "rendezvous/record.h"
#include "store/requests.h"
#include "store/wire.h"

namespace unisono::rendezvous {
namespace {

const std::string generation_1 = "unisono/rendezvous//1/";

JobRequest request_of(int rank, int size, const std::shared_ptr<Store>& store) {
  return {.rank = rank, .world_size = size, .timeout = 60s, .store = store, .store_may_end = true};
}
Environment torchrun() { return Environment(Variables{{"TORCHELASTIC_RUN_ID", "none"}}); }

/// The entries of a process that took its seat and died.
void leave_seat(Store& store, Record record, int world_size) {
  const std::string place = fmt::format("\trank {} at {}", record.member.rank, where(record.member));
  store.compare_set(generation_1 + "version", "", store::describe_own_version() + place);
  store.compare_set(generation_1 + "world", "", std::to_string(world_size) + place);
  store.set(generation_1 + fmt::format("rank/{}", record.member.rank), encode(record));
  store.add(generation_1 + "joined", 1);
}

Record elsewhere(int rank) {
  Record record = own_record(rank);
  record.member.host = "another";
  record.member.machine = "another";
  return record;
}

/// The number and life of a process that has ended.
std::pair<pid_t, std::int64_t> dead_process() {
  int ends[2];
  if (::pipe(ends) != 0) throw Error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::int64_t life = base::own_life();
    ::_exit(::write(ends[1], &life, sizeof life) == sizeof life ? 0 : 1);
  }
  std::int64_t life = 0;
  EXPECT_EQ(::read(ends[0], &life, sizeof life), static_cast<ssize_t>(sizeof life));
  ::close(ends[0]);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  return {child, life};
}

TEST(OutlivingStore, TheDeadOfAnEarlierAttemptAreNoPartOfTheNext) {
  auto store = std::make_shared<MemoryStore>();
  for (const int dead : {0, 1}) leave_seat(*store, elsewhere(dead), 4);
  std::vector<Outcome> late(4);
  std::vector<std::jthread> ranks;
  for (const int rank : {2, 3}) {
    ranks.push_back(in_background([&, rank] { late[static_cast<std::size_t>(rank)] = attempt(request_of(rank, 4, store), torchrun()); }));
  }
  store->get(generation_1 + "list", 60s);  // with two that live and two that do not, all seats are taken
  for (const int rank : {0, 1}) {
    ranks.push_back(in_background([&, rank] { late[static_cast<std::size_t>(rank)] = attempt(request_of(rank, 4, store), torchrun()); }));
  }
  ranks.clear();
  expect_a_job(late, 4);
  for (const Member& member : late[0].get().members) EXPECT_NE(member.machine, "another");
}

TEST(OutlivingStore, TheNextAttemptMayBeOfAnotherSize) {
  auto store = std::make_shared<MemoryStore>();
  leave_seat(*store, elsewhere(3), 4);
  expect_a_job(together(2, [&](int rank) { return attempt(request_of(rank, 2, store), torchrun()); }), 2);
}

TEST(OutlivingStore, AttemptsFollowAttemptsThatEndedOnTheWay) {
  auto store = std::make_shared<MemoryStore>();
  for (int round = 0; round < 5; ++round) {
    if (!store->try_get(generation_1 + "done")) leave_seat(*store, elsewhere(round % 3), 3);
    // A process that comes alone, and is ended while it waits.
    JobRequest alone = request_of(1, 3, store);
    alone.timeout = 50ms;
    attempt(alone, torchrun()).text<Timeout>();
    expect_a_job(together(3, [&](int rank) { return attempt(request_of(rank, 3, store), torchrun()); }), 3);
  }
}

TEST(OutlivingStore, TwoThatLiveAreNotTakenForAnAttemptAndTheNext) {
  auto store = std::make_shared<MemoryStore>();
  std::vector<Outcome> both(2);
  Outcome other;
  {
    std::vector<std::jthread> ranks;
    for (Outcome& one : both) {
      ranks.push_back(in_background([&] {
        one = attempt(request_of(0, 2, store), torchrun());
        if (one.error) store->set("refused", "1");
      }));
    }
    store->get("refused", 60s);
    ranks.push_back(in_background([&] { other = attempt(request_of(1, 2, store), torchrun()); }));
  }
  EXPECT_NE(both[0].error == nullptr, both[1].error == nullptr);
  EXPECT_CONTAINS((both[0].error ? both[0] : both[1]).text<InvalidArgument>(), "rank 0 is taken");
  EXPECT_EQ(other.get().rank, 1);
}

TEST(OutlivingStore, OnlyTheDeadOfThisHostMakeRoomWithoutTorchrun) {
  const auto [pid, life] = dead_process();
  auto store = std::make_shared<MemoryStore>();
  Record dead = own_record(0);
  dead.member.pid = pid;
  dead.presence = life;
  leave_seat(*store, dead, 2);
  expect_a_job(together(2, [&](int rank) { return attempt(request_of(rank, 2, store)); }), 2);

  for (const bool is_here : {true, false}) {
    store = std::make_shared<MemoryStore>();
    Record living = is_here ? own_record(0) : elsewhere(0);
    living.presence = is_here ? base::own_life() : life;
    leave_seat(*store, living, 2);
    EXPECT_CONTAINS(attempt(request_of(0, 2, store)).text<InvalidArgument>(), "rank 0 is taken");
  }
}

TEST(OutlivingStore, SizesThatLivingProcessesGiveAreCompared) {
  auto store = std::make_shared<MemoryStore>();
  for (const Outcome& outcome : together(2, [&](int rank) { return attempt(request_of(rank, 2 + rank, store), torchrun()); })) {
    EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 3");
  }
}

// The join is the same for a thousand ranks: each asks a handful of times, and one of them once for all seats.
class Counting final : public Store, public store::BatchedReads {
 public:
  explicit Counting(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  int calls() const { return calls_; }
  void set(std::string_view key, std::string_view value) override { asked().set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return asked().get(key, timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return asked().try_get(key); }
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override { return store::try_get_all(asked(), keys); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return asked().add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { asked().wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return asked().compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return asked().erase(key); }
  std::int64_t num_keys() override { return asked().num_keys(); }

 private:
  Store& asked() {
    ++calls_;
    return *inner_;
  }
  std::shared_ptr<Store> inner_;
  std::atomic<int> calls_{0};
};

TEST(OutlivingStore, JoiningTakesAFewCallsOfEachRank) {
  constexpr int size = 48;
  const auto store = std::make_shared<Counting>(std::make_shared<MemoryStore>());
  for (const Outcome& outcome : together(size, [&](int rank) { return attempt(request_of(rank, size, store), torchrun()); })) outcome.get();
  EXPECT_LE(store->calls(), 13 * size);
}

TEST(OutlivingStore, ManyKeysAreReadByOneCallBehindAPrefixAsWell) {
  const auto store = std::make_shared<Counting>(std::make_shared<MemoryStore>());
  PrefixStore outer("b", std::make_shared<PrefixStore>("a", store));
  outer.set("x", "1");
  outer.set("z", "3");
  const int before = store->calls();
  const auto values = store::try_get_all(outer, std::vector<std::string>{"x", "y", "z"});
  EXPECT_EQ(store->calls(), before + 1);
  EXPECT_EQ(values, (std::vector<std::optional<std::string>>{"1", std::nullopt, "3"}));
}

}  // namespace
}  // namespace unisono::rendezvous
