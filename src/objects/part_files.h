#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace unisono::objects {

/// Where the parts lie. One that we made is removed with the files in it; one of the user's stays.
class PartDirectory {
 public:
  /// The user's, made if it is not there; an empty path: a new one in the working directory. InvalidArgument where that cannot be.
  explicit PartDirectory(const std::filesystem::path& given);
  ~PartDirectory();
  PartDirectory(const PartDirectory&) = delete;
  PartDirectory& operator=(const PartDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool own_;
};

/// The file of this rank; removed in the end. All of these throw InvalidArgument where the file is not there, is not what it should be, or
/// cannot be written or read.
class PartFile {
 public:
  explicit PartFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  /// A new file, which nobody else may read.
  void write(std::span<const std::byte> bytes);

 private:
  std::filesystem::path path_;
  bool written_ = false;
};

/// A plain file of exactly as many bytes.
void read_part(const std::filesystem::path& path, std::span<std::byte> bytes);

/// 128 random bits, in hexadecimal.
std::string random_name();

}  // namespace unisono::objects
