#include "store/wire.h"

#include <cstring>

#include <fmt/format.h>

#include "base/vector_registers.h"

namespace unisono::store {

std::string greeting() {
  const base::Version version = base::library_version();
  base::ByteWriter bytes;
  bytes.raw(magic);
  for (const std::uint16_t part : {wire_version, version.major, version.minor, version.patch}) bytes.put(part);
  return bytes.take();
}

Greeting parse_greeting(std::string_view bytes) {
  const auto part = [&](std::size_t i) { return base::load_little_endian<std::uint16_t>(bytes.data() + magic.size() + 2 * i); };
  return {bytes.starts_with(magic), part(0), {part(1), part(2), part(3)}};
}

std::string describe(const Greeting& greeting) { return fmt::format("version {} (wire {})", base::to_string(greeting.library), greeting.wire); }
std::string describe_own_version() { return describe(Greeting{true, wire_version, base::library_version()}); }

Writer::Writer(std::uint8_t kind, std::uint64_t id) { bytes_.raw(std::string(frame_head, '\0')).put(kind).put(id); }

Writer& Writer::integer(std::uint64_t value) {
  bytes_.put(value);
  return *this;
}

Writer& Writer::text(std::string_view value) {
  bytes_.text(value);
  return *this;
}

std::string Writer::finish() {
  std::string frame = bytes_.take();
  base::store_little_endian(static_cast<std::uint32_t>(frame.size() - frame_head), frame.data());
  return frame;
}

std::optional<std::string> FrameBuffer::take(std::size_t n) {
  if (size() < n) return std::nullopt;
  std::string taken = bytes_.substr(begin_, n);
  begin_ += n;
  if (begin_ == bytes_.size()) {
    ::explicit_bzero(bytes_.data(), bytes_.size());
    bytes_.clear();
    constexpr std::size_t kept_capacity = std::size_t{64} << 10;  // the memory of one large value is given back
    if (bytes_.capacity() > kept_capacity) bytes_.shrink_to_fit();
    begin_ = 0;
  } else if (begin_ > bytes_.size() / 2) {
    base::wipe_front(bytes_, begin_);
    begin_ = 0;
  }
  base::clear_vector_registers();
  return taken;
}

std::optional<std::string> FrameBuffer::take_frame(std::size_t most, bool& too_long) {
  if (size() < frame_head) return std::nullopt;
  const auto length = base::load_little_endian<std::uint32_t>(peek().data());
  too_long = length > most;
  if (too_long || size() < frame_head + length) return std::nullopt;
  take(frame_head);
  return take(length);
}

}  // namespace unisono::store
