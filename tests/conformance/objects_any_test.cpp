#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <filesystem>

#include "covers.h"
#include "unisono/objects.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// Kind, dtype, shape and content come from the root; the others give nothing, or something else altogether.
WORLD_TEST(AnyValues, TensorsOfEveryKindAreAnyValues) {
  COVERS("I-34", "I-30", "I-50", "K-38");
  constexpr DType all[] = {DType::boolean,  DType::int8,    DType::int16,   DType::int32,     DType::int64,
                           DType::uint8,    DType::uint16,  DType::uint32,  DType::uint64,    DType::float16,
                           DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};
  const std::vector<std::vector<std::int64_t>> shapes{{}, {0}, {7}, {4, 25}, {3, 0, 2}, {2, 1, 3, 1, 2}};
  for (int src = 0; src < world_size(); ++src) {
    for (std::size_t i = 0; i < std::size(all); ++i) {
      const auto& shape = shapes[(i + static_cast<std::size_t>(src)) % shapes.size()];
      std::vector<unsigned char> memory(100 * 16);
      for (std::size_t b = 0; b < memory.size(); ++b) memory[b] = static_cast<unsigned char>((b * 7 + i) % 2);
      const AnyValue expected(TensorView(memory.data(), all[i], shape));
      std::optional<AnyValue> given;
      if (rank() == src) given = expected;
      else if (rank() % 2 == 1) given = AnyValue("abc");
      AnyValue received = broadcast_any(given, src);
      EXPECT_EQ(received, expected) << to_string(all[i]);
      ASSERT_TRUE(received.is_tensor());
      EXPECT_EQ(received.dtype(), all[i]);
      EXPECT_EQ(std::vector(received.shape().begin(), received.shape().end()), shape);
      EXPECT_EQ(received.tensor().numel(), AnyValue(expected).tensor().numel());
    }
  }
}

WORLD_TEST(AnyValues, NumbersTextAndPathsAreAnyValues) {
  const auto given = [](auto value) { return rank() == 0 ? std::optional<AnyValue>(value) : std::nullopt; };
  EXPECT_EQ(broadcast_any(given(std::int64_t{9007199254740993})).number<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(broadcast_any(given(1.5F)).number<float>(), 1.5F);
  EXPECT_EQ(broadcast_any(given(true)).number<bool>(), true);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(broadcast_any(given(std::bit_cast<float>(0x7fc12345U))).number<float>()), 0x7fc12345U);
  EXPECT_EQ(broadcast_any(given(std::complex<double>(1, 2))).number<std::complex<double>>(), std::complex<double>(1, 2));
  EXPECT_EQ(broadcast_any(given(float16(0.5F))).number<float16>().bits, float16(0.5F).bits);
  const AnyValue text = broadcast_any(given(std::string("é\0x", 4)));
  EXPECT_TRUE(text.is_string());
  EXPECT_EQ(text.string(), std::string("é\0x", 4));
  const AnyValue path = broadcast_any(given(std::filesystem::path("/a/b")));
  EXPECT_TRUE(path.is_path());
  EXPECT_EQ(path.path(), "/a/b");
  // It is an object like others.
  EXPECT_EQ(all_gather_object(AnyValue(rank()))[0].number<int>(), 0);
}

// A root without a value is told to everybody.
WORLD_TEST(AnyValues, ARootWithoutAValueIsRefused) {
  COVERS("I-34");
  for (int src = 0; src < world_size(); ++src) {
    const auto given = rank() == src ? std::nullopt : std::optional<AnyValue>(5);
    const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(broadcast_any(given, src)); });
    EXPECT_EQ(error.culprit(), src);
    EXPECT_EQ(error.operation(), "broadcast_any");
    EXPECT_NE(std::string(error.what()).find("the root has no value"), std::string::npos) << error.what();
    expect_usable();
  }
}

// A strided tensor is packed, and what comes is memory of its own.
WORLD_TEST(AnyValues, AnyValuesOwnTheirMemory) {
  std::vector<int> grid = values<int>(12, rank());
  const std::array<std::int64_t, 2> shape{4, 3}, strides{1, 4};
  AnyValue value(TensorView(grid.data(), DType::int32, shape, strides));
  std::fill(grid.begin(), grid.end(), 0);
  const AnyValue received = broadcast_any(value, 0);
  const auto elements = received.elements<int>();
  ASSERT_EQ(elements.size(), 12U);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 3; ++column) EXPECT_EQ(elements[row * 3 + column], conformance::value<int>(0, row + 4 * column));
  }
  // Its tensor is a buffer.
  auto view = value.tensor();
  all_reduce(view);
  EXPECT_EQ(value.elements<int>()[1], sums<int>(12, world_size())[4]);
  const AnyValue vector(std::vector<double>{1, 2});
  EXPECT_EQ(vector.elements<double>()[1], 2.0);
}

TEST(AnyValues, AnyValuesAreNothingElse) {
  AnyValue number(5);
  EXPECT_THROW(static_cast<void>(number.number<long>()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(number.string()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(number.path()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(number.tensor()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(number.shape()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(AnyValue("x").dtype()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(AnyValue("x").number<int>()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(AnyValue("x").elements<int>()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(AnyValue(std::vector<int>{1}).elements<float>()), InvalidArgument);
  AnyValue none(TensorView(nullptr, DType::float32, std::array<std::int64_t, 1>{0}, {}, Device{Device::Type::cuda, 0}));
  EXPECT_EQ(none.tensor().device(), Device{});  // a copy in the host's memory, wherever the tensor was
  EXPECT_NE(AnyValue(5), AnyValue(5L));
  EXPECT_NE(AnyValue("x"), AnyValue(std::filesystem::path("x")));
}

// The bytes that a hostile sender would write instead.
TEST(AnyValues, AnyValuesRefuseWhatIsNone) {
  const auto read = [](auto&&... parts) {
    ObjectWriter out;
    const std::size_t mark = out.open();
    out.write(parts...);
    out.close(mark);
    const auto bytes = out.take();
    ObjectReader in(bytes);
    return in.read<AnyValue>();
  };
  using Shape = std::vector<std::int64_t>;
  const std::vector<float> three{1, 2, 3};
  EXPECT_EQ(read(AnyValue::Kind::tensor, DType::float32, Shape{3}, three), AnyValue(three));
  EXPECT_THROW(read(AnyValue::Kind::tensor, DType::float32, Shape{2}, three), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::tensor, DType::float32, Shape{-3}, three), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::tensor, DType::float32, Shape{1L << 40, 1L << 40}, three), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::tensor, DType::float32, Shape{0, 3}, three), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::tensor, DType::int32, Shape{3}, three), Mismatch);
  EXPECT_THROW(read(AnyValue::Kind::tensor, static_cast<DType>(99), Shape{3}, three), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::number, static_cast<DType>(-1), 5), ProtocolError);
  EXPECT_THROW(read(AnyValue::Kind::number, DType::int32, 5L), Mismatch);
  EXPECT_THROW(read(static_cast<AnyValue::Kind>(4), 5), ProtocolError);
}

}  // namespace
