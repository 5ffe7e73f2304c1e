#include <map>

#include "covers.h"
#include "unisono/objects.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

/// The exception of its writer or its reader on the rank it was made for.
struct Trouble {
  int writing = -1;
  int reading = -1;
};

}  // namespace

template <>
struct unisono::object_traits<Trouble> {
  static constexpr std::string_view name = "Trouble";
  static void write(ObjectWriter& out, const Trouble& x) {
    if (x.writing == rank()) throw std::runtime_error("this one cannot be written");
    out.write(x.reading);
  }
  static Trouble read(ObjectReader& in) {
    Trouble x;
    x.reading = in.read<int>();
    if (x.reading == rank()) throw std::logic_error("nor read");
    return x;
  }
};

namespace {

bool says(const Error& error, std::string_view text) { return std::string_view(error.what()).find(text) != std::string_view::npos; }

// Types that differ are seen by all before anything is decoded; each side names both.
MANY_TEST(ObjectErrors, AnotherTypeIsAMismatch) {
  using Map = std::map<std::string, int>;
  using List = std::vector<std::string>;
  for (int odd = 0; odd < world_size(); ++odd) {
    const auto error = thrown_by<Mismatch>([&] {
      if (rank() == odd) static_cast<void>(all_gather_object(List{"a", "b"}));
      else static_cast<void>(all_gather_object(Map{{"a", 1}}));
    });
    EXPECT_TRUE(says(error, "map<string, int32>")) << error.what();
    EXPECT_TRUE(says(error, "vector<string>")) << error.what();
    EXPECT_EQ(error.operation(), "all_gather_object");
    EXPECT_EQ(error.group(), "world");
    expect_culprit(error, odd);
    expect_usable();
  }
  // Numbers are of one type.
  EXPECT_THROW(rank() == 0 ? static_cast<void>(all_gather_object(1)) : static_cast<void>(all_gather_object(1U)), Mismatch);
  EXPECT_THROW(rank() == 0 ? static_cast<void>(broadcast(List{})) : static_cast<void>(broadcast(Map{})), Mismatch);
  EXPECT_THROW(rank() == 0 ? static_cast<void>(gather_object(1.0)) : static_cast<void>(gather_object(1.0F)), Mismatch);
  expect_usable();
}

MANY_TEST(ObjectErrors, AnotherRootIsAMismatch) {
  for (int odd = 0; odd < world_size(); ++odd) {
    const Rank root = rank() == odd ? 1 : 0;
    std::string text = "text";
    std::vector<std::string> list(static_cast<std::size_t>(world_size()), "x");
    const auto error = thrown_by<Mismatch>([&] { broadcast_object(text, root); });
    EXPECT_TRUE(says(error, "root")) << error.what();
    EXPECT_THROW(static_cast<void>(gather_object(text, root)), Mismatch);
    EXPECT_THROW(static_cast<void>(scatter_object(list, root)), Mismatch);
    EXPECT_EQ(text, "text");
    expect_usable();
  }
}

// Other calls, even such as move the same bytes.
MANY_TEST(ObjectErrors, AnotherCallIsAMismatch) {
  const bool odd = rank() == world_size() - 1;
  std::vector<std::uint64_t> line(5), lines(5 * static_cast<std::size_t>(world_size()));
  EXPECT_THROW(odd ? all_gather(line, lines) : static_cast<void>(all_gather_object(5)), Mismatch);
  EXPECT_THROW(odd ? static_cast<void>(all_gather(std::string("x"))) : static_cast<void>(all_gather_object(std::string("x"))), Mismatch);
  std::string text;
  EXPECT_THROW(odd ? static_cast<void>(gather_object(text)) : broadcast_object(text), Mismatch);
  EXPECT_THROW(odd ? barrier() : broadcast_object(text), Mismatch);
  EXPECT_THROW(static_cast<void>(all_gather_object(5, world(), {.tag = odd ? 1 : 0})), Mismatch);
  expect_usable();
}

WORLD_TEST(ObjectErrors, CallsThatAreWrongByThemselvesAreRefused) {
  const int n = world_size();
  std::string text = "x";
  for (const Rank root : {Rank(n), Rank(-1), Rank(GlobalRank{n})}) {
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { broadcast_object(text, root); }).operation(), "broadcast_object");
    EXPECT_THROW(static_cast<void>(gather_object(text, root)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(scatter_object(std::vector{text}, root)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(broadcast(text, root)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(broadcast_any(5, root)), InvalidArgument);
    EXPECT_THROW(send_object(text, root), InvalidArgument);
    EXPECT_THROW(static_cast<void>(recv_object<std::string>(root)), InvalidArgument);
  }
  EXPECT_THROW(send_object(text, rank()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(recv_object<std::string>(rank())), InvalidArgument);
  EXPECT_THROW(static_cast<void>(all_gather_object(text, world(), {.timeout = -1ms})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(gather_object(text, 0, world(), {.timeout = -1ms})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(all_gather_object(static_cast<const char*>(nullptr))), InvalidArgument);
  expect_usable();
}

// A list of the wrong length is known to the root alone, and told to all.
WORLD_TEST(ObjectErrors, AListOfTheWrongLengthIsNotScattered) {
  COVERS("TS-35");
  const auto n = static_cast<std::size_t>(world_size());
  for (int src = 0; src < world_size(); ++src) {
    for (const std::size_t length : {std::size_t{0}, n - 1, n + 1}) {
      if (length == n) continue;
      const std::vector<std::string> list(rank() == src ? length : n, "x");
      const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(scatter_object(list, src)); });
      EXPECT_TRUE(says(error, "the list has " + std::to_string(length) + " objects")) << error.what();
      EXPECT_EQ(error.culprit(), src);
      EXPECT_EQ(error.operation(), "scatter_object");
    }
    expect_usable();
  }
}

// An object that cannot be written hangs nobody: its rank throws what happened, the others learn whose it was.
WORLD_TEST(ObjectErrors, AnObjectThatCannotBeWrittenIsAnError) {
  for (int bad = 0; bad < world_size(); ++bad) {
    const Trouble trouble{.writing = bad};
    const auto expect = [&](auto&& call) {
      if (rank() == bad) {
        EXPECT_STREQ(thrown_by<std::runtime_error>(call).what(), "this one cannot be written");
      } else {
        const auto error = thrown_by<InvalidArgument>(call);
        EXPECT_EQ(error.culprit(), bad);
        EXPECT_TRUE(says(error, "this one cannot be written")) << error.what();
      }
    };
    expect([&] { static_cast<void>(all_gather_object(trouble)); });
    expect([&] { static_cast<void>(gather_object(trouble)); });
    expect([&] { static_cast<void>(broadcast(trouble, bad)); });
    expect([&] { static_cast<void>(scatter_object(std::vector<Trouble>(static_cast<std::size_t>(world_size()), trouble), bad)); });
    expect_usable();
  }
}

// An exception while an object is read is thrown on that rank; the call is complete then, and the group goes on.
WORLD_TEST(ObjectErrors, AnObjectThatCannotBeReadIsAnError) {
  for (int bad = 0; bad < world_size(); ++bad) {
    const auto call = [&] { static_cast<void>(all_gather_object(Trouble{.reading = bad})); };
    if (rank() == bad) {
      EXPECT_THROW(call(), std::logic_error);
    } else {
      EXPECT_NO_THROW(call());
    }
    expect_usable();
  }
}

// Refused on all ranks alike before data moves, whichever rank has it.
WORLD_TEST(ObjectErrors, ObjectsThatAreTooLargeAreRefused) {
  COVERS("Q-19");
  struct Limited {
    // The limit is the process's, and the ranks may be threads of it.
    explicit Limited(std::size_t bytes) { set(bytes); }
    ~Limited() { set(ObjectLimits{}.bytes); }
    static void set(std::size_t bytes) {
      barrier();
      set_object_limits({.bytes = bytes});
      barrier();
    }
  };
  const Limited limited(1000);
  for (int bad = 0; bad < world_size(); ++bad) {
    const std::string text(rank() == bad ? 2000 : 100, 'x');
    const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(all_gather_object(text)); });
    EXPECT_TRUE(says(error, "more than 1000 bytes")) << error.what();
    EXPECT_EQ(error.culprit(), bad);
    // Each alone would do, the list is too large.
    const std::vector<std::string> list(static_cast<std::size_t>(world_size()), std::string(1000 / static_cast<std::size_t>(world_size()), 'x'));
    EXPECT_THROW(static_cast<void>(scatter_object(list, bad)), InvalidArgument);
    EXPECT_EQ(all_gather(std::string(100, 'y')).back(), std::string(100, 'y'));
    expect_usable();
  }
}

// The smallest limit counts for all ranks, where limits differ.
MANY_TEST(ObjectErrors, TheSmallestLimitCounts) {
  if (!launched()) return;  // the threads of a process have one limit
  const int strict = world_size() - 1;
  if (rank() == strict) set_object_limits({.bytes = 1000});
  const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(broadcast(std::string(2000, 'x'), 0)); });
  EXPECT_TRUE(says(error, "the limit is 1000")) << error.what();
  EXPECT_EQ(error.culprit(), 0);
  EXPECT_EQ(broadcast(std::string(900, 'x'), 0).size(), 900U);
  // A message is read within the receiver's limit.
  if (rank() == 0) {
    send_object(std::string(2000, 'x'), strict);
    send_object("small", strict);
  } else if (rank() == strict) {
    const auto refusal = thrown_by<InvalidArgument>([] { static_cast<void>(recv_object<std::string>(0)); });
    EXPECT_TRUE(says(refusal, "the limit is 1000")) << refusal.what();
    EXPECT_EQ(refusal.operation(), "recv_object");
    EXPECT_EQ(refusal.group(), "world");
    EXPECT_EQ(refusal.rank(), strict);
    EXPECT_NE(refusal.hint().find("set_object_limits"), std::string::npos);
    EXPECT_EQ(recv_object<std::string>(0), "small");
  }
  set_object_limits({});
  expect_usable();
}

// A message with an object is taken for nothing else, and none for one.
MANY_TEST(ObjectErrors, MessagesOfAnotherKindAreRefused) {
  std::vector<std::uint64_t> one(1);
  std::vector<std::byte> bytes(detail::to_bytes(std::string("text")).size());
  if (rank() == 0) {
    send_object("text", 1);
    send_object(5, 1);
    send_object("after", 1);
    send(one, 1);
    send_object("last", 1);
  } else if (rank() == 1) {
    // The size, and then the bytes, as a plain receive of just that.
    EXPECT_THROW(recv(one, 0), Mismatch);
    EXPECT_THROW(recv(bytes, 0), Mismatch);
    const auto error = thrown_by<Mismatch>([&] { static_cast<void>(recv_object<std::string>(0)); });
    EXPECT_TRUE(says(error, "string")) << error.what();
    EXPECT_EQ(error.operation(), "recv_object");
    EXPECT_EQ(error.culprit(), 0);
    EXPECT_FALSE(error.host().empty());
    EXPECT_EQ(recv_object<std::string>(0), "after");
    EXPECT_EQ(thrown_by<Mismatch>([&] { static_cast<void>(recv_object<std::string>(0)); }).operation(), "recv_object");
    EXPECT_EQ(recv_object<std::string>(0), "last");
  }
  expect_usable();
}

// The deadline is one for the whole call; who does not come is named.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 5, .poisons = true}), ObjectErrors, ARankThatDoesNotCallIsNamed) {
  const int absent = world_size() - 1;
  barrier();
  const auto error = thrown_by<Timeout>([&] {
    if (rank() == absent) static_cast<void>(recv_object<int>(0));
    else static_cast<void>(all_gather_object(rank(), world(), {.timeout = 1500ms}));
  });
  EXPECT_EQ(error.missing(), std::vector<int>{absent});
}

}  // namespace
