#include "launch/api/outcome.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/socket.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::launcher {

Outcome::Outcome() : file_(static_cast<int>(::syscall(SYS_memfd_create, "unisono-outcome", MFD_CLOEXEC))) {
  if (!file_) throw StartFailed("cannot make memory for the result of a rank (memfd_create): " + error_text(errno), 1);
}

void Outcome::put(std::span<const std::byte> bytes, std::size_t at) {
  const base::NoSizeSignal no_signal;
  while (!bytes.empty()) {
    const auto done = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw LaunchFailed("cannot hand " + std::to_string(bytes.size()) + " bytes of result to the parent: " + base::error_text(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    at += static_cast<std::size_t>(done);
  }
}

void Outcome::read(void* bytes, std::size_t count, std::size_t at) const {
  auto* to = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const auto got = ::pread(file_.get(), to, count, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw LaunchFailed("cannot read the result of a rank: " + (got < 0 ? error_text(errno) : std::string("it ends too early")));
    to += got;
    at += static_cast<std::size_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

// The header is written last, so that a rank killed before it has left no result.
void Outcome::put_result(std::span<const std::byte> bytes) {
  put(bytes, sizeof(Header));
  const Header header{.kind = Kind::result, .bytes = bytes.size()};
  put(std::as_bytes(std::span(&header, 1)), 0);
}

void Outcome::put_error(const Thrown& error) {
  const std::string text = error.type + error.message;
  put(std::as_bytes(std::span(text)), sizeof(Header));
  const Header header{.kind = Kind::error, .of_peer = error.of_peer, .culprit = error.culprit, .type_bytes = error.type.size(), .bytes = text.size()};
  put(std::as_bytes(std::span(&header, 1)), 0);
}

Outcome::Header Outcome::header() const {
  Header header;
  const auto got = ::pread(file_.get(), &header, sizeof header, 0);
  return got == static_cast<ssize_t>(sizeof header) ? header : Header{};
}

bool Outcome::has_result() const { return header().kind == Kind::result; }

std::optional<Thrown> Outcome::error() const {
  const Header about = header();
  if (about.kind != Kind::error) return std::nullopt;
  std::string text(about.bytes, '\0');
  read(text.data(), text.size(), sizeof(Header));
  return Thrown{
      .type = text.substr(0, about.type_bytes), .message = text.substr(about.type_bytes), .of_peer = about.of_peer, .culprit = about.culprit};
}

std::vector<std::byte> Outcome::take_result() {
  std::vector<std::byte> bytes(header().bytes);
  read(bytes.data(), bytes.size(), sizeof(Header));
  close();
  return bytes;
}

}  // namespace unisono::launcher
