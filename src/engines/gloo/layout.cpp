// Compiles where Gloo's TCP transport is that of May 2022, from whose classes those of mesh.h derive. CMake asks.

#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

static_assert(sizeof(gloo::transport::tcp::Pair) == 0x380 && sizeof(gloo::transport::tcp::UnboundBuffer) == 0xe0);

int main() {}
