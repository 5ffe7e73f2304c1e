// The frames between `unisono` on two hosts do not depend on where the stream was cut.
#include "hosts/frames.h"

#include <gtest/gtest.h>

#include <string>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

TEST(AgentFrames, FramesComeBackHoweverTheStreamIsCut) {
  const std::string stream =
      "what a shell prints\nready\n" + encode(FrameKind::hello, encode(Fields{{"host", "a"}, {"host", ""}})) + encode(FrameKind::beat);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader("ready");
    std::string seen;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      while (const auto frame = reader.next()) seen += encode(frame->kind, frame->payload);
    }
    EXPECT_TRUE(stream.ends_with("ready\n" + seen)) << piece;
    EXPECT_EQ(reader.noise(), "what a shell prints\n");
  }
}

TEST(AgentFrames, AHeaderIsTooLongHoweverTheStreamIsCut) {
  const std::string stream = "O 0000000000000005\nhello\n";
  for (const std::size_t piece : {std::size_t{1}, stream.size()}) {
    FrameReader reader("");
    EXPECT_THROW(
        {
          for (std::size_t at = 0; at < stream.size(); at += piece) {
            reader.feed(std::string_view(stream).substr(at, piece));
            while (reader.next()) continue;
          }
        },
        ProtocolError)
        << piece;
  }
}

}  // namespace
}  // namespace unisono::tools
