// Checks of calls on lists of tensors.

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "engines/device_copy.h"
#include "group/calls/check.h"
#include "group/calls/check_parts.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::group {

void wrong(const GroupFacts& group, std::string_view name, const std::string& what, const std::string& hint) {
  throw InvalidArgument(
      what, {.operation = std::string(name), .group = group.name(), .sequence = group.sequence() + 1, .rank = group.rank(), .hint = hint});
}

/// Throws Unsupported where the caller's stream is captured into a graph: the ranks agree on a call when it is made, and a graph would repeat it
/// without that.
static void check_not_captured(const GroupFacts& group, std::string_view name, Device device) {
  if (!device_runtime()->is_captured(device, current_stream())) [[likely]]
    return;
  throw Unsupported("the current stream is being captured into a graph, and calls of unisono cannot be a part of one",
                    {.operation = std::string(name),
                     .group = group.name(),
                     .rank = group.rank(),
                     .hint = "end the capture before the call, and launch the graph's parts around it"});
}

void check_on_device(const GroupFacts& group, std::string_view name, const TensorView& tensor, bool of_list) {
  const auto& device = group.device();
  if (!device || device->type != tensor.device().type) {
    try {
      static_cast<void>(engines::require_runtime(tensor.device().type));
      return check_not_captured(group, name, tensor.device());
    } catch (const BackendUnavailable& missing) {
      throw Unsupported("memory of " + to_string(tensor.device()) + " cannot be communicated: " + missing.message(),
                        {.operation = std::string(name), .group = group.name(), .rank = group.rank()});
    }
  }
  if (!of_list && *device != tensor.device()) {
    wrong(group, name, "a buffer lies on " + to_string(tensor.device()) + ", and this process works on " + to_string(*device),
          "device() says which one to make current before memory is taken");
  }
  check_not_captured(group, name, tensor.device());
}

void throw_other_dtypes(const GroupFacts& group, std::string_view name, DType in, DType out) {
  wrong(group, name, "input is " + std::string(to_string(in)) + ", output is " + std::string(to_string(out)), "no element is converted");
}

void check_list(const GroupFacts& group, std::string_view name, std::span<const TensorView> tensors, std::span<const TensorView> others,
                bool written) {
  for (std::size_t j = 0; j < tensors.size(); ++j) {
    const TensorView& tensor = tensors[j];
    const TensorView& first = tensors.front();
    const std::string which = "tensor " + std::to_string(j);
    check_device(group, name, tensor, true);
    if (is_on_device(tensor) != is_on_device(first))
      wrong(group, name, which + " lies on " + to_string(tensor.device()) + ", tensor 0 on " + to_string(first.device()));
    if (tensor.dtype() != first.dtype()) {
      wrong(group, name, which + " is " + std::string(to_string(tensor.dtype())) + ", tensor 0 " + std::string(to_string(first.dtype())));
    }
    if (tensor.numel() != first.numel()) wrong(group, name, which + " has " + elements(tensor.numel()) + ", tensor 0 " + elements(first.numel()));
    if (written && repeats(tensor)) wrong(group, name, which + " has a stride of 0: several of its elements are one");
    const auto in_the_way = [&](const TensorView& other) { return overlap(tensor, other); };
    if (std::ranges::any_of(tensors.first(j), in_the_way)) wrong(group, name, which + " overlaps one before it");
    if (std::ranges::any_of(others, in_the_way)) wrong(group, name, "input and output overlap");
  }
}

void check_rank_list(const GroupFacts& group, std::string_view name, std::span<const TensorView> list, const TensorView& single, bool written) {
  if (list.size() != static_cast<std::size_t>(group.size())) {
    wrong(group, name, "the list has " + std::to_string(list.size()) + " buffers in a group of " + std::to_string(group.size()),
          "there is one for every rank");
  }
  const TensorView& own = list[static_cast<std::size_t>(group.rank())];
  check_list(group, name, list, same_view(own, single) ? std::span<const TensorView>() : std::span(&single, 1), written);
  check_dtypes(group, name, written ? single : list.front(), written ? list.front() : single);
  if (list.front().numel() != single.numel()) {
    wrong(group, name, "the buffers of the list have " + elements(list.front().numel()) + ", the single one has " + std::to_string(single.numel()),
          "each holds the block of one rank");
  }
}

void check_block_lists(const GroupFacts& group, std::string_view name, std::span<const TensorView> wholes, std::span<const TensorView> parts) {
  if (wholes.size() != parts.size()) {
    wrong(group, name, "one list has " + std::to_string(wholes.size()) + " tensors, the other " + std::to_string(parts.size()));
  }
  if (wholes.empty()) return;
  const TensorView& whole = wholes.front();
  const TensorView& part = parts.front();
  check_dtypes(group, name, part, whole);
  const auto blocks = static_cast<std::int64_t>(parts.size()) * group.size();
  if (whole.numel() == blocks * part.numel()) return;
  wrong(group, name, "a tensor of " + elements(whole.numel()) + " for " + std::to_string(blocks) + " blocks of " + std::to_string(part.numel()),
        "it holds a block for every tensor of every rank");
}

void check_one_place(const GroupFacts& group, std::string_view name, std::span<const TensorView> list, std::span<const TensorView> other) {
  for (std::size_t j = 0; j < list.size(); ++j) {
    if (list[j].device() == other[j].device()) continue;
    wrong(group, name, "input " + std::to_string(j) + " lies on " + to_string(list[j].device()) + ", its output on " + to_string(other[j].device()));
  }
}

void check_sent(const GroupFacts& group, std::string_view name, std::span<const TensorView> tensors) {
  if (group.refused_values() == RefusedValues::none) [[likely]]
    return;
  for (const TensorView& tensor : tensors) check_values(group, name, tensor);
}

void check_place(const GroupFacts& group, std::string_view name, const TensorView& tensor) { check_device(group, name, tensor); }

std::vector<TensorView> locate_list(const GroupFacts& group, std::span<const TensorView> tensors) {
  std::vector<TensorView> all(tensors.begin(), tensors.end());
  for (TensorView& tensor : all) locate(group, tensor);
  return all;
}

void check_values(const GroupFacts& group, std::string_view name, const TensorView& sent) {
  TensorView located = sent;
  locate(group, located);
  if (is_on_device(located)) return;
  const Refused refused = look_for(group.refused_values(), sent);
  if (refused.count == 0) return;
  wrong(group, name,
        fmt::format("element {} of the {} that this rank gives is {}{}", refused.first, sent.numel(), refused.is_nan ? "NaN" : "infinite",
                    refused.count == 1 ? "" : fmt::format(", the first of {} such numbers", refused.count)),
        "UNISONO_CHECK checks them before anything is sent: they had these values before this call");
}

}  // namespace unisono::group
