#pragma once

#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

// The classes of mesh.h derive from those of Gloo's TCP transport as it was in May 2022. Building against another layout is an error.
static_assert(sizeof(gloo::transport::tcp::Pair) == 0x380 && sizeof(gloo::transport::tcp::UnboundBuffer) == 0xe0,
              "src/engines/gloo knows the TCP transport of Gloo 0.5.0 (May 2022)");
