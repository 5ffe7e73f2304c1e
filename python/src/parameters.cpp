// All parameters of a model in one call, all entries of a dictionary, one seed for all ranks; and the results of all ranks on one.

#include "unisono/parameters.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "calls.h"
#include "docs/parameters.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "pickling.h"
#include "unisono/results.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

void reduce_together(const std::vector<detail::NamedTensor>& tensors, const detail::Together& how, const Trailing& trailing) {
  unlocked([&] { detail::reduce_together(tensors, how, trailing.group, trailing.options); });
}

/// Every entry in place: buffers as they are, numbers put back.
void reduce_entries(const nb::dict& entries, std::string_view label, ReduceOp op, const Trailing& trailing, const char* operation) {
  std::vector<Buffer> buffers;
  std::vector<std::pair<nb::object, std::unique_ptr<Value>>> numbers;
  std::vector<detail::NamedTensor> tensors;
  for (const auto& [key, entry] : entries) {
    if (!PyUnicode_Check(key.ptr())) throw_invalid(operation, "the keys of the dictionary are not all str");
    if (Value::is_value(entry)) {
      numbers.emplace_back(nb::borrow(key), std::make_unique<Value>(entry, operation));
      numbers.back().second->check_result_fits(op, size_of_group(trailing.group), operation);
      tensors.push_back({nb::cast<std::string>(key), numbers.back().second->view()});
    } else {
      buffers.emplace_back(entry, Use::write, operation);
      tensors.push_back({nb::cast<std::string>(key), buffers.back().view()});
    }
  }
  detail::sort_by_name(tensors);
  reduce_together(tensors, {.label = label, .op = op}, trailing);
  for (const auto& [key, value] : numbers) entries[key] = value->object();
}

nb::object average_across_processes(nb::handle x, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "average_across_processes");
  if (nb::isinstance<nb::dict>(x)) {
    reduce_entries(nb::borrow<nb::dict>(x), "average_across_processes", ReduceOp::avg, trailing, "average_across_processes");
    return nb::borrow(x);
  }
  const auto request_on = [](const TensorView& view) {
    detail::Request request = request_of(Operation::all_reduce, view, view);
    request.op = ReduceOp::avg;
    request.label = "average_across_processes";
    return request;
  };
  if (Value::is_value(x)) {
    Value value(x, "average_across_processes");
    value.check_result_fits(ReduceOp::avg, size_of_group(trailing.group), "average_across_processes");
    carry_out(request_on(value.view()), trailing);
    return value.object();
  }
  const Buffer buffer(x, Use::write, "average_across_processes");
  carry_out(request_on(buffer.view()), trailing, buffer.stream());
  return nb::borrow(x);
}

nb::object all_reduce_dict(nb::dict entries, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_reduce_dict");
  reduce_entries(entries, "all_reduce_dict", reduce_op_of(op, "all_reduce_dict"), trailing, "all_reduce_dict");
  return entries;
}

void all_reduce_params(nb::handle params, bool coalesce, int bucket_size_mb, nb::handle op, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "all_reduce_params");
  if (bucket_size_mb != -1 && bucket_size_mb <= 0) {
    throw_invalid("all_reduce_params", "buckets cannot be of " + std::to_string(bucket_size_mb) + " MiB", "-1 stands for one bucket for each dtype");
  }
  std::vector<Buffer> buffers;
  for (const nb::handle each : params) buffers.emplace_back(each, Use::write, "all_reduce_params");
  std::vector<detail::NamedTensor> tensors;
  for (const Buffer& buffer : buffers) tensors.push_back({"parameter " + std::to_string(tensors.size()), buffer.view()});
  reduce_together(tensors,
                  {.label = "all_reduce_params",
                   .op = reduce_op_of(op, "all_reduce_params"),
                   .coalesce = coalesce,
                   .bucket_bytes = bucket_size_mb == -1 ? SIZE_MAX : static_cast<std::size_t>(bucket_size_mb) << 20},
                  trailing);
}

std::uint32_t random_seed(nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "sync_random_seed");
  return unlocked([&] { return sync_random_seed(trailing.group, trailing.options); });
}

/// The parts of all ranks at rank 0, through files.
nb::object collect_by_files(nb::handle part, const std::string& tmpdir, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "collect_results");
  const std::exception_ptr refusal = detail::why_no_pickles(trailing.group);
  const Pickled own = refusal ? Pickled(refusal) : Pickled(part);
  detail::Parcel parcel{.bytes = own.error() ? std::vector<std::byte>() : packed(own), .error = own.error()};
  const auto collected = unlocked([&] {
    return detail::collect_parcels(python_object_type(), std::move(parcel), {.via = CollectVia::shared_dir, .tmpdir = tmpdir}, trailing.group,
                                   trailing.options);
  });
  if (!collected) return nb::none();
  nb::list parts;
  for (std::size_t r = 0; r < collected->size(); ++r) parts.append(unpacked((*collected)[r]));
  return parts;
}

nb::object collect(nb::handle part, nb::handle group, nb::handle timeout, int tag) {
  return gather_all("collect_results", part, Rank(0), Trailing(group, timeout, tag, "collect_results"));
}

}  // namespace

void bind_parameters(nb::module_& m) {
  def_call(m, "average_across_processes", &average_across_processes, "x: X", "X", docs::average_across_processes, "x"_a.none());
  def_call(m, "all_reduce_dict", &all_reduce_dict, "entries: dict[str, typing.Any], op: ReduceOp | str = 'sum'", "dict[str, typing.Any]",
           docs::all_reduce_dict, "entries"_a, "op"_a = sum_op());
  m.def("all_reduce_params", &all_reduce_params, "params"_a, nb::kw_only(), "coalesce"_a = true, "bucket_size_mb"_a = -1, "op"_a = sum_op(),
        "group"_a = nb::none(), "timeout"_a = nb::none(), "tag"_a = 0,
        nb::sig("def all_reduce_params(params: collections.abc.Iterable[Buffer], *, coalesce: bool = True, bucket_size_mb: int = -1, "
                "op: ReduceOp | str = 'sum', group: ProcessGroup | None = None, timeout: Seconds = None, tag: int = 0) -> None"),
        docstring(docs::all_reduce_params).c_str());
  def_call(m, "sync_random_seed", &random_seed, "", "int", docs::sync_random_seed);
  def_call(m, "_collect", &collect, "part: typing.Any", "typing.Any", "", "part"_a.none());
  def_call(m, "_collect_by_files", &collect_by_files, "part: typing.Any, tmpdir: str", "typing.Any", "", "part"_a, "tmpdir"_a);
}

}  // namespace unisono::python
