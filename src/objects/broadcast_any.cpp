#include "unisono/error.h"
#include "unisono/objects.h"

namespace unisono {

AnyValue broadcast_any(const std::optional<AnyValue>& value, Rank src, const ProcessGroup& group, const CallOptions& options) {
  detail::Parcel own = detail::parcel_at(src, group, [&] {
    return detail::make_parcel([&] {
      if (!value) throw InvalidArgument("the root has no value", {.hint = "the root gives a value, the others may give none"});
      return detail::to_bytes(*value);
    });
  });
  return detail::from_bytes<AnyValue>(
      detail::broadcast_parcel("broadcast_any", detail::object_type<AnyValue>(), std::move(own), src, group, options));
}

}  // namespace unisono
