#include <array>
#include <complex>
#include <numeric>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

// A type of the user's that becomes a buffer.
namespace picture {
struct Image {
  int width = 0, height = 0;
  std::vector<float> pixels;
};
}  // namespace picture
template <>
struct unisono::buffer_traits<picture::Image> {
  static TensorView view(picture::Image& image) { return {image.pixels.data(), DType::float32, image.pixels.size()}; }
};

namespace {

using Extents = std::vector<std::int64_t>;

TensorView view(std::vector<float>& memory, std::size_t offset, const Extents& shape, const Extents& strides = {}) {
  return {memory.data() + offset, DType::float32, shape, strides};
}

// Rule 1: every contiguous range of elements, as an lvalue or as a temporary view.
WORLD_TEST(Buffers, EveryKindOfRangeIsABuffer) {
  const int n = world_size();
  std::array<int, 3> array{rank(), 10, -rank()};
  all_reduce(array);
  EXPECT_EQ(array, (std::array<int, 3>{n * (n - 1) / 2, 10 * n, -n * (n - 1) / 2}));

  double raw[2] = {0.5, static_cast<double>(rank())};
  broadcast(raw, n - 1);
  EXPECT_EQ(raw[1], n - 1);

  auto vector = values<long>(6, rank());
  all_reduce(std::span(vector).first(2));
  EXPECT_EQ(vector[1], sums<long>(6, n)[1]);
  EXPECT_EQ(vector[2], value<long>(rank(), 2)) << "what is outside of the view was touched";

  std::span<long> span(vector);
  reduce(span, 0, ReduceOp::max);

  bool truth[2] = {rank() == 0, true};
  all_reduce(truth, ReduceOp::land);
  EXPECT_EQ(truth[0], n == 1);

  std::vector<std::byte> bytes{std::byte{static_cast<unsigned char>(1 << rank())}};
  all_reduce(bytes, ReduceOp::bor);
  EXPECT_EQ(std::to_integer<int>(bytes[0]), (1 << n) - 1);

  picture::Image image{.width = 2, .height = 3, .pixels = values<float>(6, rank())};
  all_reduce(image);
  EXPECT_EQ(image.pixels, sums<float>(6, n));
}

// Rule 1: an input may be read-only, and of another range type than the output.
WORLD_TEST(Buffers, InputAndOutputMayBeOfDifferentTypes) {
  const int n = world_size();
  const std::array<float, 4> in{1, 2, 3, static_cast<float>(rank())};
  std::vector<float> out(4);
  all_reduce(in, out);
  EXPECT_EQ(out, (std::vector<float>{1.0F * static_cast<float>(n), 2.0F * static_cast<float>(n), 3.0F * static_cast<float>(n),
                                     static_cast<float>(n * (n - 1) / 2)}));
  const std::span<const float> constant(in);
  picture::Image image{.width = 4, .height = n, .pixels = std::vector<float>(4 * static_cast<std::size_t>(n))};
  all_gather(constant.last(1), std::span(image.pixels).first(static_cast<std::size_t>(n)));
  for (int r = 0; r < n; ++r) EXPECT_EQ(image.pixels[static_cast<std::size_t>(r)], static_cast<float>(r));
  const picture::Image source{.width = 1, .height = 1, .pixels = {2.5F}};
  float result[1] = {0};
  all_reduce(source, result);
  EXPECT_EQ(result[0], 2.5F * static_cast<float>(n));
  all_gather(std::vector<float>{static_cast<float>(rank())}, std::span(image.pixels).first(static_cast<std::size_t>(n)));  // a temporary can be read
  EXPECT_EQ(image.pixels[static_cast<std::size_t>(n) - 1], static_cast<float>(n - 1));
}

// Columns, reversed lines, blocks with gaps; what lies between the elements is not touched.
WORLD_TEST(Buffers, StridedViewsAreFollowed) {
  COVERS("W-05", "Q-04", "K-61");
  const int n = world_size();
  const auto ranks = static_cast<std::size_t>(n);
  for (const std::int64_t rows : {1L, 7L, 40000L}) {
    if (sanitized && rows > 100) continue;
    const auto length = static_cast<std::size_t>(rows);
    auto matrix = values<float>(3 * length, rank());
    all_reduce(view(matrix, 1, {rows}, {3}));
    const auto total = sums<float>(3 * length, n);
    for (std::size_t i = 0; i < matrix.size(); ++i) ASSERT_EQ(matrix[i], i % 3 == 1 ? total[i] : value<float>(rank(), i)) << i;

    auto line = values<float>(length, rank());
    broadcast(view(line, length - 1, {rows}, {-1}), n - 1);
    ASSERT_EQ(difference(line, values<float>(length, n - 1)), "");

    // From a reversed line into a column.
    auto in = values<float>(length, rank());
    std::vector<float> out(2 * length, -1.0F);
    all_reduce(view(in, length - 1, {rows}, {-1}), view(out, 0, {rows}, {2}));
    for (std::size_t i = 0; i < length; ++i) {
      ASSERT_EQ(out[2 * i], total[length - 1 - i]);
      ASSERT_EQ(out[2 * i + 1], -1.0F);
    }
    ASSERT_EQ(difference(in, values<float>(length, rank())), "") << "the input was written to";
  }
  // A block of a matrix, gathered, scattered, exchanged.
  auto matrix = values<float>(24, rank());
  const TensorView block = view(matrix, 7, {2, 3}, {6, 1});
  std::vector<float> all(6 * ranks);
  all_gather(block, all);
  for (int r = 0; r < n; ++r) {
    const float* theirs = all.data() + 6 * r;
    for (std::size_t i = 0; i < 6; ++i) ASSERT_EQ(theirs[i], value<float>(r, 7 + i / 3 * 6 + i % 3));
  }
  for (auto& x : all) x *= 2;
  std::vector<float> own(12, -1.0F);
  scatter(all, view(own, 0, {3, 2}, {4, 2}), 0);  // six elements, every second
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t e = i / 2;
    ASSERT_EQ(own[i], i % 2 == 1 ? -1.0F : 2 * value<float>(rank(), 7 + e / 3 * 6 + e % 3));
  }
  std::vector<float> wide = values<float>(4 * ranks, rank()), exchanged(2 * ranks);
  all_to_all(view(wide, 0, {2 * n}, {2}), exchanged);
  for (int r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(exchanged[2 * static_cast<std::size_t>(r) + i], value<float>(r, 2 * (2 * static_cast<std::size_t>(rank()) + i)));
    }
  }
  auto column = values<float>(8, rank());
  reduce(view(column, 0, {4}, {2}), n - 1);  // elsewhere all of it stays
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_EQ(column[i], rank() == n - 1 && i % 2 == 0 ? sums<float>(8, n)[i] : value<float>(rank(), i));
  }
}

// Asynchronous calls do the same, several at once.
WORLD_TEST(Buffers, StridedViewsAreFollowedByAsynchronousCalls) {
  const int n = world_size();
  auto a = values<float>(30, rank());
  auto b = values<float>(30, rank());
  std::vector<Work> works;
  works.push_back(all_reduce_async(view(a, 2, {10}, {3})));
  works.push_back(broadcast_async(view(b, 29, {15}, {-2}), n - 1));
  wait_all(works);
  for (std::size_t i = 0; i < 30; ++i) {
    ASSERT_EQ(a[i], i % 3 == 2 ? sums<float>(30, n)[i] : value<float>(rank(), i));
    ASSERT_EQ(b[i], value<float>(i % 2 == 1 ? n - 1 : rank(), i));
  }
}

// Nothing at all in one dimension; one element in none.
WORLD_TEST(Buffers, EmptyDimensionsAndNoDimensionAreTaken) {
  COVERS("W-05", "C-31");
  const int n = world_size();
  std::vector<float> memory{1.0F, 2.0F, 3.0F};
  all_reduce(view(memory, 0, {3, 0, 2}));
  all_reduce(view(memory, 0, {0}, {5}));
  broadcast(TensorView(nullptr, DType::float32, Extents{0, 4}), n - 1);
  EXPECT_EQ(memory, (std::vector<float>{1.0F, 2.0F, 3.0F}));
  all_reduce(view(memory, 1, Extents{}));
  EXPECT_EQ(memory, (std::vector<float>{1.0F, 2.0F * static_cast<float>(n), 3.0F}));
  std::vector<float> all(static_cast<std::size_t>(n));
  all_gather(view(memory, 0, Extents{}), all);
  EXPECT_EQ(all, std::vector<float>(static_cast<std::size_t>(n), 1.0F));
}

// A stride of 0 makes one element stand for many: fine to read, nothing to write to.
WORLD_TEST(Buffers, RepeatedElementsAreReadAndNotWritten) {
  const int n = world_size();
  std::vector<float> one{static_cast<float>(rank() + 1)};
  std::vector<float> out(4);
  all_reduce(view(one, 0, {4}, {0}), out);
  EXPECT_EQ(out, std::vector<float>(4, static_cast<float>(n * (n + 1) / 2)));
  EXPECT_THROW(all_reduce(view(one, 0, {4}, {0})), InvalidArgument);
  EXPECT_THROW(all_reduce(out, view(one, 0, {4}, {0})), InvalidArgument);
  expect_usable();
}

// Rule 1: in place, in the block forms the own block; anything that overlaps in part is refused before anything is sent.
WORLD_TEST(Buffers, OverlapInPartIsRefused) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto before = values<float>(8 * n + 8, rank());
  auto x = before;
  const auto part = [&](std::size_t offset, std::size_t count) { return std::span(x).subspan(offset, count); };
  EXPECT_THROW(all_reduce(part(0, 4), part(1, 4)), InvalidArgument);
  EXPECT_THROW(all_reduce(view(x, 0, {4}, {2}), view(x, 1, {4}, {2})), InvalidArgument);  // interleaved: refused, to be simple
  EXPECT_THROW(all_reduce(view(x, 0, {4}, {1}), view(x, 3, {4}, {-1})), InvalidArgument);
  EXPECT_THROW(all_gather(part(1, 2), part(0, 2 * n)), InvalidArgument);
  EXPECT_THROW(all_gather(part(2 * n - 1, 2), part(0, 2 * n)), InvalidArgument);
  if (n > 1) {
    const std::size_t next = (static_cast<std::size_t>(rank()) + 1) % n;
    EXPECT_THROW(all_gather(part(2 * next, 2), part(0, 2 * n)), InvalidArgument);  // a block, but another rank's
    EXPECT_THROW(reduce_scatter(part(0, 2 * n), part(2 * next, 2)), InvalidArgument);
    EXPECT_THROW(all_to_all(part(0, n), part(0, n)), InvalidArgument);
  }
  EXPECT_THROW(reduce_scatter(part(0, 2 * n), part(1, 2)), InvalidArgument);
  EXPECT_THROW(all_to_all(part(0, 2 * n), part(1, 2 * n)), InvalidArgument);
  EXPECT_EQ(difference(x, before), "");
  all_reduce(part(0, 4), part(0, 4));
  EXPECT_EQ(x[3], sums<float>(4, world_size())[3]);
  all_reduce(part(0, 4), part(4, 4));  // side by side
}

// Argument errors are the same in a world of one, are thrown before anything is sent, and leave the group usable, also where
// only one rank makes the bad call.
WORLD_TEST(Buffers, WrongArgumentsAreRefused) {
  COVERS("K-27", "R-12", "W-07");
  const int n = world_size();
  const auto before = values<float>(6, rank());
  auto x = before;
  std::vector<float> longer(7);
  std::vector<double> other(6);
  for (const int who : {0, n - 1}) {
    const auto check = [&](const char* operation, auto&& bad) {
      if (rank() == who) {
        const auto error = thrown_by<InvalidArgument>(bad);
        EXPECT_EQ(error.operation(), operation);
        EXPECT_EQ(error.group(), "world");
        EXPECT_EQ(error.rank(), rank());
        EXPECT_NE(std::string(error.what()).find(operation), std::string::npos);
      }
      expect_usable();
    };
    check("all_reduce", [&] { all_reduce(x, longer); });
    check("all_reduce", [&] { all_reduce(x, TensorView(other.data(), DType::float64, 6)); });
    check("all_reduce", [&] { all_reduce(x, ReduceOp::band); });
    check("all_reduce", [&] { all_reduce(std::vector<std::complex<float>>(2), std::span<std::complex<float>>{}, ReduceOp::max); });
    check("all_reduce", [&] { all_reduce(x, ReduceOp::sum, world(), {.timeout = std::chrono::milliseconds(-1)}); });
    check("scan", [&] { scan(x, ReduceOp::avg); });
    // Roots that are not in the group
    check("broadcast", [&] { broadcast(x, n); });
    check("broadcast", [&] { broadcast(x, -1); });
    check("broadcast", [&] { broadcast(x, GlobalRank{n}); });
    check("broadcast", [&] { broadcast(x, GlobalRank{-1}); });
    check("broadcast", [&] { broadcast(x, 1LL << 32); });
    check("reduce", [&] { reduce(x, n); });
    check("gather", [&] { gather(x, longer, n); });
    check("scatter", [&] { scatter(longer, x, -1); });
    check("broadcast", [&] { static_cast<void>(broadcast(1, n)); });
    check("broadcast", [&] { static_cast<void>(broadcast_async(x, n)); });
    check("gather", [&] { gather(x, longer, rank()); });  // the root's output has another length
    check("send", [&] { send(x, rank()); });
    check("recv", [&] { recv(x, rank()); });
    check("send", [&] { send(x, n); });
    check("recv", [&] { static_cast<void>(irecv(x, -1)); });
  }
  EXPECT_EQ(difference(x, before), "");
  EXPECT_THROW(parse_reduce_op("produce"), InvalidArgument);
}

}  // namespace
