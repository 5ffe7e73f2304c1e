#include "recorder/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "recorder/layout.h"

namespace unisono::recorder {
namespace {

constexpr long most_calls = 1L << 26;
constexpr std::uint32_t more_groups = 1024;

Room room_for(long calls) {
  const auto whole = static_cast<std::uint32_t>((std::clamp(calls, 1L, most_calls) + trace_chunk - 1) / trace_chunk * trace_chunk);
  return {.calls = whole, .others = whole, .groups = more_groups};
}

}  // namespace

std::size_t Room::bytes() const { return record_bytes(calls, others, groups); }

base::Opened make_trace_file(const std::string& folder, const std::string& name, long calls) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = (std::filesystem::path(folder) / (name + std::string(trace_ending))).native();
  constexpr mode_t for_its_user = 0600;
  base::Opened made{.fd = base::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, for_its_user))};
  if (!made.fd) return {.fd = {}, .error = errno};
  const Room room = room_for(calls);
  const std::size_t first = record_bytes(0, 0, room.groups);
  if (::ftruncate(made.fd.get(), static_cast<off_t>(room.bytes())) == 0 && get_space(made.fd.get(), 0, first)) return made;
  made = {.fd = {}, .error = errno != 0 ? errno : ENOSPC};
  ::unlink(path.c_str());
  return made;
}

std::optional<Room> room_of_trace(int fd) {
  struct stat about {};
  if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  if (error || !name.native().ends_with(trace_ending)) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(about.st_size);
  const std::size_t fixed = record_bytes(0, 0, more_groups);
  if (bytes <= fixed) return std::nullopt;
  const auto calls = static_cast<std::uint32_t>((bytes - fixed) / sizeof(CallEntry) / 2);
  const Room room{.calls = calls, .others = calls, .groups = more_groups};
  return room.bytes() == bytes && calls % trace_chunk == 0 ? std::optional(room) : std::nullopt;
}

void note_ended(int fd) noexcept {
  if (!room_of_trace(fd)) return;
  void* const address = ::mmap(nullptr, sizeof(RecordHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return;
  auto& header = *static_cast<RecordHeader*>(address);
  const auto state = static_cast<RankState>(header.state.load());
  if (header.magic.load() == record_magic && state != RankState::left) {
    header.note_clock();
    header.state.store(static_cast<std::uint32_t>(RankState::ended));
  }
  ::munmap(address, sizeof(RecordHeader));
}

bool get_space(int fd, std::size_t begin, std::size_t bytes) noexcept {
  const int error = ::posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  if (error != 0) errno = error;
  return error == 0;
}

}  // namespace unisono::recorder
