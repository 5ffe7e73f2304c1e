#include "store/frame_codes.h"

#include <array>
#include <span>

namespace unisono::store {
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
