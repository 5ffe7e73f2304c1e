#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/numbered_codes.h"
#include "base/secret.h"
#include "base/version.h"

namespace unisono::store {

// The store's protocol. Each side begins with a greeting of 16 bytes whose layout never changes: 8 bytes of magic, the wire version, and the
// library's version, so that two incompatible sides can name each other. Frames follow: a length (4 bytes) and that many bytes. All integers are
// little-endian. On TCP the first frames are the handshake (authentication.h), behind which frames may have codes (FrameSealer). Then a request is
// {op, id, fields}, its answer {status, id, fields}. Answers come in any order. Those to try_get_all may be for the first of its keys alone. Behind
// the answer `ok` to `relay`, which has no fields, all requests of the connection are those of another store's client (relay.h).

inline constexpr std::string_view magic = "UNISTORE";
inline constexpr std::uint16_t wire_version = 6;
inline constexpr std::size_t greeting_size = 16;
inline constexpr std::size_t frame_head = 4;
inline constexpr std::size_t largest_unauthenticated_frame = 256;

enum class Op : std::uint8_t { hello = 1, proof, set, get, try_get, add, wait, compare_set, erase, num_keys, will, try_get_all, relay };
enum class Status : std::uint8_t {
  ok = 1,
  challenge,  ///< handshake: the server's nonce
  absent,     ///< try_get: there is no such key
  expired,    ///< get, wait: the keys that are still missing
  invalid,    ///< the request was refused, the connection goes on
  refused,    ///< the connection is over; the text gives the reason
};

/// The content of a greeting. It names the versions where two sides do not fit.
struct Greeting {
  bool is_ours = false;  ///< the magic is right
  std::uint16_t wire = 0;
  base::Version library;
};
std::string greeting(std::string_view protocol = magic, std::uint16_t wire = wire_version);
/// Reads a greeting from at least `greeting_size` bytes.
Greeting parse_greeting(std::string_view bytes, std::string_view protocol = magic);
/// "version 0.1.0 (wire 1)"
std::string describe(const Greeting& greeting);
std::string describe_own_version();

/// Builds a frame; its length is written at the end.
class Writer {
 public:
  explicit Writer(Op op, std::uint64_t id = 0) : Writer(static_cast<std::uint8_t>(op), id) {}
  explicit Writer(Status status, std::uint64_t id = 0) : Writer(static_cast<std::uint8_t>(status), id) {}
  Writer& integer(std::uint64_t value);
  Writer& text(std::string_view value);
  std::string finish();  ///< called once

 private:
  Writer(std::uint8_t kind, std::uint64_t id);
  base::ByteWriter bytes_;
};

/// Returns a frame of the content of another one, under another number.
std::string renumbered(std::string_view content, std::uint64_t id);
/// Puts fields behind those of a frame.
std::string with_fields(std::string frame, std::string_view fields);

/// Reads the fields of a frame.
class Reader : public base::ByteReader {
 public:
  using base::ByteReader::ByteReader;
  std::uint8_t byte() { return get<std::uint8_t>(); }
  std::uint64_t integer() { return get<std::uint64_t>(); }
};

/// Collects received bytes and returns whole frames. A frame that was taken leaves no copy here, since it may hold a secret. It holds only bytes that
/// have arrived, never the room that a length field announces.
class FrameBuffer {
 public:
  void append(std::string_view bytes) { base::append_wiping(bytes_, bytes); }
  std::size_t size() const { return bytes_.size() - begin_; }
  /// Returns the next `n` bytes if they have arrived.
  std::optional<std::string> take(std::size_t n);
  /// Returns the content of the next frame if it has arrived. `too_long` is set where its length exceeds `most`.
  std::optional<std::string> take_frame(std::size_t most, bool& too_long);
  std::string_view peek() const { return std::string_view(bytes_).substr(begin_); }

 private:
  std::string bytes_;
  std::size_t begin_ = 0;
};

// The frames of a connection whose two ends have proved to each other that they know the token, and which TLS does not protect: a length (4 bytes),
// its code, the content, its code (8 bytes each, SipHash-2-4). The codes of a direction are numbered. The length has a code of its own, because it is
// believed before the content has come.

/// Seals the frames of one direction, in the order in which they are sent.
class FrameSealer {
 public:
  explicit FrameSealer(base::Secret key) : codes_(std::move(key)) {}
  /// Puts the codes into a frame of Writer::finish.
  std::string seal(std::string frame);
  /// Tells that nothing of the frame that was sealed last has been sent.
  void take_back() { number_ -= 2; }

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

/// Takes the frames of one direction, and hands out none that is not the next one that its sender has sent.
class FrameOpener {
 public:
  enum class Fault { none, too_long, changed };
  explicit FrameOpener(base::Secret key) : codes_(std::move(key)) {}
  /// Returns the content of the next frame if it has arrived; `fault` says what is wrong with what has arrived, for good.
  std::optional<std::string> take(FrameBuffer& in, std::size_t most, Fault& fault);

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

}  // namespace unisono::store
