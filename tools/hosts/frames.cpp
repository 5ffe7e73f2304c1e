#include "hosts/frames.h"

#include <fmt/format.h>

#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr std::size_t longest_payload = 16u << 20;
constexpr std::size_t longest_header = 16;
constexpr std::size_t most_noise = 64u << 10;

[[noreturn]] void refuse_bytes(std::string_view what) {
  throw ProtocolError(fmt::format("the other host has sent something that is not a message of unisono: {}", what));
}

}  // namespace

std::string encode(FrameKind kind, std::string_view payload) {
  const std::string header = fmt::format("{} {}\n", static_cast<char>(kind), payload.size());
  std::string frame;
  frame.reserve(header.size() + payload.size() + 1);  // no copy of a secret is left in memory that the text outgrows
  return frame.append(header).append(payload).append(1, '\n');
}

/// The greeting is a line of its own. Text before it belongs to a shell.
void FrameReader::look_for_greeting() {
  for (auto end = bytes_.find('\n'); end != std::string::npos; end = bytes_.find('\n')) {
    std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    if (line == greeting_) {
      greeting_.clear();
      return;
    }
    noise_ += line + "\n";
    if (noise_.size() > most_noise) refuse_bytes("it printed 64 KiB before the greeting");
  }
}

std::optional<Frame> FrameReader::next() {
  if (!greeted()) look_for_greeting();
  if (!greeted()) return std::nullopt;
  const auto end = bytes_.find('\n');
  if (end == std::string::npos) {
    if (bytes_.size() > longest_header) refuse_bytes("a header is too long");
    return std::nullopt;
  }
  const bool is_header = end >= 3 && end <= longest_header && bytes_[1] == ' ';
  const auto length = is_header ? parse_number<std::size_t>(std::string_view(bytes_).substr(2, end - 2)) : std::nullopt;
  if (!length || *length > longest_payload) refuse_bytes("\"" + bytes_.substr(0, end) + "\"");
  if (bytes_.size() < end + 1 + *length + 1) return std::nullopt;
  if (bytes_[end + 1 + *length] != '\n') refuse_bytes("a message does not end where it should");
  Frame frame{.kind = static_cast<FrameKind>(bytes_[0]), .payload = bytes_.substr(end + 1, *length)};
  base::wipe_front(bytes_, end + 1 + *length + 1);  // it may have held a secret
  return frame;
}

std::string encode(const Fields& fields) {
  std::size_t size = 0;
  for (const auto& [name, value] : fields) size += name.size() + value.size() + 2;
  std::string payload;
  payload.reserve(size);
  for (const auto& [name, value] : fields) payload.append(name).append(1, '\0').append(value).append(1, '\0');
  return payload;
}

Fields decode_fields(std::string_view payload) {
  Fields fields;
  while (!payload.empty()) {
    const auto first = payload.find('\0');
    const auto second = first == std::string_view::npos ? first : payload.find('\0', first + 1);
    if (second == std::string_view::npos) refuse_bytes("a field does not end");
    fields.emplace_back(payload.substr(0, first), payload.substr(first + 1, second - first - 1));
    payload.remove_prefix(second + 1);
  }
  return fields;
}

std::string field(const Fields& fields, std::string_view name) {
  for (const auto& [each, value] : fields)
    if (each == name) return value;
  return {};
}

base::Secret take_secret_field(Fields& fields, std::string_view name) {
  for (auto& [each, value] : fields)
    if (each == name) return base::Secret::taking(std::move(value));
  return {};
}

std::vector<std::string> all_fields(const Fields& fields, std::string_view name) {
  std::vector<std::string> values;
  for (const auto& [each, value] : fields)
    if (each == name) values.push_back(value);
  return values;
}

}  // namespace unisono::tools
