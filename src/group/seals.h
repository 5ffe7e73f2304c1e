#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/secret.h"
#include "coordination/coordination.h"

namespace unisono::group {

/// What keeps the objects of a group from being changed, replaced and repeated on their way between hosts. Elements that travel as they are have no
/// codes; objects have, because somebody decodes them.
class Seals {
 public:
  enum class Need {
    none,        ///< nobody can change what travels: on one host, over TLS, over loopback
    codes,       ///< every object carries a code
    impossible,  ///< the ranks know no secret that others do not
  };
  /// `engine`: the name of the one that moves the bytes between hosts.
  Seals(const coordination::Coordination& coordination, std::string_view engine);

  Need need() const { return need_; }
  const base::Secret& secret() const { return secret_; }
  /// Returns the text by which no other group is known.
  const std::string& group() const { return group_; }
  /// Returns the number of this rank's next object, which no other object of this rank in this group has.
  std::uint64_t next();
  /// Takes the number of an object of a rank, which came by a collective (`way` any_collective) or by messages with the tag `way`. Returns false
  /// where it is not above the last one that came this way: it was sent before, and is repeated.
  bool accept(int from, std::int64_t way, std::uint64_t number);
  static constexpr std::int64_t any_collective = INT64_MIN;

 private:
  Need need_ = Need::none;
  base::Secret secret_;
  std::string group_;
  std::mutex mutex_;
  std::uint64_t own_ = 0;
  std::map<std::pair<int, std::int64_t>, std::uint64_t> last_;
};

}  // namespace unisono::group
