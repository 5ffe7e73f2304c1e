#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "objects/format.h"
#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono {
namespace {

constexpr std::size_t most_bytes = PTRDIFF_MAX;  // of anything in memory
constexpr std::size_t most_depth = 1024;         // each level takes a few calls on the stack

std::atomic<std::size_t> limit_of_bytes{ObjectLimits{}.bytes};
std::atomic<std::size_t> limit_of_depth{ObjectLimits{}.depth};

}  // namespace

void set_object_limits(const ObjectLimits& limits) {
  if (limits.bytes == 0 || limits.bytes > most_bytes) {
    throw InvalidArgument("objects cannot be limited to " + std::to_string(limits.bytes) + " bytes", {.hint = "1 … 9223372036854775807"});
  }
  if (limits.depth == 0 || limits.depth > most_depth) {
    throw InvalidArgument("objects cannot be limited to a depth of " + std::to_string(limits.depth), {.hint = "1 … 1024"});
  }
  limit_of_bytes.store(limits.bytes);
  limit_of_depth.store(limits.depth);
}
ObjectLimits object_limits() noexcept { return {limit_of_bytes.load(), limit_of_depth.load()}; }

using namespace objects;

namespace {

/// How the length of a kind of value is written: a short one within the first byte, others behind it, in as few bytes as there is a format for.
struct LengthFormats {
  std::uint8_t inside;
  std::size_t below;  // lengths below this one are written within the first byte
  Format first;       // with the fewest bytes behind it; the formats with more have the next numbers
  std::size_t first_width;
};
constexpr LengthFormats strings{fixstr, 32, str8, 1};
constexpr LengthFormats byte_strings{0, 0, bin8, 1};
constexpr LengthFormats extensions{0, 0, ext8, 1};
constexpr LengthFormats arrays{fixarray, 16, array16, 2};
constexpr LengthFormats maps{fixmap, 16, map16, 2};

// The longest headers before a payload.
constexpr std::size_t longest_header = 6, longest_wide_header = 11;

template <class T>
T load(const void* value) {
  T x;
  std::memcpy(&x, value, sizeof x);
  return x;
}

}  // namespace

/// Appends MessagePack to the bytes of an object.
class ObjectWriter::Sink {
 public:
  explicit Sink(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void raw(const void* data, std::size_t n) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + n);
  }
  void byte(std::uint8_t x) { bytes_.push_back(static_cast<std::byte>(x)); }
  /// Writes a format, and the low bytes of a number or length behind it, the highest first.
  void head(std::uint8_t format, std::uint64_t bits, std::size_t width) {
    std::array<std::uint8_t, 9> bytes{format};
    for (std::size_t i = width; i > 0; --i, bits >>= 8) bytes[i] = static_cast<std::uint8_t>(bits & 0xff);
    raw(bytes.data(), width + 1);
  }
  void length(const LengthFormats& formats, std::size_t n) {
    if (n < formats.below) return byte(static_cast<std::uint8_t>(formats.inside | n));
    std::uint8_t format = formats.first;
    std::size_t width = formats.first_width;
    for (; width < 4 && n >> (8 * width) != 0; width *= 2) ++format;
    if (n > longest_narrow) {
      const auto beginning = wide_head(static_cast<Format>(format), n);
      raw(beginning.data(), beginning.size());
    } else {
      head(format, n, width);
    }
  }
  /// Writes the head of an extension, whose payload of n bytes follows.
  void extension(std::size_t n, std::int8_t code) {
    if (n <= 16 && std::has_single_bit(n)) byte(static_cast<std::uint8_t>(fixext1 + std::countr_zero(n)));
    else length(extensions, n);
    byte(static_cast<std::uint8_t>(code));
  }

 private:
  std::vector<std::byte>& bytes_;
};

ObjectWriter::ObjectWriter(const ObjectLimits& limits) : limits_(limits) {}

void ObjectWriter::value(std::size_t payload) {
  while (!frames_.empty() && !frames_.back().open && frames_.back().left == 0) frames_.pop_back();
  if (!frames_.empty()) frames_.back().left += frames_.back().open ? std::size_t{1} : ~std::size_t{0};
  const std::size_t header = payload > longest_narrow ? longest_wide_header : longest_header;
  if (payload > limits_.bytes || bytes_.size() + header > limits_.bytes - payload) {
    throw InvalidArgument(fmt::format("an object takes more than {} bytes", limits_.bytes),
                          {.hint = "send its data as a buffer, or raise the limit with set_object_limits"});
  }
}

void ObjectWriter::enter(Frame frame) {
  if (frames_.size() >= limits_.depth) {
    throw InvalidArgument(fmt::format("an object has containers within each other more than {} deep", limits_.depth),
                          {.hint = "the limit is one of set_object_limits"});
  }
  frames_.push_back(frame);
}

void ObjectWriter::nil() {
  value(0);
  Sink(bytes_).byte(Format::nil);
}

void ObjectWriter::number(DType dtype, const void* x) {
  const std::size_t size = size_of(dtype);
  value(size);
  Sink sink(bytes_);
  if (dtype == DType::boolean) return sink.byte(load<bool>(x) ? yes : no);
  if (const Format format = format_of(dtype); format != Format::nil) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, x, size);
    return sink.head(format, bits, size);
  }
  sink.extension(size, code_of(dtype));
  sink.raw(x, size);
}

void ObjectWriter::extended(const long double& x) {
  value(extended_bytes);
  Sink sink(bytes_);
  sink.extension(extended_bytes, extended_code);
  sink.raw(&x, extended_bytes);
}

void ObjectWriter::string(std::string_view text) {
  value(text.size());
  Sink sink(bytes_);
  sink.length(strings, text.size());
  sink.raw(text.data(), text.size());
}

void ObjectWriter::bytes(std::span<const std::byte> bytes) {
  value(bytes.size());
  Sink sink(bytes_);
  sink.length(byte_strings, bytes.size());
  sink.raw(bytes.data(), bytes.size());
}

void ObjectWriter::block(DType dtype, const void* elements, std::size_t count) {
  const std::size_t n = count > limits_.bytes / size_of(dtype) ? SIZE_MAX : count * size_of(dtype);  // a size beyond the limit must not wrap
  value(n);
  Sink sink(bytes_);
  sink.extension(n, code_of(dtype));
  sink.raw(elements, n);
}

void ObjectWriter::array(std::size_t n) {
  value(n);
  Sink(bytes_).length(arrays, n);
  if (n > 0) enter({n, 0, false});
}

void ObjectWriter::map(std::size_t n) {
  value(n);
  Sink(bytes_).length(maps, n);
  if (n > 0) enter({2 * n, 0, false});
}

std::size_t ObjectWriter::open() {
  value(0);
  Sink(bytes_).head(array32, 0, 4);  // close writes the length
  enter({0, bytes_.size(), true});
  return frames_.size();
}

void ObjectWriter::close(std::size_t mark) {
  const Frame frame = frames_[mark - 1];
  frames_.resize(mark - 1);
  if (frame.left > longest_narrow) throw InvalidArgument("an object writes more values than 2^32 - 1", {.hint = "write the values as a vector"});
  for (std::size_t i = 1; i <= 4; ++i) bytes_[frame.at - i] = static_cast<std::byte>(frame.left >> (8 * (i - 1)));
}

}  // namespace unisono
