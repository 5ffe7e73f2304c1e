#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::recorder {

/// The variable that names the folder for the traces of a job: records that keep all calls, in files.
inline constexpr const char* trace_variable = "UNISONO_TRACE_DIR";
/// How many calls a trace keeps, the last ones: of the thread that called `initialize`, and as many of all others.
inline constexpr long calls_of_trace = 1L << 20;
/// The names of such files end so.
inline constexpr std::string_view trace_ending = ".trace";

/// How many entries a record has room for.
struct Room {
  std::uint32_t calls = 0, others = 0;
  std::uint32_t groups = 0;  ///< beside those of the header

  std::size_t bytes() const;
};

/// A trace grows by so many calls at a time.
inline constexpr std::uint32_t trace_chunk = 4096;

/// Makes a trace, and its folder if there is none. The file takes space as calls are made.
base::Opened make_trace_file(const std::string& folder, const std::string& name, long calls = calls_of_trace);
/// Returns the room of a file that make_trace_file has made; nothing for any other file.
std::optional<Room> room_of_trace(int fd);
/// Notes in a rank's trace that its process has ended now, unless it has left the job before. Any other file stays as it is.
void note_ended(int fd) noexcept;
/// Gets space for a part of the file. Returns false where the disk is full; a write to such memory would end the process.
bool get_space(int fd, std::size_t begin, std::size_t bytes) noexcept;

}  // namespace unisono::recorder
