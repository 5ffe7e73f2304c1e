// Objects that travel between ranks, and lie in checkpoints. Any bytes are refused with ProtocolError, Mismatch or InvalidArgument, or read into an
// object that is written again as the same bytes; nothing is allocated for a length that the bytes do not bear out.
#include <array>
#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "input.h"
#include "unisono/any_value.h"
#include "unisono/objects.h"

namespace unisono::fuzz {

/// As a checkpoint's table has them, which itself needs LibTorch.
struct StoredTensor {
  std::string name = {};
  std::int32_t dtype = 0;
  std::vector<std::int64_t> shape = {};
  std::uint64_t offset = 0, bytes = 0;
  UNISONO_FIELDS(name, dtype, shape, offset, bytes)
};
struct Table {
  enum class Kind : std::int32_t { whole, shard, index };
  Kind kind = Kind::whole;
  std::uint64_t generation = 0;
  std::int32_t rank = 0;
  std::vector<StoredTensor> model = {};
  bool is_share = false;
  std::vector<std::string> parameters = {};
  std::vector<std::int32_t> owners = {};
  std::map<std::string, double> state = {};
  UNISONO_FIELDS(kind, generation, rank, model, is_share, parameters, owners, state)
};
/// Has members of all kinds of containers.
struct Mixed {
  std::optional<std::string> text = {};
  std::variant<int, double, std::string> one_of = {};
  std::vector<std::vector<bool>> bits = {};
  std::map<std::string, std::vector<std::optional<std::tuple<float, char>>>> nested = {};
  std::unique_ptr<int> pointer = {};
  std::array<std::uint16_t, 3> three = {};
  std::vector<std::complex<float>> numbers = {};
  UNISONO_FIELDS(text, one_of, bits, nested, pointer, three, numbers)
};

namespace {

template <class O>
void check(std::span<const std::byte> bytes) {
  try {
    const O object = detail::from_bytes<O>(bytes);
    const std::vector<std::byte> written = detail::to_bytes(object);
    const O again = detail::from_bytes<O>(written);
    require(detail::to_bytes(again) == written, "an object comes back");
  } catch (const ProtocolError&) {    // NOLINT(bugprone-empty-catch)
  } catch (const Mismatch&) {         // NOLINT(bugprone-empty-catch)
  } catch (const InvalidArgument&) {  // NOLINT(bugprone-empty-catch)
  }
}

/// Puts the head in front that the type has, so that what follows it is read.
template <class O>
void check_behind_head(std::string_view rest) {
  ObjectWriter out;
  out.array(2);
  detail::codec<std::uint64_t>::write(out, detail::object_type<O>().fingerprint);
  std::vector<std::byte> bytes = out.take();
  const auto more = std::as_bytes(std::span(rest));
  bytes.insert(bytes.end(), more.begin(), more.end());
  check<O>(bytes);
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  switch (in.choice(7)) {
    case 0: return check<Table>(std::as_bytes(std::span(in.rest())));
    case 1: return check_behind_head<Table>(in.rest());
    case 2: return check_behind_head<Mixed>(in.rest());
    case 3: return check_behind_head<AnyValue>(in.rest());
    case 4: return check_behind_head<std::map<std::string, AnyValue>>(in.rest());
    case 5: return check_behind_head<std::vector<std::vector<std::vector<std::string>>>>(in.rest());
    case 6: return check_behind_head<std::vector<std::tuple<>>>(in.rest());
    default: return check_behind_head<std::variant<std::vector<double>, std::vector<std::pair<std::int8_t, long double>>>>(in.rest());
  }
}

}  // namespace unisono::fuzz
