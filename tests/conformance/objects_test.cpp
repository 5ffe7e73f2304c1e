#include "unisono/objects.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <filesystem>
#include <limits>
#include <map>
#include <variant>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

std::string repeated(std::string_view text, std::size_t n) {
  std::string all;
  for (std::size_t i = 0; i < n; ++i) all += text;
  return all;
}
/// An object with another content and another length on every rank.
std::string text_of(int r, std::size_t length = 5) {
  std::string text(length + static_cast<std::size_t>(r), ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i * 7 + static_cast<std::size_t>(r)) % 26);
  return text;
}

std::string word_of(int r) { return text_of(r); }

using Record = std::map<std::string, std::variant<int, double, std::vector<float>, std::string>>;
Record record_of(int r) {
  Record record{{"rank", r}, {"half", r / 2.0}, {"name", text_of(r)}, {"values", values<float>(static_cast<std::size_t>(r * r), r)}};
  if (r % 2 == 1) record.erase("half");
  return record;
}

struct Sample {
  int id = 0;
  std::vector<std::string> tags;
  std::optional<double> score;
  bool operator==(const Sample&) const = default;
  UNISONO_FIELDS(id, tags, score)
};
Sample sample_of(int r) {
  Sample sample{r, {}, {}};
  for (int i = 0; i < r; ++i) sample.tags.push_back(text_of(i));
  if (r > 0) sample.score = 1.0 / r;
  return sample;
}

template <class F>
auto of_all(int n, F&& f) {
  std::vector<decltype(f(0))> all;
  for (int r = 0; r < n; ++r) all.push_back(f(r));
  return all;
}

/// A group in reverse order, so that ranks in it are no global ranks.
ProcessGroup reversed() { return split_group(world(), 0, -rank()).value(); }

// Objects of another size on every rank, each in its place.
WORLD_TEST(Objects, AllGatherReturnsTheObjectsOfAllRanks) {
  COVERS("TS-32", "M-08", "M-39", "I-27", "C-22", "K-74");
  if (on_an_engine()) COVERS("B-16");
  const int n = world_size();
  EXPECT_EQ(all_gather_object(record_of(rank())), of_all(n, record_of));
  EXPECT_EQ(all_gather_object(sample_of(rank())), of_all(n, sample_of));
  EXPECT_EQ(all_gather_object(rank() == 0 ? Record{} : record_of(rank())).front(), Record{});
  EXPECT_EQ(all_gather_object(std::monostate{}).size(), static_cast<std::size_t>(n));
  EXPECT_EQ(all_gather_object(std::vector<int>(static_cast<std::size_t>(rank()), rank())),
            of_all(n, [](int r) { return std::vector<int>(static_cast<std::size_t>(r), r); }));
  // A single rank has a megabyte, the others next to nothing.
  const auto large = [&](int r) { return r == n - 1 ? text_of(r, 1100000) : text_of(r); };
  EXPECT_EQ(all_gather_object(large(rank())), of_all(n, large));
}

// Objects in a group of another order, and in one without rank 0.
WORLD_TEST(Objects, CallsWorkInGroups) {
  COVERS("I-27", "K-23");
  const int n = world_size();
  const ProcessGroup group = reversed();
  EXPECT_EQ(all_gather_object(rank(), group), of_all(n, [&](int r) { return n - 1 - r; }));
  EXPECT_EQ(broadcast(text_of(rank()), 0, group), text_of(n - 1));
  EXPECT_EQ(broadcast(text_of(rank()), GlobalRank{0}, group), text_of(0));
  const auto gathered = gather_object(sample_of(rank()), GlobalRank{n - 1}, group);
  EXPECT_EQ(gathered.has_value(), rank() == n - 1);
  if (gathered) {
    EXPECT_EQ(*gathered, of_all(n, [&](int r) { return sample_of(n - 1 - r); }));
  }
  // Tensors of several dtypes within dictionaries within dictionaries.
  using Nested = std::map<std::string, std::map<std::string, AnyValue>>;
  const auto nested = [](int r) {
    const auto count = static_cast<std::size_t>(r) + 1;
    return Nested{{"weights", {{"float", AnyValue(values<float>(count, r))}, {"integer", AnyValue(values<std::int64_t>(2 * count, r))}}},
                  {"meta", {{"epoch", AnyValue(r)}, {"name", AnyValue(text_of(r))}}}};
  };
  EXPECT_EQ(all_gather_object(nested(rank())), of_all(n, nested));
  EXPECT_EQ(all_gather_object(nested(group.rank()), group), of_all(n, nested));
  // Nobody but the members takes part.
  const auto odd = split_group(world(), rank() % 2 == 1 ? 0 : -1);
  if (odd) {
    const auto texts = all_gather(text_of(rank()), *odd);
    EXPECT_EQ(texts, of_all(odd->size(), [](int r) { return text_of(2 * r + 1); }));
    EXPECT_EQ(broadcast(text_of(rank()), odd->size() - 1, *odd), text_of(2 * odd->size() - 1));
  }
}

// Strings are bytes, as many as there are; the longest does not matter to the others.
WORLD_TEST(Objects, StringsAreObjects) {
  COVERS("I-26", "I-49", "I-51", "K-22");
  const int n = world_size();
  const auto word = [](int r) { return r % 2 == 0 ? std::string("abc") : std::string("test-test"); };
  EXPECT_EQ(all_gather(word(rank())), of_all(n, word));
  EXPECT_EQ(all_gather("literal"), std::vector<std::string>(static_cast<std::size_t>(n), "literal"));
  const auto accents = [](int r) { return repeated("é", 10 + static_cast<std::size_t>(r)); };
  EXPECT_EQ(all_gather(accents(rank())), of_all(n, accents));
  EXPECT_EQ(all_gather(accents(rank())).front().size(), 20U);
  for (const std::size_t length : {0, 1, 1024, 14000, 90000}) {
    EXPECT_EQ(all_gather(text_of(rank(), length)), of_all(n, [&](int r) { return text_of(r, length); })) << length;
    EXPECT_EQ(broadcast(text_of(rank(), length), n - 1), text_of(n - 1, length)) << length;
  }
  const auto zeros = [](int r) { return std::string(static_cast<std::size_t>(r + 1), '\0') + "x"; };
  EXPECT_EQ(all_gather(zeros(rank())), of_all(n, zeros));
  const auto gathered = gather(word(rank()), n - 1);
  EXPECT_EQ(gathered.has_value(), rank() == n - 1);
  if (gathered) {
    EXPECT_EQ(*gathered, of_all(n, word));
  }
}

// Every rank may be the one that gets them; the others get an empty optional.
WORLD_TEST(Objects, GatherReturnsTheObjectsAtTheRoot) {
  COVERS("TS-33", "M-09", "C-03", "K-70");
  const int n = world_size();
  for (int dst = 0; dst < n; ++dst) {
    const auto records = gather_object(record_of(rank()), dst);
    ASSERT_EQ(records.has_value(), rank() == dst);
    if (records) {
      EXPECT_EQ(*records, of_all(n, record_of));
    }
  }
  EXPECT_EQ(gather_object(rank()).has_value(), rank() == 0);
}

// In place, from every rank; the list need not be long enough before.
WORLD_TEST(Objects, BroadcastReturnsTheObjectOfTheRoot) {
  COVERS("TS-34", "M-06", "K-67", "Q-26");
  using Item = std::variant<std::monostate, std::string, int, std::map<int, int>>;
  for (int src = 0; src < world_size(); ++src) {
    Record record = record_of(rank());
    broadcast_object(record, src);
    EXPECT_EQ(record, record_of(src));
    const std::vector<Item> list{"foo", 12 + src, std::map<int, int>{{1, 2}}};
    std::vector<Item> items(3);
    if (rank() == src) items = list;
    broadcast_object_list(items, src);
    EXPECT_EQ(items, list);
    std::vector<std::string> names = of_all(rank() + 1, word_of);
    broadcast_object_list(names, src);
    EXPECT_EQ(names, of_all(src + 1, word_of));
    EXPECT_EQ(broadcast(sample_of(rank()), src), sample_of(src));
    EXPECT_EQ(broadcast(of_all(rank(), word_of), src), of_all(src, word_of));
  }
}

// Only the root needs to have a list.
WORLD_TEST(Objects, ScatterReturnsOneObjectToEachRank) {
  COVERS("TS-35");
  const int n = world_size();
  for (int src = 0; src < n; ++src) {
    const auto part = [&](int r) { return sample_of(r + src); };
    EXPECT_EQ(scatter_object(rank() == src ? of_all(n, part) : std::vector<Sample>{}, src), part(rank()));
  }
  const auto large = [](int r) { return text_of(r, 100000 * static_cast<std::size_t>(r)); };
  EXPECT_EQ(scatter_object(of_all(n, large)), large(rank()));
}

// A ring in which all send first; large ones both ways; from anybody; tags.
MANY_TEST(Objects, MessagesCarryObjects) {
  COVERS("TS-36");
  const int n = world_size();
  const int next = (rank() + 1) % n, previous = (rank() + n - 1) % n;
  send_object(sample_of(rank()), next);
  EXPECT_EQ(recv_object<Sample>(previous), sample_of(previous));
  send_object("a literal", next, world(), {.tag = 3});
  send_object(record_of(rank()), next, world(), {.tag = 2});
  EXPECT_EQ(recv_object<Record>(previous, world(), {.tag = 2}), record_of(previous));
  EXPECT_EQ(recv_object<std::string>(previous, world(), {.tag = 3}), "a literal");
  if (rank() == 0) {
    for (int r = 1; r < n; ++r) {
      std::string text;
      EXPECT_EQ(recv_object(text, r), r);
      EXPECT_EQ(text, text_of(r, 300000));
    }
    std::vector<bool> heard(static_cast<std::size_t>(n));
    for (int r = 1; r < n; ++r) {
      std::pair<int, std::string> message;
      const int source = recv_object(message, any_source);
      EXPECT_EQ(message, std::pair(source, text_of(source)));
      heard[static_cast<std::size_t>(source)] = true;
    }
    EXPECT_EQ(std::count(heard.begin(), heard.end(), true), n - 1);
  } else {
    send_object(text_of(rank(), 300000), 0);
    send_object(std::pair(rank(), text_of(rank())), 0);
  }
}

// A value arrives with its type and its bits.
WORLD_TEST(Objects, ValuesKeepTypeAndBits) {
  COVERS("I-31", "I-32", "I-33", "K-24", "K-75", "C-06");
  const int src = world_size() - 1;
  const auto from_src = [&](auto there, auto elsewhere) { return broadcast(rank() == src ? there : elsewhere, src); };
  static_assert(std::same_as<decltype(broadcast(10)), int>);
  static_assert(std::same_as<decltype(broadcast("text")), std::string>);
  EXPECT_EQ(from_src(16777217, 0), 16777217);
  EXPECT_EQ(from_src(std::numeric_limits<std::int64_t>::min(), std::int64_t{5}), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(from_src(std::numeric_limits<std::uint64_t>::max(), std::uint64_t{5}), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(from_src(true, false), true);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(from_src(std::bit_cast<double>(0x7ff8deadbeef1234U), 0.0)), 0x7ff8deadbeef1234U);
  EXPECT_EQ(from_src(std::complex<float>(1, -2), std::complex<float>()), std::complex<float>(1, -2));
  EXPECT_EQ(from_src(0.1L, 0.0L), 0.1L);
  EXPECT_EQ(from_src(std::chrono::milliseconds(1500), std::chrono::milliseconds(0)), std::chrono::milliseconds(1500));
  EXPECT_EQ(from_src(std::string("short"), std::string()), "short");
  EXPECT_EQ(from_src(text_of(0, 14000), text_of(1)), text_of(0, 14000));
  EXPECT_EQ(from_src(std::filesystem::path("/data/é"), std::filesystem::path("")), "/data/é");
  EXPECT_EQ(from_src(Device::Type::cuda, Device::Type::cpu), Device::Type::cuda);
  // Every rank another one.
  EXPECT_EQ(all_gather_object(16777217.0 + rank()), of_all(world_size(), [](int r) { return 16777217.0 + r; }));
}

// Behind what is under way, in the order of the calls.
WORLD_TEST(Objects, ObjectsComeBehindAsynchronousCalls) {
  auto x = values<double>(50000, rank());
  Work first = all_reduce_async(x);
  const auto words = all_gather(word_of(rank()));
  Work second = all_reduce_async(x, ReduceOp::max);
  EXPECT_EQ(broadcast(record_of(rank()), world_size() - 1), record_of(world_size() - 1));
  first.wait();
  second.wait();
  EXPECT_EQ(words, of_all(world_size(), word_of));
  EXPECT_EQ(difference(x, sums<double>(x.size(), world_size())), "");
}

// The result has one form in every world, and is a copy.
WORLD_TEST(Objects, ResultsAreCopies) {
  COVERS("K-29", "K-71");
  const auto own = std::make_unique<std::string>(text_of(rank()));
  const auto all = all_gather_object(own);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world_size()));
  const auto& mine = all[static_cast<std::size_t>(rank())];
  EXPECT_NE(mine.get(), own.get());
  EXPECT_EQ(*mine, *own);
  static_assert(std::same_as<decltype(all_gather("x")), std::vector<std::string>>);
  const auto received = broadcast(own, 0);
  EXPECT_NE(received.get(), own.get());
  EXPECT_EQ(*received, text_of(0));
}

}  // namespace
