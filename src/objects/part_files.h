#pragma once

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

 private:
  std::filesystem::path path_;
  bool written_ = false;
};

/// Reads a plain file of exactly as many bytes.
void read_part(const std::filesystem::path& path, std::span<std::byte> bytes);

/// Returns 128 random bits in hexadecimal.
std::string random_name();

}  // namespace unisono::objects
