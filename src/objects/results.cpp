#include "unisono/results.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/socket.h"
#include "group/calls/composed.h"
#include "objects/lines.h"
#include "store/authentication.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_seal.h"
#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono::objects {

/// The directory of the parts. A directory that we made is removed with the files in it; one of the user's stays.
class PartDirectory {
 public:
  /// Takes the user's path and makes the directory if it is missing. An empty path makes a new one in the working directory. Throws InvalidArgument
  /// where that is impossible.
  explicit PartDirectory(const std::filesystem::path& given);
  ~PartDirectory();
  PartDirectory(const PartDirectory&) = delete;
  PartDirectory& operator=(const PartDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool own_;
};

/// The file with this rank's part, removed by the destructor. Its functions throw InvalidArgument where the file is missing, is of another kind, or
/// cannot be written or read.
class PartFile {
 public:
  explicit PartFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  /// Creates the file, readable by this user only.
  void write(std::span<const std::byte> bytes);
  /// Reads the file of another rank, which has exactly as many bytes, belongs to whom this rank's own one does, and can be written by nobody else.
  /// Some file systems have owners and modes of their own, so the own file is what it is compared with.
  void read_other(const std::filesystem::path& path, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  bool written_ = false;
  uid_t owner_ = 0;
  mode_t mode_ = 0;
};

/// Returns 128 random bits in hexadecimal.
std::string random_name();

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw InvalidArgument(fmt::format("cannot {} {}: {}", what, path.native(), base::error_text(error)),
                        {.hint = "a directory that all ranks reach is needed; or collect by communication"});
}

/// Repeats the call while a signal interrupts it.
template <class F>
auto retried(F&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

PartDirectory::PartDirectory(const fs::path& given) : path_(given), own_(given.empty()) {
  if (!own_) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) fail("make the directory", path_, error.value());
    return;
  }
  std::string name = (fs::current_path() / ".unisono-results-XXXXXX").native();
  if (::mkdtemp(name.data()) == nullptr) fail("make a directory like", name, errno);
  path_ = name;
}
PartDirectory::~PartDirectory() {
  if (!own_) return;
  // std::filesystem::remove_all stops at a file that another process removes first, and the other ranks remove theirs at the same time.
  std::error_code ignored;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end; entry.increment(ignored)) ::unlink(entry->path().c_str());
  ::rmdir(path_.c_str());
}

PartFile::~PartFile() {
  if (written_) ::unlink(path_.c_str());
}

void PartFile::write(std::span<const std::byte> bytes) {
  base::FileDescriptor file(retried([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); }));
  if (!file) fail("write", path_, errno);
  written_ = true;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("write", path_, errno);
  owner_ = status.st_uid;
  mode_ = status.st_mode;
  const base::NoSizeSignal no_signal;
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (n < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (::close(file.release()) != 0 && errno != EINTR) fail("write", path_, errno);  // network file systems may report a failed write only now
}

void PartFile::read_other(const fs::path& path, std::span<std::byte> bytes) const {
  const base::FileDescriptor file(retried([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  if (!file) fail("read", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size != static_cast<off_t>(bytes.size())) {
    throw InvalidArgument(fmt::format("{} is not the file of {} bytes that was written", path.native(), bytes.size()));
  }
  if (status.st_uid != owner_ || (status.st_mode & ~mode_ & (S_IWGRP | S_IWOTH)) != 0) {
    throw InvalidArgument(fmt::format("{} belongs to another user or can be written by one", path.native()));
  }
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::read(file.get(), bytes.data(), bytes.size()); });
    if (n < 0) fail("read", path, errno);
    if (n == 0) throw InvalidArgument(fmt::format("{} became shorter while it was read", path.native()));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace unisono::objects

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

/// What a rank brings to a collection by files.
struct Brought {
  std::size_t bytes, told;
  bool has_directory;
};

/// Throws on all ranks where they differ or one cannot take part. Returns the length of what rank 0 tells.
std::size_t compare(group::Composed& call, const ObjectType& type, const Brought& own, const std::exception_ptr& error) {
  enum Item : std::size_t { fingerprint, directory, bytes, limit, told };
  const bool given = own.has_directory;
  const Lines lines(call, {type.fingerprint, given ? 1U : 0U, own.bytes, object_limits().bytes, own.told}, error);
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
  return lines.of(0, told);
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
  resize_together(told, compare(call, type, {.bytes = own.bytes.size(), .told = told.size(), .has_directory = !given.empty()}, error), group);
  const TensorView view = view_of(told);
  run(labelled(rooted({Operation::broadcast, view, view}, 0), label), group, call.options());
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
