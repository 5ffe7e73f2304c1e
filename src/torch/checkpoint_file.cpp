#include "torch/checkpoint_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "torch/checkpoint_hash.h"
#include "unisono/detail/object_bytes.h"

namespace unisono::libtorch {
namespace {

namespace fs = std::filesystem;

struct Head {
  std::array<char, 8> magic = {'U', 'N', 'I', 'S', 'C', 'K', 'P', 'T'};
  std::uint64_t version = 1;
  std::uint64_t table_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t checksum = 0;       // covers table and data
  std::uint64_t head_checksum = 0;  // covers the fields before it
};
static_assert(sizeof(Head) == 48);

std::uint64_t checksum_of(const Head& head) { return hash_of(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, head_checksum))); }

[[noreturn]] void fail(const fs::path& path, std::string_view what, int error) {
  throw CheckpointError(path, fmt::format("{}: {}", what, std::generic_category().message(error)));
}

class File {
 public:
  explicit File(fs::path path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail(path_, "cannot be read", errno);
  }
  /// `path` is the final path, used in error messages.
  File(fs::path path, int file) : path_(std::move(path)), file_(file) {}
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int number() const { return file_; }
  void write(std::span<const std::byte> bytes, std::int64_t at) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(path_, "cannot be written", n < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      at += n;
    }
  }
  /// Reads fewer bytes than asked for where the file ends.
  std::size_t read(std::span<std::byte> bytes, std::int64_t at) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::pread(file_, bytes.data() + done, bytes.size() - done, at + static_cast<std::int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(path_, "cannot be read", errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }
  void close_written() {
    if (::fsync(file_) != 0) fail(path_, "cannot be written", errno);
    if (::close(std::exchange(file_, -1)) != 0) fail(path_, "cannot be written", errno);
  }

 private:
  fs::path path_;
  int file_;
};

std::span<const std::byte> memory_of(const at::Tensor& tensor) { return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}; }

std::string random_digits() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<std::uint64_t>(::getpid());
  return fmt::format("{:016x}", number);
}

/// A new file that takes the place of `path` once all of it is on the disk. Until then it has no name, on file systems that support this, so that
/// nothing is left when this process is killed. The name of a temporary file is random, so that a link placed there beforehand is never written
/// through.
class Replacement {
 public:
  explicit Replacement(const fs::path& path) : path_(path), partial_(path.string() + "." + random_digits() + ".partial") {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      file = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      named_ = file >= 0;
    }
    if (file < 0) fail(path, "cannot be written", errno);
    file_.emplace(path, file);
  }
  ~Replacement() {
    if (named_) ::unlink(partial_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  File& file() { return *file_; }
  void take_place() {
    if (!named_) {
      const std::string open_file = fmt::format("/proc/self/fd/{}", file_->number());
      if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, partial_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(path_, "cannot be replaced", errno);
      named_ = true;
    }
    file_->close_written();
    if (::rename(partial_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be replaced", errno);
    named_ = false;
  }

 private:
  fs::path path_, partial_;
  bool named_ = false;
  std::optional<File> file_;
};

/// Syncs the folder, because the name lasts only once its folder is on the disk. File systems that refuse this for folders do it by themselves.
void keep_name(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

/// Returns the generation of a shard's file, or 0 for any other file.
std::uint64_t generation_of(const std::string& name) {
  std::uint64_t generation = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), generation);
  const bool is_ours = error == std::errc() && std::string_view(end).starts_with(".rank-") && name.find("-of-") != std::string::npos;
  return is_ours ? generation : 0;
}

}  // namespace

void store(const std::string& name, const at::Tensor& tensor, std::vector<StoredTensor>& entries, std::vector<at::Tensor>& data) {
  std::uint64_t offset = 0;
  for (const at::Tensor& before : data) offset += before.nbytes();
  entries.push_back({.name = name,
                     .dtype = static_cast<std::int32_t>(tensor.scalar_type()),
                     .shape = tensor.sizes().vec(),
                     .offset = offset,
                     .bytes = tensor.nbytes()});
  data.push_back(tensor.detach());
}

StoredShard write_checkpoint(const fs::path& path, const CheckpointTable& table, const std::vector<at::Tensor>& data) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw InvalidArgument(fmt::format("{} is a folder", path.string()),
                          {.operation = "save_checkpoint", .hint = "name a file, or save with sharded = true"});
  }
  const std::vector<std::byte> written = detail::to_bytes(table);
  Head head;
  head.table_bytes = written.size();
  Replacement replacement(path);
  File& file = replacement.file();
  Hash hash;
  std::int64_t at = sizeof head;
  const auto put = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    file.write(bytes, at);
    at += static_cast<std::int64_t>(bytes.size());
  };
  put(written);
  for (const at::Tensor& tensor : data) put(memory_of(tensor.resolve_conj().resolve_neg().cpu().contiguous()));
  head.data_bytes = static_cast<std::uint64_t>(at) - sizeof head - head.table_bytes;
  head.checksum = hash.value();
  head.head_checksum = checksum_of(head);
  file.write(std::as_bytes(std::span(&head, 1)), 0);
  replacement.take_place();
  keep_name(path);
  return {static_cast<std::uint64_t>(at), head.checksum};
}

at::Tensor CheckpointContents::bytes_of(const StoredTensor& entry) const {
  return data.narrow(0, static_cast<std::int64_t>(entry.offset), static_cast<std::int64_t>(entry.bytes));
}

CheckpointContents read_checkpoint(const fs::path& path) {
  File file(path);
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0) fail(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) throw CheckpointError(path, "is no file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  Head head;
  const Head ours;
  const std::size_t got = file.read(std::as_writable_bytes(std::span(&head, 1)), 0);
  if (got < sizeof head && (got < sizeof head.magic || head.magic == ours.magic)) {
    throw CheckpointError(path, fmt::format("is cut short: it has {} bytes, and the head of a checkpoint alone has {}", size, sizeof head));
  }
  if (head.magic != ours.magic) throw CheckpointError(path, "is not a checkpoint of unisono");
  if (head.head_checksum != checksum_of(head)) throw CheckpointError(path, "is damaged: the checksum of its head is wrong");
  if (head.version != ours.version) {
    throw CheckpointError(path, fmt::format("has version {} of the format, and this is a unisono for version {}", head.version, ours.version));
  }
  const std::uint64_t expected = sizeof head + head.table_bytes + head.data_bytes;
  if (size != expected || head.table_bytes > size || head.data_bytes > size) {
    throw CheckpointError(path,
                          fmt::format("{}: it has {} bytes of {}", size < expected ? "is cut short" : "has data after its end", size, expected));
  }
  std::vector<std::byte> table(head.table_bytes);
  CheckpointContents contents;
  contents.data = at::empty({static_cast<std::int64_t>(head.data_bytes)}, at::kByte);
  contents.file = {size, head.checksum};
  const std::span<std::byte> data(static_cast<std::byte*>(contents.data.data_ptr()), head.data_bytes);
  Hash hash;
  if (file.read(table, sizeof head) < table.size() || file.read(data, static_cast<std::int64_t>(sizeof head + head.table_bytes)) < data.size()) {
    throw CheckpointError(path, "has become shorter while it was read");
  }
  hash.add(table);
  hash.add(data);
  if (hash.value() != head.checksum) throw CheckpointError(path, "is damaged: its checksum is wrong");
  try {
    contents.table = detail::from_bytes<CheckpointTable>(table);
  } catch (const Error& error) {
    throw CheckpointError(path, fmt::format("is of another version of unisono: {}", error.message()));
  }
  for (const auto* list : {&contents.table.model, &contents.table.generators, &contents.table.optimizer}) {
    for (const StoredTensor& entry : *list) {
      if (entry.bytes <= head.data_bytes && entry.offset <= head.data_bytes - entry.bytes) continue;
      throw CheckpointError(path, fmt::format("is damaged: {} lies outside of it", entry.name));
    }
  }
  return contents;
}

fs::path index_path(const fs::path& folder) { return folder / "index"; }
fs::path shard_path(const fs::path& folder, std::uint64_t generation, int rank, int world_size) {
  return folder / fmt::format("{}.rank-{}-of-{}", generation, rank, world_size);
}

std::uint64_t open_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    throw InvalidArgument(fmt::format("{} is no folder", folder.string()),
                          {.operation = "save_checkpoint", .hint = "a sharded checkpoint is a folder"});
  }
  fs::create_directories(folder, error);
  std::uint64_t last = 0;
  if (!error) {
    // Files left by a job that was killed count as well, so that no file listed in an index is written to twice.
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      last = std::max(last, generation_of(it->path().filename().string()));
    }
  }
  if (error) throw CheckpointError(folder, fmt::format("cannot be written: {}", error.message()));
  return last + 1;
}

void forget_others(const fs::path& folder, std::uint64_t generation) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::uint64_t other = generation_of(it->path().filename().string());
    std::error_code ignored;
    if (other != 0 && other != generation) fs::remove(it->path(), ignored);
  }
}

}  // namespace unisono::libtorch
