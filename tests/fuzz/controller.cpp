// What the processes of a controller's job tell each other beside objects: errors of calls, and who they are when they meet. Any bytes are read as an
// error, or refused with ProtocolError, at a cost that their number bounds.
#include <exception>
#include <stdexcept>

#include "controller/errors.h"
#include "controller/introduction.h"
#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {

void check_input(std::string_view bytes) {
  Input in(bytes);
  const bool is_error = in.flag();
  const std::string text(in.rest());
  if (is_error) {
    const auto encoded = std::as_bytes(std::span(text));
    require(controller::decode_error(encoded, {.worker = 1, .function = "f"}) != nullptr, "there is an error");
    const auto own = controller::encode_error(std::make_exception_ptr(std::runtime_error(text)));
    refuses<RemoteError>([&] { std::rethrow_exception(controller::decode_error(own, {.worker = 1, .function = "f"})); });
    return;
  }
  refuses<ProtocolError>([&] {
    const auto member = controller::decode_member(3, text);
    require(member.functions.size() <= text.size() && member.introduction.lost.size() <= text.size(), "no more is read than there is");
  });
}

}  // namespace unisono::fuzz
