#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "rendezvous/join.h"
#include "store/etcd.h"

namespace unisono::rendezvous {

/// Shows in a rendezvous file that this process lives: a lock on one byte far behind the content, which ends with the process, however it ends. Other
/// processes see it through any file system with working locks. The last process to go removes the file.
class Presence {
 public:
  /// Creates the file where there is none. No other process's `Presence` removes it while this object lives.
  Presence(std::string path, const base::Deadline& deadline);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  std::int64_t byte() const { return byte_; }
  bool is_alive(std::int64_t byte) const;

 private:
  bool lock_content(const base::Deadline& deadline) const;

  std::string path_;
  base::FileDescriptor fd_;
  std::int64_t byte_ = 0;
  int pid_;
};

/// Lets a join in etcd tell by its leases which processes live. Of processes of this host the system tells as well, and sooner.
void use_presence(JoinRequest& request, const std::shared_ptr<store::etcd::KeysInEtcd>& store);

}  // namespace unisono::rendezvous
