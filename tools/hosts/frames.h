#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"

// What `unisono` on two hosts send each other over the standard streams of ssh, srun and the like.
namespace unisono::tools {

/// The kinds of frames, by the letter that stands for each.
enum class FrameKind : char {
  // From the command that the user has started:
  config = 'C',     ///< fields: the folder, the variables
  port = 'P',       ///< fields: the address on which a port is to be kept free; in the answer the port
  start = 'S',      ///< fields: the words of the command to run, the secret
  input = 'I',      ///< bytes for its standard input
  input_end = 'X',  ///< its end
  signal = 'K',     ///< a number
  beat = 'B',       ///< the sender lives; from either side
  pause = 'Z',      ///< no beats follow until the next frame
  closed = 'Q',     ///< the letter of output or errors, which nobody reads any more
  // From the other host:
  hello = 'H',      ///< fields: the host's name, its address, the address of the peer
  taken = 'A',      ///< so many bytes of input were taken
  output = 'O',     ///< bytes of standard output
  errors = 'E',     ///< bytes of standard error
  message = 'N',    ///< a line of the launcher's own (Console)
  result = 'R',     ///< how the command has ended: "exit 7", "signal 9"
  failed = 'F',     ///< why nothing can be done here
  cancelled = 'T',  ///< the number of the signal by which the processes here were told to end
};

/// Returns the time between two beats where the other side is lost after that silence.
inline std::chrono::milliseconds pause_of_beats(std::chrono::milliseconds silence) {
  return std::min<std::chrono::milliseconds>(silence / 4, std::chrono::seconds(1));
}

struct Frame {
  FrameKind kind = FrameKind::beat;
  std::string payload = {};
};

/// Returns a frame as bytes: the letter, the length and a line feed, then the payload and a line feed. Slurm passes only whole lines on at once.
std::string encode(FrameKind kind, std::string_view payload = {});

/// Takes frames out of a stream that may be cut anywhere.
class FrameReader {
 public:
  /// `greeting`: the line behind which the frames begin. What a shell's start-up files print before it is skipped. Empty: they begin at once.
  explicit FrameReader(std::string greeting) : greeting_(std::move(greeting)) {}

  void feed(std::string_view bytes) { base::append_wiping(bytes_, bytes); }
  /// Returns the next whole frame. Throws ProtocolError for bytes that are none, and for a frame of more than 16 MiB.
  std::optional<Frame> next();
  bool greeted() const { return greeting_.empty(); }
  /// Returns the text so far that was no greeting.
  const std::string& noise() const { return noise_; }

 private:
  void look_for_greeting();

  std::string greeting_, noise_, bytes_;
};

/// Named texts within a payload, in order; a name may come several times. Values are any bytes but NUL.
using Fields = std::vector<std::pair<std::string, std::string>>;
std::string encode(const Fields& fields);
/// Throws ProtocolError for bytes that are none.
Fields decode_fields(std::string_view payload);
/// Returns the first value of that name; empty: there is none.
std::string field(const Fields& fields, std::string_view name);
/// Takes the first value of that name out of the fields.
base::Secret take_secret_field(Fields& fields, std::string_view name);
std::vector<std::string> all_fields(const Fields& fields, std::string_view name);

}  // namespace unisono::tools
