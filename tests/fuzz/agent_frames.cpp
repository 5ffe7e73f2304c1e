// The frames that `unisono` on two hosts send each other over ssh. A stream that is cut anywhere is refused with ProtocolError at the same place, or
// gives the same frames; frames and fields that are encoded come back.
#include "hosts/frames.h"

#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using tools::Frame;

struct Taken {
  std::string frames;  // encoded again
  bool is_refused = false;
};

Taken take(std::string_view stream, std::string_view greeting, std::size_t piece) {
  tools::FrameReader reader{std::string(greeting)};
  Taken taken;
  const auto drain = [&] {
    while (const auto frame = reader.next()) {
      taken.frames += tools::encode(frame->kind, frame->payload);
      refuses<ProtocolError>([&] {
        const tools::Fields fields = tools::decode_fields(frame->payload);
        require(tools::encode(fields) == frame->payload, "fields come back");
      });
    }
  };
  taken.is_refused = refuses<ProtocolError>([&] {
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(stream.substr(at, piece));
      drain();
    }
  });
  return taken;
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  const std::string greeting = in.flag() ? in.text(16) : std::string();
  const std::size_t piece = 1 + in.choice(31);
  std::string stream;
  if (in.flag()) {
    if (!greeting.empty() && greeting.find('\n') == std::string::npos) stream = greeting + "\n";
    const bool is_whole = !stream.empty() || greeting.empty();
    std::string sent;
    while (in.has_more()) {
      const auto kind = static_cast<tools::FrameKind>(in.number<char>());
      std::string payload = in.text();
      if (in.flag()) payload = tools::encode(tools::Fields{{"name", payload.substr(0, payload.find('\0'))}});
      if (static_cast<char>(kind) == '\n') continue;  // it would be the end of a header
      sent += tools::encode(kind, payload);
    }
    stream += sent;
    const Taken taken = take(stream, greeting, piece);
    require(!is_whole || (!taken.is_refused && taken.frames == sent), "frames come back");
    return;
  }
  stream = in.rest();
  const Taken at_once = take(stream, greeting, std::max<std::size_t>(stream.size(), 1)), in_pieces = take(stream, greeting, piece);
  require(in_pieces.is_refused == at_once.is_refused && in_pieces.frames == at_once.frames, "the cuts change nothing");
}

}  // namespace unisono::fuzz
