// What ranks compare is the same number on all of them, whatever standard library their programs were built with: written out here.

#include "engine/cooperative/signature.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/spanning/messages.h"
#include "engine/message_kind.h"
#include "ground/hash.h"
#include "unisono/detail/object_type.h"

namespace unisono::engine {
namespace {

TEST(StableHash, IsFowlerNollVo) {
  EXPECT_EQ(ground::stable_hash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(ground::stable_hash("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(ground::stable_hash("foobar"), 0x85944171f73967e8U);
  EXPECT_EQ(detail::fingerprint_of("foobar"), 0x85944171f73967e8U);
  ground::StableHash hash;
  hash.add("foo");
  hash.add("bar");
  EXPECT_EQ(hash.value(), 0x85944171f73967e8U);
  hash.add(std::uint64_t{'a'});
  ground::StableHash bytes;
  bytes.add(std::string_view("foobara\0\0\0\0\0\0\0", 14));
  EXPECT_EQ(hash.value(), bytes.value());
}

TEST(Signature, OfNamesIsTheSameEverywhere) {
  CollectiveCall call;
  call.tag = 5;
  call.label = "foobar";
  EXPECT_EQ(signature_of(call).extra, 0xf73967e8'00000005U);
  call.also = "a";
  EXPECT_EQ(signature_of(call).extra, (0xf73967e8'00000005U ^ ((std::uint64_t{0x8601ec8c} << 32) * 3)));
}

TEST(Signature, SaysWhatIsCalled) {
  std::vector<float> numbers(6);
  CollectiveCall call;
  call.operation = Operation::reduce;
  call.in = call.out = Tensor(numbers.data(), DType::float32, numbers.size());
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
  call = {};
  call.operation = Operation::barrier;
  call.label = "meet";
  EXPECT_EQ(text(), "meet: barrier()");
  EXPECT_TRUE(has_label(signature_of(call)));
}

TEST(Signature, OfMessagesIsTheSameEverywhere) {
  MessageCall call;
  call.data = Tensor(nullptr, DType::uint8, std::size_t{0});
  call.peer = 1;
  const auto dtype = static_cast<std::uint32_t>(DType::uint8);
  EXPECT_EQ(kind_of(call), dtype);
  call.label = "foobar";
  EXPECT_EQ(kind_of(call), 0x3967e880U | dtype);
  EXPECT_EQ(dtype_of_kind(kind_of(call)), DType::uint8);

  std::vector<std::string> notices;
  backends::Messages messages({.rank = 0,
                               .size = 2,
                               .is_remote = [](int) { return true; },
                               .tell = [&](int, std::string text) { notices.push_back(std::move(text)); },
                               .send = {},
                               .recv = {},
                               .poll = [] {}});
  EXPECT_TRUE(messages.send(call)->advance());
  EXPECT_EQ(notices, (std::vector<std::string>{"m0 0 " + std::to_string(0x3967e880U | dtype) + " 0 "}));
}

}  // namespace
}  // namespace unisono::engine
