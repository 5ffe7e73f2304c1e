#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <random>
#include <set>
#include <unordered_map>
#include <variant>

#include "covers.h"
#include "objects/format.h"
#include "types.h"
#include "unisono/error.h"

using namespace unisono;
using namespace unisono::detail;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> list) {
  Bytes bytes;
  for (const int b : list) bytes.push_back(static_cast<std::byte>(b));
  return bytes;
}
/// An envelope of O around these bytes.
template <class O>
Bytes around(std::initializer_list<int> contents) {
  ObjectWriter out;
  out.array(2);
  out.write(object_type<O>().fingerprint);
  Bytes bytes = out.take();
  const Bytes rest = bytes_of(contents);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

TEST(Refusals, AnotherTypeIsNeverConverted) {
  EXPECT_THROW(from_bytes<long>(to_bytes(5)), Mismatch);
  EXPECT_THROW(from_bytes<unsigned>(to_bytes(5)), Mismatch);
  EXPECT_THROW(from_bytes<double>(to_bytes(5.0F)), Mismatch);
  EXPECT_THROW(from_bytes<int>(to_bytes(true)), Mismatch);
  EXPECT_THROW((from_bytes<std::vector<std::string>>(to_bytes(std::map<std::string, int>{{"a", 1}}))), Mismatch);
  EXPECT_THROW(from_bytes<std::vector<int>>(to_bytes(std::vector<float>{1})), Mismatch);
  EXPECT_THROW((from_bytes<std::map<int, int>>(to_bytes(std::unordered_map<int, int>{}))), Mismatch);
  EXPECT_THROW(from_bytes<std::filesystem::path>(to_bytes(std::string("x"))), Mismatch);
  EXPECT_THROW((from_bytes<std::array<int, 3>>(to_bytes(std::array<int, 2>{}))), Mismatch);
}

// Refusals that only the bytes tell: inside a reader of the user's.
template <class Written, class Read>
void expect_mismatch(const Written& x) {
  ObjectWriter out;
  out.write(x);
  const Bytes bytes = out.take();
  ObjectReader in(bytes);
  EXPECT_THROW(in.read<Read>(), Mismatch) << object_type<Written>().name << " read as " << object_type<Read>().name;
}
TEST(Refusals, NumbersAreOfOneTypeOnTheWire) {
  expect_mismatch<int, long>(5);
  expect_mismatch<int, unsigned>(5);
  expect_mismatch<signed char, int>(5);
  expect_mismatch<float, double>(1.5F);
  expect_mismatch<double, int>(2.0);
  expect_mismatch<bool, unsigned char>(true);
  expect_mismatch<unsigned char, bool>(1);
  expect_mismatch<float16, bfloat16>(float16(1));
  expect_mismatch<std::complex<float>, double>({1, 2});
  expect_mismatch<long double, std::complex<double>>(1.0L);
  expect_mismatch<std::string, int>("5");
  expect_mismatch<int, std::string>(5);
  expect_mismatch<std::vector<int>, std::vector<float>>({1});
  expect_mismatch<std::vector<int>, std::vector<std::string>>({1});
  expect_mismatch<std::vector<std::byte>, std::vector<unsigned char>>({std::byte{1}});
  expect_mismatch<std::vector<std::string>, std::map<std::string, int>>({"a"});
  expect_mismatch<std::map<std::string, int>, std::set<std::string>>({{"a", 1}});
  expect_mismatch<int, std::monostate>(0);
}

TEST(Refusals, BytesThatAreNoObjectAreRefused) {
  EXPECT_THROW(from_bytes<int>({}), ProtocolError);
  EXPECT_THROW(from_bytes<int>(bytes_of({0x92})), ProtocolError);
  Bytes bytes = to_bytes(std::string("abc"));
  bytes.push_back(std::byte{0});
  EXPECT_THROW(from_bytes<std::string>(bytes), ProtocolError) << "one byte too many";
  EXPECT_THROW(from_bytes<std::vector<bool>>(around<std::vector<bool>>({0xd4, 0, 2})), ProtocolError) << "neither true nor false";
  EXPECT_THROW((from_bytes<std::array<bool, 1>>(around<std::array<bool, 1>>({0xd4, 0, 7}))), ProtocolError);
  EXPECT_THROW(from_bytes<std::vector<int>>(around<std::vector<int>>({0xd5, 3, 1, 2})), ProtocolError) << "half an element";
  EXPECT_THROW(from_bytes<float16>(around<float16>({0xd6, 9, 1, 2, 3, 4})), ProtocolError) << "two elements for one number";
  EXPECT_THROW(from_bytes<long double>(around<long double>({0xd4, 64, 1})), ProtocolError);
  EXPECT_THROW((from_bytes<std::array<int, 2>>(around<std::array<int, 2>>({0xd6, 3, 1, 2, 3, 4}))), ProtocolError);
  EXPECT_THROW((from_bytes<std::array<std::string, 2>>(around<std::array<std::string, 2>>({0x91, 0xa0}))), ProtocolError);
  EXPECT_THROW((from_bytes<std::pair<bool, bool>>(around<std::pair<bool, bool>>({0x93, 0xc2, 0xc2, 0xc2}))), ProtocolError);
  EXPECT_THROW(from_bytes<std::optional<bool>>(around<std::optional<bool>>({0x92, 0xc2, 0xc2})), ProtocolError);
  EXPECT_THROW(from_bytes<std::set<bool>>(around<std::set<bool>>({0x92, 0xc2, 0xc2})), ProtocolError) << "an element twice";
  EXPECT_THROW((from_bytes<std::map<bool, bool>>(around<std::map<bool, bool>>({0x82, 0xc2, 0xc2, 0xc2, 0xc3}))), ProtocolError) << "a key twice";
  using Variant = std::variant<bool, std::string>;
  EXPECT_THROW(from_bytes<Variant>(around<Variant>({0x92, 0xce, 0, 0, 0, 2, 0xc2})), ProtocolError) << "no such alternative";
  EXPECT_THROW(from_bytes<std::string>(around<std::string>({0xc1})), ProtocolError) << "a long value without its format";
  EXPECT_THROW(from_bytes<std::string>(around<std::string>({0xc1, 0xc1})), Mismatch) << "a format that does not exist";
  EXPECT_THROW(from_bytes<std::string>(around<std::string>({0xff})), Mismatch);
}

// A length is compared with what is left before anything is allocated.
TEST(Refusals, HugeLengthsAllocateNothing) {
  COVERS("Q-19");
  using Numbers = std::vector<std::int64_t, OwnAllocator<std::int64_t>>;
  using Large = std::array<double, 10000>;
  using LargeOnes = std::vector<Large, OwnAllocator<Large>>;
  using Texts = std::vector<std::string, OwnAllocator<std::string>>;
  most_allocated = 0;
  EXPECT_THROW(from_bytes<Numbers>(around<Numbers>({0xc9, 0xff, 0xff, 0xff, 0xf8, 4, 1, 2, 3})), ProtocolError);
  EXPECT_THROW(from_bytes<Texts>(around<Texts>({0xdd, 0xff, 0xff, 0xff, 0xff, 0xa0})), ProtocolError);
  EXPECT_THROW(from_bytes<std::string>(around<std::string>({0xdb, 0xff, 0xff, 0xff, 0xff, 'a'})), ProtocolError);
  EXPECT_THROW((from_bytes<std::map<int, int>>(around<std::map<int, int>>({0xdf, 0xff, 0xff, 0xff, 0xff, 0}))), ProtocolError);
  EXPECT_EQ(most_allocated, 0U);
  // As many values as bytes, but each value is much larger: there is room for what the bytes could hold, not for what the length says.
  Bytes bytes = around<LargeOnes>({0xdc, 0x10, 0x00});
  bytes.resize(bytes.size() + 0x1000);
  EXPECT_THROW(from_bytes<LargeOnes>(bytes), Mismatch);
  EXPECT_LE(most_allocated, sizeof(Large));
}

TEST(Refusals, ObjectsThatAreTooDeepAreRefused) {
  const auto chain = [](int depth) {
    Tree root;
    for (int i = 1; i < depth; ++i) {
      Tree next;
      next.children.push_back(std::move(root));
      root = std::move(next);
    }
    return root;
  };
  // Each tree is an array with an array in it; the envelope is one more.
  EXPECT_EQ(from_bytes<Tree>(to_bytes(chain(63))), chain(63));
  EXPECT_THROW(to_bytes(chain(65)), InvalidArgument);
  // Bytes that another writer nested too deep, and a long row of beginnings.
  ObjectWriter deep({.bytes = 1 << 20, .depth = 1000});
  deep.array(2);
  deep.write(object_type<Tree>().fingerprint, chain(200));
  EXPECT_THROW(from_bytes<Tree>(deep.take()), ProtocolError);
  const Bytes row(100000, std::byte{0x91});
  ObjectReader in(row, {.bytes = 1 << 20, .depth = 1000});
  EXPECT_THROW(for (;;) in.array(), ProtocolError);
}

struct Limits {
  explicit Limits(const ObjectLimits& limits) { set_object_limits(limits); }
  ~Limits() { set_object_limits(ObjectLimits{}); }
};
TEST(Refusals, ObjectsThatAreTooLargeAreRefused) {
  const Bytes before = to_bytes(std::string(2000, 'x'));
  const Limits limits({.bytes = 1000});
  EXPECT_EQ(object_limits().bytes, 1000U);
  EXPECT_THROW(to_bytes(std::string(1000, 'x')), InvalidArgument);
  EXPECT_THROW(to_bytes(std::vector<double>(125)), InvalidArgument);
  EXPECT_THROW(to_bytes(std::vector<std::string>(1000)), InvalidArgument);
  EXPECT_THROW(from_bytes<std::string>(before), InvalidArgument);
  for (std::size_t n = 960; n < 1000; ++n) {
    Bytes bytes;
    try {
      bytes = to_bytes(std::string(n, 'x'));
    } catch (const InvalidArgument&) {
      continue;
    }
    EXPECT_LE(bytes.size(), 1000U);
    EXPECT_EQ(from_bytes<std::string>(bytes).size(), n) << "what may be written may be read";
  }
  EXPECT_THROW(set_object_limits({.bytes = 0}), InvalidArgument);
  EXPECT_THROW(set_object_limits({.bytes = SIZE_MAX}), InvalidArgument);
  EXPECT_THROW(set_object_limits({.depth = 0}), InvalidArgument);
  EXPECT_THROW(set_object_limits({.depth = 100000}), InvalidArgument);
  EXPECT_EQ(object_limits().bytes, 1000U);
}

// 16 GiB of which only the pages that are written to exist.
struct Sparse {
  static constexpr std::size_t size = std::size_t{16} << 30;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ~Sparse() { ::munmap(memory, size); }
};

TEST(Lengths, LengthsOfMoreThan32BitsAreWritten) {
  const ObjectLimits limits{.bytes = PTRDIFF_MAX, .depth = 2};
  ObjectWriter array(limits), map(limits);
  array.array((std::size_t{1} << 32) + 5);
  EXPECT_EQ(array.take(), bytes_of({0xc1, 0xdd, 0, 0, 0, 1, 0, 0, 0, 5}));
  map.map((std::size_t{2} << 32) + 0x0102);
  EXPECT_EQ(map.take(), bytes_of({0xc1, 0xdf, 0, 0, 0, 2, 0, 0, 1, 2}));
  ObjectWriter narrow(limits);
  narrow.array(UINT32_MAX);
  EXPECT_EQ(narrow.take(), bytes_of({0xdd, 0xff, 0xff, 0xff, 0xff})) << "no longer than MessagePack has them";
}

TEST(Lengths, LengthsOfMoreThan32BitsAreRead) {
  const Sparse sparse;
  if (sparse.memory == MAP_FAILED) GTEST_SKIP() << "the system gives no 16 GiB of address space";
  const ObjectLimits limits{.bytes = Sparse::size, .depth = 2};
  constexpr std::size_t n = (std::size_t{1} << 32) + 5;
  const auto reader_of = [&](objects::Format format, std::initializer_list<int> more = {}) {
    const auto head = objects::wide_head(format, n);
    auto* const end = std::copy(head.begin(), head.end(), static_cast<char*>(sparse.memory));
    std::copy(more.begin(), more.end(), end);
    return ObjectReader({static_cast<const std::byte*>(sparse.memory), Sparse::size}, limits);
  };
  EXPECT_EQ(reader_of(objects::str32).string().size(), n);
  EXPECT_EQ(reader_of(objects::bin32).bytes().size(), n);
  EXPECT_EQ(reader_of(objects::ext32, {objects::code_of(DType::uint8)}).block(DType::uint8).size(), n);
  EXPECT_EQ(reader_of(objects::array32).array(), n);
  EXPECT_EQ(reader_of(objects::map32).map(), n);
  EXPECT_THROW(reader_of(objects::str32).bytes(), Mismatch);
}

TEST(Lengths, LengthsBeyondTheBytesAreRefused) {
  const Bytes bytes = bytes_of({0xc1, 0xdb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'});
  EXPECT_THROW(ObjectReader(bytes).string(), ProtocolError);
  const Bytes elements = bytes_of({0xc1, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'});
  EXPECT_THROW(ObjectReader(elements).array(), ProtocolError);
  ObjectWriter out({.bytes = PTRDIFF_MAX, .depth = 2});
  EXPECT_THROW(out.block(DType::complex128, nullptr, (SIZE_MAX >> 4) + 2), InvalidArgument) << "whose size in bytes is beyond 64 bits";
}

struct Short {};
struct Long {};
}  // namespace
template <>
struct unisono::object_traits<Short> {
  static void write(ObjectWriter& out, const Short&) { out.write(1, 2, 3); }
  static Short read(ObjectReader& in) {
    in.read<int>();
    return {};
  }
};
template <>
struct unisono::object_traits<Long> {
  static void write(ObjectWriter& out, const Long&) { out.write(1); }
  static Long read(ObjectReader& in) {
    in.read<int>();
    in.read<int>();
    return {};
  }
};
namespace {

// Traits that do not read what they write do not disturb what comes after them.
TEST(Refusals, TraitsReadWhatTheyWrite) {
  EXPECT_THROW((from_bytes<std::pair<Short, int>>(to_bytes(std::pair<Short, int>{}))), Mismatch);
  EXPECT_THROW((from_bytes<std::pair<Long, int>>(to_bytes(std::pair<Long, int>{}))), Mismatch);
}

TEST(Refusals, AVariantWithoutAValueIsRefused) {
  std::variant<int, std::optional<std::string>> x = 1;
  struct Bad {
    operator std::string() const { throw std::runtime_error("no text"); }  // NOLINT(google-explicit-constructor)
  };
  EXPECT_THROW(x.emplace<1>(Bad{}), std::runtime_error);
  ASSERT_TRUE(x.valueless_by_exception());
  EXPECT_THROW(to_bytes(x), InvalidArgument);
}

// Broken on the way in every way: an error of ours or another object, but no crash, no endless work, and nothing else thrown.
template <class O>
void expect_typed(const Bytes& bytes) {
  try {
    static_cast<void>(from_bytes<O>(bytes));
  } catch (const Mismatch&) {
  } catch (const ProtocolError&) {
  } catch (const InvalidArgument&) {
  }
}

template <class O>
void break_in_every_way(const O& object, unsigned seed) {
  const Bytes good = to_bytes(object);
  ASSERT_EQ(from_bytes<O>(good), object);
  // Every beginning of it.
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_THROW(from_bytes<O>(std::span(good).first(n)), ProtocolError) << n << " of " << good.size() << " bytes";
  }
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = good;
    for (std::size_t i = below(4) + 1; i > 0; --i) bytes[below(bytes.size())] ^= static_cast<std::byte>(1U << below(8));
    expect_typed<O>(bytes);
  }
  // Behind the fingerprint, which would catch most of it: any byte, also the formats with the largest lengths.
  const std::size_t begin = 10;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = good;
    const std::size_t at = begin + below(bytes.size() - begin);
    static constexpr int formats[] = {0xc6, 0xc9, 0xdb, 0xdd, 0xdf, 0xdc, 0x9f, 0x8f, 0xbf, 0xd8};
    bytes[at] = static_cast<std::byte>(formats[below(std::size(formats))]);
    for (std::size_t i = at + 1; i < bytes.size() && i < at + 5; ++i) bytes[i] = static_cast<std::byte>(random());
    if (below(2) == 0) bytes.resize(begin + below(bytes.size() - begin));
    expect_typed<O>(bytes);
  }
  for (int round = 0; round < 1000; ++round) {
    Bytes bytes(good.begin(), good.begin() + begin);
    for (std::size_t i = below(200); i > 0; --i) bytes.push_back(static_cast<std::byte>(random()));
    expect_typed<O>(bytes);
  }
}

TEST(Refusals, BrokenBytesAreRefused) {
  Everything e;
  e.names = {{"first", {{1, 2}, {3, 4}}}, {"second", {}}};
  e.labels[0] = "label";
  e.child = Pair<std::string>{"p", {"q", "r"}};
  break_in_every_way(e, 1);
  break_in_every_way(Tree{1, {{2, {{3, {}}}}, {4, {}}}}, 2);
  break_in_every_way(Log{{"one", "two"}, 3}, 3);
  using Mixed = std::tuple<std::vector<double>, std::variant<int, std::string, std::vector<bool>>, std::map<std::string, std::set<int>>,
                           std::optional<std::chrono::milliseconds>, std::complex<float>, std::deque<float16>, std::filesystem::path, long double>;
  Mixed mixed;
  std::get<0>(mixed) = {1.5, 2.5};
  std::get<1>(mixed) = std::vector<bool>{true, false};
  std::get<2>(mixed) = {{"a", {1, 2}}, {"b", {}}};
  std::get<3>(mixed) = std::chrono::milliseconds(5);
  std::get<5>(mixed) = {float16(1), float16(2)};
  std::get<6>(mixed) = "a/path";
  break_in_every_way(mixed, 4);
}

}  // namespace
