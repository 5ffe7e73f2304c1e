#include <gtest/gtest.h>

#include <bit>
#include <complex>
#include <deque>
#include <filesystem>
#include <limits>
#include <msgpack.hpp>
#include <list>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "covers.h"
#include "types.h"
#include "unisono/error.h"

using namespace unisono;
using namespace unisono::detail;
using namespace std::chrono_literals;

namespace {

template <class O>
O round_trip(const O& object) {
  return from_bytes<O>(to_bytes(object));
}
template <class O>
void expect_round_trip(const O& object) {
  EXPECT_EQ(round_trip(object), object) << object_type<O>().name;
}
template <class T>
void expect_same_bits(T x) {
  const T y = round_trip(x);
  EXPECT_EQ(std::memcmp(&x, &y, sizeof x), 0) << object_type<T>().name;
}

template <class T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long,
                                    unsigned long long, wchar_t, char8_t, char16_t, char32_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

// The extremes of every integer.
TYPED_TEST(Integers, IntegersKeepTheirValue) {
  COVERS("K-75", "C-06");
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam x : {Limits::min(), Limits::max(), TypeParam{0}, TypeParam{1}, static_cast<TypeParam>(Limits::max() / 2)}) {
    EXPECT_EQ(round_trip(x), x) << object_type<TypeParam>().name;
  }
  std::vector<TypeParam> list{Limits::min(), TypeParam{1}, Limits::max()};
  EXPECT_EQ(round_trip(list), list);
}

// Numbers that float32 cannot hold.
TEST(Codec, NumbersBeyondFloatKeepTheirValue) {
  COVERS("K-24");
  expect_round_trip(16777217);
  expect_round_trip(std::int64_t{9007199254740993});
  expect_round_trip(std::numeric_limits<std::uint64_t>::max());
}

TEST(Codec, FloatingPointKeepsItsBits) {
  for (const float x : {0.0F, -0.0F, 1.0F, -2.0F, 0.1F, 1e-45F, 3e38F, 16777216.0F}) expect_same_bits(x);
  for (const double x : {0.0, -0.0, 1.0, 1e300, 5e-324, 9007199254740992.0}) expect_same_bits(x);
  expect_same_bits(std::numeric_limits<float>::infinity());
  expect_same_bits(std::bit_cast<float>(0x7fc12345U));  // payloads of NaN
  expect_same_bits(std::bit_cast<float>(0xffc00001U));
  expect_same_bits(std::bit_cast<double>(0x7ff8deadbeef1234U));
  expect_same_bits(float16::from_bits(0x7e55));
  expect_same_bits(bfloat16::from_bits(0x3f81));
  expect_same_bits(std::complex<float>(-0.0F, 3.5F));
  expect_same_bits(std::complex<double>(1e-300, -1e300));
  EXPECT_EQ(round_trip(0.1L), 0.1L);
  EXPECT_EQ(round_trip(-3e4000L), -3e4000L);
  // Elements of a block.
  const std::vector<float> block{std::bit_cast<float>(0x7fc12345U), -0.0F, 1.0F};
  const auto back = round_trip(block);
  ASSERT_EQ(back.size(), block.size());
  EXPECT_EQ(std::memcmp(back.data(), block.data(), 3 * sizeof(float)), 0);
}

// Bytes, not characters; embedded zeros; what is no UTF-8. Lengths around where the format of a length changes.
TEST(Codec, StringsKeepTheirBytes) {
  COVERS("K-22", "I-49");
  std::string accents;
  for (int i = 0; i < 10; ++i) accents += "é";
  EXPECT_EQ(accents.size(), 20U);
  expect_round_trip(accents);
  expect_round_trip(std::string("a\0b\0", 4));
  expect_round_trip(std::string("\xff\xfe\x80 no text"));
  for (const std::size_t n : {0, 1, 31, 32, 255, 256, 1024, 14000, 65535, 65536, 90000}) {
    std::string text(n, ' ');
    for (std::size_t i = 0; i < n; ++i) text[i] = static_cast<char>(i * 7 + n);
    expect_round_trip(text);
  }
}

TEST(Codec, ContainersKeepTheirElements) {
  expect_round_trip(std::vector<int>{});
  expect_round_trip(std::vector<std::string>{"", "one", std::string(300, 'x')});
  expect_round_trip(std::vector<bool>{true, false, true, true});
  expect_round_trip(std::vector<std::byte>{std::byte{0}, std::byte{255}});
  expect_round_trip(std::vector<std::vector<double>>{{1.5}, {}, {2.5, -3.5}});
  expect_round_trip(std::vector<long double>{0.1L, 2.0L});
  expect_round_trip(std::vector<Shade>{Shade::dark, Shade::light});
  expect_round_trip(std::array<std::int16_t, 3>{-1, 2, -3});
  expect_round_trip(std::array<std::string, 2>{"a", "b"});
  expect_round_trip(std::array<int, 0>{});
  expect_round_trip(std::deque<int>{3, 1, 2});
  expect_round_trip(std::list<std::string>{"z", "a"});
  expect_round_trip(std::set<int>{5, -5});
  expect_round_trip(std::multiset<int>{5, 5, 1});
  expect_round_trip(std::unordered_set<std::string>{"p", "q", "r"});
  expect_round_trip(std::unordered_multiset<int>{7, 7});
  expect_round_trip(std::map<std::string, std::vector<int>>{{"a", {1, 2}}, {"b", {}}});
  expect_round_trip(std::multimap<int, std::string>{{1, "x"}, {1, "y"}});
  expect_round_trip(std::unordered_map<int, std::map<std::string, bool>>{{1, {{"t", true}}}, {2, {}}});
  expect_round_trip(std::unordered_multimap<int, int>{{1, 2}, {1, 2}});
  std::vector<std::string> many(70000);  // a length of four bytes
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::to_string(i);
  expect_round_trip(many);
  std::map<int, int> wide;
  for (int i = 0; i < 70000; ++i) wide[i] = -i;
  expect_round_trip(wide);
}

TEST(Codec, OptionalsPairsAndVariantsKeepWhatTheyHold) {
  expect_round_trip(std::tuple<>{});
  expect_round_trip(std::tuple<int, std::string, std::vector<float>>{1, "two", {3.0F}});
  expect_round_trip(std::pair<std::string, int>{"a", 1});
  expect_round_trip(std::optional<int>{});
  expect_round_trip(std::optional<std::string>{"there"});
  expect_round_trip(std::optional<std::optional<int>>{std::optional<int>{}});
  expect_round_trip(std::optional<std::optional<int>>{});
  expect_round_trip(std::monostate{});
  using Variant = std::variant<std::monostate, int, std::string, std::vector<int>, int>;
  expect_round_trip(Variant(std::in_place_index<1>, 5));
  expect_round_trip(Variant(std::in_place_index<4>, 5));
  expect_round_trip(Variant("text"));
  expect_round_trip(Variant());
  const auto pointer = round_trip(std::make_unique<std::string>("owned"));
  ASSERT_TRUE(pointer);
  EXPECT_EQ(*pointer, "owned");
  EXPECT_FALSE(round_trip(std::unique_ptr<int>()));
}

TEST(Codec, TimesAndPathsKeepTheirValue) {
  expect_round_trip(1500ms);
  expect_round_trip(-7h);
  expect_round_trip(std::chrono::duration<double>(0.25));
  expect_round_trip(std::chrono::system_clock::now());
  expect_round_trip(std::chrono::steady_clock::now());
  expect_round_trip(std::filesystem::path("/tmp/é/x y"));
  expect_round_trip(std::filesystem::path());
}

TEST(Codec, TypesOfTheUserAreWritten) {
  expect_round_trip(Point{1.5F, -2.5F});
  expect_round_trip(std::vector<Point>{{1, 2}, {3, 4}});
  expect_round_trip(Shade::dark);
  Everything e;
  e.names = {{"k", {Point{1, 2}}}};
  e.grid[1][2] = 7;
  e.labels[1] = "second";
  e.child = Pair<std::string>{"first", {"a"}};
  expect_round_trip(e);
  expect_round_trip(Nothing{});
  expect_round_trip(Derived(1, "base", 2.5));
  expect_round_trip(Wide::counted());
  const Tree tree{1, {{2, {{3, {}}}}, {4, {}}}};
  expect_round_trip(tree);
  expect_round_trip(Celsius::at(36.6));
  expect_round_trip(std::vector<Celsius>{Celsius::at(-1), Celsius::at(2)});
  expect_round_trip(Log{{"a", "b"}, 3});
}

// A vector with an allocator of its own is a vector.
TEST(Codec, ContainersMayHaveTheirOwnAllocators) {
  std::vector<float, OwnAllocator<float>> x{1, 2, 3};
  expect_round_trip(x);
  EXPECT_EQ(object_type<decltype(x)>().name, "vector<float32>");
}

// The names are what ranks compare: they must not change from compiler to compiler, nor by accident.
TEST(Codec, TypesHaveNames) {
  EXPECT_EQ((object_type<std::map<std::string, std::vector<int>>>().name), "map<string, vector<int32>>");
  EXPECT_EQ((object_type<std::tuple<long, unsigned char, bool, std::byte, char>>().name), "tuple<int64, uint8, boolean, byte, char>");
  EXPECT_EQ((object_type<std::variant<std::monostate, std::optional<double>>>().name), "variant<nothing, optional<float64>>");
  EXPECT_EQ(object_type<Point>().name, "{x, y: float32 float32}");
  EXPECT_EQ(object_type<Tree>().name, "{value, children: int32 vector<^0>}");
  EXPECT_EQ(object_type<Celsius>().name, "Celsius");
  EXPECT_EQ(object_type<std::chrono::milliseconds>().name, "duration<int64 × 1/1000>");
  EXPECT_EQ(object_type<Shade>().name, "enum uint8");
  EXPECT_EQ((object_type<std::array<std::string, 2>>().name), "array<string, 2>");
  EXPECT_EQ(fingerprint_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fingerprint_of("foobar"), 0x85944171f73967e8U);  // a published vector of FNV-1a
}

// Any reader of MessagePack understands it: here the one of msgpack-cxx.
TEST(Codec, TheFormatIsMessagePack) {
  const std::map<std::string, std::variant<int, std::vector<float>, std::string>> object{
      {"number", -5}, {"vector", std::vector<float>{1, 2}}, {"text", "é"}};
  const auto bytes = to_bytes(object);
  std::size_t offset = 0;
  const auto handle = msgpack::unpack(reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset);
  EXPECT_EQ(offset, bytes.size());
  const auto outer = handle.get().as<std::vector<msgpack::object>>();
  ASSERT_EQ(outer.size(), 2U);
  EXPECT_EQ(outer[0].as<std::uint64_t>(), object_type<std::remove_const_t<decltype(object)>>().fingerprint);
  const auto map = outer[1].as<std::map<std::string, std::pair<unsigned, msgpack::object>>>();
  EXPECT_EQ(map.at("number").second.as<int>(), -5);
  EXPECT_EQ(map.at("text").second.as<std::string>(), "é");
  const auto& block = map.at("vector").second.via.ext;
  EXPECT_EQ(block.type(), static_cast<int>(DType::float32));
  EXPECT_EQ(block.size, 8U);
}

// Numbers of a vector take no more than their bytes, and a few.
TEST(Codec, ElementsTravelAsOneBlock) {
  EXPECT_LE(to_bytes(std::vector<double>(1000)).size(), 8000U + 24);
  EXPECT_LE(to_bytes(std::vector<std::byte>(1000)).size(), 1000U + 24);
  EXPECT_LE(to_bytes(std::array<float16, 500>{}).size(), 1000U + 24);
}

TEST(Codec, TextIsSentAsString) {
  static_assert(std::same_as<sent_as_t<const char(&)[4]>, std::string>);
  static_assert(std::same_as<sent_as_t<const char*&>, std::string>);
  static_assert(std::same_as<sent_as_t<std::string_view>, std::string>);
  static_assert(std::same_as<sent_as_t<const std::vector<int>&>, std::vector<int>>);
}

TEST(Codec, TypesThatAreNoObjectsAreKnown) {
  static_assert(!object<int*> && !object<std::vector<int*>> && !object<std::map<std::string, void*>> && !object<std::ostream>);
  struct Plain {
    int x;
  };
  static_assert(!object<Plain> && !object<std::optional<Plain>> && object<Point> && object<std::vector<Tree>>);
}

// A derived class that forgot its own fields would lose them.
TEST(Codec, FieldsOfABaseAreNotThoseOfTheDerived) {
  struct Forgetful : Point {
    int more = 0;
  };
  static_assert(own_fields<Point> && own_fields<Derived> && !own_fields<Forgetful>);
}

}  // namespace
