// The file of a store on a shared file system, as a dying process or a bad disk may have left it. A file is refused with InvalidArgument, or read up
// to its last whole record: what stood there before is there, and what is written next is read by others.
#include "store/file_log.h"

#include "base/hash.h"
#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

std::string record(std::uint8_t kind, std::string_view key, std::string_view value) {
  const std::string body = base::ByteWriter().put(kind).text(key).text(value).take();
  return base::ByteWriter().put(static_cast<std::uint32_t>(body.size())).put(static_cast<std::uint32_t>(base::stable_hash(body))).raw(body).take();
}

/// The file's name, which the log opens, writes and cuts.
class File {
 public:
  explicit File(std::string_view content) {
    char name[] = "/tmp/unisono-fuzz-XXXXXX";
    fd_ = base::FileDescriptor(::mkstemp(name));
    path_ = name;
    require(fd_.valid() && ::write(fd_.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()), "there is a file");
  }
  ~File() { ::unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  base::FileDescriptor fd_;
  std::string path_;
};

/// Returns true where all of these are in the log.
bool has_all(const store::FileLog& log, const store::Table& table, int keys) {
  for (int i = 0; i < keys; ++i) {
    const std::string key(1, static_cast<char>('a' + i));
    const std::string *const here = log.table().find(key), *const there = table.find(key);
    if ((here == nullptr) != (there == nullptr) || (here != nullptr && *here != *there)) return false;
  }
  return true;
}

}  // namespace

void check_input(std::string_view bytes) {
  constexpr int keys = 4;
  Input in(bytes);
  std::string content;
  store::Table whole;
  if (in.choice(3) != 0) content = std::string("UNISLOG\x01", 8);
  while (in.has_more() && in.choice(3) != 0) {
    const std::string key(1, static_cast<char>('a' + in.choice(keys - 1))), value = in.text(60);
    const bool sets = in.flag();
    if (!content.empty()) content += record(sets ? 1 : 2, key, sets ? value : "");
    if (content.empty()) continue;
    if (sets) whole.set(key, value);
    else whole.erase(key);
  }
  const std::string_view damage = in.rest();
  content += damage;
  const File file(content);
  refuses<InvalidArgument>([&] {
    store::FileLog log(file.path());
    {
      const auto guard = log.try_lock(true);
      log.refresh();
      require(!damage.empty() || has_all(log, whole, keys), "what stood there is there");
      log.set("ours", "value");
    }
    store::FileLog other(file.path());
    const auto guard = other.try_lock(false);
    other.refresh();
    const std::string* const found = other.table().find("ours");
    require(found != nullptr && *found == "value", "others read what is written next");
    require(has_all(other, log.table(), keys) && other.table().size() == log.table().size(), "others read the same");
  });
}

}  // namespace unisono::fuzz
