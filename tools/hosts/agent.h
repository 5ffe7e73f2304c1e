#pragma once

namespace unisono::tools {

/// `unisono __host`: starts and watches the launcher of this host on behalf of a `unisono` on another one, with which it talks over its standard
/// input and output. Where that one is gone, is silent, or this process ends, the launcher and its ranks are killed. Returns the exit code.
int serve_as_host();

}  // namespace unisono::tools
