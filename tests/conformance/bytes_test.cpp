#include "unisono/detail/bytes.h"

#include <array>

#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

using Bytes = std::vector<std::byte>;

// As many as a rank gives in some round: none, few, more than a slot.
std::size_t length(int round, int r) {
  switch (round) {
    case 0: return 0;
    case 1: return static_cast<std::size_t>(r);
    case 2: return r == 0 ? slot_bytes + 11 : 0;
    default: return static_cast<std::size_t>((r % 3) * 70001 + 5);
  }
}
constexpr int rounds = 4;

Bytes bytes_of(int round, int r) {
  Bytes x(length(round, r));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::byte>(i * 13 + i / 256 + static_cast<std::size_t>(r) * 31);
  return x;
}
bool equal(std::span<const std::byte> a, const Bytes& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

detail::AcceptSize at_most(std::size_t limit) {
  return [limit](std::size_t size) {
    if (size > limit) throw InvalidArgument("too much: " + std::to_string(size));
  };
}

WORLD_TEST(Bytes, BytesOfEverySizeAreGathered) {
  for (int round = 0; round < rounds; ++round) {
    const detail::ByteParts all = detail::all_gather_bytes(bytes_of(round, rank()), "test", world(), {});
    ASSERT_EQ(all.size(), static_cast<std::size_t>(world_size()));
    for (int r = 0; r < world_size(); ++r) ASSERT_TRUE(equal(all[static_cast<std::size_t>(r)], bytes_of(round, r))) << round << " of " << r;
  }
}

// Rule 6: the label is compared, and errors name it. A call of the same operations under another name is no partner.
MANY_TEST(Bytes, OtherLabelsAreAMismatch) {
  for (int odd = 0; odd < world_size(); ++odd) {
    const Bytes mine(5);
    const char* label = rank() == odd ? "one_call" : "another_call";
    const auto error = thrown_by<Mismatch>([&] { detail::all_gather_bytes(mine, label, world(), {}); });
    EXPECT_EQ(error.operation(), label);
    EXPECT_NE(error.message().find("one_call: all_gather(uint64 × 1)"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("another_call: all_gather(uint64 × 1)"), std::string::npos) << error.what();
    expect_usable();
    std::vector<std::uint64_t> one(1), all(static_cast<std::size_t>(world_size()));
    if (rank() == odd) EXPECT_THROW(all_gather(one, all), Mismatch);
    else EXPECT_THROW(detail::all_gather_bytes(mine, "one_call", world(), {}), Mismatch);
    expect_usable();
  }
}

MANY_TEST(Bytes, MessagesCarryBytes) {
  const int n = world_size();
  for (int round = 0; round < rounds; ++round) {
    for (int from = 0; from < n; ++from) {
      const int to = (from + 1) % n;
      if (rank() == from) detail::send_bytes(bytes_of(round, from), to, "test", world(), {});
      if (rank() != to) continue;
      const auto [bytes, message] = detail::recv_bytes(round % 2 == 0 ? std::optional<Rank>(from) : std::nullopt, "test", world(), {});
      ASSERT_EQ(message.source, from);
      ASSERT_TRUE(equal(bytes, bytes_of(round, from)));
    }
    barrier();
  }
}

// A message that is too large is gone afterwards, and the next receive gets the next message.
MANY_TEST(Bytes, MessagesCanBeRefused) {
  if (rank() == 0) {
    for (const std::size_t size : {std::size_t{101}, std::size_t{1} << 20, std::size_t{3}})
      detail::send_bytes(Bytes(size, std::byte{7}), 1, "test", world(), {});
  } else if (rank() == 1) {
    for (int i = 0; i < 2; ++i) EXPECT_THROW(detail::recv_bytes(0, "test", world(), {}, at_most(100)), InvalidArgument);
    EXPECT_EQ(detail::recv_bytes(0, "test", world(), {}, at_most(100)).first, Bytes(3, std::byte{7}));
  }
}

// A message under a label is not received as anything else, and nothing else as it.
MANY_TEST(Bytes, MessagesOfOtherLabelsAreAMismatch) {
  std::array<std::uint64_t, 1> number{8};
  const Bytes eight(8, std::byte{1});
  if (rank() == 0) {
    detail::send_bytes(eight, 1, "send_object", world(), {});
    send(number, 1);
    detail::send_bytes({}, 1, "one", world(), {});
  } else if (rank() == 1) {
    const auto error = thrown_by<Mismatch>([&] { recv(number, 0); });
    EXPECT_NE(error.message().find("another kind of call"), std::string::npos) << error.what();
    EXPECT_THROW(recv(number, 0), Mismatch);  // its bytes
    EXPECT_EQ(thrown_by<Mismatch>([&] { detail::recv_bytes(0, "recv_object", world(), {}); }).operation(), "recv_object");
    EXPECT_THROW(detail::recv_bytes(0, "two", world(), {}), Mismatch);
  }
  expect_usable();
}

}  // namespace
