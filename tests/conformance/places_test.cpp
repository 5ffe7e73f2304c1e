// The place of a call that errors name: its line in the user's source, on each rank its own, and never a line of the library.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

void expect_place(const Error& error, unsigned line) {
  ASSERT_TRUE(error.where()) << error.what();
  EXPECT_EQ(error.where()->line(), line) << error.what();
  EXPECT_TRUE(std::string_view(error.where()->file_name()).ends_with("conformance/places_test.cpp")) << error.where()->file_name();
  const std::string place = "at places_test.cpp:" + std::to_string(line) + ": ";
  EXPECT_EQ(count(error.what(), place), 1U) << error.what();
  const auto of_others = count(error.what(), "(places_test.cpp:");  // a timeout says where the ranks are that are waited for
  EXPECT_EQ(count(error.what(), "places_test.cpp") - of_others, 1U) << error.what();
  if (!error.operation().empty()) {
    EXPECT_EQ(std::string_view(error.what()).find(error.operation()), 0U) << error.what();
  }
  EXPECT_EQ(error.message().find(place), std::string::npos) << error.message();
}
void expect_no_place(const Error& error) {
  EXPECT_FALSE(error.where()) << error.what();
  EXPECT_EQ(count(error.what(), ".cpp:") + count(error.what(), ".h:") + count(error.what(), "at :"), 0U) << error.what();
}

// The call stands on the line that it is expected to name.
#define EXPECT_PLACE(E, ...) expect_place(thrown_by<E>([&] { __VA_ARGS__; }), __LINE__)
#define EXPECT_NO_PLACE(E, ...) expect_no_place(thrown_by<E>([&] { __VA_ARGS__; }))

/// A function of the user's that calls for another.
void average(std::vector<float>& x, Rank root, std::source_location where = std::source_location::current()) {
  reduce(x, root, ReduceOp::avg, world(), {.where = where});
}

WORLD_TEST(Places, ACallThatIsWrongByItselfNamesItsPlace) {
  std::vector<float> x(3), y(2);
  const int nobody = world_size();
  EXPECT_PLACE(InvalidArgument, broadcast(x, nobody));
  EXPECT_PLACE(InvalidArgument, all_reduce(x, y));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(reduce(1, nobody)));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(all_reduce_async(x, y)));
  EXPECT_PLACE(InvalidArgument, barrier(world(), {.timeout = -1ms}));
  EXPECT_PLACE(InvalidArgument, monitored_barrier(-1ms));
  EXPECT_PLACE(InvalidArgument, send(x, rank()));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(isend(x, rank())));
  EXPECT_PLACE(InvalidArgument, recv(x, rank()));
  EXPECT_PLACE(InvalidArgument, send_recv(x, rank(), y, rank()));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(batch({P2POp::send(x, rank())})));
  EXPECT_PLACE(InvalidArgument, all_gather_v(x, x));
  EXPECT_PLACE(InvalidArgument, all_gather_v(x, x, world()));
  EXPECT_PLACE(InvalidArgument, gather_v(x, x));
  EXPECT_PLACE(InvalidArgument, all_to_all_v(x, {}, x));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(gather_object(std::string("a"), nobody)));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(scatter_object(std::vector<std::string>(static_cast<std::size_t>(world_size() + 1)))));
  EXPECT_PLACE(InvalidArgument, all_reduce_params(std::array<std::vector<float>, 1>{}, {.bucket_size_mb = -2}));
  const std::array<TensorView, 2> twice{detail::view_of(x), detail::view_of(x)};
  EXPECT_PLACE(InvalidArgument, all_reduce_multigpu(twice));
  EXPECT_PLACE(InvalidArgument, static_cast<void>(all_reduce_multigpu_async(twice)));
}

WORLD_TEST(Places, OptionsNameTheirPlace) {
  std::vector<float> x(3);
  const int nobody = world_size();
  EXPECT_PLACE(InvalidArgument, broadcast(x, nobody, world(), {}));
  EXPECT_PLACE(InvalidArgument, broadcast(x, nobody, world(), {.tag = 7}));
  EXPECT_PLACE(InvalidArgument, broadcast(x, nobody, world(), CallOptions{.timeout = 5s}));
  EXPECT_PLACE(InvalidArgument, average(x, nobody));

  const CallOptions named{.tag = 7};
  const unsigned line = __LINE__ - 1;
  expect_place(thrown_by<InvalidArgument>([&] { broadcast(x, nobody, world(), named); }), line);

  // Made without braces it would be the line of the structure.
  CallOptions bare;
  bare.tag = 7;
  EXPECT_NO_PLACE(InvalidArgument, broadcast(x, nobody, world(), bare));
  EXPECT_NO_PLACE(InvalidArgument, broadcast(x, nobody, world(), {.where = {}}));
}

// The place is no part of what the ranks compare.
MANY_TEST(Places, TheirPlacesInAMismatchAreEachRanksOwn) {
  std::vector<float> x(3), floats;
  std::vector<int> y(3), ints;
  for (int odd = 0; odd < world_size(); ++odd) {
    if (rank() == odd) {
      EXPECT_PLACE(Mismatch, broadcast(x));
      EXPECT_PLACE(Mismatch, all_reduce_async(x, ReduceOp::max).wait());
      EXPECT_PLACE(Mismatch, static_cast<void>(all_gather_object(std::string("a"))));
      EXPECT_PLACE(Mismatch, all_gather_v(x, floats));
      EXPECT_PLACE(Mismatch, static_cast<void>(split_group(world(), 0)));
    } else {
      EXPECT_PLACE(Mismatch, all_reduce(x));
      EXPECT_PLACE(Mismatch, all_reduce_async(x, ReduceOp::min).wait());
      EXPECT_PLACE(Mismatch, static_cast<void>(all_gather_object(1)));
      EXPECT_PLACE(Mismatch, all_gather_v(y, ints));
      EXPECT_PLACE(Mismatch, barrier());
    }
  }
  expect_usable();
}

// It is the line that has started the operation, not the one that waits for it.
MANY_TEST(Places, AnAsynchronousCallNamesItsPlace) {
  std::vector<float> x(rank() == 0 ? 2 : 3), y(4);
  Work first = all_reduce_async(x);
  const unsigned line = __LINE__ - 1;
  Work second = broadcast_async(y, 0, world(), {.tag = rank() == 0 ? 1 : 0});
  const unsigned line_of_second = __LINE__ - 1;
  expect_place(thrown_by<Mismatch>([&] { first.wait(); }), line);
  expect_place(thrown_by<Mismatch>([&] { second.wait(); }), line_of_second);

  // The error of a call that nobody has waited for has its place, too: the group's next call throws it.
  static_cast<void>(all_reduce_async(x));
  const unsigned line_of_dropped = __LINE__ - 1;
  expect_place(thrown_by<Mismatch>([&] { barrier(); }), line_of_dropped);
  barrier();
  expect_usable();
}

MANY_TEST(Places, MessagesNameTheirPlaces) {
  std::vector<float> x(3);
  std::vector<double> other(3);
  if (rank() == 0) {
    send(x, 1);
    send(x, 1);
    send_object(std::string("a"), 1);
  } else if (rank() == 1) {
    EXPECT_PLACE(Mismatch, recv(other, 0));
    EXPECT_PLACE(Mismatch, irecv(other, 0).wait());
    EXPECT_PLACE(Mismatch, static_cast<void>(recv_object<int>(0)));
  }
  expect_usable();
}

WORLD_TEST(Places, CallsOfGroupsNameTheirPlaces) {
  EXPECT_PLACE(InvalidArgument, new_group({0, 0}));
  EXPECT_PLACE(InvalidArgument, new_group(std::span<const int>()));
  EXPECT_PLACE(InvalidArgument, shrink_group(world()));
}

// The call fails before it has options: the world, which is its default group, is not there.
MANY_TEST(Places, ACallWithoutAWorldNamesItsPlace) {
  if (!launched() || world().backend() != "native") return;  // a process of its own, and no engine that minds a fork
  constexpr unsigned line = __LINE__ + 4;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      barrier();
    } catch (const NotInitialized& error) {
      ::_exit(error.where() && error.where()->line() == line ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A call of the library's own has no place rather than one in the library.
MANY_TEST(Places, PlacesInTheLibraryAreNotNamed) {
  auto fails = one_rank_only([] { throw std::runtime_error("no luck"); }, {.with_barrier = true});
  if (rank() == 0) EXPECT_THROW(fails(), std::runtime_error);
  else EXPECT_NO_PLACE(PeerFailed, fails());
  EXPECT_NO_PLACE(InvalidArgument, OneRankFirst({.rank = world_size()}));
  if (rank() == 0) EXPECT_PLACE(Mismatch, barrier());
  else EXPECT_NO_PLACE(Mismatch, const OneRankFirst first);
  expect_usable();
}

// Each call on a group that is over says where it stands itself.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 5, .poisons = true}), Places, ATimeoutNamesItsPlace) {
  std::vector<float> x(3);
  barrier();
  if (rank() == 0) EXPECT_PLACE(Timeout, recv(x, 1));
  else EXPECT_PLACE(Timeout, barrier(world(), {.timeout = 100ms}));
  EXPECT_PLACE(Timeout, all_reduce(x));
  EXPECT_PLACE(Timeout, synchronize());
  EXPECT_PLACE(Timeout, all_reduce_async(x).wait());
  EXPECT_PLACE(Timeout, static_cast<void>(irecv(x, any_source).wait()));
}

}  // namespace
