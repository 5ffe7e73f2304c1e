#include "group/calls/check_parts.h"

#include "engines/device_copy.h"
#include "unisono/error.h"

namespace unisono::group {

void wrong(const GroupFacts& group, std::string_view name, const std::string& what, const std::string& hint) {
  throw InvalidArgument(
      what, {.operation = std::string(name), .group = group.name(), .sequence = group.sequence() + 1, .rank = group.rank(), .hint = hint});
}

void check_on_device(const GroupFacts& group, std::string_view name, const TensorView& tensor, bool of_list) {
  const auto& device = group.device();
  if (!device || device->type != tensor.device().type) {
    try {
      static_cast<void>(engines::require_runtime(tensor.device().type));
      return;
    } catch (const BackendUnavailable& missing) {
      throw Unsupported("memory of " + to_string(tensor.device()) + " cannot be communicated: " + missing.message(),
                        {.operation = std::string(name), .group = group.name(), .rank = group.rank()});
    }
  }
  if (!of_list && *device != tensor.device()) {
    wrong(group, name, "a buffer lies on " + to_string(tensor.device()) + ", and this process works on " + to_string(*device),
          "device() says which one to make current before memory is taken");
  }
}

void throw_other_dtypes(const GroupFacts& group, std::string_view name, DType in, DType out) {
  wrong(group, name, "input is " + std::string(to_string(in)) + ", output is " + std::string(to_string(out)), "no element is converted");
}

}  // namespace unisono::group
