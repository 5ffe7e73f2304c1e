#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono::detail {

/// The authentication code of a part of an object.
using ObjectCode = std::array<std::uint64_t, 2>;

/// The codes of the parts of an object on its way between hosts, and its number.
struct ObjectCodes {
  std::uint64_t number = 0;
  ObjectCode head = {}, body = {};
};

/// Makes and checks the codes of the objects of one call. If nobody can change the data between the
/// ranks, it does nothing.
///
/// A code is bound to the group, the call's name and root (or the message's sender, receiver and tag), the sender, and a number that the sender uses
/// once and that only grows. So an object that was changed, that another rank has sent, that was sent by another call, or that was sent before, is
/// known before a byte of it is decoded. The secret is that of the job's connections, which the token makes.
class UNISONO_API ObjectSeal {
 public:
  enum Part : std::uint8_t { head, body };
  using Pieces = std::span<const std::span<const std::byte>>;
  static constexpr int everyone = -1;

  /// The seal of a collective. Without a root every rank sends.
  ObjectSeal(std::string_view label, std::optional<Rank> root, const ProcessGroup& group);
  /// Returns the seal of a message.
  static ObjectSeal of_message(Rank sender, Rank receiver, int tag, const ProcessGroup& group);

  bool is_needed() const { return is_needed_; }
  /// Takes the number of the object that this rank sends.
  std::uint64_t take_number() const;
  /// Returns the code of a part of this rank's object: of the pieces, one behind the other.
  ObjectCode code(std::uint64_t number, Part part, Pieces pieces, int receiver = everyone) const;
  ObjectCode code(std::uint64_t number, Part part, std::span<const std::byte> piece, int receiver = everyone) const {
    return code(number, part, Pieces(&piece, 1), receiver);
  }
  /// Ends the group and throws ProtocolError if the number of a rank's object is not a new one.
  void check_number(int sender, std::uint64_t number) const;
  /// Ends the group and throws ProtocolError if this is not the code of a part of a rank's object.
  void check(int sender, std::uint64_t number, Part part, Pieces pieces, const ObjectCode& code, int receiver = everyone) const;
  void check(int sender, std::uint64_t number, Part part, std::span<const std::byte> piece, const ObjectCode& code, int receiver = everyone) const {
    check(sender, number, part, Pieces(&piece, 1), code, receiver);
  }

  /// The end of a message that carries an object: the codes of all before it, and of what follows in further messages.
  static constexpr std::size_t trailer_bytes = sizeof(std::uint64_t) + 2 * sizeof(ObjectCode);
  /// Appends it. `further`: what follows.
  void append_trailer(std::vector<std::byte>& message, Pieces further = {}) const;
  /// Checks it. Returns the message without it, and the number and the code of what follows.
  std::pair<std::span<const std::byte>, ObjectCodes> checked(int sender, std::span<const std::byte> message) const;

 private:
  ObjectSeal(std::int64_t way, const ProcessGroup& group);
  ObjectCode made(int sender, std::uint64_t number, Part part, Pieces pieces, int receiver) const;
  [[noreturn]] void refuse(int sender, std::string_view what) const;

  const ProcessGroup* group_;
  std::int64_t way_;
  bool is_needed_;
  std::string call_;
};

/// Returns the reason why no pickle may travel in this group; null: it may. UNISONO_PICKLE=off, and hosts whose ranks know no secret.
UNISONO_API std::exception_ptr why_no_pickles(const ProcessGroup& group);
/// Throws InvalidArgument if UNISONO_PICKLE allows no pickles at all.
UNISONO_API void check_pickles();

}  // namespace unisono::detail
