#include "unisono/elastic.h"

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "thrown_by.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

std::vector<double> weights_of(int rank) { return values<double>(1009, rank); }

// All have what the one with the most steps has, whichever rank it is; of several the lowest.
WORLD_TEST(Synchronize, TheMostStepsCount) {
  const int n = world_size();
  for (int source = 0; source < n; ++source) {
    std::vector<double> weights = weights_of(rank());
    std::vector<std::int32_t> empty;
    std::map<std::string, std::vector<int>> history{{"rank", std::vector<int>(static_cast<std::size_t>(rank()), rank())}};
    std::string name = "rank " + std::to_string(rank());
    ElasticState state;
    state.buffer("weights", weights).buffer("empty", empty).object("history", history).object("name", name);
    state.step = rank() >= source ? 7 : rank();  // with negative ones and ties
    if (rank() < source) state.step = -1 - rank();
    EXPECT_EQ(synchronize(state), source);
    EXPECT_EQ(state.step, 7);
    EXPECT_EQ(difference(weights, weights_of(source)), "");
    EXPECT_EQ(history, (std::map<std::string, std::vector<int>>{{"rank", std::vector<int>(static_cast<std::size_t>(source), source)}}));
    EXPECT_EQ(name, "rank " + std::to_string(source));
  }
  expect_usable();
}

// Views with gaps, on the source and on the others, and a state of objects or of nothing alone.
WORLD_TEST(Synchronize, ViewsAndStatesOfEveryKindAreSynchronized) {
  const int last = world_size() - 1;
  std::array<int, 12> elements{};
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = 100 * rank() + static_cast<int>(i);
  const std::array<std::int64_t, 2> shape{2, 3}, strides{6, 2};
  TensorView gaps(elements.data(), DType::int32, shape, strides);
  ElasticState state;
  state.buffer("gaps", gaps);
  state.step = rank();
  EXPECT_EQ(synchronize(state), last);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const int owner = i % 2 == 0 && i % 6 < 6 ? last : rank();
    EXPECT_EQ(elements[i], 100 * owner + static_cast<int>(i)) << i;
  }
  int number = rank();
  ElasticState objects;
  objects.object("number", number);
  EXPECT_EQ(synchronize(objects), 0);
  EXPECT_EQ(number, 0);
  ElasticState nothing;
  nothing.step = rank() == last ? 4 : 3;
  EXPECT_EQ(synchronize(nothing), last);
  EXPECT_EQ(nothing.step, 4);
  expect_usable();
}

WORLD_TEST(Synchronize, DifferentStatesAreAMismatchForAll) {
  if (world_size() == 1) return;
  const bool differs = rank() == world_size() - 1;
  std::vector<float> weights(differs ? 4 : 5, static_cast<float>(rank()));
  const auto before = weights;
  ElasticState state;
  state.buffer("weights", weights);
  state.step = rank();
  const auto error = thrown_by<Mismatch>([&] { synchronize(state); });
  EXPECT_NE(error.message().find("buffer \"weights\" of 4 float32"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("buffer \"weights\" of 5 float32"), std::string::npos) << error.message();
  EXPECT_EQ(weights, before);
  EXPECT_EQ(state.step, rank());

  int number = 0;
  double real = 0;
  ElasticState objects;
  if (differs) objects.object("x", real);
  else objects.object("x", number);
  const auto types = thrown_by<Mismatch>([&] { synchronize(objects); });
  for (const std::string_view name : {detail::object_type<int>().name, detail::object_type<double>().name}) {
    EXPECT_NE(types.message().find("object \"x\" (" + std::string(name) + ")"), std::string::npos) << types.message();
  }
  expect_usable();
}

// Functions of the program's: bytes of any length, and elements that are kept elsewhere and copied for the call.
WORLD_TEST(Synchronize, BytesAndCopiesOfTheProgramAreSynchronized) {
  const int last = world_size() - 1;
  std::string text(static_cast<std::size_t>(1 + rank()), static_cast<char>('a' + rank()));
  const std::vector<std::int32_t> elsewhere_of_last = values<std::int32_t>(7, last);
  std::vector<std::int32_t> elsewhere = values<std::int32_t>(7, rank()), copy;
  int written = 0, put = 0;
  std::vector<bool> done;
  ElasticState state;
  state.bytes(
      "text",
      [&] {
        ++written;
        const auto* begin = reinterpret_cast<const std::byte*>(text.data());
        return std::vector<std::byte>(begin, begin + text.size());
      },
      [&](std::span<const std::byte> bytes) -> std::function<void()> {
        return [&, taken = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())] {
          text = taken;
          ++put;
        };
      });
  state.buffer(
      "elsewhere",
      [&] {
        copy = elsewhere;
        return TensorView(copy.data(), DType::int32, copy.size());
      },
      [&](bool is_new) {
        done.push_back(is_new);
        if (is_new) elsewhere = copy;
      });
  state.step = rank();
  EXPECT_EQ(synchronize(state), last);
  EXPECT_EQ(text, std::string(static_cast<std::size_t>(1 + last), static_cast<char>('a' + last)));
  EXPECT_EQ(elsewhere, elsewhere_of_last);
  EXPECT_EQ(written, rank() == last ? 1 : 0);
  EXPECT_EQ(put, rank() == last ? 0 : 1);
  EXPECT_EQ(done, std::vector<bool>{rank() != last});
  expect_usable();
}

struct Unwritable {
  int value = 0;
};

}  // namespace

template <>
struct unisono::object_traits<Unwritable> {
  static constexpr std::string_view name = "Unwritable";
  static void write(ObjectWriter&, const Unwritable&) { throw std::runtime_error("no room to write it"); }
  static Unwritable read(ObjectReader&) { return {}; }
};

namespace {

// A state that the source cannot write changes nothing on any rank.
WORLD_TEST(Synchronize, ASourceThatCannotWriteChangesNothing) {
  std::vector<int> numbers(3, rank());
  Unwritable object{rank()};
  ElasticState state;
  state.buffer("numbers", numbers).object("object", object);
  if (rank() == 0) {
    EXPECT_THROW(synchronize(state), std::runtime_error);
  } else {
    EXPECT_THROW(synchronize(state), InvalidArgument);
  }
  EXPECT_EQ(numbers, std::vector<int>(3, rank()));
  expect_usable();
}

// Nor does one that a member cannot read, or of which a member's elements cannot be had.
WORLD_TEST(Synchronize, AMemberThatCannotTakePartChangesNothing) {
  const int last = world_size() - 1;
  std::vector<int> numbers(3, rank());
  std::string text = "of rank " + std::to_string(rank());
  bool can_read = rank() != last, can_view = true;
  ElasticState state;
  state.buffer("numbers", numbers).object("text", text);
  state.bytes(
      "bytes", [] { return std::vector<std::byte>(5); },
      [&](std::span<const std::byte>) -> std::function<void()> {
        if (!can_read) throw std::runtime_error("no room to read it");
        return [] {};
      });
  state.buffer(
      "elsewhere",
      [&] {
        if (!can_view) throw std::runtime_error("it is elsewhere");
        return detail::writable_view_of(numbers);
      },
      nullptr);
  const auto expect_untouched = [&] {
    EXPECT_EQ(numbers, std::vector<int>(3, rank()));
    EXPECT_EQ(text, "of rank " + std::to_string(rank()));
    EXPECT_EQ(state.step, -rank());
    expect_usable();
  };
  state.step = -rank();
  if (world_size() > 1) {
    if (rank() == last) {
      EXPECT_STREQ(thrown_by<std::runtime_error>([&] { synchronize(state); }).what(), "no room to read it");
    } else {
      const auto error = thrown_by<InvalidArgument>([&] { synchronize(state); });
      EXPECT_NE(error.message().find("no room to read it"), std::string::npos) << error.message();
      EXPECT_EQ(error.culprit(), last);
    }
    expect_untouched();
  }
  can_read = true;
  can_view = rank() != last;
  if (rank() == last) {
    EXPECT_STREQ(thrown_by<std::runtime_error>([&] { synchronize(state); }).what(), "it is elsewhere");
  } else {
    EXPECT_THROW(synchronize(state), InvalidArgument);
  }
  expect_untouched();
  can_view = true;
  EXPECT_EQ(synchronize(state), 0);
  EXPECT_EQ(text, "of rank 0");
}

// Without a launcher nobody waits; a group is itself.
WORLD_TEST(Grow, GrowReturnsTheGroupWhereNobodyWaits) {
  EXPECT_FALSE(newcomers_waiting());
  const ProcessGroup group = world();
  EXPECT_EQ(grow_group(group), group);
  const auto part = new_group();
  EXPECT_THROW(static_cast<void>(newcomers_waiting(part)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(grow_group(part)), InvalidArgument);
  EXPECT_EQ(world(), group);
  expect_usable();
}

WORLD_TEST(RunElastic, CallsTheStepUntilItIsDone) {
  std::vector<int> sums(5);
  ElasticState state;
  state.buffer("sums", sums);
  const ProcessGroup last = run_elastic(state, [&](const ProcessGroup& group) {
    if (state.step == 10) return false;
    const int sum = all_reduce(group.rank() + static_cast<int>(state.step), ReduceOp::sum, group);
    for (int& each : sums) each += sum;
    ++state.step;
    return true;
  });
  const int n = world_size();
  EXPECT_EQ(last, world());
  EXPECT_EQ(sums, std::vector<int>(5, 10 * n * (n - 1) / 2 + 45 * n));
}

// A rank is lost in a group that the step has of its own: the group of all, in which it has made no call, ends too.
TEST(RunElastic, ALossInAGroupOfTheStepIsSurvived) {
  if (launched()) GTEST_SKIP() << "ends the world: for ranks that are threads";
  for (const int n : {2, 3, 5}) {
    run_threads(n, [n] {
      std::optional<ProcessGroup> part, whole;
      ElasticState state;
      std::vector<int> sizes;
      state.object("sizes", sizes);
      const ProcessGroup last = run_elastic(state, [&](const ProcessGroup& group) {
        if (state.step == 6 || (state.step == 3 && rank() == n / 2)) return false;  // leaves
        if (whole != group) part = split_group(group, 0);
        whole = group;
        sizes.push_back(all_reduce(1, ReduceOp::sum, *part));
        ++state.step;
        return true;
      });
      if (rank() == n / 2) return;
      EXPECT_EQ(sizes, (std::vector<int>{n, n, n, n - 1, n - 1, n - 1}));
      EXPECT_EQ(last.size(), n - 1);
    });
  }
}

// A step that fails in a group that has lost nobody is tried some times, and then it is not the members that fail.
WORLD_TEST_IN((Worlds{.poisons = true}), RunElastic, FailuresThatCostNobodyEnd) {
  ElasticState state;
  int calls = 0;
  const auto fails = [&](const ProcessGroup& group) -> bool {
    ++calls;
    throw PeerFailed("nobody in particular", {.operation = "a step", .group = group.name()}, PeerFailed::aborted);
  };
  EXPECT_THROW(run_elastic(state, fails), PeerFailed);
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, world_size() + 2);  // another rank's failure may have come before its own
}

// An exception of the program's own leaves the loop.
WORLD_TEST(RunElastic, OtherExceptionsLeaveIt) {
  ElasticState state;
  EXPECT_THROW(run_elastic(state, [](const ProcessGroup&) -> bool { throw std::out_of_range("of the program"); }), std::out_of_range);
  expect_usable();
}

}  // namespace
