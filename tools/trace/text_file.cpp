#include "trace/text_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/files.h"
#include "unisono/error.h"

namespace unisono::tools {

TextFile::TextFile(std::string path) : path_(std::move(path)), new_path_(path_ + ".new"), file_(base::open_to_write(new_path_.c_str(), 0666)) {
  if (!file_) fail();
  is_made_ = true;
}

TextFile::~TextFile() {
  if (!is_finished_ && is_made_) std::remove(new_path_.c_str());
}

void TextFile::flush() {
  const bool is_written = base::write_all(file_.get(), buffer_.data(), buffer_.size());
  buffer_.clear();
  if (!is_written) fail();
}

void TextFile::finish() {
  flush();
  if (::close(file_.release()) != 0 || std::rename(new_path_.c_str(), path_.c_str()) != 0) fail();
  is_finished_ = true;
}

void TextFile::fail() { throw Error("cannot write " + path_ + ": " + std::generic_category().message(errno), {}); }

std::string json_string(std::string_view text) {
  std::string plain = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (auto at = plain.find('<'); at != std::string::npos; at = plain.find('<', at)) plain.replace(at, 1, "\\u003c");
  return plain;
}

}  // namespace unisono::tools
