#pragma once

#include "base/environment.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// Checks that the ranks can prove to each other that they belong to the job. Those of several hosts need a secret that does not pass through the
/// store where they have met, since others may be able to read that one: the job's token. Ranks of one host need none. Throws InvalidArgument, also
/// where UNISONO_TLS asks for encryption and there is no key.
void check_secret(const JobIdentity& identity, const base::Environment& environment);

}  // namespace unisono::rendezvous
