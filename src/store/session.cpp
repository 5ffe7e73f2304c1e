#include "store/session.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/socket.h"
#include "base/tls.h"

namespace unisono::store {

void Session::send(std::string frame) {
  if (sealer) frame = sealer->seal(std::move(frame));
  if (out.empty()) {
    out = std::move(frame);
  } else {
    base::append_wiping(out, frame);
    base::wipe(frame);
  }
}

bool Session::write() {
  if (tls && !tls->flush()) return false;
  while (unsent() > 0) {
    const ssize_t n = base::send(fd.get(), tls.get(), out.data() + sent, unsent());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return false;
    if (n < 0) break;
    sent += static_cast<std::size_t>(n);
  }
  if (unsent() == 0) {
    base::wipe(out);  // it may have held a secret
    out.shrink_to_fit();
    sent = 0;
    if (stage == Stage::closing && tls) tls->close();
    if (stage == Stage::closing && !is_blocked()) ::shutdown(fd.get(), SHUT_WR);
  } else if (sent > enough_unsent) {
    base::wipe_front(out, sent);
    sent = 0;
  }
  return true;
}

}  // namespace unisono::store
