#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

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

}  // namespace unisono::objects
