#include "store/wire.h"

#include <array>
#include <cstring>
#include <span>

#include <fmt/format.h>

namespace unisono::store {

std::string greeting(std::string_view protocol, std::uint16_t wire) {
  const base::Version version = base::library_version();
  base::ByteWriter bytes;
  bytes.raw(protocol);
  for (const std::uint16_t part : {wire, version.major, version.minor, version.patch}) bytes.put(part);
  return bytes.take();
}

Greeting parse_greeting(std::string_view bytes, std::string_view protocol) {
  const auto part = [&](std::size_t i) { return base::load_little_endian<std::uint16_t>(bytes.data() + protocol.size() + 2 * i); };
  return {bytes.starts_with(protocol), part(0), {part(1), part(2), part(3)}};
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

std::string renumbered(std::string_view content, std::uint64_t id) {
  base::ByteWriter bytes;
  bytes.put(static_cast<std::uint32_t>(content.size())).raw(content.substr(0, 1)).put(id).raw(content.substr(1 + sizeof id));
  return bytes.take();
}

std::string with_fields(std::string frame, std::string_view fields) {
  frame += fields;
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

namespace {

using base::NumberedCodes;

constexpr std::size_t sealed_head = frame_head + NumberedCodes::size;

std::uint64_t code_of(const NumberedCodes& codes, std::uint64_t number, std::string_view bytes) {
  base::SipHash hash = codes.begin(number);
  hash.bytes(std::as_bytes(std::span(bytes)));
  return hash.finish();
}

}  // namespace

std::string FrameSealer::seal(std::string frame) {
  std::array<char, NumberedCodes::size> of_length{}, of_content{};
  base::store_little_endian(code_of(codes_, number_++, std::string_view(frame).substr(0, frame_head)), of_length.data());
  base::store_little_endian(code_of(codes_, number_++, std::string_view(frame).substr(frame_head)), of_content.data());
  frame.reserve(frame.size() + of_length.size() + of_content.size());
  frame.insert(frame_head, of_length.data(), of_length.size());
  return frame.append(of_content.data(), of_content.size());
}

std::optional<std::string> FrameOpener::take(FrameBuffer& in, std::size_t most, Fault& fault) {
  const std::string_view bytes = in.peek();
  if (bytes.size() < sealed_head) return std::nullopt;
  const auto code_at = [&](std::size_t place) { return base::load_little_endian<std::uint64_t>(bytes.data() + place); };
  const auto length = base::load_little_endian<std::uint32_t>(bytes.data());
  if (code_at(frame_head) != code_of(codes_, number_, bytes.substr(0, frame_head))) fault = Fault::changed;
  else if (length > most) fault = Fault::too_long;
  if (fault != Fault::none || bytes.size() < sealed_head + length + NumberedCodes::size) return std::nullopt;
  if (code_at(sealed_head + length) != code_of(codes_, number_ + 1, bytes.substr(sealed_head, length))) {
    fault = Fault::changed;
    return std::nullopt;
  }
  number_ += 2;
  in.take(sealed_head);
  std::optional<std::string> content = in.take(length);
  in.take(NumberedCodes::size);
  return content;
}

}  // namespace unisono::store
