#include <gtest/gtest.h>

#include <bit>
#include <complex>
#include <deque>
#include <filesystem>
#include <limits>
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

/// Returns what the writer makes of these calls, in hexadecimal digits. Longer ones end behind the first `shown` bytes.
template <class F>
std::string hex(F&& write, std::size_t shown = SIZE_MAX) {
  ObjectWriter out;
  write(out);
  std::string text;
  for (const std::byte b : out.take()) {
    if (shown-- == 0) break;
    constexpr std::string_view digits = "0123456789abcdef";
    text += {digits[static_cast<std::size_t>(b) >> 4], digits[static_cast<std::size_t>(b) & 15]};
  }
  return text;
}
template <class T>
std::string hex_of(T x) {
  return hex([&](ObjectWriter& out) { out.number(dtype_of<T>::value, &x); });
}

// The bytes are those of MessagePack's specification: programs of other versions and other languages read them.
TEST(Codec, NumbersHaveTheBytesOfMessagePack) {
  EXPECT_EQ(hex([](ObjectWriter& out) { out.nil(); }), "c0");
  EXPECT_EQ(hex_of(false), "c2");
  EXPECT_EQ(hex_of(true), "c3");
  EXPECT_EQ(hex_of(std::uint8_t{5}), "cc05");
  EXPECT_EQ(hex_of(std::uint16_t{0x1234}), "cd1234");
  EXPECT_EQ(hex_of(std::uint32_t{0x12345678}), "ce12345678");
  EXPECT_EQ(hex_of(std::uint64_t{0x123456789abcdef0}), "cf123456789abcdef0");
  EXPECT_EQ(hex_of(std::int8_t{-2}), "d0fe");
  EXPECT_EQ(hex_of(std::int16_t{-2}), "d1fffe");
  EXPECT_EQ(hex_of(std::int32_t{7}), "d200000007");
  EXPECT_EQ(hex_of(std::int64_t{-0x123456789abcdef0}), "d3edcba98765432110");
  EXPECT_EQ(hex_of(1.0F), "ca3f800000");
  EXPECT_EQ(hex_of(-2.5), "cbc004000000000000");
  EXPECT_EQ(hex_of(float16::from_bits(0x3c01)), "d509013c");  // elements of an extension lie as in memory
  EXPECT_EQ(hex_of(bfloat16::from_bits(0x3f81)), "d50a813f");
  EXPECT_EQ(hex_of(std::complex<float>(1, -2)), "d70d0000803f000000c0");
  EXPECT_EQ(hex_of(std::complex<double>(1, -2)), "d80e000000000000f03f00000000000000c0");
#if defined __x86_64__
  EXPECT_EQ(hex([](ObjectWriter& out) { out.extended(1.5L); }), "c70a4000000000000000c0ff3f");
#endif
}

// Each length is written in the shortest format that has it.
TEST(Codec, LengthsHaveTheBytesOfMessagePack) {
  const auto string = [](std::size_t n) { return hex([n](ObjectWriter& out) { out.string(std::string(n, 'a')); }, 5); };
  const auto bytes = [](std::size_t n) { return hex([n](ObjectWriter& out) { out.bytes(std::vector<std::byte>(n, std::byte{0x0b})); }, 5); };
  const auto block = [](std::size_t n) { return hex([n](ObjectWriter& out) { out.block(DType::uint8, std::string(n, 'b').data(), n); }, 6); };
  const auto array = [](std::size_t n) { return hex([n](ObjectWriter& out) { out.array(n); }); };
  const auto map = [](std::size_t n) { return hex([n](ObjectWriter& out) { out.map(n); }); };
  const std::map<std::size_t, std::array<std::string, 5>> expected{
      {0, {"a0", "c400", "c70005", "90", "80"}},
      {1, {"a161", "c4010b", "d40562", "91", "81"}},
      {2, {"a26161", "c4020b0b", "d5056262", "92", "82"}},
      {3, {"a3616161", "c4030b0b0b", "c70305626262", "93", "83"}},
      {4, {"a461616161", "c4040b0b0b", "d60562626262", "94", "84"}},
      {8, {"a861616161", "c4080b0b0b", "d70562626262", "98", "88"}},
      {15, {"af61616161", "c40f0b0b0b", "c70f05626262", "9f", "8f"}},
      {16, {"b061616161", "c4100b0b0b", "d80562626262", "dc0010", "de0010"}},
      {17, {"b161616161", "c4110b0b0b", "c71105626262", "dc0011", "de0011"}},
      {31, {"bf61616161", "c41f0b0b0b", "c71f05626262", "dc001f", "de001f"}},
      {32, {"d920616161", "c4200b0b0b", "c72005626262", "dc0020", "de0020"}},
      {255, {"d9ff616161", "c4ff0b0b0b", "c7ff05626262", "dc00ff", "de00ff"}},
      {256, {"da01006161", "c501000b0b", "c80100056262", "dc0100", "de0100"}},
      {65535, {"daffff6161", "c5ffff0b0b", "c8ffff056262", "dcffff", "deffff"}},
      {65536, {"db00010000", "c600010000", "c90001000005", "dd00010000", "df00010000"}},
      {90000, {"db00015f90", "c600015f90", "c900015f9005", "dd00015f90", "df00015f90"}},
      {UINT32_MAX, {"", "", "", "ddffffffff", "dfffffffff"}},
      {std::size_t{UINT32_MAX} + 1, {"", "", "", "c1dd0000000100000000", "c1df0000000100000000"}},
  };
  const ObjectLimits before = object_limits();
  set_object_limits({std::size_t{1} << 40, before.depth});
  for (const auto& [n, all] : expected) {
    if (!all[0].empty()) {
      EXPECT_EQ(string(n), all[0]) << n;
      EXPECT_EQ(bytes(n), all[1]) << n;
      EXPECT_EQ(block(n), all[2]) << n;
    }
    EXPECT_EQ(array(n), all[3]) << n;
    EXPECT_EQ(map(n), all[4]) << n;
  }
  set_object_limits(before);
}

TEST(Codec, ObjectsHaveTheBytesOfMessagePack) {
  EXPECT_EQ(hex([](ObjectWriter& out) {
              out.write(std::map<std::string, std::vector<float>>{{"a", {1, 2}}, {"é", {}}});
            }),
            "82a161d70b0000803f00000040a2c3a9c7000b");
  EXPECT_EQ(hex([](ObjectWriter& out) {
              out.write(std::tuple(std::int8_t{-1}, std::optional<bool>(), std::vector<std::string>{"", "b"}));
            }),
            "93d0ff9092a0a162");
  // An array that is written with open has four bytes for its length.
  EXPECT_EQ(hex([](ObjectWriter& out) {
              const std::size_t mark = out.open();
              out.write(true, std::uint8_t{9});
              out.close(mark);
            }),
            "dd00000002c3cc09");
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
