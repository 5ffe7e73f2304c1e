#include "unisono/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>

#include "group/composed.h"
#include "objects/lines.h"
#include "objects/part_files.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

using objects::Lines;

constexpr std::string_view label = "collect_results";

/// Returns the exception that f throws, or null.
template <class F>
std::exception_ptr thrown_by(F&& f) {
  try {
    f();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void compare(group::Composed& call, const ObjectType& type, std::size_t own_bytes, bool given, const std::exception_ptr& error) {
  enum Item : std::size_t { fingerprint, directory, bytes, limit };
  const Lines lines(call, {type.fingerprint, given ? 1U : 0U, own_bytes, object_limits().bytes}, error);
  if (const auto found = lines.difference_in(fingerprint)) {
    const int other = found->other;
    call.throw_mismatch(*found, fmt::format("the part is {} here, and {} on rank {}", type.name, lines.text_from(other, type.name), other));
  }
  if (const auto found = lines.difference_in(directory)) {
    const std::string there = fmt::format("on rank {}", found->other);
    call.throw_mismatch(*found, fmt::format("a directory is given {}, but not {}", given ? "here" : there, given ? there : "here"));
  }
  lines.nobody_failed();
  lines.nothing_too_large(bytes, limit);
}

/// Collects by files with random names, so that a file left in the directory by an earlier run is never taken for a part.
std::optional<ByteParts> collect_by_files(const ObjectType& type, const Parcel& own, const std::filesystem::path& given, const ProcessGroup& group,
                                          const CallOptions& options) {
  check_exchanging({.operation = Operation::all_gather, .in = nothing(), .out = nothing(), .label = label}, group, options);
  group::Composed call(label, group, options);
  const bool is_root = group.rank() == 0;

  std::exception_ptr error = own.error;
  std::unique_ptr<objects::PartDirectory> directory;
  std::vector<std::byte> told;  // the random name of this call, then the path
  constexpr std::size_t name_length = 32;
  if (is_root && !error) {
    error = thrown_by([&] {
      directory = std::make_unique<objects::PartDirectory>(given);
      const std::string text = objects::random_name() + directory->path().native();
      told.resize(text.size());
      std::transform(text.begin(), text.end(), told.begin(), [](char c) { return static_cast<std::byte>(c); });
    });
  }
  compare(call, type, own.bytes.size(), !given.empty(), error);
  broadcast_bytes(told, 0, label, group, call.options());
  const std::string text(reinterpret_cast<const char*>(told.data()), told.size());
  const std::filesystem::path place = given.empty() ? std::filesystem::path(text.substr(name_length)) : given;
  const auto path_of = [&](int rank) { return place / fmt::format(".unisono-{}-part-{}", text.substr(0, name_length), rank); };

  objects::PartFile file(path_of(group.rank()));
  const Lines written(call, {own.bytes.size()}, thrown_by([&] { file.write(own.bytes); }));
  written.nobody_failed();

  ByteParts all;
  const std::exception_ptr unread = thrown_by([&] {
    if (!is_root) return;
    std::vector<std::size_t> sizes;
    for (int r = 0; r < group.size(); ++r) sizes.push_back(written.of(r, 0));
    all.sizes = sizes;
    all.memory.resize(all.sizes.total());
    for (int r = 0; r < group.size(); ++r) {
      const auto index = static_cast<std::size_t>(r);
      objects::read_part(path_of(r), std::span(all.memory).subspan(all.sizes.before(index), sizes[index]));
    }
  });
  Lines(call, {}, unread).nobody_failed();
  if (!is_root) return std::nullopt;
  return all;
}

}  // namespace

std::optional<ByteParts> collect_parcels(const ObjectType& type, Parcel own, const CollectOptions& how, const ProcessGroup& group,
                                         const CallOptions& options) {
  if (how.via == CollectVia::shared_dir) return collect_by_files(type, own, how.tmpdir, group, options);
  if (!how.tmpdir.empty() && !own.error) {
    own.error = std::make_exception_ptr(InvalidArgument("a directory is given, but the results are collected by communication"));
  }
  return gather_parcels(label, type, own, 0, group, options);
}

}  // namespace unisono::detail
