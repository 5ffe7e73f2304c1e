#include "unisono/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "group/calls/composed.h"
#include "objects/lines.h"
#include "objects/part_files.h"
#include "store/authentication.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_seal.h"
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

using Hash = std::array<std::uint64_t, 4>;

/// SHA-256: the file goes by a folder that others may reach, and what it must contain by the group. It also shows a file system that is behind.
Hash hash_of(std::span<const std::byte> bytes) {
  const std::string digits = store::digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  constexpr std::size_t digits_of_word = 16;
  Hash hash{};
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] = std::stoull(digits.substr(i * digits_of_word, digits_of_word), nullptr, 16);
  return hash;
}

/// What a rank tells of its file.
struct Told {
  std::uint64_t bytes = 0;
  Hash hash = {};
  std::uint64_t number = 0;
  ObjectCode code = {};  ///< of the hash

  static Told of(const Lines& lines, int rank) {
    return {.bytes = lines.of(rank, 0),
            .hash = {lines.of(rank, 1), lines.of(rank, 2), lines.of(rank, 3), lines.of(rank, 4)},
            .number = lines.of(rank, 5),
            .code = {lines.of(rank, 6), lines.of(rank, 7)}};
  }
  std::vector<std::uint64_t> line() const { return {bytes, hash[0], hash[1], hash[2], hash[3], number, code[0], code[1]}; }
};

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
  const ObjectSeal seal(label, 0, group);
  Told mine{.bytes = own.bytes.size(), .hash = hash_of(own.bytes), .number = seal.take_number()};
  mine.code = seal.code(mine.number, ObjectSeal::body, std::as_bytes(std::span(mine.hash)));
  const Lines written(call, mine.line(), thrown_by([&] { file.write(own.bytes); }));
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
      const Told theirs = Told::of(written, r);
      seal.check(r, theirs.number, ObjectSeal::body, std::as_bytes(std::span(theirs.hash)), theirs.code);
      seal.check_number(r, theirs.number);
      const auto part = std::span(all.memory).subspan(all.sizes.before(index), sizes[index]);
      file.read_other(path_of(r), part);
      if (hash_of(part) != theirs.hash) throw InvalidArgument(fmt::format("{} is not what rank {} has written", path_of(r).native(), r));
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
