#define MSGPACK_NO_BOOST  // its packers need none
#include <msgpack.hpp>

#include <array>
#include <atomic>
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

class ObjectWriter::Sink {
 public:
  explicit Sink(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  void write(const char* data, std::size_t n) {
    const auto* first = reinterpret_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + n);
  }
  msgpack::packer<Sink> packer() { return msgpack::packer<Sink>(*this); }

 private:
  std::vector<std::byte>& bytes_;
};

namespace {

// A length that is filled in later is written as one above 2^16 at first, because msgpack-cxx then uses the form with four bytes.
constexpr std::uint32_t unknown_length = 0x10000;
// The longest headers before a payload.
constexpr std::size_t longest_header = 6, longest_wide_header = 11;

template <class T>
T load(const void* value) {
  T x;
  std::memcpy(&x, value, sizeof x);
  return x;
}

// msgpack-cxx turns a floating-point number without a fraction into an integer, so numbers are written here.
template <class Sink, class Bits>
void write_bits(Sink& sink, Format format, Bits bits) {
  std::array<char, 1 + sizeof bits> bytes{};
  bytes[0] = static_cast<char>(format);
  for (std::size_t i = sizeof bits; i > 0; --i, bits >>= 8) bytes[i] = static_cast<char>(bits & 0xff);
  sink.write(bytes.data(), bytes.size());
}

template <class Sink>
void write_wide(Sink& sink, Format format, std::size_t n) {
  const auto head = wide_head(format, n);
  sink.write(head.data(), head.size());
}

}  // namespace

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
  Sink(bytes_).packer().pack_nil();
}

void ObjectWriter::number(DType dtype, const void* x) {
  value(size_of(dtype));
  Sink sink(bytes_);
  auto packer = sink.packer();
  switch (dtype) {
    case DType::boolean: load<bool>(x) ? packer.pack_true() : packer.pack_false(); break;
    case DType::int8: packer.pack_fix_int8(load<std::int8_t>(x)); break;
    case DType::int16: packer.pack_fix_int16(load<std::int16_t>(x)); break;
    case DType::int32: packer.pack_fix_int32(load<std::int32_t>(x)); break;
    case DType::int64: packer.pack_fix_int64(load<std::int64_t>(x)); break;
    case DType::uint8: packer.pack_fix_uint8(load<std::uint8_t>(x)); break;
    case DType::uint16: packer.pack_fix_uint16(load<std::uint16_t>(x)); break;
    case DType::uint32: packer.pack_fix_uint32(load<std::uint32_t>(x)); break;
    case DType::uint64: packer.pack_fix_uint64(load<std::uint64_t>(x)); break;
    case DType::float32: write_bits(sink, Format::float32, load<std::uint32_t>(x)); break;
    case DType::float64: write_bits(sink, Format::float64, load<std::uint64_t>(x)); break;
    case DType::float16:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128:
      packer.pack_ext(size_of(dtype), code_of(dtype));
      packer.pack_ext_body(static_cast<const char*>(x), static_cast<std::uint32_t>(size_of(dtype)));
      break;
  }
}

void ObjectWriter::extended(const long double& x) {
  value(extended_bytes);
  Sink sink(bytes_);
  auto packer = sink.packer();
  packer.pack_ext(extended_bytes, extended_code);
  packer.pack_ext_body(reinterpret_cast<const char*>(&x), static_cast<std::uint32_t>(extended_bytes));
}

void ObjectWriter::string(std::string_view text) {
  value(text.size());
  Sink sink(bytes_);
  if (text.size() > longest_narrow) write_wide(sink, str32, text.size());
  else sink.packer().pack_str(static_cast<std::uint32_t>(text.size()));
  sink.write(text.data(), text.size());
}

void ObjectWriter::bytes(std::span<const std::byte> bytes) {
  value(bytes.size());
  Sink sink(bytes_);
  if (bytes.size() > longest_narrow) write_wide(sink, bin32, bytes.size());
  else sink.packer().pack_bin(static_cast<std::uint32_t>(bytes.size()));
  sink.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void ObjectWriter::block(DType dtype, const void* elements, std::size_t count) {
  const std::size_t n = count > limits_.bytes / size_of(dtype) ? SIZE_MAX : count * size_of(dtype);  // a size beyond the limit must not wrap
  value(n);
  Sink sink(bytes_);
  if (n > longest_narrow) {
    write_wide(sink, ext32, n);
    const auto code = static_cast<char>(code_of(dtype));
    sink.write(&code, 1);
  } else {
    sink.packer().pack_ext(n, code_of(dtype));
  }
  sink.write(static_cast<const char*>(elements), n);
}

void ObjectWriter::array(std::size_t n) {
  value(n);
  Sink sink(bytes_);
  if (n > longest_narrow) write_wide(sink, array32, n);
  else sink.packer().pack_array(static_cast<std::uint32_t>(n));
  if (n > 0) enter({n, 0, false});
}

void ObjectWriter::map(std::size_t n) {
  value(n);
  Sink sink(bytes_);
  if (n > longest_narrow) write_wide(sink, map32, n);
  else sink.packer().pack_map(static_cast<std::uint32_t>(n));
  if (n > 0) enter({2 * n, 0, false});
}

std::size_t ObjectWriter::open() {
  value(0);
  Sink(bytes_).packer().pack_array(unknown_length);
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
