#include "trace/text_file.h"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "unisono/error.h"

namespace unisono::tools {

TextFile::TextFile(std::string path) : path_(std::move(path)), new_path_(path_ + ".new"), file_(new_path_, std::ios::binary | std::ios::trunc) {
  if (!file_) fail();
}

TextFile::~TextFile() {
  if (is_finished_) return;
  file_.close();
  std::remove(new_path_.c_str());
}

void TextFile::flush() {
  file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
  if (!file_) fail();
}

void TextFile::finish() {
  flush();
  file_.close();
  if (!file_ || std::rename(new_path_.c_str(), path_.c_str()) != 0) fail();
  is_finished_ = true;
}

void TextFile::fail() { throw Error("cannot write " + path_ + ": " + std::generic_category().message(errno), {}); }

std::string json_string(std::string_view text) {
  std::string plain = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (auto at = plain.find('<'); at != std::string::npos; at = plain.find('<', at)) plain.replace(at, 1, "\\u003c");
  return plain;
}

}  // namespace unisono::tools
