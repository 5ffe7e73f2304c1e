// The number that ranks compare is the same on all of them, whatever standard library their programs were built with: it is written out here.

#include "engines/signature.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engines/message.h"
#include "engines/shm/segment.h"
#include "group/messages/channel_carrier.h"
#include "group/messages/message_matcher.h"
#include "base/hash.h"
#include "unisono/detail/object_type.h"
#include "unisono/with_place.h"

namespace unisono::engines {
namespace {

TEST(StableHash, TheStableHashIsFowlerNollVo) {
  EXPECT_EQ(base::stable_hash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(base::stable_hash("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(base::stable_hash("foobar"), 0x85944171f73967e8U);
  EXPECT_EQ(detail::fingerprint_of("foobar"), 0x85944171f73967e8U);
  base::StableHash hash;
  hash.add("foo");
  hash.add("bar");
  EXPECT_EQ(hash.value(), 0x85944171f73967e8U);
  hash.add(std::uint64_t{'a'});
  base::StableHash bytes;
  bytes.add(std::string_view("foobara\0\0\0\0\0\0\0", 14));
  EXPECT_EQ(hash.value(), bytes.value());
}

TEST(Signature, TheSignatureOfNamesIsTheSameEverywhere) {
  CollectiveCall call;
  call.tag = 5;
  call.label = "foobar";
  EXPECT_EQ(signature_of(call).extra, 0xf73967e8'00000005U);
  call.also = "a";
  EXPECT_EQ(signature_of(call).extra, (0xf73967e8'00000005U ^ ((std::uint64_t{0x8601ec8c} << 32) * 3)));
}

TEST(Signature, ASignatureSaysWhatIsCalled) {
  std::vector<float> numbers(6);
  CollectiveCall call;
  call.operation = Operation::reduce;
  call.in = call.out = TensorView(numbers.data(), DType::float32, numbers.size());
  call.count = numbers.size();
  call.op = ReduceOp::max;
  call.root = 2;
  const auto text = [&] { return describe(signature_of(call), call.label); };
  EXPECT_EQ(text(), "reduce(float32 × 6, max, root 2)");
  EXPECT_FALSE(has_label(signature_of(call)));
  call.root = 0;
  call.tag = -3;
  EXPECT_EQ(text(), "reduce(float32 × 6, max, root 0, tag -3)");
  const std::uint64_t without_custom = signature_of(call).what;
  call.custom = std::make_shared<detail::CustomReduction>();
  EXPECT_EQ(text(), "reduce(float32 × 6, custom operation, root 0, tag -3)");
  EXPECT_NE(signature_of(call).what, without_custom);
  // One of the library is known by its name.
  const auto chosen = [&](DType dtype) {
    call.custom = std::make_shared<detail::CustomReduction>(detail::CustomReduction{.apply = {}, .name = detail::name_of_choice(dtype, true)});
    return signature_of(call);
  };
  EXPECT_EQ(describe(chosen(DType::int8), ""), "reduce(pairs × 6, the largest with its place, int8, root 0, tag -3)");
  EXPECT_TRUE(fit(chosen(DType::int8), chosen(DType::int8)));
  EXPECT_FALSE(fit(chosen(DType::int8), chosen(DType::int16)));
  call = {};
  call.operation = Operation::barrier;
  call.label = "meet";
  EXPECT_EQ(text(), "meet: barrier()");
  EXPECT_TRUE(has_label(signature_of(call)));
}

// The part of its call that a rank publishes: a long label is cut, and a call without one does not show that of the call before.
TEST(Signature, TheSignatureOfAnotherRankMayNameAnything) {  // it comes in a notice
  EXPECT_EQ(describe({.what = 0, .count = 3}, ""), "unknown operation(boolean × 3)");
  EXPECT_EQ(describe({.what = 0xffffff, .count = 3}, ""), "unknown operation(unknown × 3)");
  EXPECT_EQ(describe({.what = 0xff'ff'02, .count = 1}, "a label"), "a label: all_reduce(unknown × 1, unknown)");
}

TEST(Signature, ALineHasItsLabel) {
  struct {
    shm::Line line;
    char behind[64];
  } memory{};
  CollectiveCall call;
  const std::string long_label(100, 'x');
  call.label = long_label;
  memory.line.signature = signature_of(call);
  memory.line.set_label(call);
  const std::string whole = label_of(call);
  EXPECT_EQ(memory.line.get_label(), whole.substr(0, sizeof memory.line.label - 1));
  EXPECT_EQ(std::string_view(memory.behind, sizeof memory.behind), std::string(sizeof memory.behind, '\0'));
  memory.line.signature = signature_of(CollectiveCall{});
  EXPECT_EQ(memory.line.get_label(), "");
}

TEST(Signature, TheSignatureOfMessagesIsTheSameEverywhere) {
  MessageCall call;
  call.data = TensorView(nullptr, DType::uint8, std::size_t{0});
  call.peer = 1;
  const auto dtype = static_cast<std::uint32_t>(DType::uint8);
  EXPECT_EQ(kind_of(call), dtype);
  call.label = "foobar";
  EXPECT_EQ(kind_of(call), 0x3967e880U | dtype);
  EXPECT_EQ(dtype_of_kind(kind_of(call)), DType::uint8);

  std::vector<std::string> notices;
  group::ChannelCarrier carrier(
      {.rank = 0, .tell = [&](int, std::string_view notice, auto) { notices.emplace_back(notice); }, .poll = [] {}, .channels = {}});
  group::MessageMatcher messages(0, {{}, {.carrier = &carrier, .peer = 1}});
  EXPECT_TRUE(messages.send(call)->advance());
  // The kind "message": 0 bytes, tag 0, the kind of the elements, and that they stand here.
  EXPECT_EQ(notices, (std::vector<std::string>{std::string("\1\0\0\0\0\0\0\0\0\0\0\0\0", 13) + std::string(1, static_cast<char>(0x80 | dtype)) +
                                               std::string("\xe8\x67\x39\0\0\0\0", 7)}));
}

}  // namespace
}  // namespace unisono::engines
