#include "rendezvous/etcd_presence.h"

#include <cerrno>
#include <csignal>

namespace unisono::rendezvous {

void use_presence(JoinRequest& request, const std::shared_ptr<store::etcd::KeysInEtcd>& store) {
  request.self.presence = store->presence();
  request.is_alive = [store, machine = request.self.member.machine](const Record& record) {
    if (record.member.machine == machine && ::kill(record.member.pid, 0) != 0 && errno == ESRCH) return false;
    return store->is_present(record.presence);
  };
}

}  // namespace unisono::rendezvous
