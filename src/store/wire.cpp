#include "store/wire.h"

#include <fmt/format.h>

namespace unisono::store {
namespace {

void put(std::string& bytes, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t load(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string greeting() {
  const ground::Version version = ground::library_version();
  std::string bytes(magic);
  for (const std::uint16_t part : {wire_version, version.major, version.minor, version.patch}) put(bytes, part, 2);
  return bytes;
}

Greeting parse_greeting(std::string_view bytes) {
  const auto part = [&](std::size_t i) { return static_cast<std::uint16_t>(load(bytes.substr(magic.size() + 2 * i, 2))); };
  return {bytes.starts_with(magic), part(0), {part(1), part(2), part(3)}};
}

std::string describe(const Greeting& greeting) { return fmt::format("version {} (wire {})", ground::to_string(greeting.library), greeting.wire); }
std::string describe_own_version() { return describe(Greeting{true, wire_version, ground::library_version()}); }

Writer::Writer(std::uint8_t kind, std::uint64_t id) : bytes_(frame_head, '\0') {
  put(bytes_, kind, 1);
  put(bytes_, id, 8);
}

Writer& Writer::integer(std::uint64_t value) {
  put(bytes_, value, 8);
  return *this;
}

Writer& Writer::text(std::string_view value) {
  put(bytes_, value.size(), 4);
  bytes_ += value;
  return *this;
}

std::string Writer::finish() {
  const std::uint64_t length = bytes_.size() - frame_head;
  for (std::size_t i = 0; i < frame_head; ++i) bytes_[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return std::move(bytes_);
}

std::string_view Reader::take(std::size_t n) {
  if (n > rest_.size()) {
    ok_ = false;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return taken;
}

std::uint8_t Reader::byte() { return static_cast<std::uint8_t>(load(take(1))); }
std::uint64_t Reader::integer() { return load(take(8)); }
std::string_view Reader::text() { return take(load(take(4))); }

std::optional<std::string> FrameBuffer::take(std::size_t n) {
  if (size() < n) return std::nullopt;
  std::string taken = bytes_.substr(begin_, n);
  begin_ += n;
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    if (bytes_.capacity() > (std::size_t{1} << 16)) bytes_.shrink_to_fit();  // one large value must not stay paid for
    begin_ = 0;
  } else if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return taken;
}

std::optional<std::string> FrameBuffer::take_frame(std::size_t most, bool& too_long) {
  if (size() < frame_head) return std::nullopt;
  const std::uint64_t length = load(peek().substr(0, frame_head));
  too_long = length > most;
  if (too_long || size() < frame_head + length) return std::nullopt;
  take(frame_head);
  return take(length);
}

}  // namespace unisono::store
