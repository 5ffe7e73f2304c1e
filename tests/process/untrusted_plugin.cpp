// A library that is named like a plug-in, and says by a file that its code ran in somebody's process.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

__attribute__((constructor)) static void mark() {
  if (const char* path = std::getenv("UNTRUSTED_MARK")) ::close(::open(path, O_CREAT | O_WRONLY, 0644));
}
