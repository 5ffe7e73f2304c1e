#pragma once

#include <memory>

#include "rendezvous/join.h"
#include "store/etcd/keys.h"

namespace unisono::rendezvous {

/// Lets a join in etcd tell by its leases which processes live. Of processes of this host the system tells as well, and sooner.
void use_presence(JoinRequest& request, const std::shared_ptr<store::etcd::KeysInEtcd>& store);

}  // namespace unisono::rendezvous
